"""Google generateContent, of the Gemini API and of Vertex AI.

Lives here: requests. Fields are accepted in camelCase (the wire) and in snake_case (the SDK's own
models, as instrumentations write them). Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_cassette.wire.params import ALIASES, merged_body, request_json, split_params
from otel_cassette.wire.shapes import message, tool_definitions, without_none

_PATH = re.compile(r"(?:^|/)([^/:]+):(generateContent|streamGenerateContent)$")
_FORMAT_FIELDS = (
    "response_mime_type",
    "response_schema",
    "response_json_schema",
)
_TAKEN = frozenset(
    {
        "model",
        "contents",
        "system_instruction",
        "tools",
        "tool_config",
        "generation_config",
        "config",
        *_FORMAT_FIELDS,
    }
)
_MODALITIES = frozenset({"image", "audio", "video"})


class GoogleGenerate:
    """Codec of `POST .../models/MODEL:generateContent` and `:streamGenerateContent`."""

    name = "google.generate"
    provider = "gcp.gemini"
    kind: Literal["llm"] = "llm"

    def matches(self, method: str, host: str, path: str) -> bool:  # noqa: ARG002 - any host
        """Return whether the request generates content, under any base URL."""
        return method.upper() == "POST" and _PATH.search(path.partition("?")[0]) is not None

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return whether the path asks for a stream: the body says nothing of it."""
        return (path or "").partition("?")[0].endswith(":streamGenerateContent")

    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON; the model is read from the path."""
        body = _snake_keys(merged_body(body))
        fields = dict(body)
        for group in ("generation_config", "config"):
            if isinstance(body.get(group), Mapping):
                fields.update(_snake_keys(body[group]))
        params, extra = split_params(fields, _TAKEN)
        in_path = _PATH.search((path or "").partition("?")[0])
        model = in_path.group(1) if in_path else fields.get("model")
        return request_json(
            operation="generate_content",
            provider="gcp.vertex_ai" if "/publishers/" in (path or "") else self.provider,
            model=model.removeprefix("models/") if isinstance(model, str) else None,
            system_instructions=_instructions(fields.get("system_instruction")),
            messages=content_messages(fields.get("contents")),
            tools=_tools(fields.get("tools")),
            tool_choice=_tool_choice(fields.get("tool_config")),
            response_format=without_none({k: fields.get(k) for k in _FORMAT_FIELDS}),
            params=params,
            extra=extra,
        )


def content_messages(contents: Any) -> list[dict[str, Any]]:
    """Return `contents` (a text, one content, or a list of them) as messages."""
    if isinstance(contents, str):
        return [message("user", [{"type": "text", "content": contents}])]
    if isinstance(contents, Mapping):
        contents = [contents]
    messages = []
    for item in contents or ():
        content = {"parts": [{"text": item}]} if isinstance(item, str) else item
        role = content.get("role") or "user"
        parts = content_part_list(content.get("parts"))
        messages.append(message("assistant" if role == "model" else role, parts))
    return messages


def content_part_list(parts: Any) -> list[dict[str, Any]]:
    """Return the `parts` of a content as parts of the GenAI schema."""
    if isinstance(parts, str | Mapping):
        parts = [parts]
    return [without_none(_part(p)) for p in parts or ()]


def _part(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "text", "content": value}
    part = without_none(_snake_keys(value))
    thought = part.pop("thought", False)
    for key, convert in _PARTS.items():
        if key in part:
            inner = part.pop(key)
            converted = convert(_snake_keys(inner) if isinstance(inner, Mapping) else inner)
            if thought and key == "text":
                converted["type"] = "reasoning"
            return {**converted, **part}
    return {"type": "unknown", **part}


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
    mime = blob.get("mime_type")
    rest = {"display_name": blob.get("display_name")}
    return {"type": "blob", **_media(mime), "content": blob.get("data") or "", **without_none(rest)}


def _file_data(file: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "uri", **_media(file.get("mime_type")), "uri": file.get("file_uri") or ""}


def _media(mime: Any) -> dict[str, Any]:
    kind = mime.partition("/")[0] if isinstance(mime, str) else ""
    return {"modality": kind if kind in _MODALITIES else "document", "mime_type": mime}


def _executable_code(code: Any) -> dict[str, Any]:
    return {"type": "server_tool_call", "name": "code_execution", "server_tool_call": code}


def _code_result(result: Any) -> dict[str, Any]:
    return {"type": "server_tool_call_response", "server_tool_call_response": result}


_PARTS: Mapping[str, Any] = {
    "text": _text,
    "function_call": _function_call,
    "function_response": _function_response,
    "inline_data": _inline_data,
    "file_data": _file_data,
    "executable_code": _executable_code,
    "code_execution_result": _code_result,
}


def _instructions(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, Mapping) and "parts" in value:
        value = value["parts"]
    if isinstance(value, list):
        return [q for p in value for q in _instructions(p)]
    return content_part_list(value)


def _tools(tools: Any) -> list[dict[str, Any]]:
    flat: list[Any] = []
    for tool in tools or ():
        for key, value in _snake_keys(tool).items():
            if key == "function_declarations":
                flat += [_declaration(d) for d in value or ()]
            elif value is not None:
                settings = value if isinstance(value, Mapping) else {"value": value}
                flat.append({**settings, "type": key, "name": key})
    return tool_definitions(flat)


def _declaration(value: Mapping[str, Any]) -> dict[str, Any]:
    # Only the declaration's own keys: those inside its schema are names of the user's parameters.
    return _snake_keys(value)


def _tool_choice(config: Any) -> Any:
    if not isinstance(config, Mapping):
        return None
    config = _snake_keys(config)
    calling = config.get("function_calling_config")
    if not isinstance(calling, Mapping) or len(without_none(config)) > 1:
        return without_none(config) or None
    calling = without_none(_snake_keys(calling))
    mode = str(calling.get("mode", "auto")).lower()
    names = calling.get("allowed_function_names") or []
    if mode == "any" and len(names) == 1:
        return {"type": "function", "name": names[0]}
    return mode if not names else {"type": mode, "allowed_function_names": names}


def _snake_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with its own keys in snake_case; the values are left alone."""
    return {snake(k): v for k, v in value.items()}


def snake(name: str) -> str:
    """Return a camelCase name in snake_case; names of parameters by their table."""
    return ALIASES.get(name) or _BOUNDARY.sub(lambda m: "_" + m.group().lower(), name)


_BOUNDARY = re.compile(r"(?<=[a-z0-9])[A-Z]")

CODEC = GoogleGenerate()
