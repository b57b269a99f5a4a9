"""Attribute values to request and response content, with a verdict on how whole they are.

Lives here: decoding a JSON attribute, telling cut, masked and missing content, messages of any
shape as valid parts, responses and usage. Not here: which attribute holds what (the dialects).
Nothing here raises on content; what cannot be read is said by the verdict.

Sources of the limits: the attribute limits that the OTel SDK, Grafana Tempo, Datadog, New Relic and
Azure Monitor document.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

import msgspec

from otel_cassette.keys.masks import MEDIA_TYPES, holds_mask, is_whole_mask, media_placeholder
from otel_cassette.model.chat import content_parts, message_parts
from otel_cassette.model.entry import Integrity
from otel_cassette.model.llm import unwrap_tool

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


class Messages(NamedTuple):
    """Messages with valid parts.

    Attributes:
        items: `{"role", "parts", ...}`, plain JSON.
        integrity: `redacted` when all content was hidden, `partial` when some parts lost theirs (a
            mask in its place can still be compared), `absent` when there is no message.
    """

    items: list[dict[str, Any]]
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
        hidden += lost
        shown_parts += shown
        if lost:
            missing += lost - sum(map(_is_masked, parts))
        items.append(_message(message, parts, role))
    if hidden and not shown_parts:
        return Messages(items, "redacted")
    return Messages(items, "partial" if missing > 0 else "whole")


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
