"""The answer of an OpenInference LLM span.

Lives here: where the answer is read from, whether its payload is the provider's own, whether a
stream ended early, and failures. Not here: the request (`openinference_request.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_cassette.dialects import openinference_flat as flat
from otel_cassette.dialects import openinference_langchain as langchain
from otel_cassette.dialects import payload
from otel_cassette.dialects.openinference_source import Source
from otel_cassette.keys.masks import CUT
from otel_cassette.model.entry import Integrity
from otel_cassette.wire import (
    anthropic_messages,
    google_generate,
    openai_chat,
    openai_responses,
)
from otel_cassette.wire.protocol import WireCodec

HIDDEN_OUTPUT = (
    "The outputs were hidden when this was recorded: unset OPENINFERENCE_HIDE_OUTPUTS and the "
    "other OPENINFERENCE_HIDE_* switches (TraceConfig hide_*)."
)


@dataclass(slots=True)
class Response:
    """What a span says of an answer.

    Attributes:
        fields: Plain JSON of an `LLMResponse`; facts without content when there is no answer.
        integrity: Of the content; `partial` for a stream that ended early.
        has_content: There is an answer, if an empty one.
        notes: For the report.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    integrity: Integrity = "absent"
    has_content: bool = False
    notes: list[str] = field(default_factory=list)


def read_response(source: Source) -> Response:
    """Return the answer of an LLM span."""
    response = Response()
    if not _read_provider(source, response):
        _read_other(source, response)
    _complete(source, response)
    if response.has_content and source.span.status_code == "ERROR" and not _shows(response.fields):
        # LangChain and others write an empty answer beside the error.
        response.has_content, response.integrity = False, "absent"
    if response.has_content and _ended_early(source, response):
        response.fields["ended_early"] = True
        response.fields.pop("raw", None)
        response.integrity = payload.worst(response.integrity, "partial")
    return response


def _shows(fields: Mapping[str, Any]) -> bool:
    return any(choice["message"]["parts"] for choice in fields.get("choices") or ())


def _ended_early(source: Source, response: Response) -> bool:
    """A stream that its consumer left has no finish reason, and no OK status."""
    finished = any(c.get("finish_reason") for c in response.fields.get("choices") or ())
    return not finished and source.span.status_code != "OK"


def _read_provider(source: Source, response: Response) -> bool:
    body = source.output.value
    if not isinstance(body, Mapping):
        return False
    inner = body.get("raw")
    if isinstance(inner, Mapping) and "message" in body:
        body = inner  # LlamaIndex's ChatResponse keeps the provider's payload
    codec = _codec_of(body)
    if codec is None:
        return False
    try:
        fields = codec.decode_response(body)
        choices = [_valid_choice(c) for c in fields.get("choices") or ()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        response.notes.append(f"output.value is no {codec.name} response ({error}); not used.")
        return False
    if not choices:
        return False
    fields["choices"] = choices
    fields.pop("raw", None)
    if _is_verbatim(codec, body, source):
        fields["raw"] = dict(body)
    if source.library == "litellm" and source.attributes.get("llm.provider") != "openai":
        fields.pop("id", None)  # LiteLLM made it up: the provider's own id is not in its answer
    response.fields = payload.without_empty(fields)
    response.has_content = True
    response.integrity = payload.answer_integrity(choices)
    return True


def _valid_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = payload.messages_of([choice["message"]], role="assistant").items[0]
    return {**choice, "message": message}


def _codec_of(body: Mapping[str, Any]) -> WireCodec | None:
    """Return the codec of a provider's answer by its shape."""
    if isinstance(body.get("candidates"), list):
        return google_generate.CODEC
    if body.get("object") == "response" or isinstance(body.get("output"), list):
        return openai_responses.CODEC
    if body.get("type") == "message" and isinstance(body.get("content"), list):
        return anthropic_messages.CODEC
    choices = body.get("choices")
    if isinstance(choices, list) and choices:
        return openai_chat.CODEC if all(_has_message(c) for c in choices) else None
    return None


def _has_message(choice: Any) -> bool:
    return isinstance(choice, Mapping) and isinstance(choice.get("message"), Mapping)


def _is_verbatim(codec: WireCodec, body: Mapping[str, Any], source: Source) -> bool:
    """Return whether a payload is the provider's own, not one rebuilt by the instrumentation.

    Rebuilt ones: streamed chat answers (`chat.completion.chunk` with messages), LiteLLM's form of
    other providers' answers, Google's SDK object with its fields in snake case.
    """
    if not isinstance(body.get("id"), str) or not isinstance(body.get("model"), str):
        return False
    if codec is openai_chat.CODEC:
        if body.get("object") != "chat.completion" or not isinstance(body.get("created"), int):
            return False
        if source.library == "litellm":
            return False
        return all(c["message"].get("role") == "assistant" for c in body["choices"])
    if codec is openai_responses.CODEC:
        return body.get("object") == "response"
    return codec is anthropic_messages.CODEC and body.get("role") == "assistant"


def _read_other(source: Source, response: Response) -> None:
    value = source.output.value
    if langchain.is_result(value):
        response.fields = langchain.read_result(value)
    else:
        _read_flattened(source, response)
    if not response.fields.get("choices"):
        _read_chat_list(source, response)
    choices = response.fields.get("choices")
    if choices:
        response.has_content = True
        verdict = payload.answer_integrity(choices)
        if response.integrity == "absent":
            response.integrity = verdict
        else:
            response.integrity = payload.worst(response.integrity, verdict)
    elif source.output.integrity in ("redacted", "truncated"):
        response.integrity = source.output.integrity


def _read_flattened(source: Source, response: Response) -> None:
    evicted = source.span.dropped_attributes > 0 and not flat.indexed(
        source.attributes, "llm.input_messages"
    )
    read = flat.read_messages(
        source.attributes, "llm.output_messages", evicted=evicted, cut_lengths=source.cut_lengths
    )
    items = [{**m, "parts": [_uncut(p) for p in m["parts"]]} for m in read.items]
    if not items:
        return
    if _is_one_answer(source):
        parts = [part for item in items for part in item["parts"]]
        items = [{"role": "assistant", "parts": parts}]
    response.fields["choices"] = [payload.make_choice({**m, "role": "assistant"}) for m in items]
    response.integrity = read.integrity


def _uncut(part: Mapping[str, Any]) -> dict[str, Any]:
    """The marks of cut parts are for comparing requests; an answer's verdict says it."""
    kept = {k: v for k, v in part.items() if k != "cut"}
    arguments = kept.get("arguments")
    if isinstance(arguments, str):
        kept["arguments"] = arguments.removesuffix(CUT)
    return kept


def _is_one_answer(source: Source) -> bool:
    """Of the Responses API, text and calls of one answer stand in messages of their own."""
    return "response" in source.span.name.lower()


def _read_chat_list(source: Source, response: Response) -> None:
    """Read an `output.value` that is a list of messages, a list of tool calls, or bare text."""
    value = source.output.value
    if isinstance(value, str):
        if source.output.integrity in ("whole", "suspect") and value:
            message = {"role": "assistant", "parts": [{"type": "text", "content": value}]}
            response.fields["choices"] = [payload.make_choice(message)]
            response.integrity = source.output.integrity
        return
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        return
    if all(isinstance(v.get("function"), Mapping) for v in value):
        value = [{"role": "assistant", "tool_calls": value}]
        # CrewAI's listener writes the calls alone: a text beside them is lost.
        response.notes.append("Only the tool calls of this answer were recorded.")
    if all("role" in v for v in value):
        read = payload.messages_of(value, role="assistant")
        response.fields["choices"] = [payload.make_choice(m) for m in read.items]
        response.integrity = "suspect" if response.notes else read.integrity


def _complete(source: Source, response: Response) -> None:
    """Add finish reason, model and usage from the attributes, where the payload has none."""
    attributes = source.attributes
    fields = response.fields
    reason = attributes.get("llm.finish_reason")
    choices = fields.get("choices") or []
    if isinstance(reason, str) and reason and len(choices) == 1:
        choices[0].setdefault("finish_reason", reason)
    if not fields.get("model"):
        model = flat.text_of(attributes, "llm.response.model_name", "llm.model_name")
        if model is not None and not source.known.requested_model:
            fields["model"] = model
    if not fields.get("usage"):
        usage = flat.read_usage(attributes)
        if usage:
            fields["usage"] = usage
