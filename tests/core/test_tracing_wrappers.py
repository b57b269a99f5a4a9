"""The tracing wrappers, and how they compose with those of a cassette."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import otel_cassette
from otel_cassette import (
    DIVERGED_ATTR,
    DIVERGENCE_ATTR,
    Cassette,
    CassetteMissError,
    LLMRequest,
    StreamChunk,
)
from otel_cassette.session import marks

SECRET = "sk-" + "a1" * 20


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Have the wrappers' spans made by a provider of the test's own."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(
        trace, "get_tracer", lambda name, *_args, **_kwargs: provider.get_tracer(name)
    )
    monkeypatch.setattr(marks, "tracer", lambda: provider.get_tracer("otel_cassette"))
    return exporter


def one(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def read(span: ReadableSpan, name: str) -> Any:
    return json.loads(str((span.attributes or {})[name]))


class Model:
    model = "gpt-4o"
    provider = "openai"

    def complete(self, request: LLMRequest) -> Any:
        return {
            "id": "r1",
            "model": "gpt-4o-2024-08-06",
            "choices": [
                {
                    "message": {"role": "assistant", "content": f"re: {request.messages[-1].text}"},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"input_tokens": 3, "output_tokens": 4},
            "raw": {"own": 1},
        }

    async def acomplete(self, request: LLMRequest) -> Any:
        await asyncio.sleep(0)
        return self.complete(request)

    def stream(self, _request: LLMRequest) -> Iterator[str]:
        yield from ("one ", "two")

    async def astream(self, request: LLMRequest) -> AsyncIterator[str]:
        for piece in self.stream(request):
            yield piece


def test_a_models_call_is_a_span_with_content(spans: InMemorySpanExporter) -> None:
    llm = otel_cassette.wrap_llm(Model())
    answered = llm.complete(
        {
            "messages": [{"role": "system", "content": "brief"}, {"role": "user", "content": "hi"}],
            "params": {"temperature": 0.5, "max_tokens": 9},
            "tools": [{"name": "f"}],
        }
    )
    assert answered["id"] == "r1", "the client's answer, as it is"
    span = one(spans)
    assert (span.name, span.kind) == ("chat gpt-4o", SpanKind.CLIENT)
    attributes = dict(span.attributes or {})
    assert attributes["cassette.span.type"] == "llm_call"
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "openai"
    assert attributes["gen_ai.request.model"] == "gpt-4o"
    assert (attributes["gen_ai.request.temperature"], attributes["gen_ai.request.max_tokens"]) == (
        0.5,
        9,
    )
    assert attributes["gen_ai.response.id"] == "r1"
    assert attributes["gen_ai.response.model"] == "gpt-4o-2024-08-06"
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (
        3,
        4,
    )
    assert [m["role"] for m in read(span, "gen_ai.input.messages")] == ["system", "user"]
    assert read(span, "gen_ai.output.messages")[0]["parts"] == [
        {"type": "text", "content": "re: hi"}
    ]
    assert read(span, "cassette.request")["params"] == {"temperature": 0.5, "max_tokens": 9}
    assert "raw" not in read(span, "cassette.response")


def test_include_raw_keeps_the_providers_payload(spans: InMemorySpanExporter) -> None:
    otel_cassette.wrap_llm(Model(), include_raw=True).complete("hi")
    assert read(one(spans), "cassette.response")["raw"] == {"own": 1}


@pytest.mark.parametrize("way", ["acomplete", "stream", "astream"])
def test_the_other_ways_are_spans_too(spans: InMemorySpanExporter, way: str) -> None:
    llm = otel_cassette.wrap_llm(Model())

    async def run() -> None:
        if way == "acomplete":
            await llm.acomplete("hi")
        elif way == "astream":
            assert [c async for c in llm.astream("hi")] == ["one ", "two"]
        else:
            assert list(llm.stream("hi")) == ["one ", "two"]

    asyncio.run(run())
    text = "re: hi" if way == "acomplete" else "one two"
    assert read(one(spans), "gen_ai.output.messages")[0]["parts"] == [
        {"type": "text", "content": text}
    ]


def test_tools_of_every_sort_are_spans(spans: InMemorySpanExporter) -> None:
    @otel_cassette.wrap_tool
    def look(city: str) -> dict[str, str]:
        return {"sky": f"blue over {city}"}

    @otel_cassette.wrap_tool(name="later")
    async def look_later(city: str) -> str:
        return city

    @otel_cassette.wrap_tool
    def pages(n: int) -> Iterator[int]:
        yield from range(n)
        return "done"

    assert look("Paris") == {"sky": "blue over Paris"}
    assert asyncio.run(look_later(city="Rome")) == "Rome"
    assert list(pages(2)) == [0, 1]
    made = spans.get_finished_spans()
    assert [s.name for s in made] == [
        "execute_tool look",
        "execute_tool later",
        "execute_tool pages",
    ]
    assert [read(s, "gen_ai.tool.call.arguments") for s in made] == [
        {"city": "Paris"},
        {"city": "Rome"},
        {"n": 2},
    ]
    assert [read(s, "gen_ai.tool.call.result") for s in made] == [
        {"sky": "blue over Paris"},
        "Rome",
        "done",
    ]
    assert {(s.attributes or {})["cassette.span.type"] for s in made} == {"tool_call"}
    assert {(s.attributes or {})["gen_ai.operation.name"] for s in made} == {"execute_tool"}


def test_traced_generators_pass_on_what_is_sent(spans: InMemorySpanExporter) -> None:
    @otel_cassette.wrap_tool
    def echo() -> Any:
        said = yield "ready"
        try:
            yield f"heard {said}"
        except KeyError:
            yield "caught"

    generator = echo()
    assert [next(generator), generator.send("x"), generator.throw(KeyError())] == [
        "ready",
        "heard x",
        "caught",
    ]
    generator.close()
    assert one(spans).end_time


def test_a_failure_is_marked_and_its_secrets_are_masked(spans: InMemorySpanExporter) -> None:
    @otel_cassette.wrap_tool
    def fails(key: str) -> None:
        raise ValueError(f"bad key {key}")

    with pytest.raises(ValueError, match=SECRET):
        fails(SECRET)
    span = one(spans)
    assert span.status.status_code is StatusCode.ERROR
    assert "ValueError: bad key <redacted:openai-key>" in str(span.status.description)
    assert SECRET not in span.to_json()
    assert span.events[0].name == "exception"


def test_telemetry_raises_nothing_into_the_program(spans: InMemorySpanExporter) -> None:
    class Odd:
        def complete(self, _request: LLMRequest) -> Any:
            return 5

        def stream(self, _request: LLMRequest) -> Iterator[Any]:
            yield from (5, object())

    llm = otel_cassette.wrap_llm(Odd())
    assert llm.complete("hi") == 5
    assert len(list(llm.stream("hi"))) == 2
    unwritable = object()
    assert otel_cassette.wrap_tool(lambda x: x, name="same")(unwritable) is unwritable
    assert otel_cassette.wrap_tool(lambda x: x, name="half")("\ud800") == "\ud800"
    spans.get_finished_spans()[-1].to_json().encode("utf-8")
    assert len(spans.get_finished_spans()) == 4


# -- together with a cassette -------------------------------------------------------------------------


def test_tracing_outside_a_cassette_shows_its_spans_in_playback(
    spans: InMemorySpanExporter,
) -> None:
    cassette = Cassette()
    otel_cassette.wrap_llm(cassette.wrap_llm(Model())).complete("hi")
    again = Cassette(cassette.entries, mode="strict", metadata=cassette.metadata)
    spans.clear()
    played = otel_cassette.wrap_llm(again.wrap_llm())
    assert played.complete("hi").text == "re: hi"
    span = one(spans)
    assert span.name == "chat gpt-4o", "by the recording's metadata"
    assert read(span, "gen_ai.output.messages")[0]["parts"] == [
        {"type": "text", "content": "re: hi"}
    ]


@pytest.mark.parametrize("order", ["tracing outside", "tracing inside"])
def test_a_traced_tool_keeps_its_span_in_either_order(
    spans: InMemorySpanExporter, order: str
) -> None:
    def look(city: str) -> str:
        return f"blue over {city}"

    def build(cassette: Cassette) -> Any:
        if order == "tracing outside":
            return otel_cassette.wrap_tool(cassette.wrap_tool(look))
        return cassette.wrap_tool(otel_cassette.wrap_tool(look))

    cassette = Cassette()
    assert build(cassette)("Paris") == "blue over Paris"
    assert len(spans.get_finished_spans()) == 1, "one call, one span"
    assert [e.name for e in cassette.entries] == ["look"]
    spans.clear()
    again = Cassette(cassette.entries, mode="strict")
    assert build(again)("Paris") == "blue over Paris"
    span = one(spans)
    assert span.name == "execute_tool look"
    assert read(span, "gen_ai.tool.call.result") == "blue over Paris"


def test_a_traced_tool_keeps_its_name_or_takes_the_new_one(spans: InMemorySpanExporter) -> None:
    traced = otel_cassette.wrap_tool(lambda: 1, name="first")
    cassette = Cassette()
    cassette.wrap_tool(traced)()
    cassette.wrap_tool(traced, name="second")()
    assert [e.name for e in cassette.entries] == ["first", "second"]
    assert [s.name for s in spans.get_finished_spans()] == [
        "execute_tool first",
        "execute_tool second",
    ]


@pytest.mark.parametrize("mode", ["strict", "lenient", "fallthrough"])
def test_a_diverging_wrapper_marks_its_span_without_session_sampler_or_processor(
    spans: InMemorySpanExporter, mode: Any
) -> None:
    cassette = Cassette()
    cassette.wrap_llm(Model()).complete("hi")
    again = Cassette(cassette.entries, mode=mode)
    llm = otel_cassette.wrap_llm(again.wrap_llm(Model()))
    if mode == "strict":
        with pytest.raises(CassetteMissError):
            llm.complete("ho")
    else:
        llm.complete("ho")
    span = next(s for s in spans.get_finished_spans() if s.name.startswith("chat"))
    attributes = dict(span.attributes or {})
    assert attributes[DIVERGED_ATTR] is True
    assert (
        attributes[DIVERGENCE_ATTR] == "llm call #0: request differs (messages/0/parts/0/content)"
    )
    event = next(e for e in span.events if e.name == "cassette.divergence")
    assert any('"ho"' in line for line in (event.attributes or {})["cassette.divergence.diff"])  # type: ignore[union-attr]
    assert again.divergences[0].span_id == format(span.get_span_context().span_id, "016x")
    assert again.calls[0].span_id == again.divergences[0].span_id


def test_a_call_in_a_users_own_span_marks_that_one(spans: InMemorySpanExporter) -> None:
    cassette = Cassette([], mode="fallthrough")
    with trace.get_tracer("app").start_as_current_span("my work") as span:
        cassette.wrap_tool(lambda: 1, name="t")()
        span_id = format(span.get_span_context().span_id, "016x")
    marked = next(s for s in spans.get_finished_spans() if s.name == "my work")
    assert (marked.attributes or {})[DIVERGED_ATTR] is True
    assert cassette.divergences[0].span_id == span_id


def test_equal_calls_leave_no_mark(spans: InMemorySpanExporter) -> None:
    cassette = Cassette()
    cassette.wrap_llm(Model()).complete("hi")
    again = Cassette(cassette.entries, mode="strict")
    otel_cassette.wrap_llm(again.wrap_llm()).complete("hi")
    assert DIVERGED_ATTR not in (one(spans).attributes or {})
    assert one(spans).events == ()


def test_untraced_calls_have_no_span_id() -> None:
    cassette = Cassette([], mode="fallthrough")
    cassette.wrap_tool(lambda: 1, name="t")()
    assert cassette.divergences[0].span_id is None


def test_a_stream_of_chunks_behind_a_traced_cassette(spans: InMemorySpanExporter) -> None:
    class Streams:
        def stream(self, _request: LLMRequest) -> Iterator[StreamChunk]:
            yield StreamChunk(text="a")
            yield StreamChunk(text="b", finish_reason="stop")

    cassette = Cassette()
    list(cassette.wrap_llm(Streams()).stream("hi"))
    again = Cassette(cassette.entries, mode="strict")
    assert [c.text for c in otel_cassette.wrap_llm(again.wrap_llm()).stream("hi")] == ["a", "b"]
    assert read(one(spans), "gen_ai.output.messages")[0]["finish_reason"] == "stop"


def test_a_cancelled_tool_is_not_recorded_as_one_that_returned_none(
    spans: InMemorySpanExporter,
) -> None:
    async def lookup(order_id: str) -> None:
        if order_id == "slow":
            await asyncio.sleep(60)

    async def main() -> None:
        traced = otel_cassette.wrap_tool(lookup)
        await traced("quick")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(traced("slow"), 0.01)

    asyncio.run(main())
    cassette = Cassette.from_trace(spans.get_finished_spans(), merge=True)
    tool = cassette.wrap_tool(lookup)

    async def again() -> None:
        assert await tool("quick") is None
        with pytest.raises(CassetteMissError, match="recorded without a response"):
            await tool("slow")

    with cassette.replaying():
        asyncio.run(again())
