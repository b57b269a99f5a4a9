"""Every TraceQL query of docs/backends.md finds the divergence it is for, in a real Tempo.

Left out, with a line in the summary, where no `tempo` binary is found. The query over time is not asked.
"""

from __future__ import annotations

import re

import pytest
from backend_clients import Tempo, telemetry_to
from backend_programs import REPOSITORY
from opentelemetry.trace import Link, SpanContext, TraceFlags, format_trace_id

# The examples that stand in the page.
SERVICE = "my-agent"
RECORDED_TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C

QUERIES = re.findall(
    r"^```traceql\n(.+?)\n```$",
    (REPOSITORY / "docs" / "backends.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE | re.DOTALL,
)


def test_the_page_has_its_queries() -> None:
    assert "{ span.replay_diverged = true }" in QUERIES


@pytest.fixture(scope="module")
def diverged_trace_id(tempo: Tempo) -> str:
    """A diverged replay as otel-cassette marks it, sent straight to Tempo."""
    recorded = SpanContext(
        RECORDED_TRACE_ID, 0xB7AD6B7169203331, True, TraceFlags(TraceFlags.SAMPLED)
    )
    facts = {"cassette.id": "refund", "cassette.kind": "tool", "cassette.index": 0}
    with telemetry_to(tempo.http_endpoint, SERVICE) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with (
            tracer.start_as_current_span("cassette.replay") as session,
            tracer.start_as_current_span("execute_tool refund") as call,
            tracer.start_as_current_span("cassette.divergence", links=[Link(recorded)]) as own,
        ):
            for span in (session, call, own):
                span.set_attribute("replay_diverged", True)
            session.set_attribute("replay_divergence", "tool call 0: changed")
            own.set_attributes(facts)
            own.set_attribute("cassette.divergence.reason", "request_changed")
            own.set_attribute("cassette.divergence.fields", ["/arguments/amount"])
            own.add_event("cassette.divergence", {"diff": ["-  19.9", "+  29.9"]})
    return format_trace_id(session.get_span_context().trace_id)


@pytest.mark.parametrize("query", QUERIES)
def test_a_documented_query_finds_the_diverged_replay(
    tempo: Tempo, diverged_trace_id: str, query: str
) -> None:
    found = {trace["traceID"].rjust(32, "0") for trace in tempo.wait_for(query)}
    assert diverged_trace_id in found


def test_the_text_true_is_not_the_boolean(tempo: Tempo, diverged_trace_id: str) -> None:
    tempo.wait_for("{ span.replay_diverged = true }")
    assert tempo.search('{ span.replay_diverged = "true" }') == []
