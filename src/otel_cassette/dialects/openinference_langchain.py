"""LangChain's own JSON, as OpenInference writes it to `input.value` and `output.value`.

Lives here: the `lc` constructors of messages, `LLMResult` generations, `ToolMessage` envelopes and
serialised documents. LangChain's flattened messages lose the list content of Responses models, so
this copy is read first. Not here: settings and tools, which stand in `llm.invocation_parameters`.

Source: `langchain_core.load.dump`, `langchain_core.outputs.LLMResult`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_cassette.dialects import payload
from otel_cassette.model.chat import content_parts, tool_call_part

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
    "developer": "developer",
}
# What a content list repeats beside its texts: calls stand in `tool_calls`.
_CALL_BLOCKS = frozenset({"tool_use", "function_call", "tool_call", "custom_tool_call"})


def is_prompt(value: Any) -> bool:
    """Return whether a decoded `input.value` is a batch of `lc` messages or of prompts."""
    if not isinstance(value, Mapping):
        return False
    messages = value.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[0], list):
        return all(isinstance(m, Mapping) for m in messages[0])
    prompts = value.get("prompts")
    return isinstance(prompts, list) and all(isinstance(p, str) for p in prompts)


def read_prompt(value: Mapping[str, Any]) -> payload.Messages:
    """Return the messages of `{"messages": [[...]]}` or `{"prompts": [...]}`.

    A span holds one prompt of a batch: only the first list is read.
    """
    prompts = value.get("prompts")
    if isinstance(prompts, list):
        return payload.messages_of(prompts[0] if prompts else None)
    return payload.messages_of([read_message(m) for m in value["messages"][0]])


def read_message(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message, as an `lc` constructor or as plain kwargs, as role and parts."""
    kwargs = value.get("kwargs")
    fields: Mapping[str, Any] = kwargs if isinstance(kwargs, Mapping) else value
    kind = str(fields.get("type") or _class_name(value))
    kind = kind.removesuffix("MessageChunk").removesuffix("Message").lower()
    role = _ROLES.get(kind) or fields.get("role") or "user"
    extra = fields.get("additional_kwargs")
    extra = extra if isinstance(extra, Mapping) else {}
    if role == "system" and extra.get("__openai_role__") == "developer":
        role = "developer"
    content = fields.get("content")
    if role in ("tool", "function"):
        call_id = fields.get("tool_call_id")
        part = {"type": "tool_call_response", "id": call_id, "response": content}
        return {"role": "tool", "parts": [part]}
    parts = [p for block in _blocks(content) for p in content_parts(block)]
    calls = fields.get("tool_calls") or extra.get("tool_calls") or ()
    broken = fields.get("invalid_tool_calls") or ()
    parts += [tool_call_part(c) for c in (*calls, *broken) if isinstance(c, Mapping)]
    return {"role": role, "parts": parts}


def _class_name(value: Mapping[str, Any]) -> str:
    path = value.get("id")
    return str(path[-1]) if isinstance(path, list) and path else ""


def _blocks(content: Any) -> list[Any]:
    if not isinstance(content, list):
        return [content]
    return [
        block
        for block in content
        if not (isinstance(block, Mapping) and block.get("type") in _CALL_BLOCKS)
    ]


def is_result(value: Any) -> bool:
    """Return whether a decoded `output.value` is an `LLMResult`."""
    generations = value.get("generations") if isinstance(value, Mapping) else None
    return isinstance(generations, list) and bool(generations) and isinstance(generations[0], list)


def read_result(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an `LLMResult` as the plain JSON of an `LLMResponse`, without `raw`."""
    choices = []
    facts: dict[str, Any] = {}
    for generation in value["generations"][0]:
        if not isinstance(generation, Mapping):
            continue
        message = generation.get("message")
        if not isinstance(message, Mapping):
            message = {"type": "ai", "content": generation.get("text")}
        kwargs = message.get("kwargs")
        fields = kwargs if isinstance(kwargs, Mapping) else message
        metadata = _mapping(fields.get("response_metadata"))
        info = _mapping(generation.get("generation_info"))
        finish = (
            info.get("finish_reason")
            or metadata.get("finish_reason")
            or metadata.get("stop_reason")
        )
        read = payload.messages_of([read_message({**message, "type": "ai"})], role="assistant")
        choices.append(payload.make_choice({**read.items[0], "role": "assistant"}, finish))
        facts = facts or {
            "id": _response_id(fields, metadata),
            "model": metadata.get("model_name") or metadata.get("model") or info.get("model_name"),
            "usage": _usage(_mapping(fields.get("usage_metadata"))),
        }
    output = _mapping(value.get("llm_output"))
    return payload.without_empty(
        {
            "id": facts.get("id") or output.get("id"),
            "model": facts.get("model") or output.get("model_name") or output.get("model"),
            "choices": choices,
            "usage": facts.get("usage"),
        }
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _response_id(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    own = fields.get("id")
    # LangChain makes ids of its runs where the provider's is not at hand.
    is_run = isinstance(own, str) and own.startswith(("lc_run-", "run-", "run--"))
    found = metadata.get("id") or (None if is_run else own)
    return found if isinstance(found, str) else None


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    read = {k: usage[k] for k in ("input_tokens", "output_tokens") if usage.get(k) is not None}
    inputs = _mapping(usage.get("input_token_details"))
    outputs = _mapping(usage.get("output_token_details"))
    details = {
        "cache_read.input_tokens": inputs.get("cache_read"),
        "cache_creation.input_tokens": inputs.get("cache_creation"),
        "reasoning.output_tokens": outputs.get("reasoning"),
    }
    return {**read, **{k: v for k, v in details.items() if v}}


def failure_facts(value: Any) -> tuple[int | None, Any]:
    """Return HTTP status and body that LangChain keeps of a provider's error answer."""
    if not is_result(value):
        return None, None
    for generation in value["generations"][0]:
        fields = _mapping(_mapping(_mapping(generation).get("message")).get("kwargs"))
        metadata = _mapping(fields.get("response_metadata"))
        status = metadata.get("status_code")
        if isinstance(status, int):
            return status, metadata.get("body")
    return None, None


def tool_message(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a `ToolMessage` envelope; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    data, kwargs = value.get("data"), value.get("kwargs")
    if value.get("type") == "tool" and isinstance(data, Mapping) and "content" in data:
        return data
    if value.get("lc") and isinstance(kwargs, Mapping) and kwargs.get("type") == "tool":
        return kwargs
    return None


def read_documents(value: Any) -> list[dict[str, Any]] | None:
    """Return serialised documents as `{"id", "content", "metadata"}`; None for anything else."""
    documents = value.get("documents") if isinstance(value, Mapping) else None
    if not isinstance(documents, list):
        return None
    if not all(isinstance(d, Mapping) and "page_content" in d for d in documents):
        return None
    return [
        {
            k: v
            for k, v in (
                ("id", d.get("id")),
                ("content", d["page_content"]),
                ("metadata", d.get("metadata")),
            )
            if v is not None
        }
        for d in documents
    ]
