"""Marks on the live spans of a diverged call, and the span of our own beside them.

Lives here: `LiveWatcher`, which finds the spans of a call through the live registry, and what is
written where. Not here: the attributes themselves (`session/marks.py`), how spans are found
(`live.py`), spans that exist only after their call (`late.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags

from otel_cassette.diff import ReplayDivergence
from otel_cassette.model.entry import CassetteEntry, CassetteFailure, EntryKind
from otel_cassette.otel.claims import hint_in
from otel_cassette.otel.late import LATE
from otel_cassette.otel.live import LIVE, Located
from otel_cassette.otel.troubles import note
from otel_cassette.session import Playback, Session, Step, marks, names
from otel_cassette.session.callers import NOBODY, Caller
from otel_cassette.session.marks import NOWHERE, CallSite


class LiveWatcher:
    """Finds the live spans of a call, and marks them when it departed.

    Without a processor nothing is known but the current span: then that one is marked.
    """

    def site(
        self, playback: Playback, kind: EntryKind, name: str | None, caller: Caller
    ) -> CallSite:
        """Return where a call stands that is made here and now."""
        if caller is NOBODY and LIVE.is_empty:
            return NOWHERE
        session: Session | None = playback.session
        try:
            return _site(session, kind, name)
        except Exception as error:  # noqa: BLE001 - telemetry raises nothing into the user's call
            note("finding the span of a call", error, lost="it is not marked", session=session)
            return NOWHERE

    def decided(self, step: Step, site: CallSite, divergence: ReplayDivergence | None) -> None:
        """Mark what became of the call."""
        decision = step.decision
        if divergence is None and (decision is None or not decision.flags):
            return
        session: Session | None = step.playback.session
        try:
            if decision is not None and "tie" in decision.flags and site.is_of_kind:
                for span in site.spans:
                    span.set_attributes({names.TIE_ATTR: True})
            if divergence is not None:
                mark_divergence(step, site, divergence)
        except Exception as error:  # noqa: BLE001 - telemetry raises nothing into the user's call
            note("marking a diverged call", error, lost="its spans are not marked", session=session)


def _site(session: Session | None, kind: EntryKind, name: str | None) -> CallSite:
    tools = session.tool_names if session is not None else frozenset[str]()
    located = LIVE.locate(kind, name, tools)
    current = trace.get_current_span()
    spans = [span for span in located.spans if not _is_own(span)]
    named = spans[0] if spans else current
    context = named.get_span_context()
    is_traced = context.is_valid and not _is_own(named)
    return CallSite(
        path=_path(located),
        span_id=format(context.span_id, "016x") if is_traced else None,
        claim=_claim(session, kind, [*spans, current]),
        spans=spans,
        ancestors=located.ancestors,
        is_of_kind=located.is_of_kind,
    )


def _path(located: Located) -> tuple[str, ...]:
    inner = [] if located.is_of_kind else located.spans
    around = [*reversed(located.ancestors), *inner]
    return tuple(span.name for span in around if not _is_own(span))


def _claim(session: Session | None, kind: EntryKind, spans: Iterable[Any]) -> int | None:
    """Return the earliest place that the spans of a call claim.

    Where a call has two spans, both claim; the earlier place is the call's own, the later one
    would drift.
    """
    if session is None:
        return None
    hints = [hint_in(span.get_span_context()) for span in spans]
    places = [
        hint.index
        for hint in hints
        if hint is not None
        and hint.session_id == session.id
        and hint.kind == kind
        and hint.index is not None
    ]
    return min(places, default=None)


def _is_own(span: Any) -> bool:
    return getattr(span, "name", None) in (names.REPLAY_SPAN, names.DIVERGENCE_SPAN)


def mark_divergence(step: Step, site: CallSite, divergence: ReplayDivergence) -> None:
    """Mark a diverged call: its spans, their local roots, a span of our own, and late spans.

    Args:
        step: The call, decided.
        site: Its live spans.
        divergence: How it departed.
    """
    session: Session | None = step.playback.session
    content = marks.may_show_content(session)
    for span in site.spans:
        marks.mark_span(span, divergence, content=content)
    for root in _roots(site):
        if names.DIVERGENCE_ATTR not in (getattr(root, "attributes", None) or {}):
            marks.mark_root(root, divergence)
    if session is not None or site.spans:
        write_own_span(step, site, divergence, content=content)
    if session is not None and not site.is_of_kind:
        _wait_for_late(step, session, divergence, content=content)


def _roots(site: CallSite) -> list[Any]:
    """Return the live local roots of the call's traces that are not the call's own spans."""
    roots = [LIVE.local_root(span) for span in site.spans or [trace.get_current_span()]]
    known = [root for root in roots if root is not None and not _is_own(root)]
    known += [span for span in site.ancestors[-1:] if span.is_recording()]
    result: list[Any] = []
    for root in known:
        if not any(root is each for each in (*result, *site.spans)):
            result.append(root)
    return result


def write_own_span(
    step: Step, site: CallSite, divergence: ReplayDivergence, *, content: bool
) -> None:
    """Write the span `cassette.divergence`, child of the call's span, linked to the recorded one.

    It is there whatever happens to the call's own span: attribute limits evict the oldest keys.
    """
    context = otel_context.get_current()
    if site.spans:
        context = trace.set_span_in_context(site.spans[0], context)
    attributes = marks.all_attributes(divergence)
    attributes[names.MODE_ATTR] = step.playback.mode
    session: Session | None = step.playback.session
    if session is not None:
        attributes[names.ID_ATTR] = session.id
        if session.source:
            attributes[names.SOURCE_ATTR] = marks.bounded(session.source)
    decision = step.decision
    recorded = None if decision is None else decision.entry or decision.failure
    span = marks.tracer().start_span(
        names.DIVERGENCE_SPAN, context, attributes=attributes, links=_links(recorded)
    )
    span.add_event(names.DIVERGENCE_EVENT, marks.divergence_event(divergence, content=content))
    if content and span.is_recording():
        span.set_attribute(names.DIFF_ATTR, marks.diff_items(divergence))
    if step.action == "miss":
        span.set_status(Status(StatusCode.ERROR, marks.bounded(divergence.summary())))
    span.end()


def _links(recorded: CassetteEntry | CassetteFailure | None) -> list[Link]:
    """Return the link to the recorded span, where the recording came from a trace."""
    source = recorded.source if recorded is not None else None
    if source is None or not source.trace_id or not source.span_id:
        return []
    try:
        context = SpanContext(
            int(source.trace_id, 16),
            int(source.span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
    except ValueError:  # ids of another tracer that are no hexadecimal numbers
        return []
    return [Link(context)] if context.is_valid else []


def _wait_for_late(
    step: Step, session: Session, divergence: ReplayDivergence, *, content: bool
) -> None:
    """Mark the call's span when it is created after the call: at its start, or when exported."""
    call = step.call
    attributes = marks.divergence_attributes(divergence)

    def mark(span: Any) -> None:
        if isinstance(span, Span) and span.is_recording():
            marks.mark_span(span, divergence, content=content)
        else:
            LATE.expect_span(span.get_span_context(), attributes)

    LIVE.expect_late(call.kind, call.name, session.tool_names, mark)
    entry = step.decision.entry if step.decision is not None else None
    if step.action == "play" and entry is not None and isinstance(entry.response, dict):
        response_id = entry.response.get("id")
        if isinstance(response_id, str) and response_id:
            LATE.expect_answer(response_id, attributes)


WATCHER = LiveWatcher()
"""One for all playbacks: it keeps no state of its own."""
