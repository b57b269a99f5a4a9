"""One call seen by several spans is one entry; calls that only look so stay two.

Rules: a span inside a model call's span is the same call if it lies inside it in time and their
response ids are equal or one is absent.
"""

from __future__ import annotations

from spans import asks, call, chat, span, text, tool

from otel_cassette.assemble import assemble

ASK = [text("user", "hi")]
ANSWER = [text("assistant", "hello")]
SDK = "com.anthropic.sdk.python"


def test_an_sdk_span_inside_an_instrumentors_is_the_same_call() -> None:
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=ANSWER, response_id="r1"),
            chat("02", 5, 95, parent="01", scope=SDK, response_id="r1"),
        ]
    )
    assert [e.source.span_id for e in result.entries if e.source] == ["01"]
    assert [line.span_id for line in result.report.of("duplicate")] == ["02"]


def test_the_inner_span_stands_for_the_call_when_the_outer_has_no_content() -> None:
    result = assemble(
        [
            chat("01", 0, 100),
            chat("02", 5, 95, parent="01", scope=SDK, input=ASK, output=ANSWER, response_id="r1"),
        ]
    )
    (entry,) = result.entries
    assert entry.source is not None
    assert (entry.source.span_id, entry.response_integrity) == ("02", "whole")


def test_a_request_only_one_has_and_an_answer_only_the_other_has_make_one_entry() -> None:
    result = assemble(
        [chat("01", 0, 100, input=ASK), chat("02", 5, 95, parent="01", scope=SDK, output=ANSWER)]
    )
    (entry,) = result.entries
    assert entry.request["messages"] == ASK
    assert entry.llm_response.text == "hello"
    assert (entry.request_integrity, entry.response_integrity) == ("whole", "whole")


def test_a_call_below_an_unfinished_stream_with_an_id_of_its_own_is_another_call() -> None:
    # A stream leaves its context attached: the next call hangs below it.
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=ANSWER, response_id="r1"),
            chat("02", 10, 50, parent="01", input=ASK, output=ANSWER, response_id="r2"),
        ]
    )
    assert [e.index for e in result.entries] == [0, 1]


def test_a_call_below_a_span_that_ended_before_is_another_call() -> None:
    result = assemble(
        [chat("01", 0, 100, output=ANSWER), chat("02", 150, 200, parent="01", output=ANSWER)]
    )
    assert len(result.entries) == 2


def test_a_span_that_holds_several_calls_is_none_of_them() -> None:
    result = assemble(
        [
            chat("01", 0, 100, output=ANSWER),
            chat("02", 10, 40, parent="01", output=ANSWER, response_id="r1"),
            chat("03", 50, 90, parent="01", output=ANSWER, response_id="r2"),
        ]
    )
    assert [e.source.span_id for e in result.entries if e.source] == ["02", "03"]
    assert [line.span_id for line in result.report.of("wrapper")] == ["01"]


def test_three_spans_of_one_call_make_one_entry() -> None:
    result = assemble(
        [
            chat("01", 0, 100),
            chat("02", 5, 95, parent="01", scope="b", input=ASK, output=ANSWER),
            chat("03", 6, 94, parent="02", scope=SDK, response_id="r1"),
        ]
    )
    (entry,) = result.entries
    assert entry.response["id"] == "r1"
    assert len(result.report.of("duplicate")) == 2


def test_the_same_response_id_in_another_trace_is_the_same_call() -> None:
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=ANSWER, response_id="r1", scope="framework"),
            chat("02", 5, 95, trace="b" * 32, scope=SDK, response_id="r1"),
        ]
    )
    assert len(result.entries) == 1


def test_a_call_inside_exactly_one_call_of_another_trace_is_the_same() -> None:
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=ANSWER, scope="framework"),
            chat("02", 200, 300, input=ASK, output=ANSWER, scope="framework"),
            chat("03", 205, 295, trace="b" * 32, scope=SDK, response_id="r1"),
        ]
    )
    assert [e.source.span_id for e in result.entries if e.source] == ["01", "02"]


def test_a_call_inside_two_calls_of_another_trace_stays_one_of_its_own() -> None:
    result = assemble(
        [
            chat("01", 0, 100, output=ANSWER, scope="framework"),
            chat("02", 1, 101, output=ANSWER, scope="framework"),
            chat("03", 5, 95, trace="b" * 32, scope=SDK, response_id="r1"),
        ]
    )
    assert len(result.entries) == 3


def test_a_contained_call_of_another_model_stays_one_of_its_own() -> None:
    result = assemble(
        [
            chat("01", 0, 100, output=ANSWER, scope="framework"),
            chat("02", 5, 95, trace="b" * 32, scope=SDK, gen_ai__request__model="other-model"),
        ]
    )
    assert len(result.entries) == 2


def test_identical_calls_at_the_same_time_stay_two() -> None:
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=ANSWER, response_id="r1"),
            chat("02", 1, 90, input=ASK, output=ANSWER, response_id="r2"),
        ]
    )
    assert len(result.entries) == 2


def test_a_failed_attempt_inside_a_call_that_succeeded_is_part_of_it() -> None:
    result = assemble(
        [
            chat("01", 0, 100, input=ASK, output=ANSWER, response_id="r1"),
            chat("02", 5, 20, parent="01", scope=SDK, status="ERROR", error__type="RateLimitError"),
            chat("03", 30, 95, parent="01", scope=SDK, response_id="r1"),
        ]
    )
    assert len(result.entries) == 1
    assert result.failures == []


def test_a_tool_span_inside_one_of_the_same_name_lends_its_call_id() -> None:
    asking = [asks(call("c1", "look", {"x": 1}))]
    result = assemble(
        [
            chat("01", 0, 10, input=ASK, output=asking),
            tool("02", "look", 20, 60, arguments={"x": 1}, result={"y": 2}, scope="a"),
            tool("03", "look", 25, 55, parent="02", scope="b", call_id="c1"),
        ]
    )
    entry = result.entries_of("tool")[0]
    assert len(result.entries_of("tool")) == 1
    assert (entry.request, entry.response) == ({"x": 1}, {"y": 2})
    assert [line.span_id for line in result.report.of("duplicate")] == ["03"]


def test_a_tool_that_calls_itself_with_other_arguments_is_nested() -> None:
    result = assemble(
        [
            tool("01", "walk", 0, 100, arguments={"depth": 2}, result="a"),
            tool("02", "walk", 10, 90, parent="01", arguments={"depth": 1}, result="b"),
        ]
    )
    assert [e.request for e in result.entries] == [{"depth": 2}]
    assert [e.request for e in result.nested] == [{"depth": 1}]


def test_of_nested_retrievals_the_outer_one_with_the_documents_stands() -> None:
    documents = '[{"id": "d1", "content": "text"}]'
    operation = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q"}
    result = assemble(
        [
            span("01", "retrieval kb", 0, 50, **operation, gen_ai__retrieval__documents=documents),
            span("02", "retrieval kb", 5, 45, parent="01", **operation),
        ]
    )
    (entry,) = result.entries
    assert entry.response == [{"id": "d1", "content": "text"}]
    assert (entry.request, result.nested) == ({"query": "q"}, [])
