"""Chat-shaped messages and content blocks as OTel GenAI parts.

Lives here: the one mapping from `{"role", "content", "tool_calls"}` messages and from the content
blocks of the providers (OpenAI chat and Responses, Anthropic, Bedrock-like `{"text": ...}`) to
parts of the OTel GenAI message schema. Plain dicts in, plain dicts out. Not here: whole request
bodies (`wire/`) and what makes two messages equal (`keys/`).

Source: OTel GenAI semantic conventions, input and output message JSON schemas
(https://github.com/open-telemetry/semantic-conventions/tree/main/docs/gen-ai).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PART_TYPES = frozenset(
    {
        "text",
        "tool_call",
        "tool_call_response",
        "reasoning",
        "blob",
        "file",
        "uri",
        "server_tool_call",
        "server_tool_call_response",
    }
)

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text"})
_TOOL_ROLES = frozenset({"tool", "function"})


def message_parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message given as parts or chat-shaped.

    Args:
        message: With `parts`, or with `content` (text or blocks), `tool_calls`, `function_call`,
            `tool_call_id`, `refusal`, `reasoning_content`.

    Returns:
        New part dicts: reasoning first, then the content in its order, then the tool calls.
    """
    if message.get("parts") is not None:
        return [part for block in message["parts"] for part in block_parts(block)]
    content = message.get("content")
    if message.get("tool_call_id") is not None or message.get("role") in _TOOL_ROLES:
        blocks = content if isinstance(content, list) else []
        if not any(isinstance(b, Mapping) and b.get("type") == "tool_result" for b in blocks):
            return [_tool_response(message)]
    parts: list[dict[str, Any]] = []
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        parts.append({"type": "reasoning", "content": reasoning})
    parts += content_parts(content)
    if message.get("refusal"):
        parts.append({"type": "refusal", "content": message["refusal"]})
    if isinstance(message.get("audio"), Mapping) and message["audio"].get("id"):
        parts.append({"type": "file", "modality": "audio", "file_id": message["audio"]["id"]})
    parts += [tool_call_part(call) for call in message.get("tool_calls") or ()]
    if isinstance(message.get("function_call"), Mapping):
        parts.append(tool_call_part(message["function_call"]))
    return parts


def content_parts(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a message's `content`: text, one block, a list of blocks, or None."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    if isinstance(content, Mapping):
        return block_parts(content)
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return [part for block in content for part in block_parts(block)]
    return [{"type": "text", "content": str(content)}]


def block_parts(block: Any) -> list[dict[str, Any]]:
    """Return one content block, or one part, as parts; unknown blocks stay as they are."""
    if isinstance(block, str):
        return [{"type": "text", "content": block}]
    if not isinstance(block, Mapping):
        return [{"type": "text", "content": str(block)}]
    kind = block.get("type")
    if kind in _TEXT_TYPES and "content" in block and "text" not in block:
        return [{**block, "type": "text"}]
    if kind in _TEXT_TYPES and "text" in block:
        rest = {k: v for k, v in block.items() if k not in ("type", "text")}
        return [{"type": "text", "content": block["text"], **rest}]
    if kind is None:
        return _untyped(block)
    convert = _BLOCKS.get(kind) if isinstance(kind, str) else None
    return convert(block) if convert else [dict(block)]


def tool_call_part(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call of any chat shape as a `tool_call` part; arguments stay as they are."""
    function = call.get("function") or call.get("custom")
    inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
    for key in ("arguments", "args", "input"):
        if key in inner:
            arguments = inner[key]
            break
    else:
        arguments = None
    part: dict[str, Any] = {"type": "tool_call"}
    call_id = call.get("id") or call.get("call_id") or call.get("tool_call_id")
    if call_id is not None:
        part["id"] = call_id
    part["name"] = inner.get("name") or call.get("tool_name") or ""
    part["arguments"] = arguments
    return part


def _tool_response(message: Mapping[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_call_response"}
    if message.get("tool_call_id") is not None:
        part["id"] = message["tool_call_id"]
    if message.get("role") == "function" and message.get("name"):
        part["name"] = message["name"]
    part["response"] = message.get("content")
    return part


def _untyped(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    if isinstance(block.get("text"), str):
        return [{"type": "text", "content": block["text"]}]
    if isinstance(block.get("content"), str) and len(block) == 1:
        return [{"type": "text", "content": block["content"]}]
    use, result = block.get("toolUse"), block.get("toolResult")
    if isinstance(use, Mapping):
        return _tool_use({"id": use.get("toolUseId"), **use})
    if isinstance(result, Mapping):
        return _tool_result({"tool_use_id": result.get("toolUseId"), **result})
    return [{"type": "unknown", **block}]


def _tool_use(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [tool_call_part(block)]


def _tool_result(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    part: dict[str, Any] = {"type": "tool_call_response"}
    if block.get("tool_use_id") is not None:
        part["id"] = block["tool_use_id"]
    part["response"] = block.get("content")
    if block.get("is_error"):
        part["is_error"] = True
    return [part]


def _thinking(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    rest = {k: v for k, v in block.items() if k not in ("type", "thinking", "data")}
    text = block.get("thinking") or ""
    if block.get("data") is not None:
        rest["redacted"] = block["data"]
    return [{"type": "reasoning", "content": text, **rest}]


def _reasoning(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "content" in block and not isinstance(block["content"], list):
        return [dict(block)]
    texts = [t for key in ("summary", "content") for t in content_parts(block.get(key))]
    text = "\n".join(t.get("content") or "" for t in texts)
    rest = {k: v for k, v in block.items() if k not in ("type", "summary", "content")}
    return [{"type": "reasoning", "content": text, **rest}]


def _image_url(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    image = block.get("image_url")
    if isinstance(image, Mapping):
        rest = {k: v for k, v in image.items() if k != "url"}
        return [{**media_part("image", image.get("url")), **rest}]
    if image is None and block.get("file_id"):
        return [{"type": "file", "modality": "image", "file_id": block["file_id"]}]
    return [media_part("image", image)]


def _input_audio(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    audio = block.get("input_audio")
    audio = audio if isinstance(audio, Mapping) else {}
    mime = f"audio/{audio['format']}" if audio.get("format") else None
    return [
        {"type": "blob", "modality": "audio", "mime_type": mime, "content": audio.get("data") or ""}
    ]


def _file(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    inner = block.get("file")
    inner = inner if isinstance(inner, Mapping) else block
    rest = {k: inner[k] for k in ("filename",) if inner.get(k)}
    if inner.get("file_data"):
        return [{**media_part("document", inner["file_data"]), **rest}]
    if inner.get("file_url"):
        return [{**media_part("document", inner["file_url"]), **rest}]
    if inner.get("file_id"):
        modality = block.get("modality") or "document"
        return [{"type": "file", "modality": modality, "file_id": inner["file_id"], **rest}]
    return [dict(block)]


def _source(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    source = block.get("source")
    if not isinstance(source, Mapping):
        return [dict(block)]
    modality = str(block["type"])
    mime = source.get("media_type")
    kind = source.get("type")
    if kind == "url":
        part = {"type": "uri", "modality": modality, "mime_type": mime, "uri": source.get("url")}
    elif kind == "file":
        part = {"type": "file", "modality": modality, "file_id": source.get("file_id")}
    elif kind == "text":
        part = {
            "type": "blob",
            "modality": modality,
            "mime_type": mime or "text/plain",
            "content": source.get("data") or "",
            "encoding": "text",
        }
    elif kind == "base64":
        part = {
            "type": "blob",
            "modality": modality,
            "mime_type": mime,
            "content": source.get("data") or "",
        }
    else:
        return [dict(block)]
    part.update({k: block[k] for k in ("title", "context") if block.get(k)})
    return [part]


def _server_tool(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    payload = block.get("input", block.get("content"))
    response = str(block["type"]).endswith("_result")
    part: dict[str, Any] = {"type": "server_tool_call_response" if response else "server_tool_call"}
    call_id = block.get("id") or block.get("tool_use_id")
    if call_id is not None:
        part["id"] = call_id
    part["name"] = block.get("name") or block["type"]
    part[part["type"]] = payload
    return [part]


def media_part(modality: str, url: Any) -> dict[str, Any]:
    """Return a URL as a `uri` part, a `data:` URL as the `blob` part with the same content."""
    text = url if isinstance(url, str) else ""
    if not text.startswith("data:") or "," not in text:
        return {"type": "uri", "modality": modality, "mime_type": None, "uri": url}
    head, _, content = text[5:].partition(",")
    mime = head.split(";", 1)[0] or None
    part: dict[str, Any] = {"type": "blob", "modality": modality, "mime_type": mime}
    part["content"] = content
    if not head.lower().endswith(";base64"):
        part["encoding"] = "url"
    return part


_BLOCKS: Mapping[str, Any] = {
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _thinking,
    "reasoning": _reasoning,
    "image_url": _image_url,
    "input_image": _image_url,
    "input_audio": _input_audio,
    "file": _file,
    "input_file": _file,
    "image": _source,
    "document": _source,
    "server_tool_use": _server_tool,
    "web_search_tool_result": _server_tool,
    "code_execution_tool_result": _server_tool,
    "refusal": lambda b: [{"type": "refusal", "content": b.get("refusal", b.get("content"))}],
}
