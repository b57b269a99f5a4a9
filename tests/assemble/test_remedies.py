"""What the report tells people to set: only what was not set when the trace was recorded.

The runs are recorded traces (tests/data/traces/README.md): the name of a run says how its
instrumentation was set up.
"""

from __future__ import annotations

import json
from functools import cache

import pytest

import truth
from otel_cassette.assemble import Assembly, assemble
from otel_cassette.assemble.report import ReportLine
from otel_cassette.formats import load_trace

CONTENT_WAS_OFF = ("--no_content", "--default", "--legacy_default", "__nocontent", "__hidden")
SWITCHES = ("CONTENT", "include_content", "SENSITIVE", "HIDE_")


@cache
def assembled(run: str) -> Assembly:
    trace = load_trace(truth.sources(run), merge=True)
    return assemble(trace.spans, trace.logs)


def calls(run: str) -> list[ReportLine]:
    return [line for line in assembled(run).report if line.kind is not None]


@pytest.mark.parametrize("run", [r for r in truth.EXPECTED if not r.endswith(CONTENT_WAS_OFF)])
def test_nobody_is_told_to_switch_on_what_is_on(run: str) -> None:
    told = [line for line in calls(run) if any(word in (line.remedy or "") for word in SWITCHES)]
    assert [str(line) for line in told] == []


@pytest.mark.parametrize("run", truth.EXPECTED)
def test_a_call_that_cannot_be_played_comes_with_what_to_do(run: str) -> None:
    lines = [line for line in calls(run) if line.status in ("not_replayable", "missing")]
    assert [str(line) for line in lines if not line.remedy] == []


def test_a_failed_call_that_was_captured_needs_no_remedy() -> None:
    failed = [line for line in calls("otel-genai-openai/error") if line.status == "failed"]
    assert {line.request_integrity for line in failed} == {"whole"}
    assert {line.remedy for line in failed} == {None}


def test_a_raw_stream_whose_answer_no_switch_records_names_the_transports() -> None:
    lines = [line for line in calls("anthropic-sdk-native/stream") if line.kind == "llm"]
    silent = [line for line in lines if line.status == "not_replayable"]
    assert len(silent) == 3
    assert all("HTTP transports" in str(line.remedy) for line in silent)


def test_the_reason_of_a_failure_is_one_line() -> None:
    message = "openai.RateLimitError: slow down.\n\nTraceback (most recent call last):\n  File x"
    attributes = {"gen_ai.operation.name": "chat", "error.type": "RateLimitError"}
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "chat m",
        "endTimeUnixNano": "9",
        "status": {"code": 2, "message": message},
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
    }
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    trace = load_trace(json.dumps(document).encode())
    (line,) = assemble(trace.spans, trace.logs).report
    assert line.reason == ("The call failed: RateLimitError: openai.RateLimitError: slow down.")
