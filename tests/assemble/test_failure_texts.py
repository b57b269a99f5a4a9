"""The text of a recorded failure is the exception's own: a replay raises it again.

Truth files say with what the tools failed (tests/data/traces/README.md).
"""

from __future__ import annotations

import pytest
from spans import span

import truth
from otel_cassette.assemble import assemble
from otel_cassette.formats import load_trace
from otel_cassette.model.span import SpanEvent

RUNS = [
    "agent-framework-sensitive/tool_error",
    "google-adk-content/tool_error",
    "pydantic-ai/tool_error__v5",
]


@pytest.mark.parametrize("run", RUNS)
def test_tools_fail_with_the_text_they_failed_with(run: str) -> None:
    raised = [c["error"] for c in truth.calls(run) if c["kind"] == "tool" and c.get("error")]
    trace = load_trace(truth.sources(run), merge=True)
    failures = assemble(trace.spans, trace.logs).failures
    texts = [f.error.message for f in failures if f.kind == "tool"]
    assert raised
    assert texts == [error["message"] for error in raised]


@pytest.mark.parametrize(
    ("description", "raised", "text"),
    [
        ("ValueError: nope", "nope", "nope"),  # what the SDK writes when a span's block raises
        ("ValueError: nope", None, "nope"),
        ("ValueError('nope')", "nope", "nope"),
        ("nope", None, "nope"),
        ("", "nope", "nope"),
        ("the order was refused", "nope", "the order was refused"),
        ("KeyError: nope", None, "KeyError: nope"),  # another type's name is part of the text
        ("", None, ""),
    ],
)
def test_the_description_is_more_than_the_text(
    description: str, raised: str | None, text: str
) -> None:
    event = SpanEvent("exception", 1, {} if raised is None else {"exception.message": raised})
    failed = span(
        "01",
        "execute_tool f",
        0,
        5,
        status="ERROR",
        message=description,
        events=[event],
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="f",
        gen_ai__tool__call__arguments="{}",
        error__type="ValueError",
    )
    (failure,) = assemble([failed]).failures
    assert (failure.error.type, failure.error.message) == ("ValueError", text)
