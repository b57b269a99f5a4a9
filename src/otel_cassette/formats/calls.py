"""A cheap guess whether a span is a call, for listings and for telling bare-call traces.

What a span really means is decided by the dialects, with the whole run in view. This looks at the
markers of the common vocabularies only, so it also serves where dialects may not be imported.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_cassette.model.span import SpanRecord

CALL_VALUES: Mapping[str, frozenset[str]] = {
    "openinference.span.kind": frozenset({"LLM", "TOOL", "RETRIEVER", "EMBEDDING"}),
    "langsmith.span.kind": frozenset({"llm", "tool", "retriever", "embedding"}),
    "gen_ai.operation.name": frozenset(
        {"chat", "text_completion", "generate_content", "embeddings", "execute_tool", "retrieval"}
    ),
    "traceloop.span.kind": frozenset({"tool"}),
    "llm.request.type": frozenset({"chat", "completion", "embedding", "rerank"}),
    "mlflow.spanType": frozenset({"LLM", "CHAT_MODEL", "TOOL", "RETRIEVER", "EMBEDDING"})
    | frozenset({'"LLM"', '"CHAT_MODEL"', '"TOOL"', '"RETRIEVER"', '"EMBEDDING"'}),
    "langfuse.observation.type": frozenset({"generation", "tool", "retriever", "embedding"}),
    "cassette.span.type": frozenset({"llm_call", "tool_call"}),
    "span.type": frozenset({"llm_call", "tool_call"}),
    "span_type": frozenset({"llm_call", "tool_call"}),
}
"""Attribute values that say the kind of a span, in the order they count."""

_MARKERS = (b"gen_ai.operation.name", b"span.kind", b"ype", b"ai.operationId")
"""One of these stands in each of the keys; few, since every root of a file is tested for them."""
_NATIVE = ("llm_call", "tool_call")


def looks_like_call(span: SpanRecord) -> bool:
    """Return whether *span* looks like an LLM, tool, retrieval or embedding call.

    The first kind-saying attribute decides, as agents and chains carry those too. A span without
    one is a call if its name is `llm_call` / `tool_call`, or begins with it and a separator.
    """
    name = span.name
    if name.startswith(_NATIVE) and not name.partition("_call")[2][:1].isalnum():
        return True
    if not span.may_hold(*_MARKERS):
        return False
    attributes = span.attributes
    for key, values in CALL_VALUES.items():
        value = attributes.get(key)
        if value is not None:
            return value in values if isinstance(value, str) else False
    operation = attributes.get("ai.operationId")
    return isinstance(operation, str) and (".do" in operation or operation == "ai.toolCall")
