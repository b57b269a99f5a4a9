"""Messages, tools and answers of any shape, out of attribute values.

Lives here: messages as valid parts, instructions, tool definitions, choices. Not here: decoding an
attribute (`decoding.py`, whose names dialects also find here), and which attribute holds what (the
dialects). Nothing here raises on content; what cannot be read is said by the verdict.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

from otel_cassette.dialects.decoding import (
    ABSENT,
    JSON,
    Payload,
    decode_json,
    decode_value,
    plain,
    text_integrity,
    worst,
)
from otel_cassette.keys.masks import MEDIA_TYPES, holds_mask, is_whole_mask, media_placeholder
from otel_cassette.model.chat import content_parts, message_parts
from otel_cassette.model.entry import Integrity
from otel_cassette.model.llm import unwrap_tool

__all__ = [
    "ABSENT",
    "JSON",
    "Messages",
    "Payload",
    "answer_integrity",
    "decode_json",
    "decode_value",
    "forget_histories",
    "make_choice",
    "messages_of",
    "plain",
    "read_messages",
    "read_parts",
    "read_tools",
    "text_integrity",
    "valid_parts",
    "without_empty",
    "worst",
]


class Messages(NamedTuple):
    """Messages with valid parts.

    Attributes:
        items: `{"role", "parts", ...}`, plain JSON.
        integrity: `redacted` when all content was hidden, `partial` when some parts lost theirs (a
            mask in its place can still be compared), `absent` when there is no message.
    """

    items: list[dict[str, Any]]
    integrity: Integrity


class _Histories(threading.local):
    """The last conversations read in this thread: text without its closing bracket, messages."""

    def __init__(self) -> None:
        self.recent: list[tuple[str, list[dict[str, Any]]]] = []


_histories = _Histories()
_HISTORIES: Final = 8
_WORTH_KEEPING_CHARS: Final = 512


def read_messages(value: JSON, *, role: str = "user") -> Messages:
    """Read messages of any shape: a JSON string or a structured value, with parts or chat-shaped.

    An agent's requests repeat their history: of a text that goes on where one of the last ones
    ended, only what is new is read, and the messages before are the same objects. Treat them as
    frozen; `forget_histories` lets go of them.

    Args:
        value: A list of messages, one message, or text; None for none.
        role: Role of messages that do not say theirs, and of bare text.
    """
    if not isinstance(value, str) or len(value) < _WORTH_KEEPING_CHARS or value[-1:] != "]":
        return _decode_messages(value, role)
    recent = _histories.recent
    read = _continued(value, role)
    if read is None:
        read = _decode_messages(value, role)
    if read.integrity == "whole":
        recent.insert(0, (value[:-1], read.items))
        del recent[_HISTORIES:]
    return read


def _continued(text: str, role: str) -> Messages | None:
    """The messages of a text that goes on where a known one ended; None for any other."""
    recent = _histories.recent
    for place, (head, messages) in enumerate(recent):
        if not text.startswith(head):
            continue
        rest = text[len(head) :].lstrip()
        if rest == "]":
            new: list[dict[str, Any]] = []
        elif rest[:1] == ",":
            read = _decode_messages("[" + rest[1:], role)
            if read.integrity != "whole":
                return None
            new = read.items
        else:
            return None
        del recent[place]
        return Messages(messages + new, "whole")
    return None


def forget_histories() -> None:
    """Let go of the conversations that `read_messages` keeps for this thread."""
    _histories.recent.clear()


def _decode_messages(value: JSON, role: str) -> Messages:
    payload = decode_json(value)
    if payload.integrity != "whole":
        return Messages([], payload.integrity)
    return messages_of(payload.value, role=role)


def messages_of(value: JSON, *, role: str = "user") -> Messages:
    """As `read_messages`, for a value that is decoded already."""
    if isinstance(value, str):
        value = [{"role": role, "content": value}]
    elif isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, Sequence) or not value:
        return Messages([], "absent")
    items: list[dict[str, Any]] = []
    hidden = missing = shown_parts = 0
    for message in value:
        if isinstance(message, str):
            message = {"role": role, "content": message}  # noqa: PLW2901 - bare text is a message
        if not isinstance(message, Mapping):
            return Messages([], "suspect")
        given = message.get("parts")
        if type(given) is list and all(map(_is_plain, given)):
            shown_parts += len(given)
            items.append(_message(message, given, role))
            continue
        try:
            parts, lost, shown = _parts_of(message)
        except (AttributeError, KeyError, TypeError, ValueError):
            # Fields of the wrong type: what is read here comes from anywhere.
            return Messages([], "suspect")
        if not parts and message and _MESSAGE_KEYS.isdisjoint(message):
            return Messages([], "suspect")  # an object, but no message
        hidden += lost
        shown_parts += shown
        if lost:
            missing += lost - sum(map(_is_masked, parts))
        items.append(_message(message, parts, role))
    if hidden and not shown_parts:
        return Messages(items, "redacted")
    return Messages(items, "partial" if missing > 0 else "whole")


_MESSAGE_KEYS = frozenset({"role", "parts", "content", "tool_calls", "finish_reason"})


def _is_masked(part: Mapping[str, Any]) -> bool:
    content = part.get(_CONTENT_KEY.get(str(part.get("type")), ""))
    return isinstance(content, str) and is_whole_mask(content)


def _message(message: Mapping[str, Any], parts: list[dict[str, Any]], role: str) -> dict[str, Any]:
    given = message.get("role") or role
    item: dict[str, Any] = {"role": given if type(given) is str else str(given), "parts": parts}
    if len(message) == 2:
        return item
    for key in ("name", "finish_reason"):
        text = message.get(key)
        if isinstance(text, str) and text:
            item[key] = text
    return item


def _parts_of(message: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int, int]:
    """Return the parts, how many of them had lost their content, and how many kept it."""
    lost = 0
    if message.get("parts") is None:
        for call in message.get("tool_calls") or ():
            function = call.get("function", call) if isinstance(call, Mapping) else {}
            if (
                isinstance(function, Mapping)
                and not {"arguments", "args", "input"} & function.keys()
            ):
                lost += 1
        if message.get("role") in ("tool", "function") and "content" not in message:
            lost += 1
    parts, dropped, shown = valid_parts(message_parts(message))
    return parts, lost + dropped, max(shown - lost, 0)


def valid_parts(parts: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int, int]:
    """Return parts that the model of messages accepts, without null fields.

    Returns:
        The parts; how many had no content left (left out, or masked as a whole); how many had.
    """
    kept: list[dict[str, Any]] = []
    hidden = shown = 0
    for part in parts:
        if _is_plain(part):
            kept.append(part)
            shown += 1
            continue
        valid, lost = _valid_part(part)
        if valid is not None:
            kept.append(valid)
        hidden += lost
        shown += not lost
    return kept, hidden, shown


_TEXT_KEYS: Final = {"type", "content"}
_CALL_KEYS: Final = {"type", "id", "name", "arguments"}
_RESULT_KEYS: Final = {"type", "id", "response"}
_MASK_STARTS: Final = frozenset("*_[< \t\n")


def _is_plain(part: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a part is valid as it stands: nearly all are, and need no copy then."""
    if type(part) is not dict:
        return False
    kind, keys = part.get("type"), part.keys()
    if kind == "text" and keys == _TEXT_KEYS:
        content = part["content"]
        return type(content) is str and content[:1] not in _MASK_STARTS and content != ""
    if kind == "tool_call" and keys == _CALL_KEYS:
        arguments = part["arguments"]
        return (
            type(part["id"]) is str
            and type(part["name"]) is str
            and (type(arguments) is dict or (type(arguments) is str and arguments[:1] == "{"))
        )
    if kind == "tool_call_response" and keys == _RESULT_KEYS:
        response = part["response"]
        return (
            type(part["id"]) is str
            and type(response) in (str, dict)
            and not (type(response) is str and response[:1] in _MASK_STARTS)
        )
    return False


_CONTENT_KEY: Final[Mapping[str, str]] = {
    "text": "content",
    "reasoning": "content",
    "blob": "content",
    "uri": "uri",
    "file": "file_id",
    "tool_call": "arguments",
    "tool_call_response": "response",
}


_LABELS: Final = frozenset({"id", "name", "modality", "mime_type"})


def _valid_part(part: Mapping[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    kind = part.get("type")
    if not isinstance(kind, str):
        kind = "unknown"
    valid = {k: v for k, v in part.items() if v is not None}
    valid["type"] = kind
    for label in _LABELS & valid.keys():
        if not isinstance(valid[label], str):
            valid[label] = str(valid[label])
    key = _CONTENT_KEY.get(kind)
    if key is None:
        return valid, False
    if kind == "tool_call_response" and "response" not in part and "result" in part:
        valid.pop("result", None)
        valid["response"] = part["result"]
    if kind == "tool_call":
        name = part.get("name")
        valid["name"] = name if isinstance(name, str) else ""
    if key not in part and key not in valid:
        # A call or a result keeps its place, so that ids still join; an empty text is no part.
        return (valid if kind.startswith("tool_call") else None), True
    content = valid.get(key)
    if kind.startswith("tool_call"):
        return valid, isinstance(content, str) and is_whole_mask(content)
    if content is None or content == "":
        return None, False
    if not isinstance(content, str):
        valid[key] = content = json.dumps(content, ensure_ascii=False)
    stands_for_media = kind in MEDIA_TYPES and media_placeholder(valid)
    return valid, is_whole_mask(content) and not stands_for_media


def read_parts(value: JSON) -> tuple[list[dict[str, Any]], Integrity]:
    """Read system instructions: a JSON string or value of parts, or plain text."""
    if value is None:
        return [], "absent"
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{", '"'):
        payload = decode_json(value)
        if payload.integrity == "truncated":
            return [], "truncated"
        value = payload.value
    try:
        parts, hidden, shown = valid_parts(content_parts(plain(value)))
    except (AttributeError, KeyError, TypeError, ValueError):
        return [], "suspect"
    if hidden and hidden >= shown:
        return parts, "redacted"
    return parts, "whole" if parts else "absent"


def answer_integrity(choices: Sequence[Mapping[str, Any]]) -> Integrity:
    """Return the verdict on an answer's content: a mask that is a whole part spoils it."""
    verdict: Integrity = "whole"
    for choice in choices:
        for part in choice["message"].get("parts") or ():
            content = part.get("content", part.get("arguments"))
            if isinstance(content, str) and holds_mask(content):
                verdict = worst(verdict, "redacted" if is_whole_mask(content) else "suspect")
            elif isinstance(content, Mapping) and any(
                isinstance(v, str) and is_whole_mask(v) for v in content.values()
            ):
                verdict = worst(verdict, "redacted")
    return verdict


def make_choice(message: Mapping[str, Any], finish_reason: JSON = None) -> dict[str, Any]:
    """Return one choice from a message as `read_messages` gives it."""
    inner = {k: v for k, v in message.items() if k != "finish_reason"}
    reason = finish_reason or message.get("finish_reason")
    choice: dict[str, Any] = {"message": inner}
    if isinstance(reason, str) and reason:
        choice["finish_reason"] = reason
    return choice


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value: no None, no empty list, mapping or text."""
    return {
        k: v
        for k, v in fields.items()
        if v is not None and v is not False and not (isinstance(v, list | dict | str) and not v)
    }


_TOOL_LABELS: Final = frozenset({"type", "name", "description"})


def read_tools(value: JSON) -> Payload:
    """Read tool definitions: a JSON string or value, or a list of JSON strings."""
    payload = decode_json(value)
    if payload.integrity != "whole":
        return Payload([], payload.integrity)
    tools: list[dict[str, Any]] = []
    entries = payload.value if isinstance(payload.value, list) else [payload.value]
    for tool in entries:
        read = decode_json(tool).value if isinstance(tool, str) else tool
        if not isinstance(read, Mapping):
            return Payload([], "suspect")
        flat = {k: v for k, v in unwrap_tool(read).items() if v is not None}
        for label in _TOOL_LABELS & flat.keys():
            if not isinstance(flat[label], str):
                flat[label] = str(flat[label])
        tools.append({"type": "function", "name": "", **flat})
    return Payload(tools, "whole")
