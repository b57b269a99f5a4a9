"""Attribute values to plain JSON, with a verdict on how whole they are.

Lives here: decoding, telling cut, masked and missing content. Not here: what messages, tools and
answers are (`payload.py`). Nothing here raises on content; what cannot be read is said by the
verdict.

Sources of the limits: the attribute limits that the OTel SDK, Grafana Tempo, Datadog, New Relic and
Azure Monitor document.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from otel_cassette.keys.masks import holds_mask, is_whole_mask
from otel_cassette.model.entry import Integrity

JSON = Any

LIMIT_LENGTHS: Final = frozenset(
    {250, 255, 256, 1024, 1200, 2048, 4095, 4096, 5003, 8192, 25003, 32768, 65535, 65536}
)
"""Lengths, in characters or bytes, at which backends and pipelines cut attribute values; 5003 and
25003 are Datadog's 5,000 and 25,000 with its `...`."""

_JSON_STARTS: Final = frozenset('{"')
"""No mask begins like this; `[` may begin both a list and `[REDACTED]`."""
_CUT_ENDINGS: Final = ("[truncated]", "<truncated>", "…[truncated]", "...[truncated]")
_ORDER: Final[Mapping[Integrity, int]] = {
    "whole": 0,
    "partial": 1,
    "suspect": 2,
    "truncated": 3,
    "redacted": 4,
    "dropped": 5,
    "absent": 6,
}
_decode = msgspec.json.Decoder().decode


class Payload(NamedTuple):
    """A decoded attribute.

    Attributes:
        value: Plain JSON; for content that does not parse, the text as it stands.
        integrity: `absent` when there was no attribute.
    """

    value: JSON
    integrity: Integrity


ABSENT: Final = Payload(None, "absent")


def worst(*verdicts: Integrity) -> Integrity:
    """Return the least whole of the verdicts."""
    return max(verdicts, key=_ORDER.__getitem__)


def plain(value: JSON) -> JSON:
    """Return an attribute value as plain JSON.

    Tuples become lists, bytes base64 text, NaN and infinities (which JSON lacks) their names.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return msgspec.to_builtins(bytes(value))
    if isinstance(value, Iterable):
        return [plain(v) for v in value]
    return str(value)


def decode_json(value: JSON) -> Payload:
    """Decode an attribute that holds JSON, as a JSON string or as a structured value.

    Text whose JSON ends before it is complete is `truncated`, text that is no JSON `suspect`; the
    value is then the text.
    """
    if value is None:
        return ABSENT
    if not isinstance(value, str):
        return Payload(plain(value), "whole")
    if value[:1] not in _JSON_STARTS and value[:2] != "[{":
        if not value.strip():
            return ABSENT
        if is_whole_mask(value):
            return Payload(value, "redacted")
    try:
        return Payload(_decode(value), "whole")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _decode_slowly(value)


def decode_value(value: JSON) -> Payload:
    """Decode an attribute that holds JSON or plain text: a tool's argument or result.

    Objects, arrays, quoted strings, numbers, `true`, `false` and `null` become their values, other
    text stays text. Text of exactly the length of a known limit is `suspect`.
    """
    if value is None:
        return ABSENT
    if not isinstance(value, str):
        return Payload(plain(value), "whole")
    if value[:1] not in _JSON_STARTS and is_whole_mask(value):
        return Payload(value, "redacted")
    head = value.lstrip()[:1]
    if head and head in '{["-0123456789tfn':
        try:
            return Payload(_decode(value), _mask_verdict(value))
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            if head in '{["':
                slow = _decode_slowly(value)
                if slow.integrity != "suspect":
                    return slow
    return Payload(value, text_integrity(value))


def _decode_slowly(text: str) -> Payload:
    """What `msgspec` refused: lone surrogates and NaN are read, the rest gets its verdict."""
    try:
        return Payload(plain(json.loads(text, parse_constant=str)), "whole")
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        cut = at_end or _is_cut_token(text[error.pos :])
        return Payload(text, "truncated" if cut and text.lstrip()[:1] in '{["' else "suspect")
    except (RecursionError, ValueError):
        return Payload(text, "suspect")


def _is_cut_token(rest: str) -> bool:
    """Whether what the parser stumbled over is the beginning of a literal or an escape."""
    rest = rest.rstrip("\ufffd")
    words = ("true", "false", "null", "-")
    escape = rest[:1] == "\\" or (rest[:1] == "u" and len(rest) < 5)
    return any(word.startswith(rest) for word in words) or (escape and len(rest) <= 6)


def text_integrity(text: str) -> Integrity:
    """Return whether free text looks cut or masked.

    A length of a known limit is `suspect` only: texts of 255 characters exist. Tempo cuts at 2,048
    bytes and leaves one U+FFFD for each byte of a character it cut through.
    """
    if is_whole_mask(text):
        return "redacted"
    if text.endswith(_CUT_ENDINGS):
        return "truncated"
    size = len(text)
    if size >= 250:
        whole = text.rstrip("\ufffd")
        orphans = size - len(whole)
        size_bytes = len(whole.encode("utf-8", "surrogatepass")) + orphans
        if size in LIMIT_LENGTHS or size_bytes in LIMIT_LENGTHS:
            return "suspect"
    return _mask_verdict(text)


def _mask_verdict(text: str) -> Integrity:
    return "suspect" if holds_mask(text) else "whole"
