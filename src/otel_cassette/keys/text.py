"""The text of a request, for the quick test that two requests are one and the same.

Lives here: the two forms in which recorded and live requests are written for that test: MessagePack
of plain requests, and the JSON that a typed request is written as (making it plain first would take
longer). Texts of one form that are equal are requests that are equal in any canonical form; unequal
texts prove nothing. Not here: canonical JSON.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from otel_cassette.model.llm import LLMRequest
from otel_cassette.model.plain import json_bytes

JSON = Any
_EMPTY: dict[str, JSON] = {
    name: [] if name in ("system_instructions", "messages", "tools") else {}
    for name in LLMRequest.model_fields
    if name in ("system_instructions", "messages", "tools", "params", "extra")
}
_ORDER = tuple(LLMRequest.model_fields)


_pack = msgspec.msgpack.Encoder().encode
_write = msgspec.json.Encoder().encode
_skip = msgspec.json.Decoder(msgspec.Raw).decode
_NO_MESSAGEPACK = b"\xc1"  # the one byte that MessagePack never uses


def plain_text(name: str | None, plain: JSON) -> bytes:
    """Return the text of a plain request, and of the name of what is called."""
    named = plain if name is None and type(plain) is dict else [name, plain]
    try:
        return _pack(named)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Half a surrogate pair, a number of more than 64 bits, nesting without end.
        return _NO_MESSAGEPACK + json_bytes(named)


def typed_text(request: LLMRequest) -> bytes:
    """Return the text of a typed request."""
    try:
        return request.__pydantic_serializer__.to_json(request, exclude_none=True)
    except ValueError:
        return text_as_typed(request.to_json())


def text_as_typed(plain: JSON) -> bytes:
    """Return the text of a plain model request as `typed_text` gives it for a typed one."""
    if not isinstance(plain, dict):
        return json_bytes(plain)
    known = {f: plain[f] if f in plain else _EMPTY[f] for f in _ORDER if f in plain or f in _EMPTY}
    if len(known) < len(plain) + len(_EMPTY):
        known.update(plain)
    try:
        # Twice as fast as pydantic, with the same text; it would write `null` for NaN, of which no
        # recorded request has any.
        return _write(known)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return json_bytes(known)


def has_only_finite_numbers(text: bytes) -> bool:
    """Return whether the text of a typed request is JSON: pydantic writes NaN and the infinities."""
    try:
        _skip(text)  # faster than a search for the two words
    except (msgspec.DecodeError, RecursionError):
        return b"NaN" not in text and b"Infinity" not in text
    return True


def digest_text(text: bytes) -> bytes:
    """Return a digest of a request's text."""
    return hashlib.sha256(text).digest()
