"""OpenInference TOOL, RETRIEVER and EMBEDDING spans, and how its spans fail.

Lives here: arguments, results and their envelopes (LangChain, LlamaIndex, Google ADK), documents,
vectors, failures. Not here: LLM spans (`openinference_request.py`, `openinference_response.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from otel_cassette.dialects import openinference_flat as flat
from otel_cassette.dialects import openinference_langchain as langchain
from otel_cassette.dialects import payload
from otel_cassette.dialects.failures import failure_of
from otel_cassette.dialects.openinference_embedding import (
    read_embedding_request,
    read_embedding_response,
)
from otel_cassette.dialects.openinference_request import HIDDEN_INPUT
from otel_cassette.dialects.openinference_response import HIDDEN_OUTPUT
from otel_cassette.dialects.openinference_source import Source
from otel_cassette.dialects.protocol import Reading
from otel_cassette.dialects.results import result_from_message
from otel_cassette.model.entry import RecordedFailure

NAME: Final = "openinference"
_CALL_KEYS: Final = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
_LLAMA_OUTPUT: Final = frozenset({"blocks", "raw_input", "raw_output", "is_error"})
_ADK_OUTPUT: Final = frozenset({"id", "name", "response"})
_NO_ID: Final = "<not specified>"
_METHOD: Final = re.compile(r"\.(?:a?call|__call__|a?run|_?a?retrieve|forward|aforward)$")
_CLASS: Final = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*): (.*)$", re.DOTALL)
_AGENTS_ERROR: Final = re.compile(r"^Error [^{]*: (\{.*\})$", re.DOTALL)


def read_tool(source: Source) -> Reading:
    """Read a TOOL span.

    A span with status ERROR failed, even where its output holds the text that the framework gave
    to the model in place of a result.
    """
    attributes = source.attributes
    reading = Reading(NAME, "call", kind="tool", name=_tool_name(source), scope=())
    reading.call_id = _call_id(attributes)
    _set_arguments(reading, source)
    reading.error = read_failure(source)
    if reading.error is None:
        _set_result(reading, source)
    _set_remedy(reading)
    return reading


def _tool_name(source: Source) -> str:
    name = source.attributes.get("tool.name")
    return name if isinstance(name, str) and name else _METHOD.sub("", source.span.name)


def _call_id(attributes: Mapping[str, Any]) -> str | None:
    for key in ("tool_call.id", "tool.id"):
        value = attributes.get(key)
        if isinstance(value, str) and value and value != _NO_ID:
            return value
    return None


def _set_arguments(reading: Reading, source: Source) -> None:
    given = source.input
    reading.request_integrity = given.integrity
    if given.integrity in ("absent", "redacted", "truncated"):
        return
    reading.has_request = True
    value = given.value
    if value in (None, "", []):
        value = {}
    schema = payload.decode_json(source.attributes.get("tool.parameters")).value
    names = _parameter_names(schema)
    if isinstance(value, Mapping):
        reading.request = _unwrap_arguments(value, names)
    elif len(names) == 1:
        reading.request = {names[0]: value}
    else:
        # LangChain writes the only argument bare: the model's call knows its name.
        reading.request, reading.arguments_known = value, False
        return
    reading.scope = ("arguments",)


def _parameter_names(schema: Any) -> list[str]:
    """Return the names of a JSON schema's properties; `tool.parameters` may be arguments instead."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return list(properties) if isinstance(properties, Mapping) else []


def _unwrap_arguments(value: Mapping[str, Any], names: list[str]) -> Any:
    """Return arguments by name, out of `{"args": [...], "kwargs": {...}}` where that is no tool's own."""
    kwargs, args = value.get("kwargs"), value.get("args") or []
    if not isinstance(kwargs, Mapping) or not value.keys() <= _CALL_KEYS or "kwargs" in names:
        return dict(value)
    if not isinstance(args, list) or len(args) > len(names):
        return dict(value)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _set_result(reading: Reading, source: Source) -> None:
    given = source.output
    if given.integrity == "absent":
        # No output and no error: the tool returned nothing, unless nothing was captured at all.
        if reading.has_request and not source.span.dropped_attributes:
            reading.has_response, reading.response_integrity = True, "whole"
        return
    reading.response_integrity = given.integrity
    if given.integrity == "redacted":
        return
    reading.has_response = True
    reading.response = given.value
    if given.integrity == "whole":
        _unwrap_result(reading, source)


def _unwrap_result(reading: Reading, source: Source) -> None:
    """Take a framework's envelope off the result: what stays is what the tool returned."""
    value = reading.response
    message = langchain.tool_message(value)
    if message is not None:
        call_id = message.get("tool_call_id")
        reading.call_id = reading.call_id or (call_id if isinstance(call_id, str) else None)
        reading.response = result_from_message(message.get("content"))
    elif isinstance(value, Mapping) and value.keys() >= _LLAMA_OUTPUT:
        reading.response = value["raw_output"]
        if value["is_error"] is True:
            reading.error = RecordedFailure(message=str(value["raw_output"]))
            reading.response, reading.has_response = None, False
            reading.response_integrity = "absent"
    elif isinstance(value, Mapping) and value.keys() == _ADK_OUTPUT:
        call_id = value["id"]
        reading.call_id = reading.call_id or (call_id if isinstance(call_id, str) else None)
        reading.response = value["response"]
    elif isinstance(value, str) and source.known.reprs:
        reading.response = _from_repr(value)


def _from_repr(text: str) -> Any:
    """Return the dict or list of which *text* is the Python repr, else the text.

    Only where its `str()` is the text again: what the framework makes of it is then the same.
    """
    if text[:1] not in ("{", "["):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    is_plain = isinstance(value, dict | list) and payload.plain(value) == value
    return value if is_plain and str(value) == text else text


def _set_remedy(reading: Reading) -> None:
    if reading.request_integrity == "redacted":
        reading.remedy = HIDDEN_INPUT
    elif reading.response_integrity == "redacted":
        reading.remedy = HIDDEN_OUTPUT


def read_failure(source: Source) -> RecordedFailure | None:
    """Return the failure of a span with status ERROR; None for any other.

    The exception event says it best: LangChain adds a traceback to the status message. The OpenAI
    Agents SDK has no event, and a dict with the error in its message.
    """
    span = source.span
    if span.status_code != "ERROR":
        return None
    failure = failure_of(span)
    if not failure.message and span.status_message:
        failure = _from_status(failure, span.status_message)
    status, body = langchain.failure_facts(source.output.value)
    if status is not None:
        failure = failure.model_copy(update={"status": status, "body": body})
    return failure


def _from_status(failure: RecordedFailure, message: str) -> RecordedFailure:
    wrapped = _AGENTS_ERROR.match(message)
    if wrapped is not None:
        try:
            facts = ast.literal_eval(wrapped.group(1))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            facts = None
        error = facts.get("error") if isinstance(facts, dict) else None
        if isinstance(error, str):
            return failure.model_copy(update={"message": error})
    named = _CLASS.match(message) if failure.type == "Exception" else None
    if named is not None:
        return failure.model_copy(update={"type": named.group(1), "message": named.group(2)})
    return failure.model_copy(update={"message": message})


def read_retrieval(source: Source) -> Reading:
    """Read a RETRIEVER span."""
    attributes = source.attributes
    name = _METHOD.sub("", source.span.name)
    reading = Reading(NAME, "call", kind="retrieval", name=name, scope=())
    reading.request_integrity = source.input.integrity
    query = _query(source.input.value)
    if query is not None and source.input.integrity in ("whole", "suspect"):
        reading.request, reading.has_request = query, True
        reading.scope = ("arguments",)
    reading.error = read_failure(source)
    if reading.error is not None:
        return reading
    documents = langchain.read_documents(source.output.value) or flat.read_documents(attributes)
    if documents:
        reading.response, reading.has_response = documents, True
        reading.response_integrity = "dropped" if source.span.dropped_attributes else "whole"
    elif source.output.integrity != "absent":
        reading.response_integrity = source.output.integrity
        reading.has_response = source.output.integrity != "redacted"
        reading.response = source.output.value if reading.has_response else None
        if _holds_reprs(reading.response):
            reading.response_integrity = "suspect"
    _set_remedy(reading)
    return reading


def _holds_reprs(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(v, str) and v.startswith("<") for v in value)


def _query(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        return {"query": value} if value else None
    if not isinstance(value, Mapping) or not value:
        return None
    bundle = value.get("query_bundle", value.get("str_or_query_bundle"))
    if isinstance(bundle, Mapping) and isinstance(bundle.get("query_str"), str):
        return {"query": bundle["query_str"]}
    if isinstance(bundle, str):
        return {"query": bundle}
    return dict(value)


def read_embedding(source: Source) -> Reading:
    """Read an EMBEDDING span."""
    request = read_embedding_request(source)
    response = read_embedding_response(source)
    reading = Reading(
        NAME,
        "call",
        kind="embedding",
        request=request.fields or None,
        response=response.fields or None,
        has_request=request.has_content,
        has_response=response.has_content,
        scope=tuple(sorted(request.scope)),
        request_integrity=request.integrity,
        response_integrity=response.integrity,
        error=read_failure(source),
        notes=[*request.notes, *response.notes],
    )
    _set_remedy(reading)
    return reading
