"""Trace and span ids as files spell them, made one: lower-case hex of 32 and 16 digits.

The spelling is told by its length: 32 and 16 hex digits, 24 and 12 characters of base64 (what
protobuf's own JSON writes), 36 with dashes (a UUID), `0x` before hex (console output), and 16 hex
digits for a trace id of 64 bits. The lengths never collide. Ids of zeros only are invalid in OTel.
"""

from __future__ import annotations

import base64
import binascii
import re

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")
_HEX = re.compile(r"[0-9a-f]+")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


def trace_id_of(text: object) -> str | None:
    """Return *text* as 32 lower-case hex digits, or None if it is no valid trace id."""
    if not isinstance(text, str):
        return text.hex() if isinstance(text, bytes) and len(text) == 16 and any(text) else None
    if _TRACE_ID.fullmatch(text):
        found: str | None = text
    else:
        found = _respelled(text, size=16)
    return None if found == _NO_TRACE else found


def span_id_of(text: object) -> str | None:
    """Return *text* as 16 lower-case hex digits, or None if it is no valid span id."""
    if not isinstance(text, str):
        return text.hex() if isinstance(text, bytes) and len(text) == 8 and any(text) else None
    if _SPAN_ID.fullmatch(text):
        found: str | None = text
    else:
        found = _respelled(text, size=8)
    return None if found == _NO_SPAN else found


def _respelled(text: str, *, size: int) -> str | None:
    digits = size * 2
    lower = text.lower()
    if lower.startswith("0x") and len(lower) <= digits + 2:
        return lower[2:].zfill(digits) if _HEX.fullmatch(lower[2:]) else None
    if len(lower) == digits and _HEX.fullmatch(lower):
        return lower
    if size == 16 and len(lower) == 16 and _HEX.fullmatch(lower):
        return lower.zfill(digits)
    if size == 16 and len(lower) == 36 and lower.count("-") == 4:
        plain = lower.replace("-", "")
        return plain if _TRACE_ID.fullmatch(plain) else None
    if len(text) == -(-size // 3) * 4:
        return _from_base64(text, size)
    return None


def _from_base64(text: str, size: int) -> str | None:
    try:
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw.hex() if len(raw) == size else None
