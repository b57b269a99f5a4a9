"""What the real Collector writes into the cassette files: which traces, which logs, uncut, masked on demand.

What is not here: what the backends show (test_jaeger.py, test_tempo.py), reading the files back.
"""

from __future__ import annotations

import stat
import uuid
from collections.abc import Callable

import pytest
from backend_clients import Collector, Jaeger, Tap, attribute_values, telemetry_to
from backend_programs import free_ports
from opentelemetry._logs import LogRecord
from opentelemetry.trace import format_trace_id

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1-mini"}


def _service(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def _send_trace(
    endpoint: str, name: str, attributes: dict[str, str], *, grpc_endpoint: str | None = None
) -> str:
    """A root span `request` with one child of this name and these attributes; the trace id in hex."""
    with telemetry_to(endpoint, _service("files"), grpc_endpoint=grpc_endpoint) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("request") as root:
            tracer.start_span(name, attributes=attributes).end()
        return format_trace_id(root.get_span_context().trace_id)


# One span as each vocabulary marks its call spans (keys as the instrumentations write them).
CALL_SPANS = {
    "otel-genai": ("chat gpt-4.1-mini", {"gen_ai.operation.name": "chat"}),
    "genai-without-operation": ("openai.chat", {"gen_ai.request.model": "gpt-4.1-mini"}),
    "genai-tool": ("lookup_order", {"gen_ai.tool.name": "lookup_order"}),
    "openinference": ("ChatCompletion", {"openinference.span.kind": "LLM"}),
    "openllmetry-tool": ("lookup_order.tool", {"traceloop.span.kind": "tool"}),
    "langfuse": ("OpenAI-generation", {"langfuse.observation.type": "generation"}),
    "langsmith": ("ChatOpenAI", {"langsmith.span.kind": "llm"}),
    "mlflow": ("Completions", {"mlflow.spanType": '"CHAT_MODEL"'}),
    "vercel-ai": ("ai.embed.doEmbed", {"ai.operationId": "ai.embed.doEmbed"}),
    "haystack-no-attributes": ("haystack.agent.step.llm", {}),
    "own-wrapper": ("chat gpt-4.1-mini", {"cassette.span.type": "llm_call"}),
    "by-hand-name": ("llm_call", {"input": "Hello?"}),
    "by-hand-name-and-rest": ("tool_call.lookup_order", {"input": "{}"}),
    "by-hand-type": ("ask", {"type": "llm_call"}),
}


@pytest.mark.parametrize(("name", "attributes"), CALL_SPANS.values(), ids=CALL_SPANS.keys())
def test_a_trace_with_a_call_span_reaches_the_file_whole(
    collector: Collector, name: str, attributes: dict[str, str]
) -> None:
    trace_id = _send_trace(collector.http_endpoint, name, attributes)
    spans = collector.wait_for_file_spans(trace_id, count=2)
    assert sorted(span.name for span in spans) == sorted([name, "request"])
    written = next(span for span in spans if span.name == name)
    assert written.attributes == attributes


def test_traces_without_a_call_span_do_not_reach_the_file(collector: Collector) -> None:
    others = [
        _send_trace(collector.http_endpoint, name, attributes)
        for name, attributes in [
            ("GET /orders", {"http.request.method": "GET"}),
            ("SELECT orders", {"db.system.name": "postgresql"}),
            ("llm_caller_pool", {"type": "queue", "kind": "worker"}),
        ]
    ]
    with_call = _send_trace(collector.http_endpoint, "chat", CHAT)
    collector.wait_out_decisions()
    assert {span.trace_id for span in collector.file_spans()}.isdisjoint(others)
    assert len(collector.file_spans(with_call)) == 2


def test_a_call_span_by_grpc_reaches_the_file(collector: Collector) -> None:
    trace_id = _send_trace(
        collector.http_endpoint, "chat", CHAT, grpc_endpoint=collector.grpc_endpoint
    )
    assert len(collector.wait_for_file_spans(trace_id, count=2)) == 2


def test_spans_before_and_after_the_first_call_span_are_kept(collector: Collector) -> None:
    """Each export is judged alone: what was held joins the call span, what follows goes straight through."""
    with telemetry_to(collector.http_endpoint, _service("exports")) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("agent") as root:
            tracer.start_span("before").end()
            sent.flush()
            tracer.start_span("chat", attributes=CHAT).end()
            sent.flush()
            collector.wait_out_decisions()
        sent.flush()
    trace_id = format_trace_id(root.get_span_context().trace_id)
    names = {span.name for span in collector.wait_for_file_spans(trace_id, count=3)}
    assert names == {"agent", "before", "chat"}


def test_a_call_span_later_than_the_wait_is_still_recorded(collector: Collector) -> None:
    with telemetry_to(collector.http_endpoint, _service("late")) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("agent") as root:
            tracer.start_span("before").end()
            sent.flush()
            collector.wait_out_decisions()
            tracer.start_span("chat", attributes=CHAT).end()
    trace_id = format_trace_id(root.get_span_context().trace_id)
    names = {span.name for span in collector.wait_for_file_spans(trace_id, count=2)}
    assert names == {"agent", "chat"}


def test_a_genai_event_on_a_plain_span_makes_its_trace_a_recording(collector: Collector) -> None:
    with telemetry_to(collector.http_endpoint, _service("event")) as sent:
        span = sent.tracer_provider.get_tracer("tests").start_span("completion")
        span.add_event("gen_ai.user.message", {"content": "Hello?"})
        span.end()
    trace_id = format_trace_id(span.get_span_context().trace_id)
    (written,) = collector.wait_for_file_spans(trace_id)
    assert [event["name"] for event in written.raw["events"]] == ["gen_ai.user.message"]


def test_batches_beyond_the_usual_limits_arrive_uncut_in_file_jaeger_and_otlp_http(
    collector: Collector, jaeger: Jaeger, tap: Tap
) -> None:
    """24 MB in one request: over gRPC's 4 MiB and the Collector's own 20 MiB; one value alone is over 4 MiB."""
    prompts = [f"{number:02d}" + "ä" * 400_000 for number in range(24)] + ["long" + "x" * 5_000_000]
    service = _service("large")
    with telemetry_to(collector.http_endpoint, service) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("agent", attributes={"replay_diverged": True}) as root:
            for prompt in prompts:
                tracer.start_span(
                    "chat", attributes={**CHAT, "gen_ai.input.messages": prompt}
                ).end()
    trace_id = format_trace_id(root.get_span_context().trace_id)
    in_file = collector.wait_for_file_spans(trace_id, count=26)
    assert sorted(
        s.attributes["gen_ai.input.messages"] for s in in_file if s.name == "chat"
    ) == sorted(prompts)

    tapped = tap.wait_for_spans(trace_id, count=26)
    texts = [attribute_values(span["attributes"]).get("gen_ai.input.messages") for span in tapped]
    assert sorted(text for text in texts if text) == sorted(prompts)
    in_jaeger = jaeger.wait_for_trace(trace_id, span_count=26).spans
    assert sorted(s.tags["gen_ai.input.messages"] for s in in_jaeger if s.name == "chat") == sorted(
        prompts
    )


def test_only_genai_log_records_reach_the_log_file(collector: Collector) -> None:
    marker = uuid.uuid4().hex
    with telemetry_to(collector.http_endpoint, _service("logs")) as sent:
        logger = sent.logger_provider.get_logger("tests")
        with sent.tracer_provider.get_tracer("tests").start_as_current_span(
            "chat", attributes=CHAT
        ) as span:
            logger.emit(LogRecord(body=f"retrying {marker}"))
            logger.emit(LogRecord(body=marker, attributes={"event.name": "session.start"}))
            logger.emit(LogRecord(body=marker, event_name="device.app.lifecycle"))
            logger.emit(
                LogRecord(body=marker, attributes={"event.name": f"gen_ai.choice.{marker}"})
            )
            logger.emit(
                LogRecord(body={"content": marker}, event_name=f"gen_ai.user.message.{marker}")
            )
    by_attribute = collector.wait_for_file_log(f"gen_ai.choice.{marker}")
    by_field = collector.wait_for_file_log(f"gen_ai.user.message.{marker}")
    assert len([record for record in collector.file_log_records() if marker in str(record)]) == 2
    trace_id = format_trace_id(span.get_span_context().trace_id)
    assert [by_attribute["traceId"], by_field["traceId"]] == [trace_id, trace_id]


def test_the_folder_of_the_files_is_for_its_owner_only(collector: Collector) -> None:
    collector.wait_for_file_spans(_send_trace(collector.http_endpoint, "chat", CHAT))
    assert stat.S_IMODE(collector.cassette_dir.stat().st_mode) == 0o700


def test_a_restart_appends_to_the_files(start_collector: Callable[..., Collector]) -> None:
    first = start_collector()
    one = _send_trace(first.http_endpoint, "chat", CHAT)
    first.wait_for_file_spans(one, count=2)
    first.program.stop()
    second = start_collector(OTELCOL_CASSETTE_DIR=str(first.cassette_dir))
    two = _send_trace(second.http_endpoint, "chat", CHAT)
    second.wait_for_file_spans(two, count=2)
    assert {span.trace_id for span in second.file_spans()} == {one, two}


def test_backends_that_are_down_do_not_keep_a_recording_from_the_file(
    start_collector: Callable[..., Collector],
) -> None:
    (nobody,) = free_ports(1)
    collector = start_collector(
        OTELCOL_JAEGER_ENDPOINT=f"127.0.0.1:{nobody}",
        OTELCOL_TEMPO_ENDPOINT=f"http://127.0.0.1:{nobody}",
    )
    trace_id = _send_trace(collector.http_endpoint, "chat", {**CHAT, "user.id": "7"})
    assert len(collector.wait_for_file_spans(trace_id, count=2)) == 2


# --- masking -------------------------------------------------------------------------------------

SECRET_PROMPT = (
    '[{"role":"user","parts":[{"type":"text","content":"mail jane.doe@example.org with key '
    'sk-proj-abcdefghijklmnopqrstuvwx"}]}]'
)
MASKED_PROMPT = '[{"role":"user","parts":[{"type":"text","content":"mail **** with key ****"}]}]'


def _prompt_in_file(collector: Collector) -> dict[str, object]:
    trace_id = _send_trace(
        collector.http_endpoint, "chat", {**CHAT, "gen_ai.input.messages": SECRET_PROMPT}
    )
    spans = collector.wait_for_file_spans(trace_id, count=2)
    return next(span.attributes for span in spans if span.name == "chat")


def test_prompts_rest_unmasked_in_the_files_by_default(collector: Collector) -> None:
    assert _prompt_in_file(collector) == {**CHAT, "gen_ai.input.messages": SECRET_PROMPT}


def test_the_redacted_variant_masks_in_the_files_and_says_so(
    redacting_collector: Collector,
) -> None:
    written = _prompt_in_file(redacting_collector)
    assert written["gen_ai.input.messages"] == MASKED_PROMPT
    assert written["redaction.masked.keys"] == "gen_ai.input.messages"
    assert written["gen_ai.request.model"] == CHAT["gen_ai.request.model"]


def test_the_redacted_variant_masks_log_bodies(redacting_collector: Collector) -> None:
    with telemetry_to(redacting_collector.http_endpoint, _service("masked")) as sent:
        body = {"content": "mail jane.doe@example.org", "role": "user"}
        sent.logger_provider.get_logger("tests").emit(
            LogRecord(body=body, event_name="gen_ai.user.message")
        )
    record = redacting_collector.wait_for_file_log("gen_ai.user.message")
    written = attribute_values(record["body"]["kvlistValue"]["values"])
    assert {key: written[key] for key in body} == {"content": "mail ****", "role": "user"}


def test_the_way_to_the_backends_is_masked_by_default(collector: Collector, tap: Tap) -> None:
    attributes = {
        "gen_ai.input.messages": SECRET_PROMPT,
        "http.request.header.authorization": "Basic abc",
    }
    with telemetry_to(collector.http_endpoint, _service("ui")) as sent:
        tracer = sent.tracer_provider.get_tracer("tests")
        span = tracer.start_span("chat", attributes={**CHAT, **attributes, "replay_diverged": True})
        span.add_event("cassette.divergence", {"diff": ["-mail jane.doe@example.org", "+mail bob"]})
        span.end()
    (received,) = tap.wait_for_spans(format_trace_id(span.get_span_context().trace_id))
    seen = attribute_values(received["attributes"])
    assert seen["gen_ai.input.messages"] == MASKED_PROMPT
    assert seen["http.request.header.authorization"] == "****"
    assert seen["replay_diverged"] is True
    assert "jane.doe" not in str(received)
