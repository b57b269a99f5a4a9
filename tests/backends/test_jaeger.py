"""What a person finds in a real Jaeger behind the real Collector: every divergence, with its link and diff.

The spans are made with the plain SDK, with the names that otel-cassette's marks have; the marks
themselves are tested where they are made.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import uuid

import pytest
from backend_clients import Collector, Jaeger, telemetry_to
from backend_programs import http_get
from opentelemetry.trace import (
    Link,
    SpanContext,
    StatusCode,
    TraceFlags,
    format_span_id,
    format_trace_id,
)

DIVERGED = {"replay_diverged": "true"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1-mini"}


def _service(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def test_a_diverged_call_is_found_by_tag_with_its_link_and_its_event(
    collector: Collector, jaeger: Jaeger
) -> None:
    service = _service("diverged")
    recorded = SpanContext(
        trace_id=0xAAAABBBBCCCCDDDD1111222233334444,
        span_id=0x1234567890ABCDEF,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    diff = [
        "--- recorded",
        "+++ replayed",
        '-  "content": "Refund A-17"',
        '+  "content": "Refund A-18"',
    ]
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with (
            tracer.start_as_current_span("cassette.replay", attributes={"replay_diverged": True}),
            tracer.start_as_current_span("chat gpt-4.1-mini", attributes=CHAT) as call,
            tracer.start_as_current_span("cassette.divergence", links=[Link(recorded)]) as own,
        ):
            call.set_attribute("replay_diverged", True)
            call.set_attribute("replay_divergence", "llm call 0: request changed at /messages/0")
            own.set_attribute("replay_diverged", True)
            own.set_attribute("cassette.id", "refund")
            own.set_attribute("cassette.divergence.reason", "request_changed")
            own.add_event("cassette.divergence", {"diff": diff})

    (found,) = jaeger.wait_for(service, DIVERGED)
    assert {span.name for span in found.spans} == {
        "cassette.replay",
        "chat gpt-4.1-mini",
        "cassette.divergence",
    }
    marked = found.span("chat gpt-4.1-mini")
    assert marked.tags["replay_diverged"] is True
    assert marked.tags["replay_divergence"] == "llm call 0: request changed at /messages/0"
    divergence = found.span("cassette.divergence")
    assert (
        "FOLLOWS_FROM",
        format_trace_id(recorded.trace_id),
        format_span_id(recorded.span_id),
    ) in divergence.references
    (event,) = divergence.events
    assert event.name == "cassette.divergence"
    assert json.loads(event.fields["diff"]) == diff

    # The other searches of docs/backends.md.
    one_span = {"replay_diverged": "true", "cassette.id": "refund"}
    reason = {"cassette.divergence.reason": "request_changed"}
    for traces in (
        jaeger.find(service, one_span),
        jaeger.find(service, reason, operation="cassette.divergence"),
    ):
        assert [trace.trace_id for trace in traces] == [found.trace_id]
    other_reason = {"cassette.divergence.reason": "extra_call"}
    assert jaeger.find(service, other_reason, operation="cassette.divergence") == []
    # One query, one span: the two tags below are on different spans of the same trace.
    assert jaeger.find(service, {"gen_ai.operation.name": "chat", "cassette.id": "refund"}) == []


def test_every_diverged_trace_and_about_a_tenth_of_the_others_reach_jaeger(
    collector: Collector, jaeger: Jaeger
) -> None:
    service = _service("tenth")
    diverged: set[str] = set()
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        for number in range(400):
            is_diverged = number % 2 == 0
            with tracer.start_as_current_span("agent") as root:
                span = tracer.start_span("chat", attributes=CHAT)
                if is_diverged:
                    span.set_attribute("replay_diverged", True)
                span.end()
            if is_diverged:
                diverged.add(format_trace_id(root.get_span_context().trace_id))

    found = jaeger.wait_for(service, DIVERGED, count=200)
    assert {trace.trace_id for trace in found} == diverged
    assert {len(trace.spans) for trace in found} == {2}
    collector.wait_out_decisions()
    others = {trace.trace_id for trace in jaeger.find(service)} - diverged
    # 200 draws at 10 %: more than 60 has a probability below 1e-14.
    assert len(others) <= 60


def test_a_divergence_in_a_later_export_brings_the_whole_trace(
    collector: Collector, jaeger: Jaeger
) -> None:
    service = _service("later")
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("agent"):
            tracer.start_span("first").end()
            sent.flush()
            tracer.start_span("second", attributes={"replay_diverged": True}).end()
            sent.flush()
    found = jaeger.wait_for(service, DIVERGED)
    whole = jaeger.wait_for_trace(found[0].trace_id, span_count=3)
    assert {span.name for span in whole.spans} == {"agent", "first", "second"}


def test_a_divergence_after_the_wait_is_still_found(collector: Collector, jaeger: Jaeger) -> None:
    service = _service("after")
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("agent"):
            tracer.start_span("first").end()
            sent.flush()
            collector.wait_out_decisions()
            tracer.start_span("second", attributes={"replay_diverged": True}).end()
    (found,) = jaeger.wait_for(service, DIVERGED)
    assert "second" in {span.name for span in found.spans}


def test_the_string_true_is_no_divergence_for_the_sampler(
    collector: Collector, jaeger: Jaeger
) -> None:
    """Why the mark is a boolean: at 10 %, 100 of 100 text marks would have to be lucky."""
    service = _service("text")
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        for _ in range(100):
            tracer.start_span("chat", attributes={**CHAT, "replay_diverged": "true"}).end()
    collector.wait_out_decisions()
    assert len(jaeger.find(service)) < 50


def test_failed_traces_are_kept(collector: Collector, jaeger: Jaeger) -> None:
    service = _service("failed")
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        for _ in range(20):
            span = tracer.start_span("chat", attributes=CHAT)
            span.record_exception(TimeoutError("model did not answer"))
            span.set_status(StatusCode.ERROR)
            span.end()
    found = jaeger.wait_for(service, count=20)
    assert [trace.span("chat").tags["error"] for trace in found] == [True] * 20
    # A limit that docs/backends.md tells of: once this fails, the page can say so.
    assert jaeger.find(service, {"error": "true"}) == []


def test_tag_values_of_the_http_api_are_text(jaeger: Jaeger) -> None:
    tags = urllib.parse.quote('{"replay_diverged": true}')
    with pytest.raises(urllib.error.HTTPError) as refused:
        http_get(f"{jaeger.query_url}/api/traces?service=any&tags={tags}")
    with refused.value as answer:
        assert answer.code == 400
