"""What goes wrong in one span stays with that span: a line of the report, never an exception."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spans import chat, span, text, tool

from otel_cassette.assemble import assemble
from otel_cassette.dialects import REGISTRY, payload
from otel_cassette.dialects.protocol import Reading
from otel_cassette.model.entry import CassetteEntry, CassetteFailure
from otel_cassette.model.span import LogRecord, SpanRecord

ANSWER = [text("assistant", "hello")]


class Broken:
    """A dialect that raises where it is told to."""

    name = "broken"
    priority = 0
    markers = (b"broken",)

    def __init__(self, *, in_claims: bool) -> None:
        self._in_claims = in_claims

    def claims(self, span: SpanRecord) -> bool:
        if self._in_claims and "broken" in span.attributes:
            raise RuntimeError("claims went wrong")
        return "broken" in span.attributes

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> Reading:
        raise RecursionError("read went wrong")


@pytest.mark.parametrize("in_claims", [True, False])
def test_a_dialect_that_raises_makes_a_line_and_spares_the_other_spans(in_claims: bool) -> None:
    spans = [chat("01", 0, 10, output=ANSWER), chat("02", 20, 30, output=ANSWER, broken=True)]
    result = assemble(spans, dialects=(Broken(in_claims=in_claims), *REGISTRY))
    assert [e.source.span_id for e in result.entries if e.source] == ["01"]
    (line,) = result.report.of("unreadable")
    assert line.span_id == "02"
    assert line.reason is not None
    assert "went wrong" in line.reason


def test_attributes_that_cannot_be_decoded_are_the_spans_own_fault() -> None:
    def broken() -> dict[str, Any]:
        raise ValueError("damaged bytes")

    damaged = SpanRecord(trace_id="a" * 32, span_id="09", name="chat", end_ns=5, attributes=broken)
    result = assemble([chat("01", 0, 10, output=ANSWER), damaged])
    assert len(result.entries) == 1
    assert [line.span_id for line in result.report.of("unreadable")] == ["09"]


def test_an_unfinished_call_is_reported_and_no_entry() -> None:
    result = assemble([chat("01", 5, 0), tool("02", "t", 5, 0)])
    assert result.entries == []
    assert [line.kind for line in result.report.of("unfinished")] == ["llm", "tool"]


def test_wrappers_are_listed_and_no_entries() -> None:
    operations = ["invoke_agent", "create_agent", "invoke_workflow", "agent_step", "unknown"]
    spans = [
        span(
            f"0{i}",
            op,
            0,
            9,
            gen_ai__operation__name=op,
            gen_ai__output__messages=json.dumps(ANSWER),
        )
        for i, op in enumerate(operations)
    ]
    result = assemble(spans)
    assert result.entries == []
    assert result.report.counts == {"wrapper": len(operations)}


def test_spans_that_are_no_calls_are_counted_only() -> None:
    result = assemble([span("01", "GET /", 0, 5, http__method="GET")])
    assert (result.entries, len(result.report), result.report.spans) == ([], 0, 1)
    assert str(result.report) == "1 spans: no call among them"


def test_no_spans_make_an_empty_assembly() -> None:
    result = assemble([])
    assert (result.entries, result.nested, result.failures, result.metadata) == ([], [], [], {})


def test_the_spans_that_show_a_replay_are_no_calls() -> None:
    own = span("01", "cassette.replay", 0, 5, gen_ai__operation__name="chat")
    assert assemble([own]).entries == []


def test_the_report_says_what_to_set() -> None:
    result = assemble([chat("01", 0, 10, response_id="r1"), chat("02", 20, 30, output=ANSWER)])
    hidden, flagged = result.report.lines
    assert (hidden.status, hidden.response_integrity) == ("not_replayable", "absent")
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in str(hidden.remedy)
    assert (flagged.status, flagged.index) == ("flagged", 1)
    assert result.report.counts == {"not_replayable": 1, "flagged": 1}
    data = result.report.to_json()
    assert json.loads(json.dumps(data)) == data
    assert "not_replayable: llm #0 m-1 (span 'chat m-1', otel-genai)" in str(result.report)


KEYS = st.sampled_from(
    [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.tool.name",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.id",
        "gen_ai.request.model",
        "gen_ai.request.temperature",
        "gen_ai.request.stop_sequences",
        "gen_ai.usage.input_tokens",
        "gen_ai.retrieval.documents",
        "anthropic.tool_result.content",
        "events",
        "input",
        "output",
        "usage",
        "raw",
        "cassette.request",
        "cassette.response",
    ]
)
WORDS = st.sampled_from(
    [
        "text",
        "tool_call",
        "tool_call_response",
        "blob",
        "uri",
        "file",
        "reasoning",
        "tool_use",
        "tool_result",
        "image_url",
        "image",
        "thinking",
        "user",
        "tool",
        "assistant",
        "****",
    ]
)
FIELDS = st.sampled_from(
    [
        "type",
        "role",
        "content",
        "parts",
        "id",
        "name",
        "arguments",
        "response",
        "tool_calls",
        "function",
        "text",
        "input",
        "image_url",
        "source",
        "tool_call_id",
        "finish_reason",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
JSON = st.recursive(
    LEAVES,
    lambda c: st.lists(c, max_size=3) | st.dictionaries(FIELDS, c, max_size=4),
    max_leaves=12,
)
VALUES = JSON | JSON.map(json.dumps) | JSON.map(lambda v: json.dumps(v)[:-1])
NAMES = st.sampled_from(["chat x", "llm_call", "tool_call y"])
OPERATIONS = st.sampled_from(["chat", "execute_tool", "retrieval", "embeddings"])


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=6), OPERATIONS, NAMES)
def test_content_of_any_shape_makes_valid_entries(
    attributes: dict[str, Any], operation: str, name: str
) -> None:
    if name == "chat x":
        attributes = {**attributes, "gen_ai.operation.name": operation}
    anything = SpanRecord(trace_id="a", span_id="1", name=name, end_ns=5, attributes=attributes)
    result = assemble([anything])
    assert result.report.of("unreadable") == []
    for record in (*result.entries, *result.failures):
        cls: type[CassetteEntry | CassetteFailure] = type(record)
        fields = {key: getattr(record, key) for key in cls.model_fields if key != "source"}
        validated = cls.model_validate(fields)
        assert validated.request == record.request
        if isinstance(record, CassetteEntry):
            assert validated.response == record.response  # type: ignore[union-attr]


def test_no_content_of_a_run_outlives_it_in_the_package() -> None:
    long = [text("user", "a text of some length " * 40)]
    assemble([chat("01", 0, 10, input=long), chat("02", 20, 30, input=[*long, *ANSWER])])
    assert payload._histories.recent == []


def test_the_garbage_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    assemble([chat("01", 0, 10)])
    assert gc.isenabled()
    gc.disable()
    try:
        assemble([chat("01", 0, 10)])
        assert not gc.isenabled()
    finally:
        gc.enable()
