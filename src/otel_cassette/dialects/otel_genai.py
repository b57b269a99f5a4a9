"""OTel GenAI semantic conventions: model calls, embeddings, tools and retrievals.

Lives here: which spans are calls, their parameters, usage, verdicts and scope. Not here: where the
content stands (`otel_genai_content.py`), tools and retrievals (`otel_genai_tools.py`).

Covers what the official instrumentations, the Anthropic SDK's own spans, pydantic-ai, Microsoft
Agent Framework and google-adk write: the conventions from 1.28 to the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from otel_cassette.dialects.failures import span_failure
from otel_cassette.dialects.otel_genai_content import Attributes, Content, build_choices, gather
from otel_cassette.dialects.otel_genai_emitters import TRANSPORTS, Emitter, emitter_of
from otel_cassette.dialects.otel_genai_tools import read_retrieval, read_tool
from otel_cassette.dialects.payload import answer_integrity, decode_json, plain, without_empty
from otel_cassette.dialects.protocol import Dialect, Reading
from otel_cassette.model.entry import Integrity
from otel_cassette.model.span import LogRecord, SpanRecord

NAME: Final = "otel-genai"
_LLM_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
_EMBEDDINGS: Final = "embeddings"
_TOOL: Final = "execute_tool"
_RETRIEVAL: Final = "retrieval"
_CALL_OPERATIONS: Final = _LLM_OPERATIONS | {_EMBEDDINGS, _TOOL, _RETRIEVAL}
_MERGED_TOOLS: Final = "(merged tools)"

_PARAMS: Final = {
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.top_k": "top_k",
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.request.frequency_penalty": "frequency_penalty",
    "gen_ai.request.presence_penalty": "presence_penalty",
    "gen_ai.request.seed": "seed",
    "gen_ai.request.stop_sequences": "stop_sequences",
    "gen_ai.request.choice.count": "n",
    "gen_ai.request.stream": "stream",
    "gen_ai.openai.request.seed": "seed",
    "gen_ai.embeddings.dimension.count": "dimensions",
    "gen_ai.request.encoding_formats": "encoding_format",
}
_USAGE: Final = "gen_ai.usage."
_TRUNCATED: Final = "anthropic.content.truncated"
"""The Anthropic SDK leaves out all parts of content over its size limit, and sets this."""


class OTelGenAI:
    """The dialect; see the module."""

    name: str = NAME
    priority: int = 50
    markers: tuple[bytes, ...] = (b"gen_ai.",)

    def claims(self, span: SpanRecord) -> bool:
        """Return whether the span has a GenAI operation, or lost it to the attribute limit."""
        return _operation(span) is not None

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> Reading:
        """Return what the span says of its call."""
        operation = _operation(span)
        emitter = emitter_of(span.scope.name)
        if operation in _LLM_OPERATIONS:
            reading = _read_llm(span, logs, operation, emitter)
        elif operation == _EMBEDDINGS:
            reading = _read_embedding(span, emitter)
        elif operation == _TOOL:
            if span.attributes.get("gen_ai.tool.name") == _MERGED_TOOLS:
                note = "Repeats the results of the parallel tools before it."
                return Reading(NAME, "lookalike", kind="tool", notes=[note])
            reading = read_tool(span, emitter)
        elif operation == _RETRIEVAL:
            reading = read_retrieval(span, emitter)
        else:
            return Reading(NAME, "wrapper", name=operation)
        reading.conversation_id = _text(span.attributes.get("gen_ai.conversation.id"))
        if span.dropped_attributes:
            _mark_dropped(reading, span.dropped_attributes)
        return reading


def _operation(span: SpanRecord) -> str | None:
    operation = span.attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return operation
    if not span.dropped_attributes:
        return None
    word = span.name.split(" ", 1)[0]
    lost = word in _CALL_OPERATIONS and any(k.startswith("gen_ai.") for k in span.attributes)
    return word if lost else None


def _read_llm(
    span: SpanRecord, logs: Sequence[LogRecord], operation: str | None, emitter: Emitter
) -> Reading:
    content = gather(span, logs)
    attributes = content.attributes
    failure = span_failure(span)
    choices = build_choices(
        content.choices,
        _finish_reasons(attributes),
        attributes.get("gen_ai.request.choice.count"),
    )
    partial = _ended_early(attributes, choices, failed=failure is not None)
    integrity = _response_integrity(content, choices, failed=failure is not None)
    if integrity == "whole" and partial:
        integrity = "partial"
    if failure is not None and _answered(attributes):
        partial = True
    request = _request(content, operation)
    request_integrity, scope = _request_verdict(content, emitter, request.get("params") or ())
    return Reading(
        NAME,
        "call",
        kind="llm",
        request=request,
        response=_response(attributes, choices, partial=partial),
        has_request=bool(content.input.items) and request_integrity != "redacted",
        has_response=integrity != "absent",
        scope=scope,
        request_integrity=request_integrity,
        response_integrity=integrity,
        error=failure,
        partial=partial,
        response_id=_text(attributes.get("gen_ai.response.id")),
        remedy=_remedy(emitter, request_integrity, integrity, failed=failure is not None),
        results_wrapped=emitter.unwraps_result,
        history_text_lost=emitter.loses_history_text and bool(content.input.items),
    )


def _answered(attributes: Attributes) -> bool:
    """Whether an answer began to arrive, so that a failed call is one that ended early."""
    return bool(attributes.get("gen_ai.response.id") or _finish_reasons(attributes))


def _request(content: Content, operation: str | None) -> dict[str, Any]:
    attributes = content.attributes
    return without_empty(
        {
            "operation": operation,
            "provider": _provider(attributes),
            "model": _text(attributes.get("gen_ai.request.model")),
            "system_instructions": content.system,
            "messages": content.input.items,
            "tools": content.tools.value if content.tools.integrity == "whole" else None,
            "params": _params(attributes),
        }
    )


def _provider(attributes: Attributes) -> str | None:
    return _text(attributes.get("gen_ai.provider.name") or attributes.get("gen_ai.system"))


def _params(attributes: Attributes) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for key in attributes:
        name = _PARAMS.get(key)
        if name is None:
            continue
        value = plain(attributes[key])
        if name == "stop_sequences":
            value = _strings(value)
        elif name == "encoding_format":
            value = next(iter(_strings(value)), None)
        if isinstance(value, str | bool | int | float | list):
            params[name] = value
    return params


def _response(
    attributes: Attributes, choices: list[dict[str, Any]], *, partial: bool
) -> dict[str, Any]:
    if partial:
        # "error" is the instrumentation's word for a stream that its consumer left.
        choices = [
            {k: v for k, v in choice.items() if k != "finish_reason" or v != "error"}
            for choice in choices
        ]
    return without_empty(
        {
            "id": _text(attributes.get("gen_ai.response.id")),
            "model": _text(attributes.get("gen_ai.response.model")),
            "choices": choices,
            "usage": _usage(attributes),
            "ended_early": partial,
        }
    )


def _usage(attributes: Attributes) -> dict[str, Any]:
    return {
        key[len(_USAGE) :]: value
        for key, value in attributes.items()
        if key.startswith(_USAGE) and isinstance(value, int | float)
    }


def _finish_reasons(attributes: Attributes) -> list[str]:
    raw = attributes.get("anthropic.message.stop_reason")
    if isinstance(raw, str):
        return [raw]
    return _strings(attributes.get("gen_ai.response.finish_reasons"))


def _ended_early(attributes: Attributes, choices: list[dict[str, Any]], *, failed: bool) -> bool:
    """An answer whose stream was left: the call failed with output, or a stream has no reason."""
    if not choices:
        return False
    if failed:
        return True
    reasons = {choice.get("finish_reason") for choice in choices}
    if "error" in reasons:
        return True
    return None in reasons and bool(attributes.get("gen_ai.request.stream"))


def _response_integrity(
    content: Content, choices: list[dict[str, Any]], *, failed: bool
) -> Integrity:
    if content.output_integrity == "whole" and choices:
        if content.attributes.get(_TRUNCATED) and not choices[0]["message"]["parts"]:
            return "truncated"
        return answer_integrity(choices)
    if content.output_integrity != "absent":
        return content.output_integrity
    attributes = content.attributes
    tokens = attributes.get(_USAGE + "output_tokens")
    empty = isinstance(tokens, int) and tokens <= 1 and attributes.get("gen_ai.response.id")
    if empty and content.input.integrity == "whole" and _finish_reasons(attributes) and not failed:
        # An empty answer: content is captured, and there was none to capture.
        choices.append(
            {
                "message": {"role": "assistant", "parts": []},
                "finish_reason": _finish_reasons(attributes)[-1],
            }
        )
        return "whole"
    return "absent"


def _request_verdict(
    content: Content, emitter: Emitter, params: Iterable[str]
) -> tuple[Integrity, tuple[str, ...]]:
    """Return how whole the request is, and which parts of it were captured."""
    attributes = content.attributes
    scope: set[str] = set()
    if attributes.get("gen_ai.request.model"):
        scope.add("model/family" if emitter.writes_response_model else "model")
    scope.update(f"params/{name}" for name in params if name != "stream")
    scope.update(f"params/{name}" for name in emitter.always_params)
    integrity = content.input.integrity
    if integrity == "whole":
        empty = any(m["role"] == "user" and not m["parts"] for m in content.input.items)
        if attributes.get(_TRUNCATED):
            integrity = "truncated" if empty else "suspect"
        elif emitter.drops_media and empty:
            integrity = "partial"
        if not empty or integrity == "whole":
            scope.add("messages")
            if _has_call_ids(content.input.items):
                scope.add("call_ids")
        if content.system_integrity in ("whole", "absent"):
            scope.add("system_instructions")
        else:
            integrity = content.system_integrity
        scope.update(_tool_scope(content, emitter))
    return integrity, tuple(sorted(scope))


def _has_call_ids(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every tool call and every result in the messages has its id."""
    return all(
        part.get("id") is not None
        for message in messages
        for part in message["parts"]
        if part["type"] in ("tool_call", "tool_call_response")
    )


def _tool_scope(content: Content, emitter: Emitter) -> tuple[str, ...]:
    if content.tools.integrity == "whole":
        named_only = any(tool.get("parameters") is None for tool in content.tools.value)
        bare = named_only and emitter.may_omit_schemas
        return ("tools/names",) if bare else ("tools",)
    absent = content.tools.integrity == "absent"
    return ("tools",) if absent and emitter.always_tools else ()


def _read_embedding(span: SpanRecord, emitter: Emitter) -> Reading:
    attributes = span.attributes
    request = without_empty(
        {
            "operation": _EMBEDDINGS,
            "provider": _provider(attributes),
            "model": _text(attributes.get("gen_ai.request.model")),
            "params": _params(attributes),
        }
    )
    response = without_empty(
        {
            "id": _text(attributes.get("gen_ai.response.id")),
            "model": _text(attributes.get("gen_ai.response.model")),
            "usage": _usage(attributes),
        }
    )
    scope = {f"params/{name}" for name in request.get("params", ())}
    if request.get("model"):
        scope.add("model")
    return Reading(
        NAME,
        "call",
        kind="embedding",
        request=request,
        response=response,
        scope=tuple(sorted(scope)),
        error=span_failure(span),
        response_id=response.get("id"),
        notes=["OTel GenAI spans of embeddings hold neither the input nor the vectors."],
        remedy=emitter.embedding_remedy,
    )


def _mark_dropped(reading: Reading, count: int) -> None:
    """Parts that are missing may have been evicted by the attribute count limit."""
    if reading.request_integrity == "absent":
        reading.request_integrity = "dropped"
    if reading.response_integrity == "absent" and reading.error is None:
        reading.response_integrity = "dropped"
    reading.remedy = "Raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT."
    reading.notes.append(f"{count} attributes were dropped by the SDK's count limit.")


def _remedy(
    emitter: Emitter, request: Integrity, response: Integrity, *, failed: bool
) -> str | None:
    """What to set so that the next recording holds what this one lacks.

    A failed call has no answer to record. Where one side was captured, content is on: what is
    missing beside it is what the instrumentation never writes (Anthropic's raw streams).
    """
    verdicts = {request} if failed else {request, response}
    if failed and request == "absent" and emitter.drops_failed_input:
        return TRANSPORTS
    if verdicts == {"whole", "absent"}:
        return TRANSPORTS
    if verdicts & {"absent", "redacted"}:
        return emitter.content_switch
    if "truncated" in verdicts:
        return (
            "Raise OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT, or the backend's limit on attributes, "
            "or export before the backend cuts."
        )
    return None


def _strings(value: Any) -> list[str]:
    """Finish reasons and stop sequences come as arrays, as JSON strings and as single strings."""
    if isinstance(value, str):
        decoded = decode_json(value).value if value[:1] == "[" else value
        value = decoded if isinstance(decoded, list) else [value]
    if not isinstance(value, list | tuple):
        return []
    return [item for item in value if isinstance(item, str)]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


DIALECT: Final[Dialect] = OTelGenAI()
