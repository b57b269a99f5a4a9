"""Spans to readings, through the dialects.

Lives here: which dialect reads a span, log records joined to spans, and the guard around a
dialect's code: one that raises makes a line of the report, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

from otel_cassette.assemble.calls import Call
from otel_cassette.assemble.report import ReportLine, SpanStatus
from otel_cassette.assemble.tree import SpanKey, span_key
from otel_cassette.dialects.protocol import Dialect, Reading
from otel_cassette.model.span import LogRecord, SpanRecord

OWN_PREFIX = "cassette."
"""Spans this package makes to show a replay (`cassette.replay`, `cassette.divergence`)."""
_TIME_NS = attrgetter("time_ns")
_ANSWERS = ("choices", "chunks", "raw")
_MESSAGE_SHAPES = (
    "Write messages in the shape of the OTel GenAI conventions or of chat completions."
)


@dataclass(slots=True)
class Readings:
    """What the dialects make of a run.

    Attributes:
        spans: All spans by key; of a span that came twice the finished one.
        calls: The calls by start, ties by end and ids.
        lines: What is to be reported of spans that are no calls.
    """

    spans: dict[SpanKey, SpanRecord] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    lines: list[ReportLine] = field(default_factory=list)


def read_spans(
    spans: Iterable[SpanRecord], logs: Iterable[LogRecord], dialects: Sequence[Dialect]
) -> Readings:
    """Read each span with the first dialect that claims it."""
    readings = Readings()
    for span in spans:
        key = span_key(span)
        known = readings.spans.get(key)
        if known is None or (not known.end_ns and span.end_ns):
            readings.spans[key] = span
    joined = _join(logs)
    for key, span in readings.spans.items():
        _read_span(readings, span, joined.get(key, ()), dialects)
    # The order of a source is the order in which spans ended, or were sent: nothing may follow it.
    readings.calls.sort(key=lambda c: (c.start_ns, c.end_ns, c.span.trace_id, c.span.span_id))
    for position, call in enumerate(readings.calls):
        call.position = position
    return readings


def _join(logs: Iterable[LogRecord]) -> Mapping[SpanKey, list[LogRecord]]:
    joined: dict[SpanKey, list[LogRecord]] = {}
    for log in logs:
        if log.span_id:
            joined.setdefault((log.trace_id, log.span_id), []).append(log)
    # Where each message is a record, their order is the chat's, and a Collector that sends batches
    # side by side writes them in any order. Records of one time stay as they came.
    for records in joined.values():
        records.sort(key=_TIME_NS)
    return joined


def _read_span(
    readings: Readings,
    span: SpanRecord,
    logs: Sequence[LogRecord],
    dialects: Sequence[Dialect],
) -> None:
    dialect: Dialect | None = None
    try:
        dialect = _claiming(span, dialects)
        if dialect is None:
            return
        reading = dialect.read(span, logs)
    except Exception as error:  # noqa: BLE001 - whatever a dialect raises must not end the run
        reason = f"Reading it failed: {type(error).__name__}: {error}"
        name = "" if dialect is None else dialect.name
        line = span_line(span, "unreadable", dialect=name, reason=reason)
        readings.lines.append(line)
        return
    if reading.role != "call":
        note = " ".join(reading.notes) or None
        status: SpanStatus = "wrapper" if reading.role == "wrapper" else "lookalike"
        readings.lines.append(span_line(span, status, reading=reading, reason=note))
    elif not span.end_ns:
        reason = "The span never ended, so its answer is not known."
        readings.lines.append(span_line(span, "unfinished", reading=reading, reason=reason))
    else:
        _check_shape(reading)
        readings.calls.append(Call(reading, span, 0, span.start_ns, span.end_ns))


def _check_shape(reading: Reading) -> None:
    """An answer in which there is no message cannot be served, however well it parses."""
    answer = reading.response
    if reading.kind != "llm" or reading.response_integrity != "suspect":
        return
    if isinstance(answer, Mapping) and any(answer.get(key) for key in _ANSWERS):
        return
    reading.response_integrity = "absent"
    reading.has_response = False
    reading.notes.append("Its content could not be read as messages.")
    reading.remedy = _MESSAGE_SHAPES


def _claiming(span: SpanRecord, dialects: Sequence[Dialect]) -> Dialect | None:
    """The markers are looked for in the undecoded bytes: most spans of a run are no calls."""
    name = span.name
    if name.startswith(OWN_PREFIX):
        return None
    # One look for all markers together: it settles the spans that are no calls.
    markers = _all_markers(tuple([d.markers for d in dialects]))
    if not span.may_hold(*markers) and not _stands_in(name, markers):
        return None
    for dialect in dialects:
        held = span.may_hold(*dialect.markers) or _stands_in(name, dialect.markers)
        if held and dialect.claims(span):
            return dialect
    return None


@lru_cache(maxsize=16)
def _all_markers(markers: tuple[tuple[bytes, ...], ...]) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(marker for group in markers for marker in group))


def _stands_in(name: str, markers: tuple[bytes, ...]) -> bool:
    return any(map(name.__contains__, _texts(markers)))


@lru_cache(maxsize=64)
def _texts(markers: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(marker.decode() for marker in markers)


def span_line(
    span: SpanRecord,
    status: SpanStatus,
    *,
    reading: Reading | None = None,
    dialect: str = "",
    reason: str | None = None,
) -> ReportLine:
    """Return the line of a span that is no entry."""
    return ReportLine(
        status,
        kind=None if reading is None else reading.kind,
        name=None if reading is None else reading.name,
        span_name=span.name,
        trace_id=span.trace_id,
        span_id=span.span_id,
        dialect=dialect if reading is None else reading.dialect,
        reason=reason,
    )
