"""What kind of call a span stands for, told by what it has right now.

Lives here: one look at attributes, scope and name of a live span. Not here: the content of a call
(`dialects/`), and which of several live spans is the one of a call (`live.py`).

A span is looked at when a call is made, since several instrumentations set nothing at start and
everything by then. Names alone mislead (`ChatPromptTemplate` is no model call), so a name counts
only as the conventions write it, with a scope that is known, or where the recording has a tool of
that name.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from otel_cassette.model.entry import EntryKind

_KIND_ATTRIBUTES: Final[tuple[tuple[str, Mapping[str, EntryKind]], ...]] = (
    (
        "cassette.span.type",
        {
            "llm_call": "llm",
            "tool_call": "tool",
            "retrieval_call": "retrieval",
            "embedding_call": "embedding",
        },
    ),
    (
        "openinference.span.kind",
        {"LLM": "llm", "TOOL": "tool", "RETRIEVER": "retrieval", "EMBEDDING": "embedding"},
    ),
    (
        "langfuse.observation.type",
        {"generation": "llm", "tool": "tool", "retriever": "retrieval", "embedding": "embedding"},
    ),
    (
        "mlflow.spanType",
        {
            '"CHAT_MODEL"': "llm",
            '"LLM"': "llm",
            '"TOOL"': "tool",
            '"RETRIEVER"': "retrieval",
            '"EMBEDDING"': "embedding",
        },
    ),
    (
        "langsmith.span.kind",
        {"llm": "llm", "tool": "tool", "retriever": "retrieval", "embedding": "embedding"},
    ),
    (
        "gen_ai.operation.name",
        {
            "chat": "llm",
            "text_completion": "llm",
            "completion": "llm",
            "generate_content": "llm",
            "execute_tool": "tool",
            "embeddings": "embedding",
            "retrieval": "retrieval",
        },
    ),
    ("traceloop.span.kind", {"tool": "tool"}),
    (
        "llm.request.type",
        {"chat": "llm", "completion": "llm", "embedding": "embedding"},
    ),
)
"""Attributes that say the kind, the more specific first: a LangSmith retriever also says
`gen_ai.operation.name=embeddings`."""

_KIND_KEYS: Final = frozenset(key for key, _ in _KIND_ATTRIBUTES)

_NATIVE: Final[Mapping[str, EntryKind]] = {"llm_call": "llm", "tool_call": "tool"}
_SEPARATORS: Final = " :./-_"
_GENAI_SCOPES: Final = (
    "opentelemetry.instrumentation.genai",
    "opentelemetry.instrumentation.google_genai",
    "opentelemetry.instrumentation.openai",
    "opentelemetry.instrumentation.anthropic",
    "opentelemetry.util.genai",
    "pydantic-ai",
    "agent_framework",
    "semantic_kernel",
)
_GENAI_NAMES: Final[Mapping[str, EntryKind]] = {
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "embeddings": "embedding",
    "retrieval": "retrieval",
}
_SCOPED_NAMES: Final[Mapping[tuple[str, str], EntryKind]] = {
    ("langfuse-sdk", "OpenAI-generation"): "llm",
    ("mlflow.tracing.provider", "Completions"): "llm",
    ("mlflow.tracing.provider", "AsyncCompletions"): "llm",
    ("mlflow.tracing.provider", "Responses"): "llm",
    ("mlflow.tracing.provider", "Messages.create"): "llm",
    ("mlflow.tracing.provider", "Embeddings"): "embedding",
}
_TOOL_PREFIX: Final = "execute_tool "
_HAYSTACK_LLM: Final = "haystack.agent.step.llm"
_TELLING_PREFIXES: Final = (_TOOL_PREFIX, *_NATIVE, _HAYSTACK_LLM)
_LANGCHAIN_SCOPE: Final = "openinference.instrumentation.langchain"
_TOOL_NAME_KEYS: Final = ("gen_ai.tool.name", "tool.name")


def kind_of(
    name: str,
    attributes: Mapping[str, Any],
    *,
    scope: str = "",
    tools: Container[str] = (),
) -> EntryKind | None:
    """Return the kind of call that a span stands for, or None for any other span.

    Args:
        name: The span's name as it is now.
        attributes: Its attributes as they are now.
        scope: Name of its instrumentation scope; empty where it is not known (a sampler).
        tools: Names of the recorded tools.
    """
    # One pass over the keys: a span's attributes take a lock for every look at one of them.
    said = _KIND_KEYS.intersection(attributes) if attributes else ()
    if said:
        for key, kinds in _KIND_ATTRIBUTES:
            if key not in said:
                continue
            found = kinds.get(str(attributes[key]))
            if found is not None:
                return found
            if key == "openinference.span.kind":
                return None
    return _kind_of_name(name, scope, tools)


def may_be_call(name: str, attributes: Mapping[str, Any] | None, tools: Container[str]) -> bool:
    """Return False only if `kind_of` is sure to say None of a span without a known scope; quick."""
    if attributes and not _KIND_KEYS.isdisjoint(attributes):
        return True
    return name.startswith(_TELLING_PREFIXES) or name in tools


def _kind_of_name(name: str, scope: str, tools: Container[str]) -> EntryKind | None:
    if name.startswith(_TOOL_PREFIX) or name in tools:
        return "tool"
    for word, kind in _NATIVE.items():
        if name.startswith(word) and name[len(word) : len(word) + 1] in _SEPARATORS:
            return kind
    if name == _HAYSTACK_LLM:
        return "llm"
    if not scope:
        return None
    if scope.startswith(_GENAI_SCOPES):
        return _GENAI_NAMES.get(name.split(" ", 1)[0])
    if scope == _LANGCHAIN_SCOPE and name.startswith("Chat") and not name.endswith("Template"):
        return "llm"
    return _SCOPED_NAMES.get((scope, name))


def tool_name_of(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the tool that a tool span says it runs; None where it does not say."""
    for key in _TOOL_NAME_KEYS:
        value = attributes.get(key) if attributes else None
        if isinstance(value, str) and value:
            return value
    if name.startswith(_TOOL_PREFIX):
        return name[len(_TOOL_PREFIX) :] or None
    return None
