"""Claims: what a span knows of the session and of the entry its call may get.

Lives here: the tracestate member `cassette`, how a place is claimed and given back, and `Claim`, the
public way in for clients that nobody wraps. Not here: which spans get one (`sampler.py`).

A claim is a hint, never a reservation: the engine decides when the call is made, by key, place and
order. Entries reserved at span start would drift, since some calls have two spans and some none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span

from otel_cassette.errors import CassetteMissError
from otel_cassette.model.entry import KINDS, MODEL_KINDS, CassetteEntry, EntryKind
from otel_cassette.model.llm import LLMRequest, LLMResponse
from otel_cassette.model.plain import copy_plain, to_plain
from otel_cassette.otel.kinds import kind_of, tool_name_of
from otel_cassette.session import Session, Step, current_session, inside
from otel_cassette.session.context import open_session
from otel_cassette.session.failures import failure_of
from otel_cassette.session.names import TRACESTATE_KEY

_MEMBER: Final = re.compile(
    rf"(?P<session>[0-9a-f]{{8}})(?:\.(?P<kind>{'|'.join(KINDS)})\.(?P<index>\d{{1,9}}))?"
)


@dataclass(frozen=True, slots=True)
class Hint:
    """The tracestate member `cassette`: a session, and where it is a call's, an entry's place."""

    session_id: str
    kind: EntryKind | None = None
    index: int | None = None

    def __str__(self) -> str:
        if self.kind is None:
            return self.session_id
        return f"{self.session_id}.{self.kind}.{self.index}"


def hint_in(context: SpanContext) -> Hint | None:
    """Return the hint that a span context carries; None without one, or for another's member."""
    state = context.trace_state
    value = state.get(TRACESTATE_KEY) if state else None
    found = _MEMBER.fullmatch(value) if value else None
    if found is None:
        return None
    kind = cast("EntryKind | None", found["kind"])
    return Hint(found["session"], kind, None if kind is None else int(found["index"]))


def take(session: Session, kind: EntryKind, name: str | None, *, hold: bool) -> Hint:
    """Return the hint for a new span of a call: the first entry that no other live span expects.

    Args:
        session: The replay.
        kind: Kind of the call.
        name: Tool or retriever, where it is known.
        hold: Keep the place until `give_back`; only where somebody sees the span end.
    """
    engine = session.playback.engine
    owner = object()
    entry = engine.claim(kind, owner, name=name)
    if entry is None:
        return Hint(session.id)
    if hold:
        session.claims[(kind, entry.index)] = owner
    else:
        engine.release(kind, entry.index, owner)
    return Hint(session.id, kind, entry.index)


def give_back(hint: Hint) -> None:
    """Free the place of a span that has ended; a place that was played meanwhile stays played."""
    session = open_session(hint.session_id)
    if session is None or hint.kind is None or hint.index is None:
        return
    owner = session.claims.pop((hint.kind, hint.index), None)
    if owner is not None:
        session.playback.engine.release(hint.kind, hint.index, owner)


class Claim:
    """What a call made here and now may get; see `current_claim`.

    Attributes:
        session: The replay the call belongs to.
        kind: Kind of the call: as the current span says, else `llm`.
        index: Place of the entry that the span claims; None without a claim.
        name: For tools and retrievals: the name that the span or the entry says.
    """

    def __init__(
        self, session: Session, kind: EntryKind, index: int | None = None, name: str | None = None
    ) -> None:
        self.session = session
        self.kind: EntryKind = kind
        self.index = index
        self._name = name

    def __repr__(self) -> str:
        return f"<Claim session={self.session.id} kind={self.kind!r} index={self.index}>"

    @property
    def entry(self) -> CassetteEntry | None:
        """The entry the call may get: a guess until `answer` compares requests; None at the end."""
        return self.session.playback.engine.expected(self.kind, self.index)

    @property
    def name(self) -> str | None:
        """Tool or retriever; None for llm and embedding."""
        if self.kind in MODEL_KINDS:
            return None
        if self._name is not None:
            return self._name
        entry = self.entry
        return None if entry is None else entry.name

    def answer(
        self,
        request: Any,
        *,
        kind: EntryKind | None = None,
        name: str | None = None,
        live: Callable[[], Any] | None = None,
    ) -> Any:
        """Return the recorded answer of a call; a divergence is noted and marked.

        Args:
            request: llm and embedding: an `LLMRequest`, a mapping of its fields, a list of
                messages, or a prompt. Else the arguments by parameter name.
            kind: Kind of the call, where it is not the claim's.
            name: Tool or retriever, where it is not the claim's.
            live: Makes the real call; used where the session lets a call through (`fallthrough`,
                or a kind that is not played).

        Returns:
            llm and embedding: an `LLMResponse`. Else the recorded result as plain JSON.

        Raises:
            CassetteMissError: When the recording has no answer that may be served, also where the
                call would go live and there is no *live*.
            Exception: A recorded failure, as the recorded type where it is at hand.
        """
        kind = kind or self.kind
        if kind not in KINDS:
            msg = f"kind={kind!r}: one of {', '.join(KINDS)}"
            raise ValueError(msg)
        plain = _plain_request(kind, request)
        if kind in MODEL_KINDS:
            name = None
        elif name is None:
            name = self.name if kind == self.kind else None
        step = self.session.playback.begin(
            kind,
            plain,
            name=name,
            inside=inside(),
            claim=self.index if kind == self.kind else None,
        )
        if step.action == "play":
            entry = step.entry
            return entry.llm_response if kind in MODEL_KINDS else copy_plain(entry.response)
        if step.action == "raise":
            raise step.failure()
        if step.action == "live":
            return _go_live(step, live)
        raise step.miss()


def _plain_request(kind: EntryKind, request: Any) -> Any:
    if kind not in MODEL_KINDS:
        return to_plain(request)
    if isinstance(request, LLMRequest):
        return request.to_json()
    fields = request if isinstance(request, Mapping) else {"messages": request}
    return LLMRequest.model_validate(fields).to_json()


def _go_live(step: Step, live: Callable[[], Any] | None) -> Any:
    if live is None:
        if step.decision is not None:
            step.decision.reason = (
                "the session lets this call go live, and answer() was given nothing to make it "
                "with: pass live=, a function that makes the real call"
            )
        raise step.miss()
    try:
        answer = live()
    except Exception as error:
        step.failed({"request": step.call.plain, "error": failure_of(error)})
        raise
    if step.call.kind in MODEL_KINDS:
        if not isinstance(answer, LLMResponse):
            answer = LLMResponse.model_validate(answer)
        step.succeeded({"request": step.call.plain, "response": answer.to_json()})
    else:
        step.succeeded({"request": step.call.plain, "response": to_plain(answer)})
    return answer


def current_claim(context: Context | None = None) -> Claim | None:
    """Return what a call made here and now may get; None where no replay is open.

    The way in for a client that nobody wraps: ask, answer, and make the real call only for None.
    It needs no sampler: without one the claim has no index, and the engine finds the entry.

    Args:
        context: The OpenTelemetry context of the call; the current one by default.

    Raises:
        CassetteError: When the context was lost and several sessions are open.
        CassetteMissError: When the replay has ended with a miss at the wire already.
    """
    session = current_session(context)
    if session is None or session.is_recording:
        return None
    if session.poisoned is not None:
        raise _again(session.poisoned)
    span = get_current_span(context)
    hint = hint_in(span.get_span_context())
    if hint is not None and hint.session_id != session.id:
        hint = None
    span_name = getattr(span, "name", None) or ""
    attributes = getattr(span, "attributes", None) or {}
    kind = kind_of(span_name, attributes, tools=session.tool_names)
    if hint is not None and hint.kind is not None and kind in (None, hint.kind):
        return Claim(session, hint.kind, hint.index, tool_name_of(span_name, attributes))
    return Claim(session, kind or "llm", None, tool_name_of(span_name, attributes))


def _again(miss: CassetteMissError) -> CassetteMissError:
    """Return a miss as a new exception, so that its traceback does not grow with each raise."""
    return CassetteMissError(
        kind=miss.kind,
        index=miss.index,
        mode=miss.mode,
        expected=miss.expected,
        actual_request=miss.actual_request,
        actual_key=miss.actual_key,
        actual_name=miss.actual_name,
        divergence=miss.divergence,
        reason=miss.reason,
    )
