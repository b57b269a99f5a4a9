"""The text of a request, for the quick test that two requests are one and the same.

Lives here: the one form in which recorded and live requests are written for that test. Equal texts
are equal requests in any canonical form; unequal texts prove nothing. Not here: canonical JSON.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic_core import to_json

from otel_cassette.model.entry import MODEL_KINDS
from otel_cassette.model.llm import LLMRequest

JSON = Any
_EMPTY: dict[str, JSON] = {
    name: [] if name in ("system_instructions", "messages", "tools") else {}
    for name in LLMRequest.model_fields
    if name in ("system_instructions", "messages", "tools", "params", "extra")
}
_ORDER = tuple(LLMRequest.model_fields)


def request_text(kind: str, name: str | None, plain: JSON) -> bytes:
    """Return the text of a request given as plain JSON; as `typed_text` gives it for a typed one."""
    if kind in MODEL_KINDS and name is None and isinstance(plain, dict):
        known = {
            f: plain[f] if f in plain else _EMPTY[f] for f in _ORDER if f in plain or f in _EMPTY
        }
        if len(known) < len(plain) + len(_EMPTY):
            known.update(plain)
        return _text(known)
    return b"%s(%s)" % ((name or "").encode("utf-8", "surrogatepass"), _text(plain))


def typed_text(request: LLMRequest) -> bytes:
    """Return the text of a typed request."""
    try:
        return request.__pydantic_serializer__.to_json(request, exclude_none=True)
    except ValueError:
        return request_text("llm", None, request.to_json())


def _text(plain: JSON) -> bytes:
    try:
        return to_json(plain)
    except ValueError:  # half a surrogate pair, which has no UTF-8 form
        return json.dumps(plain).encode("ascii")


def digest_text(text: bytes) -> bytes:
    """Return a digest of a request's text."""
    return hashlib.sha256(text).digest()
