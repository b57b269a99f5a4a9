"""Which live span is marked, for the places where instrumentations really have theirs.

Each set-up stands for one that was seen in traces of the named instrumentation: its span is not
current while the call is made, has nothing at start, comes after the call, or is one of two.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from replay_setup import MakeTelemetry, Telemetry, llm_entry, openai_body, tool_entry

from otel_cassette import Cassette, MarkingSpanExporter
from otel_cassette.otel.kinds import kind_of
from otel_cassette.otel.processor import CassetteSpanProcessor
from otel_cassette.session import marks

CHANGED = "Where is order A-18?"


def ask(cassette: Cassette, question: str = CHANGED) -> str:
    return cassette.wrap_llm().complete(openai_body(question)).text


def marked(telemetry: Telemetry) -> list[str]:
    """Names of the spans that carry a call's mark, our own left out."""
    return sorted(
        span.name
        for span in telemetry.spans
        if "cassette.kind" in (span.attributes or {}) and not span.name.startswith("cassette.")
    )


def test_a_span_that_is_not_current_during_the_call(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    """OpenLLMetry for Anthropic: the span is started and never made current."""
    telemetry = make_telemetry()
    with cassette.replaying(mode="lenient"), telemetry.tracer.start_as_current_span("agent"):
        span = telemetry.tracer.start_span(
            "anthropic.chat", attributes={"gen_ai.operation.name": "chat"}
        )
        ask(cassette)
        span.end()
    assert marked(telemetry) == ["anthropic.chat"]


@pytest.mark.parametrize(
    ("scope", "name", "attributes"),
    [
        ("langfuse-sdk", "OpenAI-generation", {"langfuse.observation.type": "generation"}),
        ("mlflow.tracing.provider", "Completions", {"mlflow.spanType": '"CHAT_MODEL"'}),
        ("agent_framework", "chat gpt-4.1-mini", {"gen_ai.operation.name": "chat"}),
    ],
)
def test_a_span_that_has_nothing_at_start_and_everything_by_then(
    make_telemetry: MakeTelemetry,
    cassette: Cassette,
    scope: str,
    name: str,
    attributes: dict[str, str],
) -> None:
    telemetry = make_telemetry()
    tracer = telemetry.provider.get_tracer(scope)
    with cassette.replaying(mode="lenient"), telemetry.tracer.start_as_current_span("agent"):
        span = tracer.start_span(name)
        span.set_attributes(attributes)
        ask(cassette)
        span.end()
    assert marked(telemetry) == [name]


def test_a_span_with_an_isolated_context(make_telemetry: MakeTelemetry, cassette: Cassette) -> None:
    """MLflow: its span is a root of its own, and none is current."""
    telemetry = make_telemetry()
    with cassette.replaying(mode="lenient", span=False):
        span = telemetry.tracer.start_span(
            "Completions", otel_context.Context(), attributes={"mlflow.spanType": '"CHAT_MODEL"'}
        )
        ask(cassette)
        span.end()
    assert marked(telemetry) == ["Completions"]


def test_two_spans_of_one_call_in_different_traces_are_both_marked(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    """A callback instrumentor's span in a trace of its own, and the SDK's."""
    telemetry = make_telemetry()
    chat = {"gen_ai.operation.name": "chat"}
    with cassette.replaying(mode="lenient", span=False) as session:
        for question in (CHANGED, "Cancel it."):
            callback = telemetry.tracer.start_span(
                "ChatOpenAI", otel_context.Context(), attributes={"openinference.span.kind": "LLM"}
            )
            with telemetry.tracer.start_as_current_span("chat", attributes=chat):
                ask(cassette, question)
            callback.end()
    assert marked(telemetry) == ["ChatOpenAI", "ChatOpenAI", "chat", "chat"]
    by_name = [
        [span.attributes["cassette.index"] for span in telemetry.all_named(name)]
        for name in ("ChatOpenAI", "chat")
    ]
    assert by_name == [[0, 1], [0, 1]]
    assert len(session.divergences) == 2


def test_the_outermost_of_nested_spans_of_the_kind(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    """The Anthropic SDK's own span inside an instrumentor's."""
    telemetry = make_telemetry()
    chat = {"gen_ai.operation.name": "chat"}
    span = telemetry.tracer.start_as_current_span
    with (
        cassette.replaying(mode="lenient", span=False),
        span("chat claude", attributes=chat),
        span("anthropic.messages.create", attributes=chat),
        span("POST"),
    ):
        ask(cassette)
    assert marked(telemetry) == ["chat claude"]


def test_a_model_call_inside_a_tool_is_not_the_model_call_around_it(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    chat = {"gen_ai.operation.name": "chat"}
    span = telemetry.tracer.start_as_current_span
    with (
        cassette.replaying(mode="lenient", span=False),
        span("outer chat", attributes=chat),
        span("execute_tool research"),
        span("inner chat", attributes=chat),
    ):
        ask(cassette)
    assert marked(telemetry) == ["inner chat"]


def test_a_stream_that_leaves_its_context_attached(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    """openai-v2: the next call's span is a child of the unfinished stream's."""
    telemetry = make_telemetry()
    chat = {"gen_ai.operation.name": "chat"}
    span = telemetry.tracer.start_as_current_span
    with cassette.replaying(mode="lenient", span=False), span("stream", attributes=chat):
        ask(cassette, "Where is order A-17?")
        with span("next", attributes=chat):
            ask(cassette, "Cancel it.")
    assert marked(telemetry) == ["next"]


def test_prompt_templates_are_no_model_calls(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    tracer = telemetry.provider.get_tracer("openinference.instrumentation.langchain")
    with cassette.replaying(mode="lenient", span=False):
        template = tracer.start_span("ChatPromptTemplate", otel_context.Context())
        model = tracer.start_span("ChatOpenAI", otel_context.Context())
        ask(cassette)
        model.end()
        template.end()
    assert marked(telemetry) == ["ChatOpenAI"]


def test_a_tool_span_that_has_only_a_name(make_telemetry: MakeTelemetry) -> None:
    """OpenInference LangChain: the name equals a recorded tool's."""
    telemetry = make_telemetry()
    cassette = Cassette([tool_entry(0, "lookup_order", {"order_id": "A-17"}, 1)], mode="lenient")
    lookup = cassette.wrap_tool(lambda order_id: 0, name="lookup_order")
    with cassette.replaying(span=False):
        others = [
            telemetry.tracer.start_span(name, otel_context.Context())
            for name in ("RunnableSequence", "lookup_order", "refund")
        ]
        lookup(order_id="Z-9")
        for span in others:
            span.end()
    assert marked(telemetry) == ["lookup_order"]


def test_parallel_tasks_each_mark_their_own_span(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    recorded = [llm_entry(n, f"recorded {n}", str(n)) for n in range(3)]
    recorded += [
        llm_entry(0, f"recorded {n}", str(n)).model_copy(update={"index": n}) for n in range(3, 8)
    ]
    cassette = Cassette(recorded, mode="lenient")

    async def call(n: int) -> None:
        span = telemetry.tracer.start_span(
            f"chat {n}", attributes={"gen_ai.operation.name": "chat"}
        )
        await asyncio.sleep(0.001 * (8 - n))
        ask(cassette, f"question {n}")
        await asyncio.sleep(0)
        span.end()

    async def main() -> None:
        with telemetry.tracer.start_as_current_span("agent"):
            await asyncio.gather(*(call(n) for n in range(8)))

    with cassette.replaying(span=False) as session:
        asyncio.run(main())
    wanted = {d.span_id: d.actual_request["messages"] for d in session.divergences}
    assert len(wanted) == 8
    for n in range(8):
        span = telemetry.named(f"chat {n}")
        said = str(wanted[format(span.context.span_id, "016x")])
        assert f"question {n}'" in said.replace('"', "'")


def test_parallel_threads_each_mark_their_own_span(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    cassette = Cassette([llm_entry(0, "recorded", "x")], mode="fallthrough")
    barrier = threading.Barrier(6)

    class Model:
        def complete(self, request: Any) -> str:
            return "live"

    llm = cassette.wrap_llm(Model())

    def call(n: int) -> None:
        span = telemetry.tracer.start_span(
            f"chat {n}", attributes={"gen_ai.operation.name": "chat"}
        )
        barrier.wait()
        llm.complete(openai_body(f"question {n}"))
        barrier.wait()
        span.end()

    with cassette.replaying(span=False) as session, ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))
    wanted = {d.span_id: str(d.actual_request) for d in session.divergences}
    assert len(wanted) == 6
    for n in range(6):
        span_id = format(telemetry.named(f"chat {n}").context.span_id, "016x")
        assert f"question {n}" in wanted[span_id]


# -- spans that come after their call ---------------------------------------------------------------


def test_a_span_created_after_the_call_with_an_explicit_start(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    kind = {"langsmith.span.kind": "llm"}
    with cassette.replaying(mode="lenient"), telemetry.tracer.start_as_current_span("agent"):
        started_ns = time.time_ns()
        ask(cassette)
        for name, start_ns in (("later call", time.time_ns()), ("ChatOpenAI", started_ns)):
            telemetry.tracer.start_span(name, attributes=kind, start_time=start_ns).end()
    # The agent's span is the one the call runs in: no other was there when it was made.
    assert marked(telemetry) == ["ChatOpenAI", "agent"]


@pytest.fixture
def late_telemetry() -> Iterator[Telemetry]:
    """A provider whose exporter marks late spans."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(CassetteSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(MarkingSpanExporter(exporter)))
    marks.use_provider(provider)
    yield Telemetry(provider, exporter)
    marks.use_provider(None)
    provider.shutdown()


def test_a_late_span_that_says_what_it_is_at_its_end(
    late_telemetry: Telemetry, cassette: Cassette
) -> None:
    tracer = late_telemetry.tracer
    with cassette.replaying(mode="lenient"), tracer.start_as_current_span("agent"):
        started_ns = time.time_ns()
        ask(cassette)
        span = tracer.start_span("ChatOpenAI", start_time=started_ns)
        span.set_attribute("langsmith.span.kind", "llm")
        span.end()
    assert marked(late_telemetry) == ["ChatOpenAI", "agent"]


class Refusing(SpanExporter):
    """An exporter that says no."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        pass


def test_a_late_span_is_joined_by_its_response_id_when_it_is_exported(
    late_telemetry: Telemetry, cassette: Cassette
) -> None:
    """LangSmith: spans are made in the background, when the call is over."""
    with cassette.replaying(mode="lenient", span=False):
        ask(cassette)
    for number in (0, 1):
        span = late_telemetry.tracer.start_span("ChatOpenAI")
        span.set_attribute("gen_ai.response.id", f"chatcmpl-{number}")
        span.add_event("kept", {"n": number})
        span.end()
    late, other = late_telemetry.all_named("ChatOpenAI")
    assert late.attributes is not None
    assert late.attributes["replay_diverged"] is True
    assert late.attributes["gen_ai.response.id"] == "chatcmpl-0"
    assert [event.name for event in late.events] == ["kept"]
    assert other.attributes == {"gen_ai.response.id": "chatcmpl-1"}


def test_the_marking_exporter_hands_on_what_its_exporter_says() -> None:
    assert MarkingSpanExporter(Refusing()).export([]) is SpanExportResult.FAILURE


# -- kinds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "attributes", "scope", "kind"),
    [
        # A LangSmith retriever says gen_ai.operation.name=embeddings as well.
        (
            "docs",
            {"langsmith.span.kind": "retriever", "gen_ai.operation.name": "embeddings"},
            "",
            "retrieval",
        ),
        ("x", {"openinference.span.kind": "EMBEDDING"}, "", "embedding"),
        ("x", {"openinference.span.kind": "CHAIN", "gen_ai.operation.name": "chat"}, "", None),
        ("x", {"gen_ai.operation.name": "invoke_agent"}, "", None),
        ("x", {"gen_ai.operation.name": "execute_tool"}, "", "tool"),
        ("execute_tool refund", {}, "", "tool"),
        ("tool_call: refund", {}, "", "tool"),
        ("tool_calls", {}, "", None),
        ("chat gpt-4", {}, "", None),
        ("chat gpt-4", {}, "opentelemetry.util.genai.handler", "llm"),
        ("chat session", {}, "my.app", None),
        ("haystack.agent.step.llm", {}, "", "llm"),
        ("refund", {}, "", None),
    ],
)
def test_the_kind_of_a_span(
    name: str, attributes: dict[str, str], scope: str, kind: str | None
) -> None:
    assert kind_of(name, attributes, scope=scope, tools=("lookup_order",)) == kind


def test_nothing_is_marked_where_no_call_departs(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with cassette.replaying(span=False), telemetry.tracer.start_as_current_span("agent"):
        ask(cassette, "Where is order A-17?")
        assert not trace.get_current_span().get_span_context().trace_state
    assert marked(telemetry) == []
