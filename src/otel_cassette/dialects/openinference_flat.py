"""OpenInference's flattened attributes: `llm.input_messages.3.message.role` and the like.

Lives here: reading indexed attributes back into messages, tools, documents and embeddings, and
telling which of them an attribute limit took or cut. Not here: the JSON copies in `input.value`
and `output.value` (`openinference_llm.py`).

Source: OpenInference semantic conventions
(https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from otel_cassette.dialects import payload
from otel_cassette.keys.masks import CUT
from otel_cassette.model.chat import media_part, tool_call_part
from otel_cassette.model.entry import Integrity

_TOOL_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)"')
_ROLES = {"model": "assistant", "tool-call": "assistant", "tool-response": "user"}


class FlatMessages(NamedTuple):
    """Messages read from indexed attributes.

    Attributes:
        items: `{"role", "parts"}`, in order of their index; parts that were cut say `"cut": true`.
        integrity: `truncated` when messages were cut or evicted, `absent` when there is none.
        is_tail: Messages before the first of `items` are missing.
    """

    items: list[dict[str, Any]]
    integrity: Integrity
    is_tail: bool = False


def indexed(fields: Mapping[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """Return the fields below `prefix.N.` by N, in order, their keys without it.

    Args:
        fields: Attributes, or a group that this function returned.
        prefix: Without the final dot.
    """
    groups: dict[int, dict[str, Any]] = {}
    start = len(prefix) + 1
    head = prefix + "."
    for key, value in fields.items():
        if key.startswith(head):
            number, _, rest = key[start:].partition(".")
            if rest and number.isdecimal() and number.isascii():
                groups.setdefault(int(number), {})[rest] = value
    return dict(sorted(groups.items()))


def read_messages(
    attributes: Mapping[str, Any],
    prefix: str,
    *,
    evicted: bool = False,
    cut_lengths: Collection[int] = (),
) -> FlatMessages:
    """Read the messages below *prefix*.

    The attribute count limit evicts the oldest keys first. Of a message that lost its role, which
    is written first, more may be lost: it is left out.

    Args:
        attributes: Of the span.
        prefix: `llm.input_messages` or `llm.output_messages`.
        evicted: The span lost attributes, those before the messages among them.
        cut_lengths: Lengths at which values of this span are known to be cut.
    """
    groups = list(indexed(attributes, prefix).items())
    if not groups:
        return FlatMessages([], "absent")
    verdict: Integrity = "whole"
    first_index, first = groups[0]
    is_tail = evicted and (first_index > 0 or "message.role" not in first)
    if is_tail:
        verdict = "truncated"
        if "message.role" not in first:
            groups = groups[1:]
    items = []
    for _, fields in groups:
        verdict = payload.worst(verdict, _fields_integrity(fields, cut_lengths))
        items.append(read_message(fields, cut_lengths))
    if _all_hidden(items):
        verdict = "redacted"
    return FlatMessages(items, verdict, is_tail)


def _all_hidden(items: list[dict[str, Any]]) -> bool:
    _, hidden, shown = payload.valid_parts(p for m in items for p in m["parts"])
    return bool(hidden) and hidden >= shown


def _fields_integrity(fields: Mapping[str, Any], cut_lengths: Collection[int]) -> Integrity:
    verdict: Integrity = "whole"
    for key, value in fields.items():
        if not isinstance(value, str):
            continue
        if is_cut(value, cut_lengths):
            return "truncated"
        if key.endswith("function.arguments"):
            found = payload.decode_json(value).integrity
            verdict = payload.worst(verdict, found if found == "truncated" else "whole")
        elif key.endswith((".content", ".text")):
            found = payload.text_integrity(value)
            verdict = payload.worst(verdict, found if found != "redacted" else "whole")
    return verdict


def is_cut(text: str, cut_lengths: Collection[int]) -> bool:
    """Return whether *text* has a length, in characters or bytes, at which values are cut."""
    if not cut_lengths:
        return False
    return len(text) in cut_lengths or len(text.encode("utf-8", "surrogatepass")) in cut_lengths


def text_of(fields: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of the fields that is a text and not empty."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def read_message(fields: Mapping[str, Any], cut_lengths: Collection[int] = ()) -> dict[str, Any]:
    """Return one message, given its fields (`message.role`, ...), as role and parts."""
    role = text_of(fields, "message.role") or "user"
    role = _ROLES.get(role, role)
    parts = _content(fields, cut_lengths)
    call_id = text_of(fields, "message.tool_call_id")
    if role in ("tool", "function") or call_id is not None:
        texts = [p.get("content") or "" for p in parts if p.get("type") == "text"]
        result: dict[str, Any] = {"type": "tool_call_response", "id": call_id}
        result["response"] = "\n".join(texts)
        if any(p.get("cut") for p in parts):
            result["cut"] = True
        return {"role": "tool", "parts": payload.valid_parts([result])[0]}
    seen = {p.get("id") for p in parts if p.get("type") == "tool_call"}
    for call in indexed(fields, "message.tool_calls").values():
        part = _tool_call(call, cut_lengths)
        if part.get("id") is None or part["id"] not in seen:
            parts.append(part)
    legacy = fields.get("message.function_call_name")
    if isinstance(legacy, str):
        arguments = fields.get("message.function_call_arguments_json")
        parts.append({"type": "tool_call", "name": legacy, "arguments": arguments})
    return {"role": role, "parts": payload.valid_parts(parts)[0]}


def _content(fields: Mapping[str, Any], cut_lengths: Collection[int]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in indexed(fields, "message.contents").values():
        parts += _block(block, cut_lengths)
    text = fields.get("message.content")
    # Some instrumentations write a text both ways.
    if isinstance(text, str) and not any(p["type"] == "text" for p in parts):
        parts.insert(0, _text("text", text, cut_lengths))
    return parts


def _text(kind: str, text: str, cut_lengths: Collection[int]) -> dict[str, Any]:
    part: dict[str, Any] = {"type": kind, "content": text}
    if is_cut(text, cut_lengths):
        part["cut"] = True
    return part


def _block(block: Mapping[str, Any], cut_lengths: Collection[int]) -> list[dict[str, Any]]:
    kind = text_of(block, "message_content.type")
    if kind == "tool_use" or any(k.startswith("tool_call.") for k in block):
        return [_tool_call(block, cut_lengths)]
    url = text_of(block, "message_content.image.image.url")
    if url is not None:
        return [media_part("image", url)]
    text = text_of(block, "message_content.text")
    if kind == "reasoning":
        signature = text_of(block, "message_content.signature")
        return [{"type": "reasoning", "content": text or "", "signature": signature}]
    if text is not None:
        return [_text("text", text, cut_lengths)]
    rest = {k.removeprefix("message_content."): v for k, v in block.items()}
    return [{**rest, "type": kind}] if kind is not None and kind != "text" else []


def _tool_call(fields: Mapping[str, Any], cut_lengths: Collection[int]) -> dict[str, Any]:
    arguments = text_of(fields, "tool_call.function.arguments")
    if arguments is not None and is_cut(arguments, cut_lengths):
        arguments += CUT
    return tool_call_part(
        {
            "id": text_of(fields, "tool_call.id"),
            "name": text_of(fields, "tool_call.function.name"),
            "arguments": arguments,
        }
    )


class FlatTools(NamedTuple):
    """Tool definitions; `names_only` when their schemas were cut, none when a name was cut too."""

    items: list[dict[str, Any]]
    names_only: bool
    integrity: Integrity


def read_tools(attributes: Mapping[str, Any]) -> FlatTools:
    """Read `llm.tools.N.tool.json_schema`; of a schema that was cut, the name is kept."""
    items: list[dict[str, Any]] = []
    names_only = False
    groups = indexed(attributes, "llm.tools")
    for fields in groups.values():
        read = payload.decode_json(fields.get("tool.json_schema"))
        if isinstance(read.value, Mapping):
            items.append({k: v for k, v in read.value.items() if v is not None})
            continue
        name = fields.get("tool.name")
        if name is None and isinstance(read.value, str):
            found = _TOOL_NAME.search(read.value)
            name = found.group(1) if found else None
        if isinstance(name, str):
            names_only = True
            items.append({"name": name})
    if names_only:
        items = [{"name": tool_name(t)} for t in items]
    if len(items) < len(groups):
        return FlatTools([], names_only=False, integrity="truncated")
    verdict: Integrity = "truncated" if names_only else "whole"
    return FlatTools(items, names_only, verdict if items else "absent")


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool definition, with or without its `function` wrapper."""
    function = tool.get("function")
    name = (function if isinstance(function, Mapping) else tool).get("name")
    return name if isinstance(name, str) else ""


def read_documents(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return `retrieval.documents.N.document.*` as `{"id", "content", "score", "metadata"}`."""
    documents = []
    for fields in indexed(attributes, "retrieval.documents").values():
        document: dict[str, Any] = {}
        for key in ("id", "content", "score", "metadata"):
            value = fields.get(f"document.{key}")
            if value is not None:
                document[key] = payload.decode_json(value).value if key == "metadata" else value
        documents.append(document)
    return documents


def read_embeddings(attributes: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the texts and the vectors of `embedding.embeddings.N.embedding.*`."""
    groups = indexed(attributes, "embedding.embeddings").values()
    texts = [g["embedding.text"] for g in groups if isinstance(g.get("embedding.text"), str)]
    vectors = [
        list(g["embedding.vector"])
        for g in groups
        if isinstance(g.get("embedding.vector"), list | tuple)
    ]
    return texts, vectors


_USAGE = {
    "prompt": "input_tokens",
    "completion": "output_tokens",
    "prompt_details.cache_read": "cache_read.input_tokens",
    "prompt_details.cache_write": "cache_creation.input_tokens",
    "completion_details.reasoning": "reasoning.output_tokens",
}


def read_usage(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `llm.token_count.*` by the GenAI names; details that are 0 are left out."""
    usage: dict[str, Any] = {}
    for key, name in _USAGE.items():
        count = attributes.get(f"llm.token_count.{key}")
        if isinstance(count, int) and (count or "." not in name):
            usage[name] = count
    return usage
