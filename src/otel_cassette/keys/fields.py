"""The fields of a request beside its messages, in canonical form.

Lives here: model, tools, tool choice, response format, parameters. Not here: messages
(`messages.py`). Rule numbers are those of docs/normalisation.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from otel_cassette.model.llm import unwrap_tool

JSON = Any
_PROVIDER_PREFIX = re.compile(
    r"^(?:openai|azure|anthropic|gemini|google|vertex_ai|bedrock|ollama|groq|mistral|cohere|litellm|models|litellm_proxy)/"
)
_VERSION_SUFFIX = re.compile(
    r"^(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{3})(?:-v\d+:\d+)?|-latest|@latest)$"
)
_OPAQUE = re.compile(r"^<(?:class '|[\w.]+ (?:object|at 0x))")

PARAM_NAMES = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "stop": "stop_sequences",
    "stopSequences": "stop_sequences",
    "topP": "top_p",
    "topK": "top_k",
    "candidateCount": "n",
    "choice_count": "n",
    "choice.count": "n",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_NOT_COMPARED = frozenset(
    {
        "stream",
        "stream_options",
        "betas",
        "extra_headers",
        "extra_query",
        "timeout",
        "extra_body",
        # Where a provider looks for a cached prefix. Frameworks make a new key for every run
        # (openai-agents: `agents-sdk:run:<uuid>`), and the answer does not depend on it.
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
_REQUEST_FIELDS = frozenset(
    {
        "operation",
        "provider",
        "model",
        "system_instructions",
        "messages",
        "tools",
        "tool_choice",
        "response_format",
        "params",
        "previous_response_id",
        "input",
        "extra",
    }
)
_SAMPLING = frozenset(PARAM_NAMES) | frozenset(
    {
        "dimensions",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "metadata",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning",
        "reasoning_effort",
        "seed",
        "service_tier",
        "stop_sequences",
        "temperature",
        "thinking",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)
_PLAIN_TOOL_TYPES = frozenset({"function", "custom", "", None})
_SCHEMA_KEYS = {
    "additional_properties": "additionalProperties",
    "any_of": "anyOf",
    "all_of": "allOf",
    "one_of": "oneOf",
    "max_length": "maxLength",
    "min_length": "minLength",
    "max_items": "maxItems",
    "min_items": "minItems",
    "max_properties": "maxProperties",
    "min_properties": "minProperties",
    "property_ordering": "propertyOrdering",
    "prefix_items": "prefixItems",
}
_SCHEMA_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SCHEMA_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_SCHEMA_ONES = frozenset({"items", "additionalProperties", "not"})


def is_opaque(value: JSON) -> bool:
    """Return whether a value is the repr of an object that the source could not write (rule 18)."""
    return isinstance(value, str) and value[:1] == "<" and _OPAQUE.match(value) is not None


def canonical_model(model: JSON) -> JSON:
    """Return a model's name without a router's provider prefix (rule 17)."""
    if not isinstance(model, str) or "/" not in model:
        return model or None
    return _PROVIDER_PREFIX.sub("", model)


def same_family(a: JSON, b: JSON) -> bool:
    """Return whether two model names are equal up to a version suffix (rule 17)."""
    if a == b:
        return True
    if not isinstance(a, str) or not isinstance(b, str):
        return False
    short, long = sorted((a, b), key=len)
    return long.startswith(short) and _VERSION_SUFFIX.match(long[len(short) :]) is not None


def canonical_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tool definitions as name, description and parameters, in their order (rule 14)."""
    return [_tool(tool) for tool in tools]


_NO_MEANING = frozenset({"description", "parameters", "cache_control", "strict"})
# What a function is described by beside name, description and parameters: Anthropic's examples, the
# grammar of OpenAI's custom tools, Gemini's schema of the result. With their defaults left out.
_TOOL_DETAILS = ("behavior", "format", "input_examples", "response")
_DEFAULTS: tuple[JSON, ...] = ("BLOCKING", {"type": "text"})


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    flat = unwrap_tool(tool)
    canonical: dict[str, Any] = {"name": flat["name"]}
    if flat.get("description"):
        canonical["description"] = flat["description"]
    if flat.get("parameters"):
        canonical["parameters"] = canonical_schema(flat["parameters"])
    kind = flat.get("type")
    if kind not in _PLAIN_TOOL_TYPES:
        # A tool that the provider runs: what it is given is all there is of it.
        rest = {k: v for k, v in flat.items() if v is not None and k not in _NO_MEANING}
        return {**rest, **canonical}
    for key in _TOOL_DETAILS:
        value = _detail(key, flat.get(key))
        if value and value not in _DEFAULTS:
            canonical[key] = value
    return canonical


def _detail(key: str, value: JSON) -> JSON:
    if key == "response":
        return canonical_schema(value)
    if key == "format" and isinstance(value, Mapping) and isinstance(value.get("grammar"), Mapping):
        return {"type": value.get("type"), **value["grammar"]}  # as Responses has it
    return value


def canonical_schema(schema: JSON) -> JSON:
    """Return a JSON schema with its keys in camel case and its types in lower case (rule 14)."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        name = _SCHEMA_KEYS.get(str(key), str(key))
        if value is None and name != "const":
            continue
        if name == "type" and isinstance(value, str):
            result[name] = value.lower()
        elif name in _SCHEMA_MAPS and isinstance(value, dict):
            result[name] = {k: canonical_schema(v) for k, v in value.items()}
        elif name in _SCHEMA_LISTS and isinstance(value, list):
            result[name] = [canonical_schema(v) for v in value]
        elif name in _SCHEMA_ONES:
            result[name] = canonical_schema(value)
        else:
            result[name] = value
    return result


def canonical_tool_choice(choice: JSON) -> JSON:
    """Return a tool choice: auto is nothing, any is required, a forced tool is its name (rule 15)."""
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        if name:
            server = choice.get("server_label")
            return {"name": name, **({"server_label": server} if server else {})}
        # With more beside it, as the names that Gemini may choose from, it is no mere mode.
        plain = all(
            v is None or k in ("type", "disable_parallel_tool_use") for k, v in choice.items()
        )
        if plain and kind in ("auto", "any", "none", "required"):
            choice = kind
    if choice in (None, "auto", ""):
        return None
    return "required" if choice == "any" else choice


def canonical_response_format(value: JSON) -> JSON:
    """Return a response format: plain text is nothing, a schema is its name, text and schema."""
    if not isinstance(value, Mapping):
        return value or None
    kind = value.get("type")
    if kind == "text":
        return None
    inner = value.get("json_schema")
    source = inner if isinstance(inner, Mapping) else value
    if kind == "json_schema":
        return {
            "type": kind,
            **{k: source[k] for k in ("name", "schema") if source.get(k) is not None},
            **{k: source[k] for k in ("description", "strict") if source.get(k)},
        }
    return {k: v for k, v in value.items() if v is not None}


def params_and_extra(plain: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a request's parameters and what it held beside (rule 16).

    What stands among the request's own fields, or in an `extra_body`, belongs to one of the two.
    """
    params: Mapping[str, Any] = plain.get("params") or {}
    extra: Mapping[str, Any] = plain.get("extra") or {}
    stray = {k: v for k, v in plain.items() if k not in _REQUEST_FIELDS}
    body = params.get("extra_body")
    if isinstance(body, Mapping):
        stray.update(body)
    if not stray:
        return params, extra
    known = {k: v for k, v in stray.items() if k in _SAMPLING}
    other = {
        k: v
        for k, v in stray.items()
        if k not in _SAMPLING and k not in _NOT_COMPARED and v is not None
    }
    return {**params, **known}, {**extra, **other}


def canonical_params(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return parameters by one name each, and the names whose value is opaque (rules 16, 18)."""
    canonical: dict[str, Any] = {}
    opaque: list[str] = []
    for key, value in params.items():
        name = PARAM_NAMES.get(key, key)
        if value is None or name in _NOT_COMPARED:
            continue
        if is_opaque(value):
            opaque.append(name)
        elif name == "stop_sequences":
            stops = _stop_sequences(value)
            if stops:
                canonical[name] = stops
        elif name == "n" and value == 1 and value is not True:
            continue
        else:
            canonical[name] = value
    return canonical, opaque


def _stop_sequences(value: JSON) -> JSON:
    """Return stop sequences as a list: one text is a list of one, a list written as JSON is it."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    if value[:2] == '["' and value[-2:] == '"]':
        try:
            return json.loads(value)
        except ValueError:
            return [value]
    return [value]
