"""What is one run, what a run can be asked for by, and the listing when there are several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats import load_trace, looks_like_call, read_traces
from otel_cassette.model.span import Resource, SpanLink, SpanRecord, Trace

RUNS = Path(__file__).parent.parent / "data" / "traces-formats" / "runs"
SHOP = Resource({"service.name": "shop"})


def span(trace: int, number: int = 1, **more: Any) -> SpanRecord:
    given = {
        "name": "work",
        "start_ns": trace * 1000 + number,
        "end_ns": trace * 1000 + number + 1,
        "resource": SHOP,
    }
    return SpanRecord(
        trace_id=f"{trace:032x}", span_id=f"{trace * 100 + number:016x}", **{**given, **more}
    )


def numbers(traces: list[Trace]) -> list[list[int]]:
    return [[int(trace_id, 16) for trace_id in trace.trace_ids] for trace in traces]


CHAT = {"gen_ai.operation.name": "chat"}


@pytest.mark.parametrize(
    ("spans", "runs"),
    [
        pytest.param([span(2), span(1)], [[1], [2]], id="traces by themselves, by start"),
        pytest.param(
            [span(1), span(2), span(3, links=[SpanLink(f"{1:032x}", "ab" * 8)])],
            [[1, 3], [2]],
            id="link",
        ),
        pytest.param(
            [span(1, links=[SpanLink("cd" * 16, "ab" * 8)]), span(2)],
            [[1], [2]],
            id="link to elsewhere",
        ),
        pytest.param(
            [span(1), span(2, name="cassette.divergence", links=[SpanLink(f"{1:032x}", "ab" * 8)])],
            [[1], [2]],
            id="a replay's mark links to the recording, and is no part of it",
        ),
        pytest.param(
            [
                span(1, attributes={"session.id": "s"}),
                span(2),
                span(3, attributes={"gen_ai.conversation.id": "s"}),
            ],
            [[1, 3], [2]],
            id="session",
        ),
        pytest.param(
            [
                span(1, attributes={"langsmith.trace.session_name": "p"}),
                span(2, attributes={"langsmith.trace.session_name": "p"}),
            ],
            [[1], [2]],
            id="a project is no session",
        ),
        pytest.param(
            [span(1, attributes=CHAT), span(2), span(3, attributes=CHAT)],
            [[1, 3], [2]],
            id="bare calls",
        ),
        pytest.param(
            [
                span(1, attributes=CHAT),
                span(2, attributes=CHAT, resource=Resource({"service.name": "other"})),
            ],
            [[1], [2]],
            id="bare calls of two resources",
        ),
        pytest.param(
            [span(1, attributes=CHAT), span(1, 2), span(3, attributes=CHAT)],
            [[1], [3]],
            id="another root beside",
        ),
        pytest.param(
            [
                span(1, attributes={"gen_ai.operation.name": "invoke_agent"}),
                span(2, attributes=CHAT),
            ],
            [[1], [2]],
            id="agent",
        ),
    ],
)
def test_what_is_one_run(spans: list[SpanRecord], runs: list[list[int]]) -> None:
    assert numbers(list(read_traces(spans))) == runs


def test_merge_one_trace_and_the_callers_own_rule() -> None:
    spans = [
        span(1, attributes={"tenant": "a"}),
        span(2),
        span(3, 1),
        span(3, 2, attributes={"tenant": "a"}),
        span(4),
    ]
    assert numbers(list(read_traces(spans, merge=True))) == [[1, 2, 3, 4]]
    assert numbers(list(read_traces(spans, trace_id=f"{3:032X}"))) == [[3]]
    own = read_traces(spans, run_key=lambda one: one.attributes.get("tenant"))
    assert numbers(list(own)) == [[1, 3], [2], [4]]
    with pytest.raises(ValueError, match="only one of"):
        read_traces(spans, merge=True, trace_id="1")
    with pytest.raises(CassetteFormatError, match="holds no trace"):
        list(read_traces(spans, trace_id="ff" * 16))


def test_several_runs_are_listed_with_root_service_start_and_calls() -> None:
    spans = [
        span(1),
        span(1, 2, attributes=CHAT, parent_span_id=f"{101:016x}"),
        span(2, name="other"),
    ]
    with pytest.raises(CassetteFormatError) as caught:
        load_trace(spans)
    first, second = caught.value.report
    assert (first.trace_id, first.root, first.service, first.start_ns, first.calls) == (
        f"{1:032x}",
        "work",
        "shop",
        1001,
        1,
    )
    assert (second.root, second.calls, second.spans) == ("other", 0, 1)
    assert first.trace_id in str(caught.value)
    assert "merge=True" in str(caught.value)
    assert load_trace(spans, first.trace_id).spans[0].name == "work"


def test_spans_of_a_merged_run_stand_in_the_order_of_the_source() -> None:
    spans = [span(2), span(1), span(2, 2), span(1, 2), span(1, 3)]
    assert list(load_trace(spans, merge=True).spans) == spans


def test_runs_pass_through_and_are_merged_on_demand() -> None:
    runs = [Trace((span(1), span(2))), Trace((span(3),))]
    assert list(read_traces(runs)) == runs
    assert list(read_traces(runs[0])) == [runs[0]]
    assert numbers(list(read_traces([*runs, span(4)]))) == [[1, 2], [3], [4]]
    assert numbers([load_trace(runs, merge=True)]) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("name", "trace_ids", "runs"),
    [
        ("anthropic-sdk-native--refund", 3, 1),  # a script of bare calls
        ("pydantic-ai--two_turns", 2, 1),  # one conversation id
        ("langchain-openllmetry--refund", 2, 2),  # nothing joins them
        ("openai-agents-openinference--refund__session", 2, 2),
        ("vercel-ai-v6--refund", 1, 1),
    ],
)
def test_runs_of_real_agents(name: str, trace_ids: int, runs: int) -> None:
    path = RUNS / f"{name}.otlp.jsonl"
    traces = list(read_traces(path))
    assert (sum(len(trace.trace_ids) for trace in traces), len(traces)) == (trace_ids, runs)
    assert load_trace(path, merge=True).trace_ids == tuple(
        sorted(
            (i for trace in traces for i in trace.trace_ids),
            key=load_trace(path, merge=True).trace_ids.index,
        )
    )


def test_log_records_join_their_run_whatever_the_order_of_files() -> None:
    spans, logs = (
        RUNS / "google-adk-event--refund.otlp.jsonl",
        RUNS / "google-adk-event--refund.logs.otlp.jsonl",
    )
    for source in (
        [spans, logs],
        [logs, spans],
        spans.read_bytes() + logs.read_bytes(),
        str(RUNS / "google-adk-event*"),
    ):
        trace = load_trace(source)
        assert {log.trace_id for log in trace.logs} == {trace.trace_id}
        assert {log.span_id for log in trace.logs} <= {one.span_id for one in trace.spans}
        assert "gen_ai.client.inference.operation.details" in {log.event_name for log in trace.logs}
        assert all(log.time_ns > 0 for log in trace.logs)
    with pytest.raises(CassetteFormatError, match="logs only"):
        load_trace(logs)


@pytest.mark.parametrize(
    ("attributes", "name", "is_call"),
    [
        ({"gen_ai.operation.name": "execute_tool"}, "x", True),
        ({"gen_ai.operation.name": "invoke_agent"}, "x", False),
        ({"openinference.span.kind": "CHAIN", "gen_ai.operation.name": "chat"}, "x", False),
        ({"openinference.span.kind": "RETRIEVER"}, "x", True),
        ({"traceloop.span.kind": "workflow"}, "x", False),
        ({"llm.request.type": "chat"}, "x", True),
        ({"ai.operationId": "ai.generateText"}, "x", False),
        ({"ai.operationId": "ai.generateText.doGenerate"}, "x", True),
        ({}, "llm_call", True),
        ({}, "tool_call search", True),
        ({}, "llm_calls", False),
        ({"gen_ai.usage.input_tokens": 3}, "x", False),
    ],
)
def test_the_cheap_guess_what_is_a_call(
    attributes: dict[str, Any], name: str, is_call: bool
) -> None:
    assert looks_like_call(span(1, name=name, attributes=attributes)) is is_call
