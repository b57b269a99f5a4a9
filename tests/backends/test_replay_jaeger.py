"""Diverged replays as people find them: made by the product, sent by OTLP, searched in a real Jaeger."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend_clients import Collector, Jaeger
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from otel_cassette import Cassette, CassetteEntry, CassetteMissError, install
from otel_cassette.session import marks

DIVERGED = {"replay_diverged": "true"}
LONG_CHAT = (
    Path(__file__).parents[1]
    / "data/dialects/openinference/openinference-openai/longchat--count10000.otlp.jsonl"
)
RECORDED = ("aaaabbbbccccdddd1111222233334444", "1234567890abcdef")


@contextmanager
def program(endpoint: str, service: str, *, limit: int = 128) -> Iterator[TracerProvider]:
    """A user's set-up at a ratio of 0.1, with cassettes installed into it."""
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(0.1)),
        resource=Resource.create({"service.name": service}),
        span_limits=SpanLimits(max_span_attributes=limit),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces"), max_queue_size=10_000
        )
    )
    install(provider)
    try:
        yield provider
    finally:
        marks.use_provider(None)
        provider.shutdown()


def recording() -> Cassette:
    entry = CassetteEntry(
        kind="llm",
        index=0,
        request={"messages": [{"role": "user", "content": "Refund A-17"}]},
        response={"choices": [{"message": {"role": "assistant", "content": "Done."}}]},
        source={"trace_id": RECORDED[0], "span_id": RECORDED[1]},
    )
    return Cassette([entry], mode="lenient")


def test_at_a_ratio_of_a_tenth_all_diverged_replays_are_found(jaeger: Jaeger) -> None:
    service = f"replays-{uuid.uuid4().hex[:8]}"
    cassette = recording()
    trace_ids: set[str] = set()
    with program(jaeger.http_endpoint, service) as provider:
        tracer = provider.get_tracer("agent")
        for number in range(400):
            question = "Refund A-18" if number % 2 else "Refund A-17"
            with (
                cassette.replaying(),
                tracer.start_as_current_span("agent") as agent,
                tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}),
            ):
                cassette.wrap_llm().complete(question)
            if number % 2:
                trace_ids.add(format(agent.get_span_context().trace_id, "032x"))
    assert len(trace_ids) == 200
    found = jaeger.wait_for(service, DIVERGED, count=200)
    assert {trace.trace_id for trace in found} == trace_ids
    one = found[0]
    assert {span.name for span in one.spans} == {
        "cassette.replay",
        "agent",
        "chat",
        "cassette.divergence",
    }
    assert one.span("chat").tags["replay_diverged"] is True
    assert json.loads(one.span("cassette.replay").tags["replay_divergence"])["kind"] == "llm"
    own = one.span("cassette.divergence")
    assert ("FOLLOWS_FROM", *RECORDED) in own.references
    (event,) = own.events
    diff = json.loads(event.fields["cassette.divergence.diff"])
    assert any(line.startswith("-") and "A-17" in line for line in diff)
    assert any(line.startswith("+") and "A-18" in line for line in diff)
    # The searches of docs/backends.md, on what the product itself writes.
    reason = {"cassette.divergence.reason": "request_changed"}
    assert len(jaeger.find(service, reason, operation="cassette.divergence")) == 200
    assert jaeger.find(service, {"cassette.divergence.reason": "extra_call"}) == []
    by_id = {**DIVERGED, "cassette.id": own.tags["cassette.id"]}
    assert [trace.trace_id for trace in jaeger.find(service, by_id)] == [one.trace_id]


def recorded_attributes() -> dict[str, Any]:
    """The attributes of the recorded call's span, as the real OpenInference instrumentation wrote them."""
    (line,) = [json.loads(each) for each in LONG_CHAT.read_text(encoding="utf-8").splitlines()]
    spans = [s for r in line["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]
    (span,) = [s for s in spans if any(a["key"] == "input.value" for a in s["attributes"])]
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def test_a_long_openinference_chat_that_diverged_is_found(jaeger: Jaeger) -> None:
    """Its call span loses the mark to the SDK's limit of 128 attributes; the own span has it."""
    service = f"longchat-{uuid.uuid4().hex[:8]}"
    cassette = Cassette.from_trace(LONG_CHAT, mode="lenient", merge=True)
    (entry,) = cassette.entries_of("llm")
    assert len(entry.request["messages"]) >= 81
    live = copy.deepcopy(entry.request)
    live["messages"][-1]["parts"][0]["content"] = "And now something else."
    attributes = recorded_attributes()
    start = {k: v for k, v in attributes.items() if not k.startswith("llm.input_messages")}
    messages = {k: v for k, v in attributes.items() if k.startswith("llm.input_messages")}
    with program(jaeger.http_endpoint, service) as provider:
        tracer = provider.get_tracer("openinference.instrumentation.openai")
        with (
            cassette.replaying(span=False) as session,
            tracer.start_as_current_span("ChatCompletion", attributes=start) as span,
        ):
            cassette.wrap_llm().complete(live)
            span.set_attributes(messages)
    assert session.summary.diverged == 1
    (found,) = jaeger.wait_for(service, DIVERGED)
    assert "replay_diverged" not in found.span("ChatCompletion").tags
    own = found.span("cassette.divergence")
    assert own.tags["replay_diverged"] is True
    assert entry.source is not None
    assert ("FOLLOWS_FROM", entry.source.trace_id, entry.source.span_id) in own.references


def test_a_miss_is_red_and_a_divergence_is_not(jaeger: Jaeger) -> None:
    service = f"strict-{uuid.uuid4().hex[:8]}"
    cassette = recording()
    with program(jaeger.http_endpoint, service) as provider:
        tracer = provider.get_tracer("agent")
        for mode in ("strict", "lenient"):
            with (
                cassette.replaying(mode=mode),
                tracer.start_as_current_span(mode) as span,
            ):
                try:
                    cassette.wrap_llm().complete("Refund A-18")
                except CassetteMissError as error:
                    assert mode == "strict"
                    span.add_event("agent gave up", {"why": type(error).__name__})
    traces = jaeger.wait_for(service, DIVERGED, count=2)
    by_mode = {trace.span("cassette.replay").tags["cassette.mode"]: trace for trace in traces}
    assert by_mode["strict"].span("cassette.divergence").tags.get("error") is True
    assert all("error" not in span.tags for span in by_mode["lenient"].spans)
    totals = by_mode["strict"].span("cassette.replay").tags
    assert (totals["cassette.served"], totals["cassette.missed"]) == (0, 1)


def test_what_the_collector_wrote_of_a_replay_is_a_recording_again(
    collector: Collector, jaeger: Jaeger, tmp_path: Path
) -> None:
    """Call spans of a replay go through the Collector's file and replay; our own are no calls."""
    service = f"again-{uuid.uuid4().hex[:8]}"
    cassette = recording()
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": "Refund A-18"}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "text", "content": "Done."}],
                    "finish_reason": "stop",
                }
            ]
        ),
    }
    with program(collector.http_endpoint, service) as provider:
        tracer = provider.get_tracer("agent")
        with cassette.replaying(), tracer.start_as_current_span("chat", attributes=call) as span:
            cassette.wrap_llm().complete("Refund A-18")
    trace_id = format(span.get_span_context().trace_id, "032x")
    collector.wait_for_file_spans(trace_id, count=3)
    assert jaeger.wait_for(service, DIVERGED)
    again = Cassette.from_trace(collector.traces_file, trace_id=trace_id, mode="strict")
    (entry,) = again.entries
    assert entry.llm_response.text == "Done."
    with again.replaying() as session:
        assert again.wrap_llm().complete("Refund A-18").text == "Done."
    assert session.divergences == []
