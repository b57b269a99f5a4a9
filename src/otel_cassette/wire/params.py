"""Parameters of LLM requests: one name each, whatever the provider or the tool calls them.

Lives here: the table of names, what is never part of a request's meaning, and the split of a
request body into `params` and `extra`. Not here: what makes two values equal (`keys/`).

| name here | also written |
|---|---|
| `temperature` | |
| `top_p`, `top_k` | `topP`, `topK` |
| `max_tokens` | `max_completion_tokens`, `max_output_tokens`, `maxOutputTokens`, ... |
| `stop_sequences` (a list) | `stop`, `stopSequences` |
| `seed`, `frequency_penalty`, `presence_penalty` | `frequencyPenalty`, `presencePenalty` |
| `n` | `candidateCount`, `candidate_count`, `choice_count` |
| `dimensions` | `outputDimensionality`, `output_dimensionality` |

Names on the left follow the OTel GenAI attributes `gen_ai.request.*`. Other parameters that a
provider documents keep the provider's name (`KNOWN`); whatever is neither goes to `extra`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

ALIASES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "topP": "top_p",
    "top_k": "top_k",
    "topK": "top_k",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "max_tokens_to_sample": "max_tokens",
    "stop": "stop_sequences",
    "stop_sequences": "stop_sequences",
    "stopSequences": "stop_sequences",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "frequencyPenalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "presencePenalty": "presence_penalty",
    "n": "n",
    "candidateCount": "n",
    "candidate_count": "n",
    "choice_count": "n",
    "dimensions": "dimensions",
    "outputDimensionality": "dimensions",
    "output_dimensionality": "dimensions",
}
"""Every spelling of a parameter that has a GenAI name -> that name."""

KNOWN = frozenset(
    {
        # OpenAI
        "audio",
        "background",
        "conversation",
        "include",
        "logit_bias",
        "logprobs",
        "max_tool_calls",
        "metadata",
        "modalities",
        "moderation",
        "parallel_tool_calls",
        "prediction",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "top_logprobs",
        "truncation",
        "user",
        "verbosity",
        "web_search_options",
        # Anthropic
        "container",
        "context_management",
        "inference_geo",
        "mcp_servers",
        "output_config",
        "thinking",
        # Google, in snake case
        "cached_content",
        "labels",
        "media_resolution",
        "response_logprobs",
        "response_modalities",
        "safety_settings",
        "speech_config",
        "thinking_config",
        # Google embeddings
        "task_type",
        "title",
    }
)
"""Parameters that a provider documents and OTel has no name for."""

NEVER = frozenset(
    {
        # how the answer travels, not what is asked
        "stream",
        "stream_options",
        "encoding_format",
        # arguments of an SDK call that instrumentations write among the body's fields
        "extra_headers",
        "extra_query",
        "timeout",
        "betas",
        # where a cloud repeats the API's version in the body
        "anthropic_version",
        "anthropic_beta",
    }
)
"""Fields that are no part of a request's meaning: never compared, so never kept."""


_SIZED = (list, dict, str)


def merged_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with `extra_body` merged in, and without nulls and what is never compared."""
    extra = body.get("extra_body")
    merged = {**body, **extra} if isinstance(extra, Mapping) else body
    return {
        k: v for k, v in merged.items() if v is not None and k not in NEVER and k != "extra_body"
    }


def split_params(
    fields: Mapping[str, Any], taken: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split fields of a request into parameters by their GenAI names and the unknown rest.

    Args:
        fields: A request body, or the parameters that an instrumentation wrote down. Nulls are
            taken as absent.
        taken: Names that stand elsewhere in the request (`messages`, `tools`, ...): skipped.

    Returns:
        `(params, extra)`. A single stop string becomes a list of one.
    """
    params: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in fields.items():
        if value is None or key in taken or key in NEVER:
            continue
        name = ALIASES.get(key)
        if name is not None:
            single = name == "stop_sequences" and isinstance(value, str)
            params[name] = [value] if single else value
        elif key in KNOWN:
            params[key] = value
        else:
            extra[key] = value
    return params, extra


def request_json(
    *,
    operation: str,
    provider: str,
    model: Any = None,
    system_instructions: list[dict[str, Any]] | None = None,
    messages: list[dict[str, Any]] | None = None,
    tools: list[dict[str, Any]] | None = None,
    params: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """Return the plain JSON of an `LLMRequest` without what is empty."""
    fields = {
        "operation": operation,
        "provider": provider,
        "model": model,
        "system_instructions": system_instructions,
        "messages": messages,
        "tools": tools,
        **rest,
        "params": params,
        "extra": extra,
    }
    return {k: v for k, v in fields.items() if v or (v is not None and not isinstance(v, _SIZED))}
