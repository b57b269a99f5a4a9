"""Call spans as the official instrumentations write them, made by hand.

Attributes follow the OTel GenAI semantic conventions (1.37: messages as JSON strings with parts).
"""

from __future__ import annotations

import json
from typing import Any

from opentelemetry import _logs
from opentelemetry.sdk import _logs as sdk_logs
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, Tracer

from otel_cassette import CassetteEntry


def tracer_with(*processors: SpanProcessor) -> Tracer:
    """Return a tracer of a new provider with these processors."""
    provider = TracerProvider(shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider.get_tracer("test.instrumentation", "1.0")


def message(role: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a message with one text part."""
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


def request_attributes(question: str) -> dict[str, Any]:
    """Return what a chat span has of its request."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": json.dumps([message("user", question)]),
    }


def answer_attributes(answer: str) -> dict[str, Any]:
    """Return what a chat span has of its answer."""
    output = [message("assistant", answer, finish_reason="stop")]
    return {"gen_ai.output.messages": json.dumps(output)}


def chat(tracer: Tracer, question: str, answer: str = "yes") -> None:
    """Make a model call span."""
    with tracer.start_as_current_span(
        "chat gpt-4o", kind=SpanKind.CLIENT, attributes=request_attributes(question)
    ) as span:
        span.set_attributes(answer_attributes(answer))


def tool_attributes(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a tool span has at its start."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
    }


def question_of(entry: CassetteEntry) -> str:
    """Return the text of a model call's last message."""
    text: str = entry.request["messages"][-1]["parts"][0]["content"]
    return text


def answer_of(entry: CassetteEntry) -> str:
    """Return the text of a model call's answer."""
    text: str = entry.response["choices"][0]["message"]["parts"][0]["content"]
    return text


LOG_RECORD: Any = getattr(sdk_logs, "LogRecord", _logs.LogRecord)
"""What a logger emits; the SDK had a class of its own before 1.39."""


class Kept(SpanProcessor):
    """Keeps finished spans, as any other processor beside ours would."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)
