"""Secrets masked in spans and log records, before they reach a disk.

Lives here: rules of a `Redactor` applied to attribute values, events and bodies, and to the JSON
that stands in their strings. Not here: the rules (`redaction/`), and the masking of entries, which
happens once more when they are made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from otel_cassette.model.span import LogRecord, SpanEvent, SpanRecord
from otel_cassette.redaction import Redactor

_MAX_NESTED = 4
"""How deep JSON is looked for in strings of JSON: tool arguments in a message list are two."""


def has_path_rules(redactor: Redactor | None) -> bool:
    """Return whether a rule names a place in a request or response, which a span does not have."""
    return redactor is not None and any(rule.paths for rule in redactor.rules)


def mask_span(redactor: Redactor | None, span: SpanRecord) -> SpanRecord:
    """Return *span* with its secrets masked; the same object when there are none."""
    if redactor is None or not redactor.rules:
        return span
    texts = [span.name, span.status_message, *_texts(span.attributes)]
    for event in span.events:
        texts += _texts(event.attributes)
    for link in span.links:
        texts += _texts(link.attributes)
    if not redactor.may_match("\n".join(texts)):
        return span
    return SpanRecord(
        trace_id=span.trace_id,
        span_id=span.span_id,
        name=redactor.text(span.name),
        parent_span_id=span.parent_span_id,
        kind=span.kind,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        attributes=_masked(redactor, span.attributes),
        events=tuple(
            SpanEvent(event.name, event.time_ns, _masked(redactor, event.attributes))
            for event in span.events
        ),
        links=span.links,
        status_code=span.status_code,
        status_message=redactor.text(span.status_message),
        resource=span.resource,
        scope=span.scope,
        trace_state=span.trace_state,
        dropped_attributes=span.dropped_attributes,
        dropped_events=span.dropped_events,
        dropped_links=span.dropped_links,
    )


def mask_log(redactor: Redactor | None, log: LogRecord) -> LogRecord:
    """Return *log* with its secrets masked; the same object when there are none."""
    if redactor is None or not redactor.rules:
        return log
    texts = [*_texts(log.attributes), *_texts(log.body)]
    if not redactor.may_match("\n".join(texts)):
        return log
    return LogRecord(
        event_name=log.event_name,
        trace_id=log.trace_id,
        span_id=log.span_id,
        time_ns=log.time_ns,
        body=_masked(redactor, log.body),
        attributes=_masked(redactor, log.attributes),
        resource=log.resource,
        scope=log.scope,
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _masked(redactor: Redactor, value: Any) -> Any:
    return _mask_json_texts(redactor, redactor.json(value), 0)


def _mask_json_texts(redactor: Redactor, value: Any, nested: int) -> Any:
    """Mask by the names of members inside strings that are JSON; patterns were applied already."""
    if isinstance(value, Mapping):
        return {k: _mask_json_texts(redactor, v, nested) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_json_texts(redactor, item, nested) for item in value]
    if not isinstance(value, str) or nested >= _MAX_NESTED or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        plain = json.loads(value)
    except (ValueError, RecursionError):
        return value  # cut, or no JSON: what patterns could find was found
    masked = _mask_json_texts(redactor, redactor.json(plain), nested + 1)
    if masked == plain:
        return value
    return json.dumps(masked, ensure_ascii=False, separators=(",", ":"))
