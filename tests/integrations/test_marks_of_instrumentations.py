"""Diverged replays of the real OpenAI SDK under real instrumentations: which span carries the mark.

Nothing answers over the network: the SDK's requests are answered from the recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInferenceOpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as OfficialOpenAI
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from otel_cassette import Cassette, CassetteEntry, install
from otel_cassette.clients.instrumentor import CassetteInstrumentor
from otel_cassette.session import marks

RECORDED = ("aaaabbbbccccdddd1111222233334444", "1234567890abcdef")
INSTRUMENTORS = {
    "openinference": (OpenInferenceOpenAI, "ChatCompletion"),
    "official": (OfficialOpenAI, "chat gpt-4.1-mini"),
}


def chat(count: int) -> list[dict[str, Any]]:
    turns = [{"role": ("user", "assistant")[n % 2], "content": f"turn {n}"} for n in range(count)]
    return [{"role": "system", "content": "Be short."}, *turns]


def recording(messages: list[dict[str, Any]]) -> Cassette:
    message = {"role": "assistant", "content": "Done."}
    entry = CassetteEntry(
        kind="llm",
        index=0,
        request={"model": "gpt-4.1-mini", "messages": messages},
        response={
            "id": "chatcmpl-1",
            "choices": [{"message": message, "finish_reason": "stop"}],
        },
        source={"trace_id": RECORDED[0], "span_id": RECORDED[1]},
    )
    return Cassette([entry], mode="strict")


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exported: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """A user's provider at a ratio of 0.1, with cassettes installed into it."""
    made = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.1)), shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exported))
    install(made)
    CassetteInstrumentor().instrument()
    yield made
    CassetteInstrumentor().uninstrument()
    marks.use_provider(None)
    made.shutdown()


@pytest.fixture(params=sorted(INSTRUMENTORS))
def span_name(request: pytest.FixtureRequest, provider: TracerProvider) -> Iterator[str]:
    """Switches an instrumentation on; the name its spans have."""
    instrumentor, name = INSTRUMENTORS[request.param]
    instrumentor().instrument(tracer_provider=provider)
    yield name
    instrumentor().uninstrument()


def ask(messages: list[dict[str, Any]], *, stream: bool = False) -> str:
    client = openai.OpenAI(api_key="none", max_retries=0)
    answer: Any = client.chat.completions.create(
        model="gpt-4.1-mini", messages=messages, stream=stream
    )
    if stream:
        return "".join(piece.choices[0].delta.content or "" for piece in answer if piece.choices)
    return str(answer.choices[0].message.content)


def named(exported: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = [each for each in exported.get_finished_spans() if each.name == name]
    return span


@pytest.mark.parametrize("stream", [False, True])
def test_the_instrumentations_own_span_is_marked(
    provider: TracerProvider, exported: InMemorySpanExporter, span_name: str, *, stream: bool
) -> None:
    messages = chat(3)
    cassette = recording(messages)
    changed = [*messages[:-1], {"role": "user", "content": "another"}]
    tracer = provider.get_tracer("agent")
    with cassette.replaying(mode="lenient") as session, tracer.start_as_current_span("agent"):
        assert ask(changed, stream=stream) == "Done."
    (divergence,) = session.divergences
    call = named(exported, span_name)
    assert call.attributes is not None
    assert call.attributes["replay_diverged"] is True
    assert call.attributes["cassette.index"] == 0
    assert divergence.span_id == format(call.context.span_id, "016x")
    own = named(exported, "cassette.divergence")
    assert own.parent is not None
    assert own.parent.span_id == call.context.span_id
    assert format(own.links[0].context.span_id, "016x") == RECORDED[1]


def test_an_equal_call_is_not_marked(
    provider: TracerProvider, exported: InMemorySpanExporter, span_name: str
) -> None:
    messages = chat(3)
    cassette = recording(messages)
    tracer = provider.get_tracer("agent")
    with cassette.replaying() as session, tracer.start_as_current_span("agent"):
        assert ask(messages) == "Done."
    assert session.divergences == []
    assert named(exported, span_name)
    for span in exported.get_finished_spans():
        assert "replay_diverged" not in (span.attributes or {})


def test_a_chat_of_81_messages_is_found_by_its_own_span(
    provider: TracerProvider, exported: InMemorySpanExporter, span_name: str
) -> None:
    messages = chat(81)[1:]
    assert len(messages) == 81
    cassette = recording(messages)
    changed = [*messages[:-1], {"role": "user", "content": "another"}]
    with cassette.replaying(mode="lenient", span=False):
        ask(changed)
    call = named(exported, span_name)
    if span_name == "ChatCompletion":
        assert call.dropped_attributes > 0, "the limit of 128 evicts the oldest"
    own = named(exported, "cassette.divergence")
    assert own.attributes is not None
    assert own.attributes["replay_diverged"] is True
    assert own.attributes["cassette.divergence.fields"] == ("/messages/80/parts/0/content",)


def test_a_callbacks_span_and_the_sdks_are_one_call(
    provider: TracerProvider, exported: InMemorySpanExporter
) -> None:
    """LangChain's callbacks and the OpenAI SDK, both instrumented by OpenInference."""
    from langchain_openai import ChatOpenAI  # not at the top: it takes seconds

    LangChainInstrumentor().instrument(tracer_provider=provider)
    OpenInferenceOpenAI().instrument(tracer_provider=provider)
    try:
        cassette = recording([{"role": "user", "content": "Where is A-17?"}])
        model = ChatOpenAI(model="gpt-4.1-mini", api_key="none", max_retries=0)
        with cassette.replaying(mode="lenient", span=False) as session:
            assert model.invoke("Where is A-18?").content == "Done."
    finally:
        OpenInferenceOpenAI().uninstrument()
        LangChainInstrumentor().uninstrument()
    assert (session.summary.served, session.summary.diverged) == (1, 1)
    marked = {
        span.name
        for span in exported.get_finished_spans()
        if "cassette.kind" in (span.attributes or {}) and span.name != "cassette.divergence"
    }
    assert marked == {"ChatOpenAI", "ChatCompletion"}
    traces = {span.context.trace_id for span in exported.get_finished_spans()}
    assert len(traces) == 2, "the callback's span is no parent of the SDK's"
