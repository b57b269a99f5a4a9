"""Tool and retrieval spans of the OTel GenAI conventions.

Lives here: `execute_tool` and `retrieval`, with the attribute names that pydantic-ai and the
Anthropic SDK use for the same. Not here: model calls (`otel_genai.py`).
"""

from __future__ import annotations

from typing import Any, Final

from otel_cassette.dialects.failures import span_failure
from otel_cassette.dialects.otel_genai_emitters import Emitter
from otel_cassette.dialects.payload import (
    ABSENT,
    Payload,
    decode_json,
    decode_value,
    text_integrity,
    worst,
)
from otel_cassette.dialects.protocol import Attributes, Reading
from otel_cassette.dialects.results import result_from_message, unwrap_result
from otel_cassette.model.entry import Integrity
from otel_cassette.model.span import SpanRecord

_NAME: Final = "otel-genai"
_ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "tool_arguments")
_RESULTS: Final = ("gen_ai.tool.call.result", "tool_response")
_ANTHROPIC_RESULT: Final = "anthropic.tool_result.content"
_NO_ID: Final = "<not specified>"
_TEXT_KEYS: Final = frozenset({"content", "text", "page_content"})


def read_tool(span: SpanRecord, emitter: Emitter) -> Reading:
    """Read an `execute_tool` span.

    A span with arguments, no error and no result returned None: instrumentations leave the
    attribute out for it.
    """
    attributes = span.attributes
    failure = span_failure(span)
    arguments = _first(attributes, _ARGUMENTS)
    result = _result(attributes, emitter)
    call_id = attributes.get("gen_ai.tool.call.id")
    reading = Reading(
        _NAME,
        "call",
        kind="tool",
        name=_tool_name(span),
        error=failure,
        call_id=call_id if isinstance(call_id, str) and call_id != _NO_ID else None,
        scope=(),
    )
    set_arguments(reading, arguments)
    if failure is not None:
        reading.remedy = None if reading.has_request else emitter.content_switch
        return reading
    if result.integrity != "absent":
        reading.response, reading.response_integrity = result
        reading.has_response = True
    elif reading.has_request and reading.request_integrity == "whole":
        reading.response_integrity = "whole"
        reading.has_response = True
    if not reading.has_request or not reading.has_response:
        reading.remedy = emitter.content_switch
    return reading


def set_arguments(reading: Reading, arguments: Payload) -> None:
    """Put decoded arguments into a tool's reading; a bare value waits for its parameter's name."""
    reading.request_integrity = arguments.integrity
    if arguments.integrity == "absent":
        return
    reading.has_request = True
    value = arguments.value
    if isinstance(value, dict):
        reading.request = value
    elif value in (None, "", []):
        reading.request = {}
    else:
        reading.request = value
        reading.arguments_known = False
    if arguments.integrity in ("whole", "suspect") and reading.arguments_known:
        reading.scope = ("arguments",)


def _first(attributes: Attributes, keys: tuple[str, ...]) -> Payload:
    for key in keys:
        value = attributes.get(key)
        if value == "":
            return Payload({}, "whole")
        if value is not None:
            return decode_value(value)
    return ABSENT


def _result(attributes: Attributes, emitter: Emitter) -> Payload:
    blocks = attributes.get(_ANTHROPIC_RESULT)
    if blocks is not None:
        decoded = decode_json(blocks)
        if decoded.integrity != "whole":
            return decoded
        result = result_from_message(decoded.value)
        verdict = text_integrity(result) if isinstance(result, str) else decoded.integrity
        return Payload(result, verdict)
    for key in _RESULTS:
        value = attributes.get(key)
        if value is not None:
            result = Payload("", "whole") if value == "" else decode_value(value)
            if emitter.unwraps_result:
                return Payload(unwrap_result(result.value), result.integrity)
            return result
    return ABSENT


def _tool_name(span: SpanRecord) -> str:
    name = span.attributes.get("gen_ai.tool.name")
    if isinstance(name, str) and name:
        return name
    return span.name.partition(" ")[2] or span.name


def read_retrieval(span: SpanRecord, emitter: Emitter) -> Reading:
    """Read a `retrieval` span; its documents often have ids and scores, and no text."""
    attributes = span.attributes
    failure = span_failure(span)
    query = attributes.get("gen_ai.retrieval.query.text")
    documents = decode_json(attributes.get("gen_ai.retrieval.documents"))
    name = attributes.get("gen_ai.data_source.id")
    reading = Reading(
        _NAME,
        "call",
        kind="retrieval",
        name=name if isinstance(name, str) else span.name.partition(" ")[2] or span.name,
        error=failure,
        scope=(),
    )
    if isinstance(query, str):
        reading.request = {"query": query}
        reading.has_request = True
        reading.request_integrity = "whole"
        reading.scope = ("arguments",)
    if documents.integrity != "absent" and failure is None:
        reading.response = documents.value
        reading.has_response = True
        reading.response_integrity = worst(documents.integrity, _document_verdict(documents.value))
        if reading.response_integrity == "partial":
            reading.notes.append("The documents have no text, only ids and scores.")
    elif failure is None:
        reading.remedy = emitter.content_switch
    return reading


def _document_verdict(documents: Any) -> Integrity:
    if not isinstance(documents, list):
        return "suspect"
    texts = all(isinstance(d, dict) and _TEXT_KEYS & d.keys() for d in documents)
    return "whole" if texts else "partial"
