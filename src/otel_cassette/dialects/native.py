"""What hand-made tracers write, and this package's own tracing wrappers.

Lives here: spans named `llm_call` / `tool_call`, or said to be one by an attribute, with `input`
and `output`. Not here: conventions that have a name (`otel_genai.py`, ...).

The wrappers' spans are OTel GenAI spans that carry the whole call again in `cassette.request` and
`cassette.response`; those two read back without loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from otel_cassette.dialects.failures import span_failure
from otel_cassette.dialects.openinference_flat import read_usage
from otel_cassette.dialects.otel_genai_tools import set_arguments
from otel_cassette.dialects.payload import (
    ABSENT,
    Payload,
    answer_integrity,
    decode_json,
    decode_value,
    make_choice,
    messages_of,
    plain,
    text_integrity,
    without_empty,
    worst,
)
from otel_cassette.dialects.protocol import Attributes, Dialect, Reading
from otel_cassette.model.entry import EntryKind, Integrity
from otel_cassette.model.llm import LLMRequest, LLMResponse
from otel_cassette.model.span import LogRecord, SpanRecord

NAME: Final = "native"
OWN_TYPE: Final = "cassette.span.type"
OWN_REQUEST: Final = "cassette.request"
OWN_RESPONSE: Final = "cassette.response"
OWN_YIELDS: Final = "cassette.yields"
_TYPE_KEYS: Final = ("span.type", "span_type", "type", "kind")
_KINDS: Final[Mapping[str, EntryKind]] = {
    "llm_call": "llm",
    "tool_call": "tool",
    "retrieval_call": "retrieval",
    "embedding_call": "embedding",
}
_OTHERS: Final = (
    "openinference.span.kind",
    "langsmith.span.kind",
    "ai.operationId",
    "traceloop.span.kind",
    "gen_ai.operation.name",
)
"""Attributes by which another vocabulary is known; it is then read as that."""

_INPUTS: Final = (OWN_REQUEST, "input", "input.value")
_OUTPUTS: Final = (OWN_RESPONSE, "output", "output.value")
_MODELS: Final = ("model", "gen_ai.request.model", "llm.model_name")
_PROVIDERS: Final = (
    "provider",
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.provider",
    "llm.system",
)
_TOOL_NAMES: Final = ("tool.name", "gen_ai.tool.name", "name")
_CALL_IDS: Final = ("tool.call_id", "tool_call_id", "tool_call.id", "gen_ai.tool.call.id")
_SAYING: Final = frozenset({OWN_TYPE, *_TYPE_KEYS})
_WORDS: Final = tuple(_KINDS)
_USAGE: Final = "gen_ai.usage."
_SEPARATORS: Final = " :./-_"
_REMEDY: Final = "Set the attributes `input` and `output` on the span."


class Native:
    """The dialect; see the module."""

    name: str = NAME
    priority: int = 0
    markers: tuple[bytes, ...] = tuple(kind.encode() for kind in _KINDS)

    def claims(self, span: SpanRecord) -> bool:
        """Return whether the span is said to be a call by name or attribute, and by no other."""
        return _kind(span) is not None

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG002 - these tracers write no log records
        """Return what the span says of its call."""
        kind = _kind(span) or "llm"
        reading = Reading(NAME, "call", kind=kind, error=span_failure(span))
        given = _first(span.attributes, _INPUTS)
        answer = _first(span.attributes, _OUTPUTS)
        if kind in ("llm", "embedding"):
            _read_model_call(reading, span.attributes, given, answer)
        else:
            _read_tool_call(reading, span, given, answer)
        if not reading.has_request or not (reading.has_response or reading.error):
            reading.remedy = _REMEDY
        return reading


def _kind(span: SpanRecord) -> EntryKind | None:
    attributes = span.attributes
    if _SAYING.isdisjoint(attributes) and not span.name.startswith(_WORDS):
        return None
    own = _KINDS.get(str(attributes.get(OWN_TYPE)))
    if own is not None:
        return own
    if any(key in attributes for key in _OTHERS):
        return None
    for key in _TYPE_KEYS:
        kind = _KINDS.get(str(attributes.get(key)))
        if kind is not None:
            return kind
    for word, kind in _KINDS.items():
        if span.name.startswith(word) and span.name[len(word) : len(word) + 1] in _SEPARATORS:
            return kind
    return None


def _first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    return next((attributes[key] for key in keys if attributes.get(key) is not None), None)


def _text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    value = _first(attributes, keys)
    return value if isinstance(value, str) and value else None


def _read_model_call(reading: Reading, attributes: Attributes, given: Any, answer: Any) -> None:
    request, integrity = _model_request(given, reading.kind)
    request = {
        **without_empty(
            {"model": _text(attributes, _MODELS), "provider": _text(attributes, _PROVIDERS)}
        ),
        **request,
    }
    reading.request = request
    reading.request_integrity = integrity
    content = "input" if reading.kind == "embedding" else "messages"
    reading.has_request = bool(request.get(content))
    reading.scope = None if OWN_REQUEST in attributes and integrity == "whole" else _scope(request)
    response, verdict = _model_response(answer, reading.kind)
    for key in ("usage", "raw"):
        extra = decode_json(attributes.get(key))
        fits = key == "raw" or isinstance(extra.value, dict)
        if extra.integrity == "whole" and extra.value and fits and key not in response:
            response[key] = extra.value
    counts = _token_counts(attributes)
    if counts:
        response.setdefault("usage", counts)
    reading.response_id = response.get("id") or _text(attributes, ("gen_ai.response.id",))
    if reading.response_id and "id" not in response:
        response["id"] = reading.response_id
    reading.response = response
    reading.response_integrity = verdict
    reading.has_response = verdict != "absent"
    reading.partial = bool(response.get("ended_early")) or (
        reading.has_response and reading.error is not None
    )
    if reading.partial:
        reading.response_integrity = worst(verdict, "partial")


def _token_counts(attributes: Attributes) -> dict[str, Any]:
    """Return usage that other vocabularies' attributes tell: `gen_ai.usage.*`, `llm.token_count.*`."""
    named = {
        key[len(_USAGE) :]: value
        for key, value in attributes.items()
        if key.startswith(_USAGE) and isinstance(value, int | float)
    }
    return named or read_usage(attributes)


def _scope(request: Mapping[str, Any]) -> tuple[str, ...]:
    """A hand-made span captures what it holds; of the rest nothing is known."""
    fields = {"model", "system_instructions", "messages", "tools", "tool_choice", "input"}
    fields |= {"response_format", "previous_response_id"}
    scope = {key for key in request if key in fields}
    if "messages" in scope:
        scope |= {"call_ids", "system_instructions"}
    scope |= {f"params/{name}" for name in request.get("params", ())}
    return tuple(sorted(scope))


def _model_request(given: Any, kind: EntryKind | None) -> tuple[dict[str, Any], Integrity]:
    content = "input" if kind == "embedding" else "messages"
    payload = _json_or_text(given)
    if payload.integrity in ("absent", "truncated", "redacted"):
        return {}, payload.integrity
    value = payload.value
    if isinstance(value, Mapping) and (content in value or "role" not in value):
        try:
            return LLMRequest.model_validate(value).to_json(), payload.integrity
        except ValidationError:
            return {}, "suspect"
    if kind == "embedding":
        return {"input": value}, payload.integrity
    read = messages_of(value)
    return without_empty({"messages": read.items}), worst(read.integrity, payload.integrity)


def _model_response(answer: Any, kind: EntryKind | None) -> tuple[dict[str, Any], Integrity]:
    payload = _json_or_text(answer)
    if payload.integrity in ("absent", "truncated", "redacted"):
        return {}, payload.integrity
    value = payload.value
    if isinstance(value, Mapping) and {"choices", "embeddings", "chunks", "usage"} & value.keys():
        try:
            response = LLMResponse.model_validate(value).to_json()
        except ValidationError:
            return {}, "suspect"
        return response, worst(payload.integrity, answer_integrity(response.get("choices", ())))
    if kind == "embedding":
        return {"embeddings": value}, payload.integrity
    read = messages_of(value, role="assistant")
    if not read.items:
        return {}, "suspect" if read.integrity == "absent" else read.integrity
    choices = [make_choice(message) for message in read.items]
    return {"choices": choices}, worst(read.integrity, payload.integrity, answer_integrity(choices))


def _json_or_text(value: Any) -> Payload:
    """A JSON object, array or quoted string, a structured value, or plain text."""
    if value is None:
        return ABSENT
    if not isinstance(value, str):
        return Payload(plain(value), "whole")
    if value.lstrip()[:1] in ("{", "[", '"'):
        payload = decode_json(value)
        if payload.integrity != "suspect":
            return payload
    return Payload(value, text_integrity(value))


def _read_tool_call(reading: Reading, span: SpanRecord, given: Any, answer: Any) -> None:
    reading.name = _tool_name(span)
    reading.call_id = _text(span.attributes, _CALL_IDS)
    reading.scope = ()
    if given == "":
        given = {}
    set_arguments(reading, _arguments(given))
    if OWN_YIELDS in span.attributes and _read_yields(reading, span.attributes):
        return
    if reading.error is not None:
        return
    result = Payload("", "whole") if answer == "" else decode_value(answer)
    if result.integrity != "absent":
        reading.response, reading.response_integrity = result
        reading.has_response = True
    elif reading.request_integrity == "whole" and OWN_REQUEST not in span.attributes:
        # No error and no output: the tool returned None. Our own wrappers write None out, so a span
        # of theirs without output is of a call that never ended (cancelled), or has lost it.
        reading.response_integrity = "whole"
        reading.has_response = True


def _read_yields(reading: Reading, attributes: Attributes) -> bool:
    """Take over what a traced generator gave, the end of which it may not have reached."""
    payload = decode_json(attributes[OWN_YIELDS])
    if reading.error is not None and not payload.value:
        return False
    reading.has_response = True
    if not isinstance(payload.value, list):
        reading.response_integrity = worst(payload.integrity, "suspect")
        return True
    result = decode_json(attributes.get(OWN_RESPONSE))
    reading.yields = tuple(payload.value)
    reading.response = result.value
    reading.partial = result.integrity == "absent"
    verdict: Integrity = "partial" if reading.partial else result.integrity
    reading.response_integrity = worst(payload.integrity, verdict)
    return True


def _arguments(given: Any) -> Payload:
    """Arguments by name; `{"args": [], "kwargs": {...}}` is what decorators bind."""
    payload = decode_value(given)
    value = payload.value
    if isinstance(value, dict) and value.keys() <= {"args", "kwargs"} and not value.get("args"):
        inner = value.get("kwargs")
        return Payload(inner if isinstance(inner, dict) else {}, payload.integrity)
    return payload


def _tool_name(span: SpanRecord) -> str:
    name = _text(span.attributes, _TOOL_NAMES)
    if name is not None:
        return name
    for word in _KINDS:
        if span.name.startswith(word):
            return span.name[len(word) :].strip(_SEPARATORS) or span.name
    return span.name


DIALECT: Final[Dialect] = Native()
