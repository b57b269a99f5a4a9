"""What the tracing wrappers write on tool spans is read back, value for value."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import otel_cassette
from otel_cassette import Cassette, CassetteEntry


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def only_entry(spans: InMemorySpanExporter) -> CassetteEntry:
    (entry,) = Cassette.from_trace(list(spans.get_finished_spans())).entries
    return entry


@pytest.mark.parametrize(
    "value", [{"value": 1}, {"total": 34.5}, [1, {"a": None}], "42", 42, "", None, True]
)
def test_a_result_comes_back_as_it_was(spans: InMemorySpanExporter, value: Any) -> None:
    otel_cassette.wrap_tool(lambda order_id: value, name="lookup")(order_id="A-1")
    entry = only_entry(spans)
    assert (entry.name, entry.request) == ("lookup", {"order_id": "A-1"})
    assert entry.response == value
    assert type(entry.response) is type(value)
    assert (entry.yields, entry.response_integrity) == (None, "whole")


def test_a_generator_comes_back_with_its_values_and_its_result(spans: InMemorySpanExporter) -> None:
    @otel_cassette.wrap_tool
    def pages(count: int) -> Iterator[dict[str, int]]:
        for number in range(count):
            yield {"page": number}
        return "end"

    assert list(pages(count=2)) == [{"page": 0}, {"page": 1}]
    entry = only_entry(spans)
    assert entry.yields == ({"page": 0}, {"page": 1})
    assert (entry.response, entry.response_integrity) == ("end", "whole")


def test_a_generator_that_was_left_is_partial(spans: InMemorySpanExporter) -> None:
    @otel_cassette.wrap_tool
    async def pages(count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number

    async def read_one() -> int:
        source = pages(count=3)
        async for number in source:
            await source.aclose()
            return number
        return -1

    assert asyncio.run(read_one()) == 0
    entry = only_entry(spans)
    assert entry.yields == (0,)
    assert entry.response_integrity == "partial"
    assert entry.is_playable


def test_the_end_of_a_stream_is_no_failure(spans: InMemorySpanExporter) -> None:
    class Client:
        model = "m"

        def stream(self, request: Any) -> Iterator[str]:
            yield from ("he", "llo")

        def complete(self, request: Any) -> Any:
            raise AssertionError

    pieces = otel_cassette.wrap_llm(Client()).stream(
        {"messages": [{"role": "user", "content": "hi"}]}
    )
    assert len(list(pieces)) == 2
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET
    assert only_entry(spans).llm_response.text == "hello"
