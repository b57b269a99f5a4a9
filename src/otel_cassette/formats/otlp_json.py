"""OTLP in JSON: TracesData, ExportTraceServiceRequest and LogsData, one ResourceSpans, one Span.

The usual spelling is decoded straight into span objects that leave attributes and events undecoded
until they are looked at. Whatever that decoder refuses (snake_case keys, names for enums, ids in
base64, bare NaN, half surrogates) goes through `otlp_lenient.py`, which takes plain objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Raw, Struct

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.base import Batch, JsonValue, ReadContext, lenient_json
from otel_cassette.formats.otlp_lenient import (
    events_of,
    is_otlp,
    links_of,
    read_lenient,
    read_logs,
    resource_of,
    scope_of,
    status_of,
)
from otel_cassette.formats.values import attributes_of
from otel_cassette.model.span import Resource, Scope, SpanEvent, SpanRecord

_NOTHING = Raw(b"")
_EMPTY_LIST = Raw(b"[]")
_HEX = re.compile(r"[0-9a-f]*")
_NO_SPAN = "0" * 16

_Count = Annotated[int, Meta(ge=0)]


class _Status(Struct, gc=False):
    code: int | str = 0
    message: str = ""


class JsonSpan(Struct, gc=False, eq=False):
    """A `SpanRecord` as the decoder makes it; what is still `Raw` is decoded at the first look.

    `links`, `status_code`, `status_message`, `resource` and `scope` get their values once the
    decoder is done, so what it finds under the last three's names never stays.
    """

    trace_id: Annotated[str, Meta(min_length=32, max_length=32)] = msgspec.field(name="traceId")
    span_id: Annotated[str, Meta(min_length=16, max_length=16)] = msgspec.field(name="spanId")
    trace_state: str = msgspec.field(name="traceState", default="")
    parent_span_id: str | None = msgspec.field(name="parentSpanId", default=None)
    flags: Raw = _NOTHING
    name: str = ""
    kind: Annotated[int, Meta(ge=0, le=5)] = 0
    start_ns: _Count = msgspec.field(name="startTimeUnixNano", default=0)
    end_ns: _Count = msgspec.field(name="endTimeUnixNano", default=0)
    raw_attributes: Raw = msgspec.field(name="attributes", default=_NOTHING)
    dropped_attributes: _Count = msgspec.field(name="droppedAttributesCount", default=0)
    raw_events: Raw = msgspec.field(name="events", default=_NOTHING)
    dropped_events: _Count = msgspec.field(name="droppedEventsCount", default=0)
    links: Raw = _NOTHING
    dropped_links: _Count = msgspec.field(name="droppedLinksCount", default=0)
    status_code: _Status | None = msgspec.field(name="status", default=None)
    status_message: Raw = _NOTHING
    resource: Raw = _NOTHING
    scope: Raw = _NOTHING

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by key, decoded at the first look."""
        value: Any = self.raw_attributes
        if type(value) is Raw:
            value = attributes_of(_decoded(value)) if value else {}
            self.raw_attributes = value
        return cast("Mapping[str, Any]", value)

    @property
    def events(self) -> Sequence[SpanEvent]:
        """Events in the order they were written, decoded at the first look."""
        value: Any = self.raw_events
        if type(value) is Raw:
            value = events_of(_decoded(value)) if value else ()
            self.raw_events = value
        return cast("Sequence[SpanEvent]", value)

    def may_hold(self, text: bytes) -> bool:
        """Return False only if *text* surely stands in no attribute key or value."""
        value: Any = self.raw_attributes
        return text in bytes(value) if type(value) is Raw else bool(value)

    def __repr__(self) -> str:
        return f"SpanRecord({self.name!r}, trace_id={self.trace_id!r}, span_id={self.span_id!r})"


SpanRecord.register(JsonSpan)


class _ScopeSpans(Struct, gc=False):
    scope: Raw = _NOTHING
    spans: list[JsonSpan] = []
    schema_url: str = msgspec.field(name="schemaUrl", default="")


class _ResourceSpans(Struct, gc=False):
    resource: Raw = _NOTHING
    scope_spans: list[_ScopeSpans] = msgspec.field(name="scopeSpans", default=[])
    schema_url: str = msgspec.field(name="schemaUrl", default="")
    # Spellings that send the value to the lenient reader.
    other_spans: Raw = msgspec.field(name="scope_spans", default=_NOTHING)
    legacy_spans: Raw = msgspec.field(name="instrumentationLibrarySpans", default=_NOTHING)


class _Envelope(Struct, gc=False):
    resource_spans: list[_ResourceSpans] | None = msgspec.field(name="resourceSpans", default=None)
    resource_logs: Raw = msgspec.field(name="resourceLogs", default=_NOTHING)
    resource_metrics: Raw = msgspec.field(name="resourceMetrics", default=_NOTHING)


# Not strict: 64-bit integers are strings in the protocol's JSON.
_decode_envelope = msgspec.json.Decoder(_Envelope, strict=False).decode


class OtlpJson:
    """OTLP JSON in every spelling that real writers use."""

    name = "OTLP JSON (`resourceSpans`)"

    def read(self, value: JsonValue, context: ReadContext) -> Batch | None:
        """Return the spans and log records of *value*, or None if it is no OTLP."""
        if value.raw is not None:
            batch = read_usual(value.raw, context)
            if batch is not None:
                return batch
        plain = value.plain
        return read_lenient(plain, context) if is_otlp(plain) else None


def read_usual(raw: bytes, context: ReadContext) -> Batch | None:
    """Return what *raw* holds if it is OTLP in the usual spelling, else None."""
    try:
        envelope = _decode_envelope(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    groups = envelope.resource_spans
    # An older JSON writer's snake_case counts would go unseen: they are no fields of ours.
    if groups is None or b'"dropped_attributes_count"' in raw:
        return None
    spans: list[JsonSpan] = []
    for group in groups:
        if group.other_spans or group.legacy_spans:
            return None
        resource = _resource(group, context)
        for part in group.scope_spans:
            _finish(part.spans, resource, _scope(part, context))
            spans += part.spans
    if not _valid_ids(spans):
        return None
    # Every key of `runs.SESSION_KEYS` holds one of these.
    hint = b"session" in raw or b"conversation.id" in raw or b"thread_id" in raw
    batch = Batch(cast("list[SpanRecord]", spans), session_hint=hint)
    if envelope.resource_logs:
        batch.signals = {"logs"}
        batch.logs = read_logs({"resourceLogs": _decoded(envelope.resource_logs)}, context)
    return batch


def _finish(spans: list[JsonSpan], resource: Resource, scope: Scope) -> None:
    """Replace what the decoder left raw and is wanted at once."""
    for span in cast("list[Any]", spans):
        span.resource = resource
        span.scope = scope
        links = span.links
        span.links = links_of(_decoded(links)) if links and links != _EMPTY_LIST else ()
        status = span.status_code
        if status is None or not status.code:
            span.status_code, span.status_message = "UNSET", status.message if status else ""
        else:
            span.status_code, span.status_message = status_of(status.code), status.message
        if not span.parent_span_id:
            span.parent_span_id = None


def _valid_ids(spans: list[JsonSpan]) -> bool:
    """Return whether all ids are as they should be, by one look at all of them in a row."""
    trace_ids = "".join({span.trace_id for span in spans})
    parents = [span.parent_span_id for span in spans if span.parent_span_id]
    span_ids = "".join([span.span_id for span in spans])
    parent_ids = "".join(parents)
    return (
        len(parent_ids) == 16 * len(parents)
        and _HEX.fullmatch(trace_ids + span_ids + parent_ids) is not None
        and _NO_SPAN not in span_ids
        and _NO_SPAN not in parent_ids
        and _NO_SPAN * 2 not in trace_ids
    )


def _resource(raw: _ResourceSpans, context: ReadContext) -> Resource:
    key = (bytes(raw.resource), raw.schema_url)
    found = context.resources.get(key)
    if found is None:
        plain = _decoded(raw.resource) if raw.resource else None
        found = context.resources[key] = resource_of(plain, raw.schema_url, context)
    return found


def _scope(raw: _ScopeSpans, context: ReadContext) -> Scope:
    key = (bytes(raw.scope), raw.schema_url)
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
