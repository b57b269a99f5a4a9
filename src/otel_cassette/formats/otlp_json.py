"""OTLP in JSON: TracesData, ExportTraceServiceRequest and LogsData, one ResourceSpans, one Span.

The usual spelling is decoded by a typed decoder that leaves attributes and events undecoded until
they are looked at. Whatever that one refuses (snake_case keys, names for enums, numbers where
strings belong, bare NaN, half surrogates) goes through `otlp_lenient.py`, which takes plain objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.base import Batch, JsonValue, ReadContext, lenient_json
from otel_cassette.formats.otlp_lenient import (
    events_of,
    is_otlp,
    kind_of,
    links_of,
    read_lenient,
    read_logs,
    resource_of,
    scope_of,
    status_of,
)
from otel_cassette.formats.values import attributes_of, integer_of
from otel_cassette.model.span import EMPTY, Resource, Scope, SpanEvent, SpanRecord

SESSION_MARKERS = (b"session", b"conversation.id", b"thread_id")
"""Bytes one of which stands in every span that names its session (`runs.SESSION_KEYS`)."""

_NOTHING = Raw(b"")
_EMPTY_LIST = Raw(b"[]")


class _Status(Struct, gc=False):
    code: int | str | None = None
    message: str | None = None


class _Span(Struct, gc=False):
    trace_id: str = msgspec.field(name="traceId", default="")
    span_id: str = msgspec.field(name="spanId", default="")
    trace_state: str | None = msgspec.field(name="traceState", default=None)
    parent_span_id: str | None = msgspec.field(name="parentSpanId", default=None)
    flags: Raw = _NOTHING
    name: str = ""
    kind: int | str | None = 0
    start: str | int | float | None = msgspec.field(name="startTimeUnixNano", default=None)
    end: str | int | float | None = msgspec.field(name="endTimeUnixNano", default=None)
    attributes: Raw = _NOTHING
    dropped_attributes: int | str | None = msgspec.field(name="droppedAttributesCount", default=0)
    events: Raw = _NOTHING
    dropped_events: int | str | None = msgspec.field(name="droppedEventsCount", default=0)
    links: Raw = _NOTHING
    dropped_links: int | str | None = msgspec.field(name="droppedLinksCount", default=0)
    status: _Status | None = None
    # Spellings that send the value to the lenient reader.
    other_id: Raw = msgspec.field(name="trace_id", default=_NOTHING)
    other_count: Raw = msgspec.field(name="dropped_attributes_count", default=_NOTHING)


class _ScopeSpans(Struct, gc=False):
    scope: Raw = _NOTHING
    spans: list[_Span] = []
    schema_url: str | None = msgspec.field(name="schemaUrl", default=None)
    other_url: Raw = msgspec.field(name="schema_url", default=_NOTHING)


class _ResourceSpans(Struct, gc=False):
    resource: Raw = _NOTHING
    scope_spans: list[_ScopeSpans] = msgspec.field(name="scopeSpans", default=[])
    schema_url: str | None = msgspec.field(name="schemaUrl", default=None)
    other_spans: Raw = msgspec.field(name="scope_spans", default=_NOTHING)
    legacy_spans: Raw = msgspec.field(name="instrumentationLibrarySpans", default=_NOTHING)
    other_url: Raw = msgspec.field(name="schema_url", default=_NOTHING)


class _Envelope(Struct, gc=False):
    resource_spans: list[_ResourceSpans] | None = msgspec.field(name="resourceSpans", default=None)
    resource_logs: Raw = msgspec.field(name="resourceLogs", default=_NOTHING)
    resource_metrics: Raw = msgspec.field(name="resourceMetrics", default=_NOTHING)


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class JsonSpan(SpanRecord):
    """A span whose attributes and events are still JSON; they are decoded at the first look."""

    __slots__ = ()

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by key, decoded at the first look."""
        value = cast("Any", self._attributes)
        if type(value) is Raw:
            value = self._attributes = attributes_of(_decoded(value))
        return cast("Mapping[str, Any]", value)

    @property
    def events(self) -> Sequence[SpanEvent]:
        """Events in the order they were written, decoded at the first look."""
        value = cast("Any", self._events)
        if type(value) is Raw:
            value = self._events = events_of(_decoded(value))
        return cast("Sequence[SpanEvent]", value)

    def may_hold(self, text: bytes) -> bool:
        """Return False only if *text* surely stands in no attribute key or value."""
        value = cast("Any", self._attributes)
        return text in bytes(value) if type(value) is Raw else bool(value)


class OtlpJson:
    """OTLP JSON in every spelling that real writers use."""

    name = "OTLP JSON (`resourceSpans`)"

    def read(self, value: JsonValue, context: ReadContext) -> Batch | None:
        """Return the spans and log records of *value*, or None if it is no OTLP."""
        raw = value.raw
        if raw is not None:
            try:
                envelope = _decode_envelope(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                envelope = None
            if envelope is not None and envelope.resource_spans is not None:
                hint = any(marker in raw for marker in SESSION_MARKERS)
                batch = _batch_of(envelope, context, hint)
                if batch is not None:
                    return batch
        plain = value.plain
        return read_lenient(plain, context) if is_otlp(plain) else None


def _batch_of(envelope: _Envelope, context: ReadContext, hint: bool) -> Batch | None:
    """Return the batch, or None if a span shows another spelling."""
    batch = Batch(session_hint=hint)
    spans = batch.spans
    for resource_spans in envelope.resource_spans or ():
        if resource_spans.other_spans or resource_spans.legacy_spans or resource_spans.other_url:
            return None
        resource = _resource(resource_spans, context)
        for scope_spans in resource_spans.scope_spans:
            if scope_spans.other_url:
                return None
            scope = _scope(scope_spans, context)
            for raw_span in scope_spans.spans:
                if raw_span.other_id or raw_span.other_count:
                    return None
                span = _span(raw_span, resource, scope, context)
                if span is None:
                    batch.unusable += 1
                else:
                    spans.append(span)
    if envelope.resource_logs:
        batch.signals.add("logs")
        batch.logs = read_logs({"resourceLogs": _decoded(envelope.resource_logs)}, context)
    if envelope.resource_metrics:
        batch.signals.add("metrics")
    return batch


def _span(raw: _Span, resource: Resource, scope: Scope, context: ReadContext) -> JsonSpan | None:
    trace_id = context.trace_id(raw.trace_id)
    span_id = context.span_id(raw.span_id)
    if trace_id is None or span_id is None:
        return None
    parent = raw.parent_span_id
    links = raw.links
    status = raw.status
    return JsonSpan(
        trace_id=trace_id,
        span_id=span_id,
        name=context.name(raw.name),
        parent_span_id=context.span_id(parent) if parent else None,
        kind=raw.kind if type(raw.kind) is int else kind_of(raw.kind),
        start_ns=_time_ns(raw.start),
        end_ns=_time_ns(raw.end),
        attributes=cast("Any", raw.attributes) if raw.attributes else EMPTY,
        events=cast("Any", raw.events) if raw.events and raw.events != _EMPTY_LIST else (),
        links=links_of(_decoded(links), context) if links and links != _EMPTY_LIST else (),
        status_code=status_of(status.code) if status and status.code else "UNSET",
        status_message=(status.message or "") if status else "",
        resource=resource,
        scope=scope,
        trace_state=raw.trace_state or "",
        dropped_attributes=_count(raw.dropped_attributes),
        dropped_events=_count(raw.dropped_events),
        dropped_links=_count(raw.dropped_links),
    )


def _time_ns(value: str | int | float | None) -> int:
    if value is None:
        return 0
    try:
        number = int(value)
    except (ValueError, OverflowError):
        number = integer_of(value) or 0
    return max(number, 0)


def _count(value: int | str | None) -> int:
    return value if type(value) is int else max(integer_of(value) or 0, 0)


def _resource(raw: _ResourceSpans, context: ReadContext) -> Resource:
    key = bytes(raw.resource) + b"\0" + (raw.schema_url or "").encode("utf-8", "replace")
    found = context.resources.get(key)
    if found is None:
        plain = _decoded(raw.resource) if raw.resource else None
        found = context.resources[key] = resource_of(plain, raw.schema_url, context)
    return found


def _scope(raw: _ScopeSpans, context: ReadContext) -> Scope:
    key = (bytes(raw.scope), raw.schema_url or "")
    found = context.scopes.get(key)
    if found is None:
        plain = _decoded(raw.scope) if raw.scope else None
        found = context.scopes[key] = scope_of(plain, raw.schema_url)
    return found


def _decoded(raw: Raw) -> Any:
    """Return the plain objects in *raw*, which the first pass found to be JSON."""
    data = bytes(raw)
    try:
        return lenient_json(data)
    except RecursionError:
        reason = "a value is nested too deeply"
    except ValueError as error:
        reason = f"a value is no JSON ({error})"
    raise CassetteFormatError(f"{reason}, near {data[:60]!r}")


