"""Spans and log records as lines of OTLP JSON, fast enough for the end of a span.

Lives here: the writing half of what `formats/otlp_json.py` reads: one span or log record a line,
with its resource and scope, so that a spool can be cut anywhere between two lines. Not here: files.

OTLP's own encoders go through protobuf messages; this one goes from records to text.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import json as msgspec_json

from otel_cassette.model.span import LogRecord, Resource, Scope, SpanEvent, SpanLink, SpanRecord

_STATUS = {"UNSET": 0, "OK": 1, "ERROR": 2}
_MAX_RESOURCES = 256
_MAX_DEPTH = 64
"""The SDKs cut attribute values at this depth."""

_encoder = msgspec_json.Encoder()


class LineEncoder:
    """Puts spans and log records on lines of their own; remembers the text of resources and scopes.

    Args:
        mask: Applied to the attributes of resources.
    """

    def __init__(self, mask: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self._mask = mask
        # By identity, with the object itself so that the id is not given to another one.
        self._resources: dict[int, tuple[Resource, bytes]] = {}
        self._scopes: dict[int, tuple[Scope, bytes]] = {}

    def span(self, span: SpanRecord) -> bytes:
        """Return a span as one line of OTLP JSON (`resourceSpans`)."""
        return b'{"resourceSpans":[{%s"scopeSpans":[{%s"spans":[%s]}]}]}\n' % (
            self._resource(span.resource),
            self._scope(span.scope),
            _span_json(span),
        )

    def log(self, log: LogRecord) -> bytes:
        """Return a log record as one line of OTLP JSON (`resourceLogs`)."""
        return b'{"resourceLogs":[{%s"scopeLogs":[{%s"logRecords":[%s]}]}]}\n' % (
            self._resource(log.resource),
            self._scope(log.scope),
            _log_json(log),
        )

    def _resource(self, resource: Resource) -> bytes:
        known = self._resources.get(id(resource))
        if known is None:
            attributes = self._mask(resource.attributes)
            text = b'"resource":{"attributes":%s},' % _attributes(attributes)
            if resource.schema_url:
                text += b'"schemaUrl":%s,' % _text(resource.schema_url)
            known = _remember(self._resources, resource, text)
        return known[1]

    def _scope(self, scope: Scope) -> bytes:
        known = self._scopes.get(id(scope))
        if known is None:
            text = b'"scope":{"name":%s' % _text(scope.name)
            if scope.version:
                text += b',"version":%s' % _text(scope.version)
            if scope.attributes:
                text += b',"attributes":%s' % _attributes(scope.attributes)
            text += b"},"
            if scope.schema_url:
                text += b'"schemaUrl":%s,' % _text(scope.schema_url)
            known = _remember(self._scopes, scope, text)
        return known[1]


def _remember(known: dict[int, tuple[Any, bytes]], item: Any, text: bytes) -> tuple[Any, bytes]:
    if len(known) >= _MAX_RESOURCES:
        known.clear()
    known[id(item)] = entry = (item, text)
    return entry


def _span_json(span: SpanRecord) -> bytes:
    """Return a span as an OTLP JSON object."""
    parts = [
        b'{"traceId":"%s","spanId":"%s"' % (span.trace_id.encode(), span.span_id.encode()),
        b',"name":%s,"kind":%d' % (_text(span.name), span.kind),
        b',"startTimeUnixNano":"%d","endTimeUnixNano":"%d"' % (span.start_ns, span.end_ns),
    ]
    if span.parent_span_id:
        parts.append(b',"parentSpanId":"%s"' % span.parent_span_id.encode())
    if span.trace_state:
        parts.append(b',"traceState":%s' % _text(span.trace_state))
    if span.attributes:
        parts.append(b',"attributes":%s' % _attributes(span.attributes))
    if span.events:
        parts.append(b',"events":[%s]' % b",".join(map(_event, span.events)))
    if span.links:
        parts.append(b',"links":[%s]' % b",".join(map(_link, span.links)))
    for key, count in (
        (b"Attributes", span.dropped_attributes),
        (b"Events", span.dropped_events),
        (b"Links", span.dropped_links),
    ):
        if count:
            parts.append(b',"dropped%sCount":%d' % (key, count))
    code = _STATUS[span.status_code]
    if code or span.status_message:
        parts.append(b',"status":{"code":%d,"message":%s}' % (code, _text(span.status_message)))
    parts.append(b"}")
    return b"".join(parts)


def _event(event: SpanEvent) -> bytes:
    text = b'{"timeUnixNano":"%d","name":%s' % (event.time_ns, _text(event.name))
    if event.attributes:
        text += b',"attributes":%s' % _attributes(event.attributes)
    return text + b"}"


def _link(link: SpanLink) -> bytes:
    text = b'{"traceId":"%s","spanId":"%s"' % (link.trace_id.encode(), link.span_id.encode())
    if link.attributes:
        text += b',"attributes":%s' % _attributes(link.attributes)
    return text + b"}"


def _log_json(log: LogRecord) -> bytes:
    text = b'{"timeUnixNano":"%d","traceId":"%s","spanId":"%s"' % (
        log.time_ns,
        log.trace_id.encode(),
        log.span_id.encode(),
    )
    if log.event_name:
        text += b',"eventName":%s' % _text(log.event_name)
    if log.body is not None:
        text += b',"body":%s' % _value(log.body, 0)
    if log.attributes:
        text += b',"attributes":%s' % _attributes(log.attributes)
    return text + b"}"


def _attributes(attributes: Mapping[str, Any]) -> bytes:
    return b"[%s]" % b",".join(_pairs(attributes, 0))


def _pairs(attributes: Mapping[str, Any], depth: int) -> Iterable[bytes]:
    for key, value in attributes.items():
        yield b'{"key":%s,"value":%s}' % (_text(key), _value(value, depth))


def _value(value: Any, depth: int) -> bytes:
    # The order is that of frequency; bool stands before int, which it is.
    if isinstance(value, str):
        return b'{"stringValue":%s}' % _text(value)
    if isinstance(value, bool):
        return b'{"boolValue":true}' if value else b'{"boolValue":false}'
    if isinstance(value, int):
        return b'{"intValue":"%d"}' % value
    if isinstance(value, float):
        return b'{"doubleValue":%s}' % _double(value)
    if value is None or depth > _MAX_DEPTH:
        return b"{}"
    if isinstance(value, Mapping):
        return b'{"kvlistValue":{"values":[%s]}}' % b",".join(_pairs(value, depth + 1))
    if isinstance(value, bytes | bytearray):
        return b'{"bytesValue":"%s"}' % base64.b64encode(value)
    if isinstance(value, Sequence):
        items = b",".join([_value(item, depth + 1) for item in value])
        return b'{"arrayValue":{"values":[%s]}}' % items
    return b'{"stringValue":%s}' % _text(str(value))


def _double(value: float) -> bytes:
    if math.isfinite(value):
        return repr(value).encode()
    return b'"NaN"' if value != value else (b'"Infinity"' if value > 0 else b'"-Infinity"')


def _text(text: str) -> bytes:
    try:
        return _encoder.encode(text)
    except UnicodeEncodeError:  # half a surrogate pair, which no JSON can carry
        return _encoder.encode(text.encode("utf-8", "replace").decode())
