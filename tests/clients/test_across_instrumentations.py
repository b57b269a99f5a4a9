"""A trace of one instrumentation replayed under another one, and under none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as OfficialGenAI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_cassette import Cassette
from otel_cassette.clients import CassetteInstrumentor

DATA = Path(__file__).parent.parent / "data"
TRACES = {
    "official": DATA / "traces/otel-genai-openai/refund--span_and_event",
    "openinference": DATA / "dialects/openinference/openinference-openai/refund",
}
LIVE: dict[str, Callable[[], Any] | None] = {
    "official": OfficialGenAI,
    "openinference": OpenInference,
    "none": None,
}


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.clear()


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("recorded", TRACES)
def test_a_trace_replays_whatever_instruments_the_live_program(
    recorded: str, live: str, exported: InMemorySpanExporter
) -> None:
    base = TRACES[recorded]
    truth = json.loads(Path(f"{base}.truth.json").read_text("utf-8"))
    calls = [c for c in truth["calls"] if c["kind"] == "llm"]
    cassette = Cassette.from_trace(Path(f"{base}.otlp.jsonl"), merge=True)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    make = LIVE[live]
    instrumentor = make() if make is not None else None
    ours = CassetteInstrumentor()
    ours.instrument()
    if instrumentor is not None:
        instrumentor.instrument(tracer_provider=provider)
    try:
        nowhere = "http://127.0.0.1:9/v1"
        block = cassette.replaying(kinds={"llm"}, block_network=True, span=False)
        with (
            openai.OpenAI(api_key="k", base_url=nowhere, max_retries=0) as client,
            block as session,
        ):
            answers = [client.chat.completions.create(**c["request"]) for c in calls]
    finally:
        if instrumentor is not None:
            instrumentor.uninstrument()
        ours.uninstrument()
    for answer, call in zip(answers, calls, strict=True):
        said = call["response"]["choices"][0]["message"]
        assert answer.choices[0].message.content == said["content"]
        asked = [
            (t.function.name, json.loads(t.function.arguments))
            for t in answer.choices[0].message.tool_calls or ()
        ]
        assert asked == [
            (t["function"]["name"], json.loads(t["function"]["arguments"]))
            for t in said.get("tool_calls") or ()
        ]
    assert session.divergences == []
    assert (session.summary.served, session.summary.live) == (len(calls), 0)
    assert len(exported.get_finished_spans()) == (len(calls) if instrumentor is not None else 0)
