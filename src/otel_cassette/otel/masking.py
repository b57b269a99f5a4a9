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
from otel_cassette.otel.encoding import LineEncoder
from otel_cassette.redaction import Redactor

_MAX_KNOWN = 4096
_MAX_NESTED = 4
"""How deep JSON is looked for in strings of JSON: tool arguments in a message list are two."""


class MaskedLines:
    """Spans and log records as lines of OTLP JSON, with their secrets masked.

    Args:
        redactor: The rules; None for none.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor if redactor is not None and redactor.rules else None
        self._encoder = LineEncoder(self._mask_resource)
        self._known_keys: dict[tuple[str, ...], bool] = {}

    def span(self, span: SpanRecord) -> bytes:
        """Return the line of a span."""
        if self._redactor is not None and self._may_match(self._redactor, span):
            return self._encoder.span(mask_span(self._redactor, span))
        return self._encoder.span(span)

    def _may_match(self, redactor: Redactor, span: SpanRecord) -> bool:
        """Return whether a rule could change something; most spans hold no secret.

        Keys are looked at once: they repeat, and words of rules stand in many of them (`tokens`).
        """
        attributes = span.attributes
        keys = tuple(attributes)
        verdict = self._known_keys.get(keys)
        if verdict is None:
            if len(self._known_keys) >= _MAX_KNOWN:
                self._known_keys.clear()
            verdict = self._known_keys[keys] = redactor.may_match("\n".join(keys))
        if verdict or span.events or span.links:
            return True
        texts = [span.name, span.status_message]
        for value in attributes.values():
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, Mapping | list | tuple):
                texts += _texts(value)
        return redactor.may_match("\n".join(texts))

    def log(self, log: LogRecord) -> bytes:
        """Return the line of a log record."""
        return self._encoder.log(mask_log(self._redactor, log))

    def _mask_resource(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._redactor is None:
            return attributes
        masked: Mapping[str, Any] = _masked(self._redactor, attributes)
        return masked


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
