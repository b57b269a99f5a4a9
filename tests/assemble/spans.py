"""Spans for tests, made of keyword arguments."""

from __future__ import annotations

import json
from typing import Any

from otel_cassette.model.span import Scope, SpanRecord

TRACE = "a" * 32


def span(
    span_id: str,
    name: str,
    start: int,
    end: int,
    *,
    parent: str | None = None,
    trace: str = TRACE,
    scope: str = "opentelemetry.instrumentation.genai.openai",
    status: str = "UNSET",
    message: str = "",
    dropped: int = 0,
    events: Any = (),
    **attributes: Any,
) -> SpanRecord:
    """A span; times in milliseconds, `__` in an attribute's name stands for a dot."""
    return SpanRecord(
        trace_id=trace,
        span_id=span_id,
        name=name,
        parent_span_id=parent,
        start_ns=start * 1_000_000,
        end_ns=end * 1_000_000,
        scope=Scope(scope, "1.0"),
        status_code=status,  # type: ignore[arg-type]
        status_message=message,
        dropped_attributes=dropped,
        events=events,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
    )


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def call(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "name": name, "arguments": arguments}
    return part if call_id is None else {**part, "id": call_id}


def asks(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    parts = [{"type": "text", "content": content}] if content else []
    return {"role": "assistant", "parts": [*parts, *calls], "finish_reason": "tool_call"}


def gives(call_id: str | None, response: Any) -> dict[str, Any]:
    part = {"type": "tool_call_response", "response": response}
    return {"role": "tool", "parts": [part if call_id is None else {**part, "id": call_id}]}


def chat(
    span_id: str,
    start: int,
    end: int,
    *,
    input: Any = None,  # noqa: A002
    output: Any = None,
    response_id: str | None = None,
    **more: Any,
) -> SpanRecord:
    """A chat span; messages as lists, None where content was not captured."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    if input is not None:
        attributes["gen_ai.input.messages"] = json.dumps(input)
    if output is not None:
        attributes["gen_ai.output.messages"] = json.dumps(output)
    if response_id is not None:
        attributes["gen_ai.response.id"] = response_id
    return span(span_id, "chat m-1", start, end, **{**attributes, **more})


def tool(span_id: str, name: str, start: int, end: int, **more: Any) -> SpanRecord:
    """An `execute_tool` span; `arguments` and `result` are put in as JSON."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    if "arguments" in more:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(more.pop("arguments"))
    if "result" in more:
        attributes["gen_ai.tool.call.result"] = json.dumps(more.pop("result"))
    if "call_id" in more:
        attributes["gen_ai.tool.call.id"] = more.pop("call_id")
    return span(span_id, f"execute_tool {name}", start, end, **{**attributes, **more})
