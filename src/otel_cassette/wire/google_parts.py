"""Contents of Google's APIs as messages of the GenAI schema, and back.

Lives here: one `Content` and one `Part`, both ways, in camelCase or snake_case, and the body of an
error. Not here: requests
and answers as a whole (`google_generate.py`).

Source: https://ai.google.dev/api/caching#Content
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from otel_cassette.wire import answers
from otel_cassette.wire.params import ALIASES
from otel_cassette.wire.shapes import message, without_none

_MODALITIES = frozenset({"image", "audio", "video"})
_BOUNDARY = re.compile(r"(?<=[a-z0-9])[A-Z]")


def snake_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with its own keys in snake_case; the values are left alone."""
    return {snake(k): v for k, v in value.items()}


def snake(name: str) -> str:
    """Return a camelCase name in snake_case; names of parameters by their table."""
    return ALIASES.get(name) or _BOUNDARY.sub(lambda m: "_" + m.group().lower(), name)


def content_messages(contents: Any) -> list[dict[str, Any]]:
    """Return `contents` (a text, one content, or a list of them) as messages."""
    if isinstance(contents, str | Mapping):
        contents = [contents]
    return [content_message(c) for c in contents or ()]


def content_message(content: Any) -> dict[str, Any]:
    """Return one content as a message; the role `model` is the assistant's."""
    if not isinstance(content, Mapping):
        return message("user", part_list([content]))
    role = content.get("role") or "user"
    return message("assistant" if role == "model" else role, part_list(content.get("parts")))


def part_list(parts: Any) -> list[dict[str, Any]]:
    """Return the `parts` of a content as parts of the GenAI schema."""
    if isinstance(parts, str | Mapping):
        parts = [parts]
    return [without_none(_part(p)) for p in parts or ()]


def instruction_parts(value: Any) -> list[dict[str, Any]]:
    """Return system instructions (a text, a content, parts, or a list) as parts."""
    if isinstance(value, Mapping) and "parts" in value:
        value = value["parts"]
    if isinstance(value, list | tuple):
        return [q for p in value for q in instruction_parts(p)]
    return part_list(value)


def wire_part(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a part of an answer as this API's part; None for what the API has none for."""
    kind = part.get("type")
    signature = without_none({"thoughtSignature": part.get("thought_signature")})
    if kind in ("text", "refusal"):
        return {"text": part.get("content") or "", **signature}
    if kind == "reasoning":
        return {"text": part.get("content") or "", "thought": True, **signature}
    if kind == "tool_call":
        arguments = answers.arguments_value(part.get("arguments"))
        call = {
            "id": part.get("id"),
            "name": part.get("name") or "",
            # The API's arguments are an object; anything else cannot be said in it.
            "args": arguments if isinstance(arguments, dict) else {"arguments": arguments},
        }
        return {"functionCall": without_none(call), **signature}
    if kind == "blob":
        data = {"mimeType": part.get("mime_type"), "data": part.get("content")}
        return {"inlineData": without_none(data), **signature}
    if kind == "uri":
        data = {"mimeType": part.get("mime_type"), "fileUri": part.get("uri")}
        return {"fileData": without_none(data), **signature}
    if kind == "server_tool_call":
        return {"executableCode": part.get("server_tool_call")}
    if kind == "server_tool_call_response":
        return {"codeExecutionResult": part.get("server_tool_call_response")}
    return None


_ERROR_NAMES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def google_error(status: int, message: str) -> dict[str, Any]:
    """Return the error body of Google's APIs."""
    name = _ERROR_NAMES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    return {"error": {"code": status, "message": message, "status": name}}


def _part(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {"type": "text", "content": str(value)}
    part = without_none(snake_keys(value))
    thought = part.pop("thought", False)
    for key, convert in _PARTS.items():
        if key in part:
            inner = part.pop(key)
            converted = convert(snake_keys(inner) if isinstance(inner, Mapping) else inner)
            if thought and key == "text":
                converted["type"] = "reasoning"
            return {**part, **converted}
    return {**part, "type": "unknown"}


def _text(text: Any) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _function_call(call: Mapping[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in call.items() if k not in ("id", "name", "args")}
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": call.get("name") or "",
        "arguments": call.get("args"),
        **rest,
    }


def _function_response(result: Mapping[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in result.items() if k not in ("id", "name", "response")}
    return {
        "type": "tool_call_response",
        "id": result.get("id"),
        "name": result.get("name"),
        "response": result.get("response"),
        **rest,
    }


def _inline_data(blob: Mapping[str, Any]) -> dict[str, Any]:
    rest = without_none({"display_name": blob.get("display_name")})
    return {**_media("blob", blob.get("mime_type")), "content": blob.get("data") or "", **rest}


def _file_data(file: Mapping[str, Any]) -> dict[str, Any]:
    return {**_media("uri", file.get("mime_type")), "uri": file.get("file_uri") or ""}


def _media(part_type: str, mime: Any) -> dict[str, Any]:
    kind = mime.partition("/")[0] if isinstance(mime, str) else ""
    modality = kind if kind in _MODALITIES else "document"
    return {"type": part_type, "modality": modality, "mime_type": mime}


def _executable_code(code: Any) -> dict[str, Any]:
    return {"type": "server_tool_call", "name": "code_execution", "server_tool_call": code}


def _code_result(result: Any) -> dict[str, Any]:
    return {"type": "server_tool_call_response", "server_tool_call_response": result}


_PARTS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "text": _text,
    "function_call": _function_call,
    "function_response": _function_response,
    "inline_data": _inline_data,
    "file_data": _file_data,
    "executable_code": _executable_code,
    "code_execution_result": _code_result,
}
