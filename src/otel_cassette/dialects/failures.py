"""How a span says that its call failed.

Lives here: status, `error.type` and exception events as one `RecordedFailure`. Not here: what
counts as a failure beyond the span's status in a single vocabulary (that dialect's file).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_cassette.model.entry import RecordedFailure
from otel_cassette.model.span import SpanRecord

_STATUS_KEYS = ("http.response.status_code", "http.status_code")


def span_failure(span: SpanRecord) -> RecordedFailure | None:
    """Return the failure of a span with status ERROR; None for any other span.

    An exception event on a span that is not ERROR is no failure: frameworks record exceptions that
    they handled. The type is `error.type` where that is a name, else the exception event's.
    """
    if span.status_code != "ERROR":
        return None
    return failure_of(span, message=span.status_message)


def failure_of(span: SpanRecord, *, message: str = "") -> RecordedFailure:
    """Return the failure that a span's attributes and exception event describe."""
    event = _exception(span)
    kind = span.attributes.get("error.type")
    raised = event.get("exception.type")
    status = _status(span.attributes, kind)
    name = kind if isinstance(kind, str) and kind and not kind.isdigit() else None
    if name in (None, "_OTHER", "tool_error") and isinstance(raised, str) and raised:
        name = raised
    text = _text(message, event.get("exception.message"), name)
    return RecordedFailure(type=name or "Exception", message=text, status=status)


def _text(description: str, raised: Any, kind: str | None) -> str:
    """Return the exception's own text, as a replay raises it.

    The status description is often more than that: the SDK writes `ValueError: text`, others the
    exception's repr. The exception event has the text alone.
    """
    text = str(raised or "")
    if text and text in description:
        return text
    prefix = f"{(kind or '').rpartition('.')[2]}: "
    if kind and description.startswith(prefix):
        return description[len(prefix) :]
    return description or text


def _exception(span: SpanRecord) -> Mapping[str, Any]:
    for event in span.events:
        if event.name == "exception":
            return event.attributes
    return {}


def _status(attributes: Mapping[str, Any], kind: Any) -> int | None:
    """The HTTP status; google-genai writes it as the error type."""
    candidates = [attributes.get(key) for key in _STATUS_KEYS]
    if isinstance(kind, str) and kind.isdigit():
        candidates.append(int(kind))
    for value in candidates:
        if isinstance(value, int) and value >= 400:
            return value
    return None
