"""Recorded traces fed through the SDK's own objects, as a program's instrumentation would.

Lives here: spans and log records of a file as `ReadableSpan`s and log records of the SDK, and the
order in which a processor sees them. Not here: any test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace.span import TraceState
from recording_calls import LOG_RECORD

from otel_cassette import Cassette
from otel_cassette.assemble import Assembly, assemble
from otel_cassette.formats import read_traces
from otel_cassette.model.span import LogRecord, SpanRecord, Trace
from otel_cassette.otel.logs import CassetteLogRecordProcessor
from otel_cassette.otel.processor import CassetteSpanProcessor


class WithDropped(ReadableSpan):
    """A finished span that lost attributes to a limit; the SDK counts them in its own container."""

    dropped_attributes = 0


def sources(path: Path) -> list[Path]:
    """Return the files of one run: its spans, and its log records where there are some."""
    logs = path.with_name(path.name.replace(".otlp.jsonl", ".logs.otlp.jsonl"))
    return [path, logs] if logs.is_file() else [path]


def merged(path: Path) -> Trace:
    """Return all spans and log records of a run's files as one trace."""
    (trace,) = read_traces(sources(path), merge=True)
    return trace


def from_file(path: Path) -> list[dict[str, Any]]:
    """Return the calls that the file itself is assembled to."""
    trace = merged(Path(path))
    return as_json(assemble(trace.spans, trace.logs))


def sdk_span(span: SpanRecord, resources: dict[int, Resource]) -> ReadableSpan:
    """Return a span record as the SDK hands finished spans to processors."""
    trace_id = int(span.trace_id, 16)
    resource = resources.setdefault(
        id(span.resource), Resource(dict(span.resource.attributes), span.resource.schema_url)
    )
    parent = (
        SpanContext(trace_id, int(span.parent_span_id, 16), is_remote=False)
        if span.parent_span_id
        else None
    )
    made = WithDropped(
        name=span.name,
        context=SpanContext(
            trace_id,
            int(span.span_id, 16),
            is_remote=False,
            trace_flags=TraceFlags(1),
            trace_state=TraceState.from_header([span.trace_state] if span.trace_state else []),
        ),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        events=[Event(e.name, dict(e.attributes), e.time_ns) for e in span.events],
        links=[
            Link(
                SpanContext(int(link.trace_id, 16), int(link.span_id, 16), is_remote=False),
                dict(link.attributes),
            )
            for link in span.links
        ],
        kind=SpanKind(max(span.kind - 1, 0)),
        status=Status(
            StatusCode[span.status_code],
            span.status_message if span.status_code == "ERROR" else None,
        ),
        start_time=span.start_ns,
        end_time=span.end_ns or None,
        instrumentation_scope=InstrumentationScope(
            span.scope.name, span.scope.version, span.scope.schema_url, dict(span.scope.attributes)
        ),
    )
    made.dropped_attributes = span.dropped_attributes
    return made


def sdk_log(log: LogRecord, resources: dict[int, Resource]) -> Any:
    """Return a log record as the SDK hands it to log record processors."""
    resource = resources.setdefault(
        id(log.resource), Resource(dict(log.resource.attributes), log.resource.schema_url)
    )
    around = SpanContext(int(log.trace_id or "0", 16), int(log.span_id or "0", 16), is_remote=False)
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    handed_on: list[Any] = []
    provider.add_log_record_processor(_HandOn(handed_on))
    provider.get_logger(log.scope.name, log.scope.version).emit(
        LOG_RECORD(
            timestamp=log.time_ns,
            context=set_span_in_context(NonRecordingSpan(around), Context()),
            body=log.body,
            attributes=dict(log.attributes),
            event_name=log.event_name or None,
        )
    )
    return handed_on[0]


class _HandOn(LogRecordProcessor):
    """Keeps what the SDK hands to processors."""

    def __init__(self, records: list[Any]) -> None:
        self._records = records

    def on_emit(self, log_record: Any) -> None:
        self._records.append(log_record)

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True


def play(trace: Trace, spans: Any, logs: CassetteLogRecordProcessor | None = None) -> None:
    """Feed a trace to processors in the order in which things happened."""
    resources: dict[int, Resource] = {}
    steps: list[tuple[int, int, Any, Any]] = []
    for number, span in enumerate(trace.spans):
        made = sdk_span(span, resources)
        steps.append((span.start_ns, 0, number, ("start", made)))
        if span.end_ns:
            steps.append((span.end_ns, 2, number, ("end", made)))
    if logs is not None:
        ends = {s.span_id: s.end_ns for s in trace.spans}
        for number, log in enumerate(trace.logs):
            at = min(log.time_ns, ends.get(log.span_id, log.time_ns))
            steps.append((at, 1, number, ("log", sdk_log(log, resources))))
    for _, _, _, (what, thing) in sorted(steps, key=lambda step: step[:3]):
        if what == "start":
            spans.on_start(thing, None)
        elif what == "end":
            spans.on_end(thing)
        elif logs is not None:
            logs.on_emit(thing)


def feed(path: Path) -> list[dict[str, Any]]:
    """Return the calls that a live processor makes of a file, as `as_json` shows them."""
    cassette = Cassette(redact=())
    processor = CassetteSpanProcessor(cassette)
    play(merged(Path(path)), processor, CassetteLogRecordProcessor(processor))
    assert processor.report.lines == ()
    return calls_json([*cassette.entries, *cassette.nested, *cassette.failures])


def as_json(assembly: Assembly) -> list[dict[str, Any]]:
    """Return the calls of an assembly as comparable JSON."""
    return calls_json([*assembly.entries, *assembly.nested, *assembly.failures])


def calls_json(records: Any) -> list[dict[str, Any]]:
    """Return records as comparable JSON: without keys, latency as files have it, sorted."""
    return sorted(map(_call_json, records), key=_text)


def _call_json(record: Any) -> dict[str, Any]:
    call: dict[str, Any] = record.model_dump(mode="json", exclude={"key"})
    if call["latency_ms"] is not None:
        call["latency_ms"] = round(call["latency_ms"], 3)
    return call


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def runs_json(paths: Any) -> list[list[dict[str, Any]]]:
    """Return the calls of each run of a file that has any, as `calls_json` shows them, sorted."""
    made = (assemble(trace.spans, trace.logs) for trace in read_traces(paths))
    return sorted((calls for calls in map(as_json, made) if calls), key=_text)


def files_json(directory: Path) -> list[list[dict[str, Any]]]:
    """Return the calls of each cassette in a directory, likewise."""
    cassettes = [Cassette.load(path) for path in sorted(directory.glob("*.jsonl"))]
    return sorted((calls_json([*c.entries, *c.nested, *c.failures]) for c in cassettes), key=_text)
