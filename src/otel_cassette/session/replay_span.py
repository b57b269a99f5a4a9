"""The span `cassette.replay` around a session: opened first, ended last, with the totals.

Lives here: that span, the counters beside it, and the warning about attribute limits. Not here: the
block it belongs to (`context.py`), marks on the spans of calls (`marks.py`). Only the
OpenTelemetry API is used, and nothing is raised: a broken exporter must not end a user's program.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from otel_cassette.diff import ReplayDivergence
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.session import metrics, names
from otel_cassette.session.marks import bounded, divergence_json, tracer

if TYPE_CHECKING:
    from otel_cassette.session.context import Session

_logger = logging.getLogger("otel_cassette")
_MIN_SPAN_ATTRIBUTES: Final = 1_000
_warned_of_limit = False


def start(session: Session, context: Context) -> tuple[Span | None, Context]:
    """Start the session's span in *context*, which carries the session already.

    Returns:
        The span, and the context with it; a span that nothing records leaves the context as it is.
    """
    attributes = {names.ID_ATTR: session.id, names.MODE_ATTR: session.playback.mode}
    if session.source:
        attributes[names.SOURCE_ATTR] = bounded(session.source)
    try:
        outer = trace.get_current_span(context).get_span_context()
        span = tracer().start_span(names.REPLAY_SPAN, context, attributes=attributes)
        if span.get_span_context().span_id == outer.span_id:  # a no-op tracer gave its parent back
            return span, context
        warn_of_attribute_limit(span)
        return span, trace.set_span_in_context(span, context)
    except Exception as error:  # noqa: BLE001 - the user's program must not end for a span
        _note(session, "opening the span of the session", error)
        return None, context


def finish(span: Span | None, session: Session) -> None:
    """Count the totals, write them and the first divergence on the session's span, and end it."""
    try:
        if not session.is_recording:
            metrics.count(session.summary, session.playback.mode)
        if span is not None and span.is_recording():
            _write(span, session)
    except Exception as error:  # noqa: BLE001 - as above
        _note(session, "writing the totals of the session", error)
    finally:
        _end(span, session)


def _end(span: Span | None, session: Session) -> None:
    try:
        if span is not None:
            span.end()
    except Exception as error:  # noqa: BLE001 - as above
        _note(session, "ending the span of the session", error)


def _write(span: Span, session: Session) -> None:
    totals = session.summary
    span.set_attributes(
        {
            names.SERVED_ATTR: totals.served,
            names.LIVE_ATTR: totals.live,
            names.MISSED_ATTR: totals.missed,
            names.UNPLAYED_ATTR: totals.unplayed,
            names.TIES_ATTR: totals.ties,
            names.DIVERGED_COUNT_ATTR: totals.diverged,
        }
    )
    unplayed = session.unplayed
    missing = [_missing(entry) for entry in unplayed[: names.MAX_DIFF_ITEMS]]
    if missing:
        lines = [bounded(divergence.summary()) for divergence in missing]
        if len(unplayed) > len(lines):
            lines[-1] = f"... ({len(unplayed) - len(lines) + 1} more missing calls)"
        span.set_attribute(names.MISSING_ATTR, lines)
    first = session.first_divergence or next(iter(missing), None)
    if first is not None:
        span.set_attributes(
            {names.DIVERGED_ATTR: True, names.DIVERGENCE_ATTR: divergence_json(first)}
        )


def _missing(entry: CassetteEntry) -> ReplayDivergence:
    """Return what a mark says of a missing call: without the diff, which nobody reads there."""
    return ReplayDivergence(
        kind=entry.kind, index=entry.index, reason="missing_call", expected_name=entry.name
    )


def warn_of_attribute_limit(span: Span) -> None:
    """Warn once when the SDK's attribute limit may evict marks from spans of long chats."""
    global _warned_of_limit  # noqa: PLW0603 - once in a process
    limit = getattr(getattr(span, "_limits", None), "max_span_attributes", None)
    if _warned_of_limit or not isinstance(limit, int) or limit >= _MIN_SPAN_ATTRIBUTES:
        return
    _warned_of_limit = True
    _logger.warning(
        "spans keep at most %d attributes: long chats lose their first messages and marks; set "
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000 (divergences stand on spans of their own as well)",
        limit,
    )


def _note(session: Session, what: str, error: Exception) -> None:
    line = f"{what} failed ({type(error).__name__}: {error}); the replay itself is not affected"
    session.faults.append(line)
    _logger.warning("%s", line, exc_info=error)
