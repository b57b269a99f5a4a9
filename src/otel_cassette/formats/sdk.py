"""Finished spans and log records of the OpenTelemetry SDK as records of ours.

By the look of the objects, without the SDK: a span has `context`, `start_time`, `resource`; a log
has `log_record` (or is one, with `trace_id` and `body`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

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

_STATUS: Mapping[int, StatusCode] = {0: "UNSET", 1: "OK", 2: "ERROR"}
_MAX_KNOWN = 4_096
_T = TypeVar("_T")
_resources: dict[int, tuple[Any, Resource]] = {}
_scopes: dict[int, tuple[Any, Scope]] = {}


def is_sdk_span(value: object) -> bool:
    """Return whether *value* looks like a `ReadableSpan` of the SDK."""
    return all(
        hasattr(value, name) for name in ("context", "start_time", "end_time", "resource", "events")
    )


def is_sdk_log(value: object) -> bool:
    """Return whether *value* looks like a log record of the SDK."""
    inner = getattr(value, "log_record", value)
    return all(hasattr(inner, name) for name in ("trace_id", "span_id", "body", "severity_number"))


def span_of(span: Any) -> SpanRecord | None:
    """Return an SDK span's record, or None if its context is invalid."""
    context = span.context
    if context is None or not context.trace_id or not context.span_id:
        return None
    parent = span.parent
    status = getattr(span, "status", None)
    return SpanRecord(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        name=span.name,
        parent_span_id=f"{parent.span_id:016x}" if parent is not None and parent.span_id else None,
        # The API counts kinds from INTERNAL = 0, OTLP from UNSPECIFIED = 0.
        kind=span.kind.value + 1,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes=partial(_attributes, span.attributes),
        events=partial(_events, events) if (events := span.events) else (),
        links=tuple(map(_link, links)) if (links := span.links) else (),
        status_code=_STATUS.get(status.status_code.value, "UNSET") if status else "UNSET",
        status_message=(status.description or "") if status else "",
        resource=_resource(span.resource),
        scope=_scope(span.instrumentation_scope),
        trace_state=context.trace_state.to_header() if context.trace_state else "",
        dropped_attributes=getattr(span, "dropped_attributes", 0),
        dropped_events=getattr(span, "dropped_events", 0),
        dropped_links=getattr(span, "dropped_links", 0),
    )


def _link(link: Any) -> SpanLink:
    context = link.context
    attributes = _attributes(link.attributes)
    return SpanLink(f"{context.trace_id:032x}", f"{context.span_id:016x}", attributes)


def log_of(log: Any) -> LogRecord:
    """Return an SDK log record's record."""
    inner = getattr(log, "log_record", log)
    attributes = _attributes(inner.attributes)
    named = getattr(inner, "event_name", None) or attributes.get("event.name")
    return LogRecord(
        event_name=named if isinstance(named, str) else "",
        trace_id=f"{inner.trace_id:032x}" if inner.trace_id else "",
        span_id=f"{inner.span_id:016x}" if inner.span_id else "",
        time_ns=inner.timestamp or getattr(inner, "observed_timestamp", None) or 0,
        body=_plain(inner.body),
        attributes=attributes,
        # Older SDKs keep the resource on the record itself.
        resource=_resource(getattr(log, "resource", None) or getattr(inner, "resource", None)),
        scope=_scope(getattr(log, "instrumentation_scope", None)),
    )


def _resource(resource: Any) -> Resource:
    """Return one and the same record for the same resource: runs are told by it."""
    known = _resources.get(id(resource))
    if known is None:
        made = Resource()
        if resource is not None:
            made = Resource(_attributes(resource.attributes), resource.schema_url or None)
        known = _remember(_resources, resource, made)
    return known[1]


def _scope(scope: Any) -> Scope:
    known = _scopes.get(id(scope))
    if known is None:
        made = Scope()
        if scope is not None:
            attributes = _attributes(getattr(scope, "attributes", None))
            made = Scope(
                scope.name or "", scope.version or None, scope.schema_url or None, attributes
            )
        known = _remember(_scopes, scope, made)
    return known[1]


def _remember(known: dict[int, tuple[Any, _T]], thing: Any, made: _T) -> tuple[Any, _T]:
    """Keep a record by the identity of what it was made of, which is kept too: ids are used again."""
    while len(known) >= _MAX_KNOWN:
        # One by one: to forget all would give a resource in use a second record, and split its runs.
        known.pop(next(iter(known)), None)
    known[id(thing)] = pair = (thing, made)
    return pair


def _events(events: Any) -> tuple[SpanEvent, ...]:
    return tuple(
        SpanEvent(event.name, event.timestamp, _attributes(event.attributes)) for event in events
    )


def _attributes(attributes: Any) -> Mapping[str, Any]:
    return {str(key): _plain(value) for key, value in attributes.items()} if attributes else EMPTY


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
