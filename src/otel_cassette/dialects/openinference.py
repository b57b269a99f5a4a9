"""OpenInference: spans marked by `openinference.span.kind` (Phoenix, Arize).

Lives here: the dialect, what a span is by its kind, the reading of an LLM span put together. Not
here: where content stands (`openinference_request.py`, `openinference_response.py`) and the calls
that are no model's (`openinference_calls.py`).

Source: OpenInference semantic conventions
(https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_cassette.dialects import openinference_calls as calls
from otel_cassette.dialects.openinference_request import (
    HIDDEN_INPUT,
    RAISE_LIMITS,
    Request,
    read_request,
)
from otel_cassette.dialects.openinference_response import (
    HIDDEN_OUTPUT,
    Response,
    read_response,
)
from otel_cassette.dialects.openinference_source import Source, read_source
from otel_cassette.dialects.protocol import Dialect, Reading
from otel_cassette.keys.scope import FULL_LLM
from otel_cassette.model.span import LogRecord, SpanRecord

_KIND = "openinference.span.kind"


class OpenInference:
    """The dialect; see the module."""

    name: str = calls.NAME
    priority: int = 10
    markers: tuple[bytes, ...] = (_KIND.encode(),)

    def claims(self, span: SpanRecord) -> bool:
        """Return whether the span says its kind."""
        return _KIND in span.attributes

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG002 - these instrumentations write no log records
        """Return what the span says."""
        kind = str(span.attributes[_KIND]).upper()
        source = read_source(span)
        if kind == "LLM":
            reading = _read_llm(source)
        elif kind == "TOOL":
            reading = _read_tool(source)
        elif kind == "RETRIEVER":
            reading = calls.read_retrieval(source)
        elif kind == "EMBEDDING":
            reading = calls.read_embedding(source)
        else:
            reading = Reading(self.name, "wrapper")
        session = span.attributes.get("session.id")
        if isinstance(session, str) and session:
            reading.conversation_id = session
        return reading


def _read_tool(source: Source) -> Reading:
    if "tool.name" not in source.attributes and source.span.name.startswith("handoff"):
        return Reading(calls.NAME, "lookalike", notes=["A handoff to another agent is no tool."])
    return calls.read_tool(source)


def _read_llm(source: Source) -> Reading:
    span = source.span
    if span.name.endswith("._prepare_chat_with_tools"):
        note = "LlamaIndex prepares a request here; the call has a span of its own."
        return Reading(calls.NAME, "lookalike", notes=[note])
    if span.name.startswith("invoke_agent"):
        note = (
            "OpenInference for Google ADK writes all its model calls onto this one agent span; use "
            "ADK's own spans instead."
        )
        return Reading(calls.NAME, "lookalike", notes=[note])
    request = read_request(source)
    response = read_response(source)
    failure = calls.read_failure(source)
    if failure is not None and response.has_content:
        response.fields["ended_early"] = True
    reading = Reading(
        calls.NAME,
        "call",
        kind="llm",
        request=request.fields or None,
        response=response.fields or None,
        has_request=request.has_content,
        has_response=response.has_content,
        scope=None if request.scope == FULL_LLM else tuple(sorted(request.scope)),
        request_integrity=request.integrity,
        response_integrity=response.integrity,
        error=failure,
        partial=bool(response.fields.get("ended_early")),
        notes=[*request.notes, *response.notes],
    )
    response_id = response.fields.get("id")
    reading.response_id = response_id if isinstance(response_id, str) else None
    reading.remedy = _remedy(request, response)
    return reading


def _remedy(request: Request, response: Response) -> str | None:
    if request.integrity == "redacted":
        return HIDDEN_INPUT
    if response.integrity == "redacted":
        return HIDDEN_OUTPUT
    if {request.integrity, response.integrity} & {"truncated", "dropped"}:
        return RAISE_LIMITS
    return None


DIALECT: Dialect = OpenInference()
