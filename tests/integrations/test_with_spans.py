"""Tools in a session beside the spans that instrumentations make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.tools import tool
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel

from otel_cassette import DIVERGED_ATTR, Cassette
from otel_cassette.otel.processor import CassetteSpanProcessor

QUESTION = "is A-1 here?"


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exported: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(CassetteSpanProcessor())
    made.add_span_processor(SimpleSpanProcessor(exported))
    yield made
    made.shutdown()


def named(exported: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exported.get_finished_spans() if span.name == name]


def shop(provider: TracerProvider, ran: list[Any]) -> Agent[None, str]:
    """An agent with pydantic-ai's own spans, whose model calls each tool once."""
    spans = Instrumentation(InstrumentationSettings(tracer_provider=provider))
    agent = Agent(TestModel(), capabilities=[spans])

    @agent.tool_plain
    def lookup_order(order_id: str) -> str:
        ran.append(order_id)
        return "here"

    return agent


def test_a_tool_and_its_span_are_one_entry(
    instrument: Callable[[str], None],
    provider: TracerProvider,
    exported: InMemorySpanExporter,
    ran: list[Any],
) -> None:
    instrument("pydantic_ai")
    agent = shop(provider, ran)
    cassette = Cassette()
    with cassette.recording():
        asyncio.run(agent.run(QUESTION))
    assert [(e.kind, e.name, e.response) for e in cassette.entries if e.kind == "tool"] == [
        ("tool", "lookup_order", "here")
    ]
    exported.clear()
    with cassette.replaying(kinds={"tool"}, span=False) as session:
        asyncio.run(agent.run(QUESTION))
    assert (ran, session.summary.served) == (["a"], 1)
    (span,) = named(exported, "execute_tool lookup_order")
    assert (span.attributes or {})["gen_ai.tool.call.result"] == "here"
    assert DIVERGED_ATTR not in (span.attributes or {})


def test_the_span_of_a_diverged_tool_is_marked(
    instrument: Callable[[str], None],
    provider: TracerProvider,
    exported: InMemorySpanExporter,
    ran: list[Any],
) -> None:
    instrument("pydantic_ai")
    agent = shop(provider, ran)
    cassette = Cassette()
    with cassette.recording():
        asyncio.run(agent.run(QUESTION))
    exported.clear()
    changed = shop(provider, ran)
    with cassette.replaying(kinds={"tool"}, mode="lenient", span=False):
        asyncio.run(changed.run(QUESTION, model=TestModel(seed=1)))
    (span,) = named(exported, "execute_tool lookup_order")
    assert (span.attributes or {})[DIVERGED_ATTR] is True
    assert ran == ["a"]


def test_a_tool_and_its_callback_span_are_one_entry(
    instrument: Callable[[str], None],
    provider: TracerProvider,
    exported: InMemorySpanExporter,
    ran: list[Any],
) -> None:
    """Callback instrumentations open spans that are not current while the tool runs."""
    instrument("langchain")

    @tool
    async def lookup_order(order_id: str) -> dict[str, str]:
        """Look up an order."""
        await asyncio.sleep(0.01)
        ran.append(order_id)
        return {"order_id": order_id}

    async def both() -> list[Any]:
        return await asyncio.gather(
            lookup_order.ainvoke({"order_id": "A-1"}), lookup_order.ainvoke({"order_id": "A-2"})
        )

    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    cassette = Cassette()
    try:
        with cassette.recording():
            first = asyncio.run(both())
        # The handler of each runs in a thread before its tool: either may come first.
        pairs = sorted((e.request["order_id"], e.response["order_id"]) for e in cassette.entries)
        assert pairs == [("A-1", "A-1"), ("A-2", "A-2")]
        exported.clear()
        with cassette.replaying(span=False) as session:
            assert asyncio.run(both()) == first
    finally:
        instrumentor.uninstrument()
    assert (len(ran), session.summary.served) == (2, 2)
    assert len(named(exported, "lookup_order")) == 2
