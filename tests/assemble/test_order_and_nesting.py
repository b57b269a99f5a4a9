"""Order by start, ties by the model's order, indices per (parent, kind), calls inside tools."""

from __future__ import annotations

import pytest
from spans import asks, call, chat, gives, span, text, tool

from otel_cassette.assemble import assemble
from otel_cassette.model.entry import ParentRef

ASK = [text("user", "weather?")]


def test_order_is_start_not_end_and_not_file_order() -> None:
    late_but_short = chat("02", 10, 20, output=[text("assistant", "b")])
    early_but_long = chat("01", 5, 90, output=[text("assistant", "a")])
    result = assemble([late_but_short, early_but_long])
    assert [e.llm_response.text for e in result.entries] == ["a", "b"]


def test_tools_that_start_together_stand_in_the_models_order() -> None:
    # Vercel AI SDK 7 rounds starts to milliseconds: both tools start in the same one.
    asking = [
        asks(call("c1", "weather", {"city": "Paris"}), call("c2", "weather", {"city": "Tokyo"}))
    ]
    result = assemble(
        [
            tool("09", "weather", 20, 30, arguments={"city": "Tokyo"}, result="24C", call_id="c2"),
            tool("08", "weather", 20, 170, arguments={"city": "Paris"}, result="18C", call_id="c1"),
            chat("01", 0, 10, input=ASK, output=asking),
        ]
    )
    assert [e.request["city"] for e in result.entries_of("tool")] == ["Paris", "Tokyo"]


def test_calls_inside_a_tool_are_nested_and_counted_by_themselves() -> None:
    result = assemble(
        [
            chat("01", 0, 10, output=[text("assistant", "a")]),
            tool("02", "research", 20, 100, arguments={}, result="done"),
            span("03", "inner agent", 25, 95, parent="02", gen_ai__operation__name="invoke_agent"),
            chat("04", 30, 40, parent="03", output=[text("assistant", "b")]),
            chat("05", 50, 60, parent="03", output=[text("assistant", "c")]),
            chat("06", 110, 120, output=[text("assistant", "d")]),
        ]
    )
    assert [(e.llm_response.text, e.index) for e in result.entries_of("llm")] == [
        ("a", 0),
        ("d", 1),
    ]
    assert [(e.llm_response.text, e.index) for e in result.nested] == [("b", 0), ("c", 1)]
    assert {e.parent for e in result.nested} == {ParentRef("tool", 0)}
    assert result.nested[0].source is not None
    assert result.nested[0].source.path == ("execute_tool research", "inner agent")


def test_a_parent_inside_a_parent_is_told_from_another_of_the_same_index() -> None:
    result = assemble(
        [
            tool("01", "outer", 0, 100, arguments={}, result=1),
            tool("02", "inner", 10, 90, parent="01", arguments={}, result=2),
            chat("03", 20, 80, parent="02", output=[text("assistant", "x")]),
        ]
    )
    llm = next(e for e in result.nested if e.kind == "llm")
    assert llm.parent == ParentRef("tool", 0, parent=ParentRef("tool", 0))


def test_a_call_inside_a_tool_that_failed_names_the_failure() -> None:
    result = assemble(
        [
            tool("01", "fine", 0, 5, arguments={}, result=1),
            tool("02", "broken", 10, 90, arguments={}, status="ERROR", error__type="ValueError"),
            chat("03", 20, 80, parent="02", output=[text("assistant", "x")]),
        ]
    )
    assert result.nested[0].parent == ParentRef("tool", 0, failed=True)
    assert (result.failures[0].name, result.failures[0].follows) == ("broken", 0)


def test_a_span_below_a_tool_that_had_ended_is_not_inside_it() -> None:
    result = assemble(
        [
            tool("01", "spawn", 0, 10, arguments={}, result="started"),
            chat("02", 50, 60, parent="01", output=[text("assistant", "later")]),
        ]
    )
    assert (len(result.entries), result.nested) == (2, [])


def test_failures_take_no_index_and_know_their_place() -> None:
    def answered(span_id: str, start: int) -> object:
        return chat(span_id, start, start + 5, output=[text("assistant", span_id)])

    failed = {"status": "ERROR", "error__type": "openai.RateLimitError", "message": "slow down"}
    result = assemble(
        [
            chat("01", 0, 5, input=ASK, **failed),
            answered("02", 10),
            chat("03", 20, 25, input=ASK, **failed),
            answered("04", 30),
        ]
    )
    assert [e.index for e in result.entries] == [0, 1]
    assert [f.follows for f in result.failures] == [-1, 0]
    assert result.failures[0].error.type == "openai.RateLimitError"
    assert result.failures[0].error.message == "slow down"
    assert result.failures[0].request["messages"] == ASK


def test_an_error_after_part_of_the_answer_is_a_partial_answer() -> None:
    output = [{**text("assistant", "1 2 3"), "finish_reason": "error"}]
    result = assemble(
        [chat("01", 0, 5, input=ASK, output=output, status="ERROR", message="abandoned stream")]
    )
    (entry,) = result.entries
    assert (entry.response_integrity, entry.is_playable) == ("partial", True)
    assert entry.response["ended_early"] is True
    assert entry.error is not None
    assert entry.error.message == "abandoned stream"


def test_spans_of_several_traces_are_one_run() -> None:
    result = assemble(
        [
            chat("01", 50, 60, trace="b" * 32, output=[text("assistant", "second")]),
            chat("01", 0, 10, trace="a" * 32, output=[text("assistant", "first")]),
        ]
    )
    assert [e.llm_response.text for e in result.entries] == ["first", "second"]
    assert result.metadata["trace_id"] == "a" * 32


def test_metadata_names_the_run_and_its_default_model() -> None:
    result = assemble(
        [
            span("01", "support agent", 0, 100, gen_ai__operation__name="invoke_agent"),
            chat("02", 10, 20, parent="01", input=ASK, gen_ai__provider__name="openai"),
        ]
    )
    assert result.metadata == {
        "trace_id": "a" * 32,
        "trace_name": "support agent",
        "model": "m-1",
        "provider": "openai",
    }


def test_a_span_that_came_twice_counts_once_and_the_finished_one_counts() -> None:
    unfinished = chat("01", 0, 0)
    finished = chat("01", 0, 10, output=[text("assistant", "a")])
    assert len(assemble([finished, finished]).entries) == 1
    assert len(assemble([unfinished, finished]).entries) == 1


def test_parents_in_a_circle_end_a_path() -> None:
    result = assemble(
        [
            chat("01", 0, 10, parent="02", output=[text("assistant", "a")]),
            span("02", "b", 0, 20, parent="03"),
            span("03", "c", 0, 20, parent="02"),
        ]
    )
    assert result.entries[0].source is not None
    assert result.entries[0].source.path == ("c", "b")


def test_latency_and_source_are_the_spans() -> None:
    entry = assemble([chat("01", 5, 25, output=[text("assistant", "a")])]).entries[0]
    assert entry.latency_ms == pytest.approx(20.0)
    assert entry.source is not None
    assert entry.source.start_ns == 5_000_000
    assert entry.source.dialect == "otel-genai"


def test_a_collapsed_tool_loop_is_not_replayable() -> None:
    # Gemini's automatic function calling: one span, the first request and the last answer.
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=[text("assistant", "18C in Paris")]),
            tool("02", "weather", 20, 40, parent="01", arguments={"city": "Paris"}, result="18C"),
        ]
    )
    entry = result.entries_of("llm")[0]
    assert (entry.response_integrity, entry.is_playable) == ("dropped", False)
    assert [line.span_id for line in result.report.of("collapsed")] == ["01"]
    assert result.entries_of("tool")[0].response == "18C"


def test_a_tool_that_the_answer_asks_for_does_not_collapse_it() -> None:
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=[asks(call("c1", "weather", {}))]),
            tool("02", "weather", 20, 40, parent="01", arguments={}, result="18C", call_id="c1"),
            chat("03", 110, 120, input=[*ASK, asks(call("c1", "weather", {})), gives("c1", "18C")]),
        ]
    )
    assert result.entries_of("llm")[0].is_playable
    assert result.report.of("collapsed") == []
