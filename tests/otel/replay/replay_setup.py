"""What the tests of replay marks share: recorded calls and their spans, and what a provider exported.

The recorded request stands in the two forms it really has: the provider's own JSON, as OpenInference
writes it to `input.value`, and the package's. Not here: fixtures (conftest.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from otel_cassette import CassetteEntry

RECORDED_TRACE = "aaaabbbbccccdddd1111222233334444"
RECORDED_SPANS = ("1234567890abcdef", "1234567890abcdf0", "1234567890abcdf1")


def openai_body(question: str) -> dict[str, Any]:
    """A Chat Completions request body."""
    return {"model": "gpt-4.1-mini", "messages": [{"role": "user", "content": question}]}


def openinference_start(question: str) -> dict[str, Any]:
    """What the OpenInference OpenAI instrumentation puts into `start_span`."""
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4.1-mini",
        "input.value": json.dumps(openai_body(question)),
        "input.mime_type": "application/json",
    }


def llm_entry(index: int, question: str, answer: str) -> CassetteEntry:
    """A recorded chat, with the span it was recorded from."""
    return CassetteEntry(
        kind="llm",
        index=index,
        request=openai_body(question),
        response={
            "id": f"chatcmpl-{index}",
            "choices": [{"message": {"role": "assistant", "content": answer}}],
        },
        source={"trace_id": RECORDED_TRACE, "span_id": RECORDED_SPANS[index]},
    )


def tool_entry(index: int, name: str, arguments: dict[str, Any], result: Any) -> CassetteEntry:
    """A recorded tool call."""
    return CassetteEntry(
        kind="tool",
        index=index,
        name=name,
        request=arguments,
        response=result,
        source={"trace_id": RECORDED_TRACE, "span_id": RECORDED_SPANS[index]},
    )


@dataclass(frozen=True)
class Telemetry:
    """A provider as a user sets it up, and what it exported."""

    provider: TracerProvider
    exporter: InMemorySpanExporter

    @property
    def tracer(self) -> Tracer:
        return self.provider.get_tracer("app")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def all_named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


MakeTelemetry = Callable[..., Telemetry]
