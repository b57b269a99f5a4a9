"""What a file shape has to offer, and what all of them share while one source is read.

A new shape is one file with a class that satisfies `TraceFormat`, and one line in `registry.py`.
How bytes are unpacked and cut into values is not a shape's concern (`unpack.py`, `stream.py`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from otel_cassette.model.span import LogRecord, Resource, Scope, SpanRecord

_LONE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_decode_any = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Batch:
    """What one value of a file holds.

    `session_hint` is False only if surely no span of it names a session or a conversation;
    `unusable` counts spans without a valid id, which are left out; `signals` names what else the
    value holds (`logs`, `metrics`).
    """

    spans: list[SpanRecord] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    session_hint: bool = True
    unusable: int = 0
    signals: frozenset[str] | set[str] = frozenset()


class JsonValue:
    """One JSON value of a source: its bytes, or the object it already is."""

    __slots__ = ("_plain", "_read", "raw")

    def __init__(self, raw: bytes | None = None, plain: Any = None) -> None:
        self.raw: bytes | None = raw
        self._plain = plain
        self._read = raw is None

    @property
    def plain(self) -> Any:
        """The value as plain objects, read leniently.

        Raises:
            ValueError: It is no JSON.
            RecursionError: It is nested too deeply.
        """
        if not self._read and self.raw is not None:
            self._plain = lenient_json(self.raw)
            self._read = True
        return self._plain


class TraceFormat(Protocol):
    """One file shape."""

    name: str
    """As an error names it, e.g. `OTLP JSON`."""

    def read(self, value: JsonValue, context: ReadContext) -> Batch | None:
        """Return what *value* holds, or None if it is not of this shape.

        Raises:
            ValueError: It is no JSON (from `JsonValue.plain`).
            RecursionError: It is nested too deeply.
        """

    def read_lines(self, lines: bytes, context: ReadContext) -> Batch | None:
        """Return what a block of JSON Lines holds, or None to have them read one by one.

        For the speed of great files; a shape may always return None.
        """


class ReadContext:
    """Resources and scopes met in one source, so that equal ones are one object."""

    def __init__(self) -> None:
        self.resources: dict[tuple[bytes, str], Resource] = {}
        self.scopes: dict[tuple[bytes, str], Scope] = {}
        self._equal: dict[str, Resource] = {}

    def resource(self, resource: Resource) -> Resource:
        """Return the first resource met that is equal to *resource*."""
        pairs = sorted(resource.attributes.items(), key=itemgetter(0))
        return self._equal.setdefault(repr((pairs, resource.schema_url)), resource)


def lenient_json(raw: bytes) -> Any:
    """Return the JSON value in *raw*, as tolerant as Python's own decoder.

    NaN and Infinity tokens, control characters in strings, bytes that are no UTF-8 and half
    surrogate pairs occur in real files; the latter two become U+FFFD.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is nested too deeply.
    """
    try:
        return _decode_any(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        value = json.loads(raw.decode("utf-8", "replace"), strict=False)
        return _without_surrogates(value) if _LONE_ESCAPE.search(raw) else value


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value
