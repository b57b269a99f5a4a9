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
_HEX = re.compile(r"[0-9a-f]*")
_NO_SPAN = "0" * 16

_Count = Annotated[int, Meta(ge=0)]


class _Status(Struct, gc=False):
    code: int | str = 0
    message: str = ""


class JsonSpan(Struct, gc=False, eq=False):
    """A `SpanRecord` as the decoder makes it; what is still `Raw` is decoded at the first look.

    `links`, `status_code`, `status_message`, `resource` and `scope` get their values once the
    decoder is done; the last three are no fields of the JSON, so it may find nothing but null there.
    """

    trace_id: Annotated[str, Meta(min_length=32, max_length=32)] = msgspec.field(name="traceId")
    span_id: Annotated[str, Meta(min_length=16, max_length=16)] = msgspec.field(name="spanId")
    trace_state: str = msgspec.field(name="traceState", default="")
    parent_span_id: str | None = msgspec.field(name="parentSpanId", default=None)
    name: str = ""
    kind: Annotated[int, Meta(ge=0, le=5)] = 0
    start_ns: _Count = msgspec.field(name="startTimeUnixNano", default=0)
    end_ns: _Count = msgspec.field(name="endTimeUnixNano", default=0)
    raw_attributes: Raw = msgspec.field(name="attributes", default=_NOTHING)
    dropped_attributes: _Count = msgspec.field(name="droppedAttributesCount", default=0)
    raw_events: Raw = msgspec.field(name="events", default=_NOTHING)
    dropped_events: _Count = msgspec.field(name="droppedEventsCount", default=0)
    links: Raw = cast("Raw", ())
    dropped_links: _Count = msgspec.field(name="droppedLinksCount", default=0)
    status_code: _Status | None = msgspec.field(name="status", default=None)
    status_message: None = msgspec.field(name="$message", default=cast("None", ""))
    resource: None = msgspec.field(name="$resource", default=None)
    scope: None = msgspec.field(name="$scope", default=None)
    # An older writer's spelling, which the lenient reader knows.
    other_count: Raw = msgspec.field(name="dropped_attributes_count", default=_NOTHING)

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

    def may_hold(self, *texts: bytes) -> bool:
        """Return False only if surely none of *texts* stands in an attribute key or value."""
        value: Any = self.raw_attributes
        if type(value) is not Raw:
            return bool(value)
        data = bytes(value)
        return any(map(data.__contains__, texts))

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
_decoder = msgspec.json.Decoder(_Envelope, strict=False)


class OtlpJson:
    """OTLP JSON in every spelling that real writers use."""

    name = "OTLP JSON (`resourceSpans`)"

    def read(self, value: JsonValue, context: ReadContext) -> Batch | None:
        """Return the spans and log records of *value*, or None if it is no OTLP."""
        raw = value.raw
        if raw is not None:
            try:
                envelope = _decoder.decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                envelope = None
            batch = None if envelope is None else _read([envelope], raw, context)
            if batch is not None:
                return batch
        plain = value.plain
        return read_lenient(plain, context) if is_otlp(plain) else None

    def read_lines(self, lines: bytes, context: ReadContext) -> Batch | None:
        """Return what a block of lines holds, or None if not all of them are OTLP as usually spelt."""
        try:
            envelopes = _decoder.decode_lines(lines)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return _read(envelopes, lines, context) if envelopes else None


def _read(envelopes: list[_Envelope], raw: bytes, context: ReadContext) -> Batch | None:
    """Return what *envelopes*, decoded from *raw*, hold; None if one is not in the usual spelling."""
    spans: list[JsonSpan] = []
    batch = Batch(cast("list[SpanRecord]", spans))
    for envelope in envelopes:
        if (
            envelope.resource_spans is None
            and not envelope.resource_logs
            and not envelope.resource_metrics
        ):
            return None
        for group in envelope.resource_spans or ():
            if group.other_spans or group.legacy_spans:
                return None
            resource = _resource(group, context)
            for part in group.scope_spans:
                if not _finish(part.spans, resource, _scope(part, context)):
                    return None
                spans += part.spans
        if envelope.resource_logs:
            batch.signals |= {"logs"}
            batch.logs += read_logs({"resourceLogs": _decoded(envelope.resource_logs)}, context)
        if envelope.resource_metrics:
            batch.signals |= {"metrics"}
    batch.session_hint = _may_name_session(raw)
    return batch if _valid_ids(spans) else None


def _may_name_session(raw: bytes) -> bool:
    """Return False only if surely no span in *raw* has one of `runs.SESSION_KEYS`.

    One look at the whole chunk spares a look at each span. Long needles are found fastest, so they
    take in what follows a key, if the writer leaves out spaces as nearly all do.
    """
    if not raw.startswith(b'{"resourceSpans":['):
        return True
    return b'conversation.id","value":' in raw or (
        b"session" in raw
        and (
            b'session.id","value":' in raw
            or b'session_id","value":' in raw
            or b'sessionId","value":' in raw
        )
    )


def _finish(spans: list[JsonSpan], resource: Resource, scope: Scope) -> bool:
    """Replace what the decoder left raw and is wanted at once; return False for another spelling."""
    for span in cast("list[Any]", spans):
        span.resource = resource
        span.scope = scope
        if span.links:
            span.links = links_of(_decoded(span.links))
        status = span.status_code
        if status is None or not status.code:
            span.status_code = "UNSET"
        else:
            span.status_code = status_of(status.code)
        if status is not None and status.message:
            span.status_message = status.message
        if span.parent_span_id == "":
            span.parent_span_id = None
        if span.other_count:
            return False
    return True


def _valid_ids(spans: list[JsonSpan]) -> bool:
    """Return whether all ids are as they should be, by one look at all of them in a row."""
    parents = [span.parent_span_id for span in spans if span.parent_span_id]
    span_ids = "".join([span.span_id for span in spans] + parents)
    ids = "".join({span.trace_id for span in spans}) + span_ids
    try:
        size = len(bytes.fromhex(ids))
    except ValueError:
        return False
    return (
        size * 2 == len(ids)
        and len(span_ids) == 16 * (len(spans) + len(parents))
        and ids == ids.lower()
        and _NO_SPAN not in ids
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
    msg = f"{reason}, near {data[:60]!r}"
    raise CassetteFormatError(reason=msg)
