"""Envelopes around a tool's result, taken off.

Lives here: content blocks and text that holds JSON, as the value the tool returned. Not here:
envelopes of one framework (its dialect's file).
"""

from __future__ import annotations

from typing import Any

from otel_cassette.dialects.payload import decode_json

JSON = Any


def unwrap_blocks(value: JSON) -> JSON:
    """Return a list of text blocks as their text; anything else as it is."""
    if not isinstance(value, list) or not value:
        return value
    texts: list[str] = []
    for block in value:
        if not isinstance(block, dict) or block.get("type", "text") not in _TEXT_BLOCKS:
            return value
        text = block.get("text", block.get("content"))
        if not isinstance(text, str):
            return value
        texts.append(text)
    return "\n".join(texts)


_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text"})


def unwrap_result(value: JSON) -> JSON:
    """Return what stands in `{"result": ...}`; anything else as it is.

    google-adk wraps results that are no objects like this, on spans and on Gemini's wire, and so
    does google-genai; pydantic-ai says `return_value`.
    """
    if isinstance(value, dict) and len(value) == 1:
        return value.get("result", value.get("return_value", value))
    return value


def result_from_message(value: JSON) -> JSON:
    """Return what a tool message says the tool returned.

    That is what the model saw: text blocks are their text, text that holds a JSON object or array
    is that, other text stays text.
    """
    value = unwrap_blocks(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        payload = decode_json(value)
        if payload.integrity == "whole":
            return payload.value
    return value
