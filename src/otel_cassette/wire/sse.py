"""Streams as bytes: server-sent events and Google's JSON array, read and written.

Lives here: the framing. Not here: what the events say (one file per API).

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from otel_cassette.model.plain import json_bytes, strict_json
from otel_cassette.wire.protocol import StreamEvent


def write_sse(events: Iterable[StreamEvent]) -> Iterator[bytes]:
    """Yield the bytes of each event of a `text/event-stream`."""
    return (event.to_sse() for event in events)


def write_array(events: Iterable[StreamEvent]) -> Iterator[bytes]:
    """Yield the bytes of a JSON array, an element each."""
    opening = "["
    for event in events:
        yield opening.encode() + json_bytes(event.data)
        opening = ",\r\n"
    yield b"[]" if opening == "[" else b"]"


def read_sse(data: bytes, *, open_end: bool = False) -> list[StreamEvent]:
    """Return the complete events of a `text/event-stream`; what was cut off at its end is not one.

    Payloads that are JSON come parsed, others as text.

    Args:
        data: The stream.
        open_end: Take a last event without the empty line after it, where it is JSON: Google's
            SDK reads line by line.
    """
    events = []
    name: str | None = None
    lines: list[str] = []
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if lines:
                events.append(StreamEvent(_payload("\n".join(lines)), name))
            name, lines = None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            lines.append(value)
        elif field == "event":
            name = value
    rest = _payload("\n".join(lines)) if open_end and lines else None
    if rest is not None and not isinstance(rest, str):
        events.append(StreamEvent(rest, name))
    return events


def read_array(data: bytes) -> list[StreamEvent]:
    """Return the complete elements of a JSON array that may have been cut off."""
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    events = []
    at = text.find("[") + 1
    while at > 0:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            break
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            break  # the element that was cut off
        events.append(StreamEvent(value))
    return events


def _payload(text: str) -> object:
    try:
        return strict_json(text)
    except ValueError:
        return text
