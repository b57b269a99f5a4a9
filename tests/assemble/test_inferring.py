"""Tools and the model's own calls: joined, completed, and inferred where a tool has no span."""

from __future__ import annotations

from typing import Any

import pytest
from spans import asks, call, chat, gives, text, tool

from otel_cassette.assemble import assemble

ASK = [text("user", "refund A-17")]


def turns(*results: Any, ids: bool = True) -> list[Any]:
    """Two model calls with the tools of the first answered in the second's request."""
    names = [f"c{i}" if ids else None for i in range(len(results))]
    asking = asks(*[call(name, f"t{i}", {"n": i}) for i, name in enumerate(names)])
    history = [*ASK, asking, *[gives(n, r) for n, r in zip(names, results, strict=True)]]
    return [
        chat("01", 0, 10, input=ASK, output=[asking]),
        chat("02", 50, 60, input=history, output=[text("assistant", "done")]),
    ]


@pytest.mark.parametrize(
    ("told", "returned"),
    [
        ('{"ok": true}', {"ok": True}),
        ("[1, 2]", [1, 2]),
        ({"ok": True}, {"ok": True}),
        ("refunded 19.9", "refunded 19.9"),
        ("42", "42"),
        ("null", "null"),
        ("", ""),
        ([{"type": "text", "text": '{"ok": true}'}], {"ok": True}),
        ([{"text": "a"}, {"text": "b"}], "a\nb"),
        ("{'python': 'repr'}", "{'python': 'repr'}"),
    ],
)
def test_the_result_is_what_the_model_saw(told: Any, returned: Any) -> None:
    (entry,) = assemble(turns(told)).entries_of("tool")
    assert (entry.name, entry.request, entry.response) == ("t0", {"n": 0}, returned)
    assert entry.inferred
    assert entry.response_integrity == "whole"
    assert entry.scope == ("arguments",)


@pytest.mark.parametrize("ids", [True, False])
def test_parallel_tools_stand_between_the_calls_in_the_models_order(ids: bool) -> None:
    result = assemble(turns("r0", "r1", "r2", ids=ids))
    assert [(e.kind, e.index) for e in result.entries] == [
        ("llm", 0),
        ("tool", 0),
        ("tool", 1),
        ("tool", 2),
        ("llm", 1),
    ]
    assert [e.response for e in result.entries_of("tool")] == ["r0", "r1", "r2"]


def test_a_repeated_history_infers_each_call_once() -> None:
    first, second = turns("r0")
    again = chat("03", 90, 99, input=[*ASK, asks(call("c0", "t0", {"n": 0})), gives("c0", "other")])
    assert [e.response for e in assemble([first, second, again]).entries_of("tool")] == ["r0"]


def test_equal_calls_without_ids_take_their_results_in_turn() -> None:
    ask = asks(call(None, "next", {}))
    one = [*ASK, ask, gives(None, "a")]
    two = [*one, ask, gives(None, "b")]
    result = assemble(
        [
            chat("01", 0, 10, input=ASK, output=[ask]),
            chat("02", 20, 30, input=one, output=[ask]),
            chat("03", 40, 50, input=two, output=[text("assistant", "done")]),
        ]
    )
    assert [e.response for e in result.entries_of("tool")] == ["a", "b"]


def test_ids_of_two_kinds_join_when_the_provider_keeps_the_history() -> None:
    # OpenLLMetry writes `fc_` for a Responses API call and `call_` for its result.
    result = assemble(
        [
            chat(
                "01",
                0,
                10,
                input=ASK,
                output=[asks(call("fc_1", "t0", {}), call("fc_2", "t1", {}))],
            ),
            chat("02", 20, 30, input=[gives("call_1", "a"), gives("call_2", "b")]),
        ]
    )
    assert [(e.name, e.response) for e in result.entries_of("tool")] == [("t0", "a"), ("t1", "b")]


def test_nothing_is_inferred_of_a_call_no_recorded_answer_made() -> None:
    history = [*ASK, asks(call("c9", "before", {})), gives("c9", "r")]
    result = assemble([chat("01", 0, 10, input=history, output=[text("assistant", "ok")])])
    assert result.entries_of("tool") == []


def test_a_last_call_without_a_successor_is_reported_missing() -> None:
    result = assemble(turns("r0")[:1])
    (line,) = result.report.of("missing")
    assert (line.kind, line.name) == ("tool", "t0")
    assert line.remedy is not None


def test_inference_can_be_switched_off() -> None:
    result = assemble(turns("r0"), infer=False)
    assert result.entries_of("tool") == []
    assert result.report.of("missing") == []


def test_a_tool_with_a_span_is_not_inferred_again() -> None:
    spans = [*turns("r0"), tool("09", "t0", 20, 30, arguments={"n": 0}, result="r0")]
    (entry,) = assemble(spans).entries_of("tool")
    assert not entry.inferred


def test_a_tool_that_failed_is_a_failure_and_its_message_no_result() -> None:
    failed = tool("09", "t0", 20, 30, arguments={"n": 0}, status="ERROR", error__type="ValueError")
    result = assemble([*turns("Error: no such order"), failed])
    assert result.entries_of("tool") == []
    assert [f.name for f in result.failures] == ["t0"]


def test_a_span_without_content_takes_both_from_the_model() -> None:
    result = assemble([*turns({"ok": True}), tool("09", "t0", 20, 30, call_id="c0")])
    (entry,) = result.entries_of("tool")
    assert (entry.request, entry.response, entry.inferred) == ({"n": 0}, {"ok": True}, True)
    assert entry.source is not None
    assert entry.source.span_id == "09"
    assert entry.latency_ms == pytest.approx(10.0)


def test_a_bare_value_is_the_only_argument_of_the_models_call() -> None:
    # OpenInference for LangChain writes `A-17` where the tool has one argument.
    bare = tool("09", "t0", 20, 30, gen_ai__tool__call__arguments="0", result="r0")
    (entry,) = assemble([*turns("r0"), bare]).entries_of("tool")
    assert (entry.request, entry.scope) == ({"n": 0}, ("arguments",))


def test_arguments_that_the_framework_filled_in_stay_the_spans() -> None:
    filled = tool("09", "t0", 20, 30, arguments={"n": 0, "dry_run": False}, result="r0")
    (entry,) = assemble([*turns("r0"), filled]).entries_of("tool")
    assert entry.request == {"n": 0, "dry_run": False}


def test_a_tool_span_with_arguments_and_no_result_returned_none() -> None:
    spans = [*turns("null"), tool("09", "t0", 20, 30, arguments={"n": 0}, call_id="c0")]
    (entry,) = assemble(spans).entries_of("tool")
    assert (entry.response, entry.response_integrity, entry.inferred) == (None, "whole", False)


def test_a_masked_result_is_not_playable() -> None:
    (entry,) = assemble(turns("****")).entries_of("tool")
    assert (entry.response_integrity, entry.is_playable) == ("redacted", False)


def test_the_output_tool_of_a_framework_is_no_tool_of_the_user() -> None:
    result = assemble(turns("Final result processed."))
    assert result.entries_of("tool") == []


def test_texts_lost_in_a_history_come_from_the_runs_own_answers() -> None:
    scope = "opentelemetry.instrumentation.openai_v2"
    ask = asks(call("c0", "t0", {}), content="Looking.")
    bare = {"role": "assistant", "parts": ask["parts"][1:]}
    history = [*ASK, bare, gives("c0", "r")]
    first = chat("01", 0, 10, scope=scope, input=ASK, output=[ask])
    second = chat("02", 20, 30, scope=scope, input=history, output=[text("assistant", "ok")])
    completed = assemble([first, second]).entries_of("llm")[1]
    assert completed.request["messages"][1]["parts"] == ask["parts"]
    assert completed.request_integrity == "whole"
    alone = assemble([second]).entries_of("llm")[0]
    assert alone.request_integrity == "partial"
    assert alone.scope is not None
    assert "messages" not in alone.scope
