"""OTLP in protobuf: TracesData, ExportTraceServiceRequest and LogsData, on the wire or as objects.

The only file that uses `opentelemetry.proto` (message classes; no SDK). Protobuf takes many byte
strings that are no OTLP, so a message counts only if every span has a trace id of 16 bytes and a
span id of 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.base import Batch, ReadContext
from otel_cassette.formats.ids import span_id_of, trace_id_of
from otel_cassette.formats.limits import MAX_DEPTH
from otel_cassette.model.span import (
    EMPTY,
    LogRecord,
    Resource,
    Scope,
    SpanEvent,
    SpanLink,
    SpanRecord,
    StatusCode,
)

_STATUS: Sequence[StatusCode] = ("UNSET", "OK", "ERROR")


def read_message(data: bytes, context: ReadContext) -> Batch | None:
    """Return the spans and log records of one message, or None if it is no OTLP.

    Raises:
        CassetteFormatError: The message classes are not installed.
    """
    traces_class, logs_class, decode_error = _classes()
    try:
        traces = traces_class.FromString(data)
        if _is_traces(traces):
            return _batch(traces, context)
        logs = logs_class.FromString(data)
    except decode_error:
        return None
    records = _records(logs, context)
    return Batch(logs=records, signals={"logs"}) if _is_logs(logs) else None


def read_object(message: Any, context: ReadContext) -> Batch | None:
    """Return the spans and log records of a protobuf message object, or None if it is no OTLP."""
    return read_message(message.SerializeToString(), context)


def _classes() -> tuple[Any, Any, type[Exception]]:
    # Imported here: JSON sources need neither the message classes nor their import time.
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from opentelemetry.proto.logs.v1.logs_pb2 import LogsData  # noqa: PLC0415
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415
    except ImportError:
        msg = "is OTLP protobuf; install `opentelemetry-proto` to read it, or export JSON"
        raise CassetteFormatError(reason=msg) from None
    return TracesData, LogsData, DecodeError


def _is_traces(message: Any) -> bool:
    spans = [s for r in message.resource_spans for part in r.scope_spans for s in part.spans]
    if not spans:
        # An export without spans still names where they would come from.
        return any(
            r.HasField("resource") and r.resource.attributes for r in message.resource_spans
        ) and not any(
            part.ByteSize() > part.scope.ByteSize() + 64
            for r in message.resource_spans
            for part in r.scope_spans
        )
    return all(
        len(s.trace_id) == 16 and len(s.span_id) == 8 and s.name.isprintable() for s in spans
    )


def _is_logs(message: Any) -> bool:
    records = [
        log for r in message.resource_logs for part in r.scope_logs for log in part.log_records
    ]
    return bool(records) and all(
        len(log.trace_id) in (0, 16) and len(log.span_id) in (0, 8) for log in records
    )


def _batch(message: Any, context: ReadContext) -> Batch:
    batch = Batch()
    for group in message.resource_spans:
        resource = _resource(group.resource, group.schema_url, context)
        for part in group.scope_spans:
            scope = _scope(part.scope, part.schema_url, context)
            for span in part.spans:
                record = _span(span, resource, scope)
                if record is None:
                    batch.unusable += 1
                else:
                    batch.spans.append(record)
    return batch


def _span(span: Any, resource: Resource, scope: Scope) -> SpanRecord | None:
    trace_id, span_id = trace_id_of(span.trace_id), span_id_of(span.span_id)
    if trace_id is None or span_id is None:
        return None
    code = span.status.code
    return SpanRecord(
        trace_id=trace_id,
        span_id=span_id,
        name=span.name,
        parent_span_id=span_id_of(span.parent_span_id),
        kind=span.kind if 0 <= span.kind <= 5 else 0,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=partial(_attributes, span.attributes),
        events=partial(_events, span.events) if span.events else (),
        links=_links(span.links),
        status_code=_STATUS[code] if 0 <= code < 3 else "UNSET",
        status_message=span.status.message,
        resource=resource,
        scope=scope,
        trace_state=span.trace_state,
        dropped_attributes=span.dropped_attributes_count,
        dropped_events=span.dropped_events_count,
        dropped_links=span.dropped_links_count,
    )


def _records(message: Any, context: ReadContext) -> list[LogRecord]:
    records = []
    for group in message.resource_logs:
        resource = _resource(group.resource, group.schema_url, context)
        for part in group.scope_logs:
            scope = _scope(part.scope, part.schema_url, context)
            records += [_record(log, resource, scope) for log in part.log_records]
    return records


def _record(log: Any, resource: Resource, scope: Scope) -> LogRecord:
    attributes = _attributes(log.attributes)
    # `event_name` came with version 1.5 of the protocol.
    named = getattr(log, "event_name", "") or attributes.get("event.name")
    return LogRecord(
        event_name=named if isinstance(named, str) else "",
        trace_id=trace_id_of(log.trace_id) or "",
        span_id=span_id_of(log.span_id) or "",
        time_ns=log.time_unix_nano or log.observed_time_unix_nano,
        body=_value(log.body, 0) if log.HasField("body") else None,
        attributes=attributes or EMPTY,
        resource=resource,
        scope=scope,
    )


def _resource(resource: Any, schema_url: str, context: ReadContext) -> Resource:
    return context.resource(Resource(_attributes(resource.attributes) or EMPTY, schema_url or None))


def _scope(scope: Any, schema_url: str, context: ReadContext) -> Scope:
    key = (scope.SerializeToString(), schema_url)
    found = context.scopes.get(key)
    if found is None:
        found = context.scopes[key] = Scope(
            name=scope.name,
            version=scope.version or None,
            schema_url=schema_url or None,
            attributes=_attributes(scope.attributes) or EMPTY,
        )
    return found


def _events(events: Any) -> Sequence[SpanEvent]:
    return tuple(
        SpanEvent(e.name, e.time_unix_nano, _attributes(e.attributes) or EMPTY) for e in events
    )


def _links(links: Any) -> Sequence[SpanLink]:
    return tuple(
        SpanLink(link.trace_id.hex(), link.span_id.hex(), _attributes(link.attributes) or EMPTY)
        for link in links
        if trace_id_of(link.trace_id) and span_id_of(link.span_id)
    )


def _attributes(pairs: Any, depth: int = 0) -> Mapping[str, Any]:
    return {pair.key: _value(pair.value, depth) for pair in pairs}


def _value(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        msg = f"an attribute value is nested deeper than {MAX_DEPTH} levels"
        raise CassetteFormatError(reason=msg)
    member = value.WhichOneof("value")
    if member == "array_value":
        return [_value(item, depth + 1) for item in value.array_value.values]
    if member == "kvlist_value":
        return dict(_attributes(value.kvlist_value.values, depth + 1))
    # `string_value_strindex` belongs to profiles: absent.
    return None if member is None or member.endswith("strindex") else getattr(value, member)
