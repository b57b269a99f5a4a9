"""A call that a wrapper and a span both saw is one entry, whichever stands around the other."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import Tracer
from recording_calls import (
    answer_attributes,
    answer_of,
    chat,
    question_of,
    request_attributes,
    tool_attributes,
    tracer_with,
)

from otel_cassette import Cassette, CassetteSpanProcessor, LLMRequest


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    processor = CassetteSpanProcessor()
    yield tracer_with(processor)
    assert processor.report.lines == ()
    processor.shutdown()


class InstrumentedModel:
    """A model client whose instrumentation makes a span inside the call."""

    def __init__(self, tracer: Tracer, barrier: threading.Barrier | None = None) -> None:
        self._tracer = tracer
        self._barrier = barrier

    def complete(self, request: LLMRequest) -> dict[str, Any]:
        question = request.to_json()["messages"][-1]["parts"][0]["content"]
        with self._tracer.start_as_current_span(
            "chat gpt-4o", attributes=request_attributes(question)
        ) as span:
            if self._barrier is not None:
                self._barrier.wait(10)
            span.set_attributes(answer_attributes(f"re {question}"))
        answer = {"message": {"role": "assistant", "content": f"re {question}"}}
        return {"choices": [{**answer, "finish_reason": "stop"}], "raw": {"of": "the wire"}}


def ask(text: str) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}


def test_a_wrapper_around_an_instrumented_client(tracer: Tracer) -> None:
    cassette = Cassette()
    model = cassette.wrap_llm(InstrumentedModel(tracer))
    with cassette.recording(), tracer.start_as_current_span("agent"):
        model.complete(ask("one"))
        model.complete(ask("two"))
    assert [question_of(e) for e in cassette.entries] == ["one", "two"]
    # The wrapper's account is the fuller one; the span's place in the tree comes with it.
    assert [e.response["raw"] for e in cassette.entries] == [{"of": "the wire"}] * 2
    for entry in cassette.entries:
        assert entry.source is not None
        assert entry.source.path == ("agent",)
        assert entry.source.dialect is None  # no dialect read it: the content is not the span's


def test_a_wrapper_inside_a_span(tracer: Tracer) -> None:
    cassette = Cassette()

    class Plain:
        def complete(self, _request: LLMRequest) -> dict[str, Any]:
            answer = {"message": {"role": "assistant", "content": "re"}, "finish_reason": "stop"}
            return {"choices": [answer], "raw": {"of": "the wire"}}

    model = cassette.wrap_llm(Plain())
    with (
        cassette.recording(),
        tracer.start_as_current_span("chat gpt-4o", attributes=request_attributes("one")) as span,
    ):
        model.complete(ask("one"))
        span.set_attributes(answer_attributes("re"))
    (entry,) = cassette.entries
    assert entry.response["raw"] == {"of": "the wire"}


def test_a_wrapper_without_spans_and_spans_without_a_wrapper(tracer: Tracer) -> None:
    cassette = Cassette()

    class Plain:
        def complete(self, _request: LLMRequest) -> dict[str, Any]:
            answer = {"message": {"role": "assistant", "content": "w"}, "finish_reason": "stop"}
            return {"choices": [answer]}

    model = cassette.wrap_llm(Plain())
    with cassette.recording(), tracer.start_as_current_span("agent"):
        model.complete(ask("by the wrapper"))
        chat(tracer, "by a span")
        model.complete(ask("by the wrapper again"))
    found = [question_of(e) for e in cassette.entries]
    assert found == ["by the wrapper", "by a span", "by the wrapper again"]
    assert [e.index for e in cassette.entries] == [0, 1, 2]


def test_concurrent_calls_of_one_place(tracer: Tracer) -> None:
    cassette = Cassette()
    model = cassette.wrap_llm(InstrumentedModel(tracer, threading.Barrier(4)))
    with cassette.recording():
        threads = [threading.Thread(target=model.complete, args=(ask(str(n)),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(question_of(e) for e in cassette.entries) == ["0", "1", "2", "3"]
    assert all(answer_of(e) == f"re {question_of(e)}" for e in cassette.entries)


def test_a_wrapped_tool_under_its_span_and_the_other_way_round(tracer: Tracer) -> None:
    cassette = Cassette()

    def traced(n: int) -> dict[str, int]:
        attributes = {**tool_attributes("inner", {"n": n}), "gen_ai.tool.call.result": '{"n": 1}'}
        with tracer.start_as_current_span("execute_tool inner", attributes=attributes):
            return {"n": n}

    outside = cassette.wrap_tool(traced, name="inner")
    inside = cassette.wrap_tool(lambda n: {"n": n}, name="outer")
    with cassette.recording(), tracer.start_as_current_span("agent"):
        outside(n=1)
        with tracer.start_as_current_span(
            "execute_tool outer", attributes=tool_attributes("outer", {"n": 2})
        ):
            inside(n=2)
    assert [(e.name, e.request, e.response) for e in cassette.entries] == [
        ("inner", {"n": 1}, {"n": 1}),
        ("outer", {"n": 2}, {"n": 2}),
    ]


def test_a_model_call_inside_a_wrapped_tool_is_nested(tracer: Tracer) -> None:
    cassette = Cassette()

    def research(topic: str) -> str:
        chat(tracer, topic)
        return "found"

    tool = cassette.wrap_tool(research)
    with cassette.recording(), tracer.start_as_current_span("agent"):
        tool(topic="a")
        chat(tracer, "between")
        tool(topic="b")
    assert [(e.kind, e.index) for e in cassette.entries] == [("tool", 0), ("llm", 0), ("tool", 1)]
    assert [question_of(e) for e in cassette.nested] == ["a", "b"]
    parents = [e.parent for e in cassette.nested]
    assert [(p.kind, p.index) for p in parents if p is not None] == [("tool", 0), ("tool", 1)]


def test_a_wrapped_tool_is_not_inferred_once_more(tracer: Tracer) -> None:
    import json

    cassette = Cassette()
    tool = cassette.wrap_tool(lambda city: {"sunny": True}, name="weather")
    call = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
    result = {"type": "tool_call_response", "id": "c1", "response": '{"sunny": true}'}
    asked = [{"role": "user", "parts": [{"type": "text", "content": "weather?"}]}]
    wanted = {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}

    def turn(messages: list[Any], output: Any) -> None:
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([output]),
        }
        tracer.start_span("chat gpt-4o", attributes=attributes).end()

    with cassette.recording():
        turn(asked, wanted)
        tool(city="Paris")
        final = {
            "role": "assistant",
            "parts": [{"type": "text", "content": "sun"}],
            "finish_reason": "stop",
        }
        turn(
            [
                *asked,
                {k: wanted[k] for k in ("role", "parts")},
                {"role": "tool", "parts": [result]},
            ],
            final,
        )
    kinds = [(e.kind, e.index, e.inferred) for e in cassette.entries]
    assert kinds == [("llm", 0, False), ("tool", 0, False), ("llm", 1, False)]


def test_a_failed_call_is_one_failure(tracer: Tracer) -> None:
    cassette = Cassette()

    class Failing:
        def complete(self, _request: LLMRequest) -> Any:
            with tracer.start_as_current_span("chat gpt-4o", attributes=request_attributes("x")):
                raise TimeoutError("too slow")

    model = cassette.wrap_llm(Failing())
    with cassette.recording():
        with pytest.raises(TimeoutError):
            model.complete(ask("x"))
        chat(tracer, "after it")
    assert len(cassette.failures) == 1
    assert cassette.failures[0].follows == -1
    assert [e.index for e in cassette.entries] == [0]


def test_it_is_saved_and_played(tracer: Tracer, tmp_path: Path) -> None:
    cassette = Cassette()
    model = cassette.wrap_llm(InstrumentedModel(tracer))
    with cassette.recording(tmp_path / "c.jsonl"), tracer.start_as_current_span("agent"):
        model.complete(ask("one"))
        chat(tracer, "two")
    loaded = Cassette.load(tmp_path / "c.jsonl")
    played = loaded.wrap_llm()
    assert [played.complete(ask(q)).text for q in ("one", "two")] == ["re one", "yes"]
    assert list(tmp_path.glob(".*")) == []


def test_a_second_take_goes_on_after_the_first(tracer: Tracer) -> None:
    cassette = Cassette()
    with cassette.recording():
        chat(tracer, "one")
    cassette.rewind()
    with cassette.recording():
        chat(tracer, "one, again")
    assert [question_of(e) for e in cassette.entries] == ["one, again"]


def test_two_tools_at_once_whose_spans_hold_bare_values_and_are_not_current(tracer: Tracer) -> None:
    """As callbacks make them: both spans open around both calls, and none of the calls is in one."""
    cassette = Cassette()

    def look_up(order: str) -> dict[str, str]:
        time.sleep(0.005 if order == "A-1" else 0)  # the other's is the shortest around each span
        return {"order": order}

    tool = cassette.wrap_tool(look_up)
    with cassette.recording():
        spans = {
            order: tracer.start_span(
                "look_up",
                attributes={
                    "openinference.span.kind": "TOOL",
                    "tool.name": "look_up",
                    "input.value": order,
                },
            )
            for order in ("A-1", "A-2")
        }
        for order in spans:
            tool(order=order)
        for order, span in spans.items():
            span.set_attribute("output.value", json.dumps({"order": order}))
            span.set_attribute("output.mime_type", "application/json")
            span.end()
    assert sorted((e.request["order"], e.response["order"]) for e in cassette.entries) == [
        ("A-1", "A-1"),
        ("A-2", "A-2"),
    ]
    for entry in cassette.entries:
        own = spans[entry.request["order"]].get_span_context().span_id
        assert entry.source is not None
        assert entry.source.span_id == f"{own:016x}"
