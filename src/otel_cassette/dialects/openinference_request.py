"""The request of an OpenInference LLM span.

Lives here: where the request is read from, and which parts of it the span is known to hold. In
order: the provider's own body in `input.value`; LangChain's messages there; chat-shaped messages
there; the flattened `llm.input_messages`. Not here: the answer (`openinference_response.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_cassette.dialects import openinference_flat as flat
from otel_cassette.dialects import openinference_langchain as langchain
from otel_cassette.dialects import payload
from otel_cassette.dialects.openinference_source import Source
from otel_cassette.keys.scope import FULL_LLM
from otel_cassette.model.entry import Integrity
from otel_cassette.wire import (
    anthropic_messages,
    google_generate,
    openai_chat,
    openai_responses,
)
from otel_cassette.wire.params import split_params
from otel_cassette.wire.protocol import WireCodec
from otel_cassette.wire.shapes import tool_definitions

HIDDEN_INPUT = (
    "The inputs were hidden when this was recorded: unset OPENINFERENCE_HIDE_INPUTS and the other "
    "OPENINFERENCE_HIDE_* switches (TraceConfig hide_*)."
)
RAISE_LIMITS = (
    "An attribute limit cut this span: raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT (10000) and unset "
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT, or raise the backend's limit."
)

# Settings of a client or of a framework, which never go over the wire, and fields of their own.
_NOT_PARAMS = frozenset(
    {
        "messages",
        "model",
        "model_id",
        "previous_response_id",
        "response_format",
        "system",
        "tool_choice",
        "tools",
        "_type",
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "client",
        "custom_llm_provider",
        "default_request_timeout",
        "max_retries",
        "model_name",
        "num_retries",
        "request_timeout",
        "streaming",
    }
)
_WHOLE_LANGCHAIN = frozenset({"openai-chat", "azure-openai-chat", "anthropic-chat"})
_RESPONSES_ITEMS = frozenset(
    {"message", "function_call", "function_call_output", "reasoning", "item_reference"}
)
# An SDK call's keyword arguments, not all of the body: `extra_body` goes its own way there.
WITHOUT_EXTRA = FULL_LLM - {"extra"}


@dataclass(slots=True)
class Request:
    """What a span says of a request.

    Attributes:
        fields: Plain JSON of an `LLMRequest`.
        scope: Tokens of what was captured.
        integrity: Of the content.
        has_content: Some messages, or the input of an embedding, are there.
        notes: For the report.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    scope: set[str] = field(default_factory=set)
    integrity: Integrity = "absent"
    has_content: bool = False
    notes: list[str] = field(default_factory=list)


def read_request(source: Source) -> Request:
    """Return the request of an LLM span."""
    request = Request()
    codec = _provider_codec(source)
    if codec is not None and _read_body(source, codec, request):
        return request
    _read_messages(source, request)
    _read_settings(source, request)
    _read_tools(source, request)
    read_model(source, request)
    request.fields.setdefault("operation", "chat")
    provider = flat.text_of(source.attributes, "llm.provider", "llm.system")
    if provider is not None:
        request.fields["provider"] = provider.lower()
    request.fields["tools"] = tool_definitions(request.fields.get("tools"))
    request.fields = payload.without_empty(request.fields)
    return request


def _provider_codec(source: Source) -> WireCodec | None:
    """Return the codec of the provider's body in `input.value`, None when there is no such body.

    Told by the shape: a body names its model, LangChain and LiteLLM write the messages alone.
    """
    body = source.input.value
    if not isinstance(body, Mapping):
        return None
    contents = body.get("contents")
    if isinstance(contents, str | list | Mapping) and "model_name" not in body:
        return google_generate.CODEC
    if not isinstance(body.get("model"), str):
        return None
    messages = body.get("messages")
    if isinstance(messages, list):
        if not all(isinstance(m, Mapping) and "role" in m for m in messages):
            return None
        maker = flat.text_of(source.attributes, "llm.provider", "llm.system") or ""
        is_anthropic = source.library == "anthropic" or (
            not source.library and maker == "anthropic"
        )
        return anthropic_messages.CODEC if is_anthropic else openai_chat.CODEC
    if "input" in body or "previous_response_id" in body:
        return openai_responses.CODEC
    return None


def _read_body(source: Source, codec: WireCodec, request: Request) -> bool:
    """Read the provider's body; False when it has not the shape it seemed to have."""
    try:
        fields = codec.decode_request(source.input.value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        request.notes.append(f"input.value is no {codec.name} request ({error}); not used.")
        return False
    read = payload.messages_of(fields.get("messages"))
    if read.items:
        fields["messages"] = read.items
    request.fields = fields
    request.integrity = read.integrity
    request.has_content = bool(read.items)
    request.scope = set(FULL_LLM if codec is anthropic_messages.CODEC else WITHOUT_EXTRA)
    if codec is google_generate.CODEC:
        _mend_google(source, read.items)
        request.scope.discard("model")
        read_model(source, request)
    if _is_opaque(fields.get("response_format")):
        del fields["response_format"]
        request.scope.discard("response_format")
    return True


def _mend_google(source: Source, messages: list[dict[str, Any]]) -> None:
    """Put arguments and results as they were sent into the messages of Google's body.

    The instrumentation turns all keys of the body to snake case, those of arguments and results
    too; the flattened copy has them as they were.
    """
    flattened = flat.read_messages(source.attributes, "llm.input_messages")
    for kind, key in (("tool_call", "arguments"), ("tool_call_response", "response")):
        parts = [p for m in messages for p in m["parts"] if p["type"] == kind]
        others = [p for m in flattened.items for p in m["parts"] if p["type"] == kind]
        if len(parts) != len(others):
            continue
        for part, other in zip(parts, others, strict=True):
            sent = payload.decode_json(other.get(key))
            if isinstance(part.get(key), dict) and isinstance(sent.value, dict):
                part[key] = sent.value


def _is_opaque(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("<")


def _read_messages(source: Source, request: Request) -> None:
    value = source.input.value
    read = payload.Messages([], "absent")
    if langchain.is_prompt(value):
        read = langchain.read_prompt(value)
    elif isinstance(value, list | Mapping):
        read = _chat_messages(source, value)
    if read.items:
        request.fields["messages"] = read.items
        request.integrity, request.has_content = read.integrity, True
        request.scope |= {"messages", "system_instructions", "call_ids"}
        return
    _read_flattened(source, request)


def _chat_messages(source: Source, value: Any) -> payload.Messages:
    """Read a list of chat messages or of Responses items, or `{"messages": [...]}`."""
    nothing = payload.Messages([], "absent")
    messages = value.get("messages") if isinstance(value, Mapping) else value
    if not isinstance(messages, list) or not messages:
        return nothing
    if not all(isinstance(m, Mapping) and ("role" in m or "type" in m) for m in messages):
        return nothing
    if any(m.get("type") in _RESPONSES_ITEMS for m in messages) or _is_responses(source):
        read = payload.messages_of(openai_responses.input_messages(messages))
        instructions = _instructions(source, read.items)
        return payload.Messages([*instructions, *read.items], read.integrity)
    if source.library == "crewai":
        messages = [_unquoted(m) for m in messages]
    return payload.messages_of([_chat_fields(m) for m in messages])


_CHAT_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "refusal", "reasoning_content")


def _chat_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    return {k: message[k] for k in _CHAT_FIELDS if message.get(k) is not None}


def _is_responses(source: Source) -> bool:
    return source.library == "openai_agents" and source.span.name == "response"


def _instructions(source: Source, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the system message that only the flattened copy has: `instructions` of the request."""
    groups = flat.indexed(source.attributes, "llm.input_messages")
    if 0 not in groups or groups[0].get("message.role") != "system":
        return []
    given = sum(1 for m in items if m["role"] in ("system", "developer"))
    written = sum(1 for g in groups.values() if g.get("message.role") in ("system", "developer"))
    return [flat.read_message(groups[0], source.cut_lengths)] if written > given else []


def _unquoted(message: Mapping[str, Any]) -> dict[str, Any]:
    """CrewAI's event listener writes names and arguments of calls as Python reprs of strings."""
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            bare = {k: v[1:-1] if _is_quoted(v) else v for k, v in function.items()}
            calls.append({**call, "function": bare})
    return {**message, "tool_calls": calls} if calls else dict(message)


def _is_quoted(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == "'"


def _read_flattened(source: Source, request: Request) -> None:
    evicted = source.span.dropped_attributes > 0 and source.input.integrity == "absent"
    read = flat.read_messages(
        source.attributes,
        "llm.input_messages",
        evicted=evicted,
        cut_lengths=source.cut_lengths,
    )
    if read.items:
        items = (
            [_unquoted_parts(m) for m in read.items] if source.library == "crewai" else read.items
        )
        request.fields["messages"] = items
        request.integrity, request.has_content = read.integrity, True
        request.scope |= {"messages/tail"} if read.is_tail else {"messages", "system_instructions"}
        if _has_ids(items):
            request.scope.add("call_ids")
        return
    given = source.input.integrity
    if evicted:
        request.integrity = "dropped"
    else:
        request.integrity = given if given in ("redacted", "truncated") else "absent"


def _unquoted_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    parts = [
        {k: v[1:-1] if k in ("name", "arguments") and _is_quoted(v) else v for k, v in p.items()}
        for p in message["parts"]
    ]
    return {**message, "parts": parts}


def _has_ids(items: list[dict[str, Any]]) -> bool:
    linked = [
        p for m in items for p in m["parts"] if p["type"] in ("tool_call", "tool_call_response")
    ]
    return all(p.get("id") is not None for p in linked)


def _read_settings(source: Source, request: Request) -> None:
    """Read `llm.invocation_parameters`, as far as they are parameters of the request."""
    if source.known.params == "none":
        if source.library == "llama_index":
            _read_llama_settings(source, request)
        return
    read = payload.decode_json(source.attributes.get("llm.invocation_parameters"))
    if not isinstance(read.value, Mapping):
        return
    values = dict(read.value)
    for nested in ("model_kwargs", "extra_body"):
        inner = values.pop(nested, None)
        if isinstance(inner, Mapping):
            values.update(inner)
    model = values.get("model") or values.get("model_name") or values.get("model_id")
    if isinstance(model, str) and model:
        request.fields["model"] = model
        request.scope.add("model")
    if source.known.tools and isinstance(values.get("tools"), list):
        tools = payload.read_tools(values["tools"])
        if tools.integrity == "whole":
            request.fields["tools"] = tools.value
    params, _ = split_params(values, _NOT_PARAMS)
    request.fields["params"] = params
    if _has_all_params(source, values):
        request.scope.add("params")
    else:
        request.scope.update(f"params/{name}" for name in params)
    _read_choices(source, request, values)


def _has_all_params(source: Source, values: Mapping[str, Any]) -> bool:
    """LangChain's parameters are the request's for some providers; for others they are told in part."""
    if source.library == "langchain":
        return values.get("_type") in _WHOLE_LANGCHAIN
    return source.known.params == "all"


def _read_choices(source: Source, request: Request, values: Mapping[str, Any]) -> None:
    """Read what stands among the parameters and is a field of its own."""
    for name in ("tool_choice", "response_format", "previous_response_id"):
        value = values.get(name)
        is_known = source.known.choice and _has_all_params(source, values)
        if name == "previous_response_id":
            # LangChain and others add it below what is recorded.
            is_known = source.library == "openai"
        if (is_known or value is not None) and not _is_opaque(value):
            request.fields[name] = value
            request.scope.add(name)


def _read_llama_settings(source: Source, request: Request) -> None:
    """LlamaIndex's parameters describe the model; a call's own stand in `input.value`."""
    value = source.input.value
    if not isinstance(value, Mapping):
        return
    kwargs = value.get("kwargs")
    kwargs = kwargs if isinstance(kwargs, Mapping) else {}
    request.scope.add("tool_choice")
    request.fields["tool_choice"] = kwargs.get("tool_choice")
    params, _ = split_params(kwargs, ("tools", "tool_choice", "response_format"))
    request.fields["params"] = params
    request.scope.update(f"params/{name}" for name in params)


def _read_tools(source: Source, request: Request) -> None:
    attributes = source.attributes
    known = source.known.tools or _is_responses(source)
    if request.fields.get("tools"):
        request.scope.add("tools")
        return
    tools = flat.read_tools(attributes)
    if tools.items:
        request.fields["tools"] = tools.items
        request.scope.add("tools/names" if tools.names_only else "tools")
        return
    joined = payload.read_tools(attributes.get("llm.tools"))
    if joined.value:
        # Not the schemas as they were sent: CrewAI's listener writes the inner ones as reprs.
        names = [{"name": flat.tool_name(t)} for t in joined.value]
        request.fields["tools"] = [n for n in names if n["name"]]
        request.scope.add("tools/names")
    elif known and request.has_content and _surely_no_tools(source, tools):
        request.scope.add("tools")


def _surely_no_tools(source: Source, tools: flat.FlatTools) -> bool:
    return tools.integrity == "absent" and not source.span.dropped_attributes


def read_model(source: Source, request: Request) -> None:
    """Read the model's name, where the request has none yet.

    `llm.model_name` is the requested model in some instrumentations, the answering one in others:
    the scope says which.
    """
    if request.fields.get("model"):
        request.scope.add("model")
        return
    attributes = source.attributes
    requested = flat.text_of(attributes, "llm.request.model_name")
    name = requested or flat.text_of(attributes, "llm.model_name", "embedding.model_name")
    if name is None:
        return
    request.fields["model"] = name
    is_requested = source.known.requested_model or (
        source.library == "openai_agents" and not _is_responses(source)
    )
    request.scope.add("model" if requested or is_requested else "model/family")
