"""`ReplaySampler`: carries claims, lets no span of a replay be dropped, marks at span start.

Lives here: the sampler and its entry points. Not here: what a claim is (`claims.py`), what the
start of a span tells of its call (`starting.py`).

The sampler is optional: sessions, transports and processor work without it. With it come the claim
in tracestate, attributes from the start of a span on, and spans that a ratio would have dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceState, get_current_span

from otel_cassette.otel import claims, starting
from otel_cassette.otel.kinds import kind_of, may_be_call, tool_name_of
from otel_cassette.otel.live import LIVE
from otel_cassette.otel.troubles import note
from otel_cassette.session import Session, inside
from otel_cassette.session.context import open_sessions, session_in
from otel_cassette.session.names import TRACESTATE_KEY

OnReplay = Literal["sample", "delegate"]
Attributes = Mapping[str, Any] | None

_SESSIONS: Final = open_sessions()
_MAX_TRACESTATE_MEMBERS: Final = 32
_DELEGATES: Final[Mapping[str, Sampler]] = {
    "always_on": ALWAYS_ON,
    "always_off": ALWAYS_OFF,
    "parentbased_always_on": ParentBased(ALWAYS_ON),
    "parentbased_always_off": ParentBased(ALWAYS_OFF),
}


class ReplaySampler(Sampler):
    """A sampler around the one in use.

    Without a session it returns the delegate's result untouched. In a replay every span is recorded
    and sampled, and carries the claim; in a recording a span that would be dropped is recorded,
    not sampled, so that the processor sees it and no exporter does.

    Args:
        delegate: The sampler in use; `ParentBased(ALWAYS_ON)`, the SDK's default, by default.
        on_replay: `sample` samples every span of a replay, `delegate` keeps the delegate's decision.

    Raises:
        ValueError: For another *on_replay*.
    """

    def __init__(self, delegate: Sampler | None = None, *, on_replay: OnReplay = "sample") -> None:
        if on_replay not in ("sample", "delegate"):
            msg = f"on_replay={on_replay!r}: 'sample' or 'delegate'"
            raise ValueError(msg)
        self.delegate: Sampler = delegate or ParentBased(ALWAYS_ON)
        self.on_replay = on_replay

    def get_description(self) -> str:
        """Return the name with the delegate's."""
        return f"ReplaySampler{{{self.delegate.get_description()},onReplay:{self.on_replay}}}"

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the delegate's result, changed only where a session is open."""
        result = self.delegate.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        if not _SESSIONS:
            return result
        session: Session | None = None
        try:
            # One session and a lost context: the span belongs to it all the same.
            session = _SESSIONS[0] if len(_SESSIONS) == 1 else session_in(parent_context)
            if session is None:
                return result
            if session.is_recording:
                if result.decision is not Decision.DROP:
                    return result
                parent = get_current_span(parent_context).get_span_context()
                return _recorded(result, attributes, parent)
            if not may_be_call(name, attributes, session.tool_names):
                is_sampled = result.decision is Decision.RECORD_AND_SAMPLE
                bare = session.bare_tracestate
                if is_sampled and bare is not None and result.trace_state is bare:
                    return result  # most spans: what they inherit is there already
                parent = get_current_span(parent_context).get_span_context()
                return self._result(session, result, attributes, parent)
            parent = get_current_span(parent_context).get_span_context()
            return self._call(session, result, name, attributes, parent)
        except Exception as error:  # noqa: BLE001 - the SDK guards nothing: it would reach the user's call
            note(
                "ReplaySampler.should_sample",
                error,
                lost="the span carries no claim and keeps the delegate's decision",
                session=session,
            )
            return result

    def _result(
        self, session: Session, result: SamplingResult, attributes: Attributes, parent: SpanContext
    ) -> SamplingResult:
        """Return the result for a span that claims nothing: it keeps its parent's claim."""
        state = _trace_state(result, parent)
        value = parent.trace_state.get(TRACESTATE_KEY) if parent.is_valid else None
        if value is not None and value.startswith(session.id):
            state = _with_member(state, value)
        elif state:
            state = _with_member(state, session.id)
        else:
            state = _bare_tracestate(session)
        return SamplingResult(self._decision(result), _attributes(result, attributes), state)

    def _call(
        self,
        session: Session,
        result: SamplingResult,
        name: str,
        attributes: Attributes,
        parent: SpanContext,
    ) -> SamplingResult:
        """Return the result for a span that may be a call: claim and marks, unless one is around it."""
        given = attributes or {}
        kind = kind_of(name, given, tools=session.tool_names)
        around = claims.hint_in(parent) if parent.is_valid else None
        is_inner = around is not None and around.session_id == session.id and around.kind == kind
        if kind is None or is_inner or starting.is_answered(given):
            return self._result(session, result, attributes, parent)
        marks = starting.marks(session, kind, name, given)
        decision = self._decision(result)
        is_seen_to_end = LIVE.is_fed and decision is not Decision.DROP
        # Calls made inside a live tool are recorded apart; only the top level is claimed.
        if inside() is not None:
            hint = claims.Hint(session.id)
        else:
            hint = claims.take(session, kind, tool_name_of(name, given), hold=is_seen_to_end)
        state = _with_member(_trace_state(result, parent), str(hint))
        if is_seen_to_end and hint.index is not None:
            LIVE.claimed(state, hint)
        return SamplingResult(decision, {**_attributes(result, attributes), **marks}, state)

    def _decision(self, result: SamplingResult) -> Decision:
        return Decision.RECORD_AND_SAMPLE if self.on_replay == "sample" else result.decision


def _recorded(
    result: SamplingResult, attributes: Attributes, parent: SpanContext
) -> SamplingResult:
    """Return a dropped span's result as one that is recorded, not sampled."""
    return SamplingResult(
        Decision.RECORD_ONLY, _attributes(result, attributes), _trace_state(result, parent)
    )


def _attributes(result: SamplingResult, given: Attributes) -> Mapping[str, Any]:
    """Return the span's attributes; a delegate that drops leaves the caller's out."""
    if result.decision is not Decision.DROP:
        return result.attributes or {}
    return {**(given or {}), **(result.attributes or {})}


def _trace_state(result: SamplingResult, parent: SpanContext) -> TraceState:
    """Return the delegate's tracestate, else the parent's, which delegates leave out."""
    if result.trace_state:
        return result.trace_state
    return parent.trace_state if parent.is_valid and parent.trace_state else TraceState()


def _bare_tracestate(session: Session) -> TraceState:
    """Return the tracestate of spans that claim nothing: one object, told by identity."""
    if session.bare_tracestate is None:
        session.bare_tracestate = TraceState([(TRACESTATE_KEY, session.id)])
    return session.bare_tracestate


def _with_member(state: TraceState, value: str) -> TraceState:
    if TRACESTATE_KEY not in state and len(state) >= _MAX_TRACESTATE_MEMBERS:
        return state  # a full tracestate keeps its members; a claim is only a hint
    return state if state.get(TRACESTATE_KEY) == value else state.update(TRACESTATE_KEY, value)


def sampler_from_environment(argument: str | float | None = None) -> ReplaySampler:
    """Return the sampler for `OTEL_TRACES_SAMPLER=cassette_replay`; an entry point.

    Args:
        argument: `OTEL_TRACES_SAMPLER_ARG`: a ratio from 0 to 1 for new traces, or the name of one
            of the SDK's samplers without an argument; nothing for the SDK's default.

    Raises:
        ValueError: For anything else; the SDK logs it and uses its default.
    """
    if argument is None or argument == "":
        return ReplaySampler()
    if isinstance(argument, str) and argument in _DELEGATES:
        return ReplaySampler(_DELEGATES[argument])
    try:
        ratio = float(argument)
    except ValueError:
        names = ", ".join(_DELEGATES)
        msg = f"OTEL_TRACES_SAMPLER_ARG={argument!r}: a ratio from 0 to 1, or one of {names}"
        raise ValueError(msg) from None
    return ReplaySampler(ParentBased(TraceIdRatioBased(ratio)))
