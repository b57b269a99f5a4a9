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
from otel_cassette.otel.kinds import kind_of, tool_name_of
from otel_cassette.otel.live import LIVE
from otel_cassette.otel.troubles import note
from otel_cassette.session import Session, inside
from otel_cassette.session.context import open_sessions, session_in
from otel_cassette.session.names import TRACESTATE_KEY

OnReplay = Literal["sample", "delegate"]
Attributes = Mapping[str, Any] | None

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
        self.delegate = delegate or ParentBased(ALWAYS_ON)
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
        if not open_sessions():
            return result
        session: Session | None = None
        try:
            session = _session_of(parent_context)
            if session is None:
                return result
            parent = get_current_span(parent_context).get_span_context()
            if session.is_recording:
                return _recorded(result, attributes, parent)
            return self._replayed(session, result, name, attributes, parent)
        except Exception as error:  # noqa: BLE001 - the SDK guards nothing: it would reach the user's call
            note(
                "ReplaySampler.should_sample",
                error,
                lost="the span carries no claim and keeps the delegate's decision",
                session=session,
            )
            return result

    def _replayed(
        self,
        session: Session,
        result: SamplingResult,
        name: str,
        attributes: Attributes,
        parent: SpanContext,
    ) -> SamplingResult:
        given = attributes or {}
        kind = kind_of(name, given, tools=session.tool_names)
        is_after = starting.is_answered(given)
        inherited = claims.hint_in(parent) if parent.is_valid else None
        if inherited is not None and inherited.session_id != session.id:
            inherited = None
        is_new = kind is not None and not is_after
        is_new = is_new and (inherited is None or inherited.kind != kind)
        hint = inherited or claims.Hint(session.id)
        marks: Mapping[str, Any] = {}
        if is_new and kind is not None:
            marks = starting.marks(session, kind, name, given)
            # Calls made inside a live tool are recorded apart; only the top level is claimed.
            if inside() is None:
                hint = claims.take(session, kind, tool_name_of(name, given), hold=LIVE.is_fed)
        decision = Decision.RECORD_AND_SAMPLE if self.on_replay == "sample" else result.decision
        return SamplingResult(
            decision,
            {**_attributes(result, attributes), **marks},
            _with_hint(_trace_state(result, parent), hint),
        )


def _session_of(context: Context | None) -> Session | None:
    """Return the session of a new span; where its context was lost, the only one that is open."""
    session = session_in(context)
    if session is not None:
        return session
    sessions = open_sessions()
    return sessions[0] if len(sessions) == 1 else None


def _recorded(
    result: SamplingResult, attributes: Attributes, parent: SpanContext
) -> SamplingResult:
    if result.decision is not Decision.DROP:
        return result
    return SamplingResult(
        Decision.RECORD_ONLY, _attributes(result, attributes), _trace_state(result, parent)
    )


def _attributes(result: SamplingResult, given: Attributes) -> dict[str, Any]:
    """Return the span's attributes; a delegate that drops leaves the caller's out."""
    if result.decision is not Decision.DROP:
        return dict(result.attributes or {})
    return {**(given or {}), **(result.attributes or {})}


def _trace_state(result: SamplingResult, parent: SpanContext) -> TraceState:
    """Return the delegate's tracestate, else the parent's, which delegates leave out."""
    if result.trace_state:
        return result.trace_state
    return parent.trace_state if parent.is_valid and parent.trace_state else TraceState()


def _with_hint(state: TraceState, hint: claims.Hint) -> TraceState:
    if TRACESTATE_KEY not in state and len(state) >= _MAX_TRACESTATE_MEMBERS:
        return state  # a full tracestate keeps its members; a claim is only a hint
    value = str(hint)
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
