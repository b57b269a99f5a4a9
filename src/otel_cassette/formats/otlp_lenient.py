"""OTLP as plain objects, in any spelling: camelCase and snake_case, enum names, older key names.

Takes what `lenient_json` or a caller's dict gives. Nothing here raises for a wrong type: a part of
another type than the protocol's is as good as absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_cassette.formats.base import Batch, ReadContext
from otel_cassette.formats.ids import span_id_of, trace_id_of
from otel_cassette.formats.values import any_value, attributes_of, integer_of
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

_KINDS = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(
        ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
    )
}
_SPAN_LISTS = (
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "instrumentation_library_spans",
)
_LOG_LISTS = (
    "scopeLogs",
    "scope_logs",
    "instrumentationLibraryLogs",
    "instrumentation_library_logs",
)


def is_otlp(value: Any) -> bool:
    """Return whether *value* is an OTLP object of any signal, one ResourceSpans or one Span."""
    if not isinstance(value, dict):
        return False
    if not value:
        return True  # an empty export, all of whose fields are at their defaults
    if any(
        isinstance(value.get(key), list)
        for key in ("resourceSpans", "resource_spans", *_SPAN_LISTS)
    ):
        return True
    if any(
        key in value
        for key in ("resourceLogs", "resource_logs", "resourceMetrics", "resource_metrics")
    ):
        return True
    return _is_span(value)


def read_lenient(value: dict[str, Any], context: ReadContext) -> Batch:
    """Return the spans and log records of an object that `is_otlp`."""
    batch = Batch()
    if any(key in value for key in _SPAN_LISTS):
        groups = [value]
    elif _is_span(value):
        groups = [{"scopeSpans": [{"spans": [value]}]}]
    else:
        groups = _objects(value, "resourceSpans", "resource_spans")
    for group in groups:
        _read_group(group, batch, context)
    if "resourceLogs" in value or "resource_logs" in value:
        batch.signals |= {"logs"}
        batch.logs = read_logs(value, context)
    if "resourceMetrics" in value or "resource_metrics" in value:
        batch.signals |= {"metrics"}
    return batch


def read_logs(value: dict[str, Any], context: ReadContext) -> list[LogRecord]:
    """Return the log records of an object with `resourceLogs`."""
    logs = []
    for group in _objects(value, "resourceLogs", "resource_logs"):
        resource = resource_of(
            group.get("resource"), _get(group, "schemaUrl", "schema_url"), context
        )
        for part in _objects(group, *_LOG_LISTS):
            scope = scope_of(
                _get(part, "scope", "instrumentationLibrary"), _get(part, "schemaUrl", "schema_url")
            )
            logs += [
                _log(record, resource, scope)
                for record in _objects(part, "logRecords", "log_records", "logs")
            ]
    return logs


def resource_of(value: Any, schema_url: Any, context: ReadContext) -> Resource:
    """Return a Resource object's record; equal ones are one object."""
    attributes = attributes_of(value.get("attributes")) if isinstance(value, dict) else {}
    return context.resource(Resource(attributes or EMPTY, _text_or_none(schema_url)))


def scope_of(value: Any, schema_url: Any) -> Scope:
    """Return an InstrumentationScope object's record."""
    plain = value if isinstance(value, dict) else {}
    return Scope(
        name=_text(plain.get("name")),
        version=_text_or_none(plain.get("version")),
        schema_url=_text_or_none(schema_url),
        attributes=attributes_of(plain.get("attributes")) or EMPTY,
    )


def events_of(value: Any) -> Sequence[SpanEvent]:
    """Return the events of a list of Event objects."""
    return tuple(
        SpanEvent(
            name=_text(event.get("name")),
            time_ns=_nanoseconds(_get(event, "timeUnixNano", "time_unix_nano")),
            attributes=attributes_of(event.get("attributes")) or EMPTY,
        )
        for event in (value if isinstance(value, list) else ())
        if isinstance(event, dict)
    )


def links_of(value: Any) -> Sequence[SpanLink]:
    """Return the links of a list of Link objects; those without valid ids are left out."""
    links = []
    for link in value if isinstance(value, list) else ():
        if isinstance(link, dict):
            trace_id = trace_id_of(_get(link, "traceId", "trace_id"))
            span_id = span_id_of(_get(link, "spanId", "span_id"))
            if trace_id and span_id:
                links.append(
                    SpanLink(trace_id, span_id, attributes_of(link.get("attributes")) or EMPTY)
                )
    return tuple(links)


def kind_of(value: Any) -> int:
    """Return a span kind written as number or name; 0 (unspecified) for anything else."""
    if isinstance(value, str) and value in _KINDS:
        return _KINDS[value]
    number = integer_of(value)
    return number if number is not None and 0 <= number <= 5 else 0


def status_of(value: Any) -> StatusCode:
    """Return a status code written as number or name; `UNSET` for anything else."""
    if value in (1, "1", "STATUS_CODE_OK"):
        return "OK"
    return "ERROR" if value in (2, "2", "STATUS_CODE_ERROR") else "UNSET"


def _read_group(group: dict[str, Any], batch: Batch, context: ReadContext) -> None:
    resource = resource_of(group.get("resource"), _get(group, "schemaUrl", "schema_url"), context)
    for part in _objects(group, *_SPAN_LISTS):
        scope = scope_of(
            _get(part, "scope", "instrumentationLibrary", "instrumentation_library"),
            _get(part, "schemaUrl", "schema_url"),
        )
        for plain in _objects(part, "spans"):
            span = _span(plain, resource, scope)
            if span is None:
                batch.unusable += 1
            else:
                batch.spans.append(span)


def _span(plain: dict[str, Any], resource: Resource, scope: Scope) -> SpanRecord | None:
    trace_id = trace_id_of(_get(plain, "traceId", "trace_id"))
    span_id = span_id_of(_get(plain, "spanId", "span_id"))
    if trace_id is None or span_id is None:
        return None
    status = plain.get("status")
    status = status if isinstance(status, dict) else {}
    return SpanRecord(
        trace_id=trace_id,
        span_id=span_id,
        name=_text(plain.get("name")),
        parent_span_id=span_id_of(_get(plain, "parentSpanId", "parent_span_id")),
        kind=kind_of(plain.get("kind")),
        start_ns=_nanoseconds(_get(plain, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=_nanoseconds(_get(plain, "endTimeUnixNano", "end_time_unix_nano")),
        attributes=attributes_of(plain.get("attributes")),
        events=events_of(plain.get("events")),
        links=links_of(plain.get("links")),
        status_code=status_of(status.get("code")),
        status_message=_text(status.get("message")),
        resource=resource,
        scope=scope,
        trace_state=_text(_get(plain, "traceState", "trace_state")),
        dropped_attributes=_count(plain, "droppedAttributesCount", "dropped_attributes_count"),
        dropped_events=_count(plain, "droppedEventsCount", "dropped_events_count"),
        dropped_links=_count(plain, "droppedLinksCount", "dropped_links_count"),
    )


def _log(record: dict[str, Any], resource: Resource, scope: Scope) -> LogRecord:
    attributes = attributes_of(record.get("attributes"))
    named = attributes.get("event.name")
    return LogRecord(
        event_name=_text(_get(record, "eventName", "event_name")) or _text(named),
        trace_id=trace_id_of(_get(record, "traceId", "trace_id")) or "",
        span_id=span_id_of(_get(record, "spanId", "span_id")) or "",
        time_ns=_nanoseconds(_get(record, "timeUnixNano", "time_unix_nano"))
        or _nanoseconds(_get(record, "observedTimeUnixNano", "observed_time_unix_nano")),
        body=any_value(record.get("body")),
        attributes=attributes or EMPTY,
        resource=resource,
        scope=scope,
    )


def _is_span(value: dict[str, Any]) -> bool:
    # A link has both ids too; only a span has a start and a name.
    return (
        isinstance(value.get("name"), str)
        and _get(value, "traceId", "trace_id") is not None
        and _get(value, "spanId", "span_id") is not None
        and _get(value, "startTimeUnixNano", "start_time_unix_nano") is not None
    )


def _get(value: dict[str, Any], *names: str) -> Any:
    for name in names:
        found = value.get(name)
        if found is not None:
            return found
    return None


def _objects(value: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    found = _get(value, *names)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _nanoseconds(value: Any) -> int:
    if isinstance(value, dict):
        # Older JavaScript exporters wrote 64-bit numbers as two halves.
        high, low = integer_of(value.get("high")), integer_of(value.get("low"))
        return 0 if high is None or low is None else max((high << 32) + (low & 0xFFFFFFFF), 0)
    return max(integer_of(value) or 0, 0)


def _count(plain: dict[str, Any], *names: str) -> int:
    return max(integer_of(_get(plain, *names)) or 0, 0)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
