"""A length limit that cut the values of a run, found by the run itself.

Lives here: the limit, and the free texts that end exactly there. Not here: JSON that is cut, which
tells by itself (`dialects/decoding.py`), and the limits that backends are known for (there too).

Where the greatest length of all attribute values occurs on several different values, none of them
complete JSON, a limit is in force (`OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` can be any number), and
a text of just that length is not known to be whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from otel_cassette.assemble.calls import Call
from otel_cassette.dialects.decoding import worst
from otel_cassette.model.entry import Integrity
from otel_cassette.model.span import SpanRecord

_SHORTEST = 64
"""Up to this length, equal lengths are chance."""

REMEDY = (
    "Raise the limit on the length of attribute values (OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT)."
)


def suspected_limit(spans: Iterable[SpanRecord]) -> int | None:
    """Return the length, in characters, at which values of these spans appear to be cut."""
    longest = _SHORTEST
    values: set[str] = set()
    for span in spans:
        for value in span.attributes.values():
            if type(value) is not str:
                continue
            length = len(value)
            if length > longest:
                longest = length
                values = {value}
            elif length == longest:
                values.add(value)
    complete = any(v[0] in '[{"' and v[-1] in ']}"' for v in values)
    return longest if len(values) > 1 and not complete else None


def mark_cut_texts(calls: Sequence[Call]) -> int | None:
    """Doubt the free texts that end at the run's limit; return the limit, None if there is none.

    They are `truncated` where JSON of the run was cut at that length too, else `suspect`.
    """
    limit = suspected_limit(call.span for call in calls)
    if limit is None:
        return None
    proven = any(
        "truncated" in (call.reading.request_integrity, call.reading.response_integrity)
        for call in calls
    )
    verdict: Integrity = "truncated" if proven else "suspect"
    for call in calls:
        reading = call.reading
        if _ends_at(reading.response, limit):
            reading.response_integrity = worst(reading.response_integrity, verdict)
            reading.remedy = reading.remedy or REMEDY
        if _ends_at(reading.request, limit):
            reading.request_integrity = worst(reading.request_integrity, verdict)
    return limit


def _ends_at(payload: Any, limit: int) -> bool:
    """Whether a payload is one text of that length: a tool's result, a hand-made span's text."""
    if isinstance(payload, str):
        return len(payload) == limit
    if not isinstance(payload, dict):
        return False
    messages = payload.get("messages") or [c.get("message") for c in payload.get("choices") or ()]
    if len(messages) != 1 or not isinstance(messages[0], dict):
        return False
    parts = messages[0].get("parts") or ()
    return any(isinstance(t := p.get("content"), str) and len(t) == limit for p in parts)
