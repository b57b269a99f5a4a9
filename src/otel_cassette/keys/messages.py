"""Messages in canonical form: what differs only in how a source writes it becomes equal.

Lives here: messages and system instructions to turns. Not here: the other fields of a request
(`fields.py`). Each rule has a number in docs/normalisation.md, which says what it is for.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from otel_cassette.keys.masks import CUT, MEDIA_TYPES, PLACEHOLDER_PART, media_placeholder
from otel_cassette.model.chat import content_parts, message_parts
from otel_cassette.model.plain import strict_json

JSON = Any
_ROLES = {
    "developer": "system",
    "model": "assistant",
    "ai": "assistant",
    "human": "user",
    "function": "tool",
    "tool-call": "assistant",
    "tool-response": "user",
}
_MERGED_ROLES = frozenset({"assistant", "user"})
# What a part says beside its content, and a model answers otherwise for: Gemini's cut of a video,
# its resolution, the media of a tool's result; Anthropic's context of a document.
_DETAILS = ("context", "media_resolution", "parts", "video_metadata")
_BEGINS_ANSWER = ("prefix", "partial")  # DeepSeek's and Mistral's, Qwen's


def json_or_text(text: str) -> JSON:
    """Return the JSON value that *text* holds, or *text* where it holds none (rules 1, 5)."""
    head = text.lstrip()[:1]
    if not head or head not in '{["-0123456789tfn':
        return text
    try:
        value = strict_json(text)
    except (ValueError, RecursionError):
        return text
    if type(value) in _NUMBERS and json.dumps(value) != text.strip():
        return text  # a version (1.10) or a hash (120e3): not what a writer of numbers makes
    return value


_NUMBERS = (int, float)


def canonical_arguments(arguments: JSON) -> JSON:
    """Return a tool call's arguments as a value: string and object are one, nothing is {} (rule 1)."""
    if arguments is None or arguments == "":
        return {}
    return json_or_text(arguments) if isinstance(arguments, str) else arguments


def canonical_result(result: JSON) -> JSON:
    """Return a tool's result as a value: text blocks are their text, JSON text is its value (rule 5)."""
    if isinstance(result, list) and result and all(_is_text_block(b) for b in result):
        result = "\n".join(b["text"] if "text" in b else b["content"] for b in result)
    if isinstance(result, str):
        result = json_or_text(result)
    if isinstance(result, dict) and len(result) == 1:
        return result.get("error", result.get("return_value", result))
    return result


def _is_text_block(block: JSON) -> bool:
    if not isinstance(block, dict) or block.get("type", "text") not in (
        "text",
        "input_text",
        "output_text",
    ):
        return False
    return isinstance(block.get("text", block.get("content")), str)


def canonical_messages(
    system: Iterable[Mapping[str, Any]] | str | None, messages: Iterable[Mapping[str, Any]]
) -> tuple[JSON, list[dict[str, Any]]]:
    """Return the system instructions and the turns of a request.

    Args:
        system: Instructions given beside the messages, as parts or text.
        messages: Messages with parts, or chat-shaped.

    Returns:
        The instructions (a text, parts where they hold more than text, None where there are none),
        and turns `{"parts", "role"}`: each tool result is a turn of its own, consecutive turns of
        one speaker are one, calls are numbered by first appearance.
    """
    lead = [p for p in map(_part, content_parts(system)) if p is not None]
    turns: list[dict[str, Any]] = []
    leading = True
    for message in messages:
        role = message.get("role") or "user"
        role = _ROLES.get(role, role)
        parts = message.get("parts")
        if parts is None:
            parts = message_parts(message)
        if leading and role == "system":
            lead += [p for p in map(_part, parts) if p is not None]
            continue
        leading = False
        _append(turns, role, parts)
        if turns and turns[-1]["role"] == role == "assistant" and _is_begun(message):
            turns[-1]["prefix"] = True
    for turn in turns:
        _settle(turn)
    return _instructions(lead), _link(turns)


def _is_begun(message: Mapping[str, Any]) -> bool:
    return any(message.get(name) is True for name in _BEGINS_ANSWER)


def _instructions(parts: list[dict[str, Any]]) -> JSON:
    joined = _join_text(parts)
    if not joined:
        return None
    if len(joined) == 1 and joined[0]["type"] == "text":
        return joined[0]["content"]
    return joined


def _append(turns: list[dict[str, Any]], role: str, parts: Iterable[Any]) -> None:
    """Add a message's parts as turns: results apart (rule 4), one speaker's turns as one (rule 9)."""
    current: dict[str, Any] | None = None
    if turns and turns[-1]["role"] == role and role in _MERGED_ROLES:
        current = turns[-1]
    for raw in parts:
        part = _part(raw)
        if part is None:
            continue
        if part["type"] == "tool_call_response":
            turns.append({"parts": [part], "role": "tool"})
            current = None
            continue
        if current is None:
            current = {"parts": [], "role": "user" if role == "tool" else role}
            turns.append(current)
        current["parts"].append(part)


def _settle(turn: dict[str, Any]) -> None:
    """Order and join the parts of one turn: text before calls (rule 7), texts joined (rule 10)."""
    parts = turn["parts"]
    if len(parts) == 1:
        return
    if turn["role"] == "assistant":
        calls = [p for p in parts if p["type"] == "tool_call"]
        if calls:
            parts = [p for p in parts if p["type"] != "tool_call"]
            turn["parts"] = _join_text(parts) + calls
            return
    turn["parts"] = _join_text(parts)


def _join_text(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "text" and joined and joined[-1]["type"] == "text":
            joined[-1] = {"content": f"{joined[-1]['content']}\n{part['content']}", "type": "text"}
        else:
            joined.append(part)
    return joined


def _part(part: Mapping[str, Any] | str) -> dict[str, Any] | None:
    """Return one part in canonical form; None where it says nothing (rules 8, 12, 13)."""
    if isinstance(part, str):
        return {"content": part, "type": "text"} if part else None
    kind = part.get("type")
    if kind == "text":
        content = part.get("content")
        if not content:
            return None
        if part.get("cut"):
            content = f"{content}{CUT}"
        return {"content": content, "type": "text"}
    if kind == "tool_call":
        return {
            "arguments": canonical_arguments(part.get("arguments")),
            "id": part.get("id"),
            "name": part.get("name") or "",
            "type": "tool_call",
        }
    if kind == "tool_call_response":
        result = part.get("response", part.get("result"))
        is_cut = part.get("cut") and isinstance(result, str)
        return {
            "id": part.get("id"),
            "name": part.get("name"),
            "response": f"{result}{CUT}" if is_cut else canonical_result(result),
            "type": "tool_call_response",
            **_details(part),
        }
    if kind == "reasoning":
        content = part.get("content")
        return {"content": content, "type": "reasoning"} if content else None
    if media_placeholder(dict(part)):
        return dict(PLACEHOLDER_PART)
    if kind in MEDIA_TYPES:
        return {**_media(part), **_details(part)}
    kept = {k: v for k, v in part.items() if v is not None and k not in ("id", "cache_control")}
    if kind == "item_reference" or (kind == "image_generation_call" and not part.get("result")):
        kept["id"] = part.get("id")  # a reference is nothing but the id of what it refers to
    return kept


def _details(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part[name] for name in _DETAILS if part.get(name)}


def _media(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return media as type, mime type and content: how it was sent does not matter (rule 12)."""
    kind = part["type"]
    if kind == "file":
        return {"file_id": part.get("file_id"), "type": "file"}
    uri = part.get("uri")
    if kind == "uri" and isinstance(uri, str) and uri.startswith("data:") and "," in uri:
        head, _, data = uri[5:].partition(",")
        part = {"mime_type": head.split(";", 1)[0], "content": data}
        if not head.lower().endswith(";base64"):
            part["encoding"] = "url"
    elif kind == "uri":
        return {"type": "uri", "uri": uri}
    content = part.get("content")
    if part.get("encoding") == "url" and isinstance(content, str):
        content = _as_base64(unquote_to_bytes(content.encode("utf-8", "surrogatepass")))
    elif part.get("encoding") == "text" and isinstance(content, str):
        content = _as_base64(content.encode("utf-8", "surrogatepass"))
    media = {"content": content, "type": "blob"}
    if part.get("mime_type"):
        media["mime_type"] = part["mime_type"]
    return media


def _as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _link(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number calls by first appearance (rule 11) and order results as their calls (rule 6)."""
    numbers: dict[str, int] = {}
    waiting: dict[int, str] = {}
    count = 0
    at = 0
    while at < len(turns):
        turn = turns[at]
        if turn["role"] != "tool":
            for part in turn["parts"]:
                if part["type"] == "tool_call":
                    if part["id"] is not None:
                        numbers[part["id"]] = count
                    part["id"] = f"#{count}"
                    waiting[count] = part["name"]
                    count += 1
            at += 1
            continue
        end = at
        while end < len(turns) and turns[end]["role"] == "tool":
            end += 1
        turns[at:end] = _order_results(turns[at:end], numbers, waiting)
        at = end
    return turns


def _order_results(
    results: list[dict[str, Any]], numbers: Mapping[str, int], waiting: dict[int, str]
) -> list[dict[str, Any]]:
    """Return consecutive results by the number of their call.

    Without an id it is the next open call of the result's name, or the next one (rule 11).
    """
    numbered: list[tuple[int, int, dict[str, Any]]] = []
    open_results: list[tuple[int, dict[str, Any], str | None]] = []
    for place, turn in enumerate(results):
        part = turn["parts"][0]
        name = part.pop("name")
        number = numbers.get(part["id"]) if part["id"] is not None else None
        if number is None:
            open_results.append((place, turn, name))
            continue
        waiting.pop(number, None)
        numbered.append((number, place, turn))
    unnamed: list[tuple[int, dict[str, Any]]] = []
    for place, turn, name in open_results:
        number = next((n for n, called in waiting.items() if called == name), None)
        if number is None:
            unnamed.append((place, turn))
            continue
        del waiting[number]
        numbered.append((number, place, turn))
    for place, turn in unnamed:
        number = next(iter(waiting), len(numbered) + place)
        waiting.pop(number, None)
        numbered.append((number, place, turn))
    for number, _, turn in numbered:
        turn["parts"][0]["id"] = f"#{number}"
    return [turn for _, _, turn in sorted(numbered, key=lambda row: row[:2])]
