"""Small steps that several wire codecs share: messages and tools of a request, one by one.

Lives here: chat-shaped messages and content blocks as plain message JSON, tool definitions as plain
JSON. Not here: whole bodies (one file per API), the mapping of single blocks (`model/chat.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from otel_cassette.model.chat import content_parts, message_parts
from otel_cassette.model.llm import unwrap_tool

_CHAT_FIELDS = frozenset(
    {
        "annotations",
        "audio",
        "content",
        "function_call",
        "parts",
        "reasoning",
        "reasoning_content",
        "refusal",
        "role",
        "tool_call_id",
        "tool_calls",
    }
)
_PLAIN_ROLES = frozenset({"system", "developer", "user", "assistant"})


def message(role: str, parts: Iterable[Mapping[str, Any]], **rest: Any) -> dict[str, Any]:
    """Return a message of parts; what is None is left out."""
    made: dict[str, Any] = {"role": role, "parts": [without_none(p) for p in parts]}
    if rest:
        made.update(without_none(rest))
    return made


def chat_message(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat-shaped message (`role`, `content`, `tool_calls`, ...) as parts."""
    content, role = value.get("content"), value.get("role")
    is_plain = len(value) == 2 and type(content) is str and type(role) is str
    if is_plain and content and role in _PLAIN_ROLES:
        return {"role": role, "parts": [{"type": "text", "content": content}]}  # most are this
    rest = {}
    if not _CHAT_FIELDS.issuperset(value):
        rest = {k: v for k, v in value.items() if k not in _CHAT_FIELDS}
    return message(str(value.get("role") or "user"), message_parts(value), **rest)


def text_or_blocks(content: Any) -> list[dict[str, Any]]:
    """Return a text, a block or a list of blocks as parts."""
    return [without_none(p) for p in content_parts(content)]


def tool_definitions(tools: Any) -> list[dict[str, Any]]:
    """Return tool definitions of any provider as `{"type", "name", ...}`, their order kept."""
    if not isinstance(tools, list | tuple):
        return []
    return [
        {"type": "function", **without_none(unwrap_tool(t))}
        for t in tools
        if isinstance(t, Mapping)
    ]


def without_none(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dict without the keys whose value is None."""
    if type(value) is dict and None not in value.values():
        return value.copy()
    return {k: v for k, v in value.items() if v is not None}
