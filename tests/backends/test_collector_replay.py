"""From the file of a real Collector back into a replay: whole, and with prompts masked on the way."""

from __future__ import annotations

import json
import uuid

import pytest
from backend_clients import Collector, telemetry_to
from opentelemetry.trace import format_trace_id

from otel_cassette import Cassette, CassetteMissError

PROMPT = "Refund order A-17 and write to jane.doe@example.org about it."
ANSWER = "Refunded, and the letter is on its way."


def _traced_run(collector: Collector) -> str:
    """One run of a traced agent, as a GenAI instrumentation writes it; its trace id in hex."""
    with telemetry_to(collector.http_endpoint, f"replay-{uuid.uuid4().hex[:8]}") as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("invoke_agent") as root:
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-4.1-mini",
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": PROMPT}]}]
                ),
                "gen_ai.output.messages": json.dumps(
                    [
                        {
                            "role": "assistant",
                            "parts": [{"type": "text", "content": ANSWER}],
                            "finish_reason": "stop",
                        }
                    ]
                ),
            }
            tracer.start_span("chat gpt-4.1-mini", attributes=attributes).end()
        trace_id = format_trace_id(root.get_span_context().trace_id)
    collector.wait_for_file_spans(trace_id, count=2)
    return trace_id


def _replayed(cassette: Cassette, prompt: str) -> tuple[str, tuple[str, ...]]:
    model = cassette.wrap_llm(model="gpt-4.1-mini")
    with cassette.replaying() as session:
        answer = model.complete({"model": "gpt-4.1-mini", "messages": prompt})
    return answer.text, session.calls[0].flags


def test_the_collectors_file_replays(collector: Collector) -> None:
    trace_id = _traced_run(collector)
    cassette = Cassette.from_trace(collector.traces_file, trace_id=trace_id)
    assert _replayed(cassette, PROMPT) == (ANSWER, ())


def test_a_prompt_masked_on_the_way_replays_flagged(redacting_collector: Collector) -> None:
    trace_id = _traced_run(redacting_collector)
    cassette = Cassette.from_trace(redacting_collector.traces_file, trace_id=trace_id)
    assert "jane.doe" not in str(cassette.entries[0].request)
    assert _replayed(cassette, PROMPT) == (ANSWER, ("masked",))


def test_a_mask_stands_only_for_what_it_masks(redacting_collector: Collector) -> None:
    trace_id = _traced_run(redacting_collector)
    cassette = Cassette.from_trace(redacting_collector.traces_file, trace_id=trace_id)
    with pytest.raises(CassetteMissError) as miss:
        _replayed(cassette, PROMPT.replace("A-17", "B-99"))
    assert miss.value.divergence is not None
    assert miss.value.divergence.fields == ("/messages/0/parts/0/content",)
