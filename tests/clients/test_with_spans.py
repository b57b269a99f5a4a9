"""Transports, wrappers and the span processor see the same call: it is one entry."""

# ruff: noqa: SIM117 - a session raises at the end of its block, which is what is tested

from __future__ import annotations

import itertools

import openai
import pytest
from openinference.instrumentation import TraceConfig
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as OfficialGenAI
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from otel_cassette import Cassette, CassetteSpanProcessor
from otel_cassette.clients import CassetteInstrumentor


@pytest.fixture
def tracing():
    provider = TracerProvider()
    provider.add_span_processor(CassetteSpanProcessor())
    yield provider
    provider.shutdown()


def hidden(tracing):
    OpenInference().instrument(
        tracer_provider=tracing, config=TraceConfig(hide_inputs=True, hide_outputs=True)
    )
    return OpenInference()


def shown(tracing):
    OpenInference().instrument(tracer_provider=tracing)
    return OpenInference()


def official(tracing):
    OfficialGenAI().instrument(tracer_provider=tracing)  # content is off by default
    return OfficialGenAI()


@pytest.fixture(params=[hidden, shown, official])
def instrumentation(request, tracing):
    made = request.param(tracing)
    yield made
    made.uninstrument()


def program(sdks, ask_chat, stream_chat):
    """Plain, streamed, retried, failed, left early, and two concurrent twins."""
    ask_chat(sdks, "hello")
    list(stream_chat(sdks, "count to twenty"))
    ask_chat(sdks, "[429] retry")
    with pytest.raises(openai.BadRequestError):
        ask_chat(sdks, "[400] bad")
    stream = stream_chat(sdks, "count to a hundred, and stop")
    for _ in range(3):
        next(stream)
    stream.close()
    return ask_chat(sdks, "[count] twin"), ask_chat(sdks, "[count] twin")


@pytest.mark.parametrize("http_spans", [False, True], ids=["", "http-spans"])
def test_hidden_content_is_completed_and_each_call_is_one_entry(
    http_spans, instrumentation, tracing, provider, make_sdks, ask_chat, stream_chat, tmp_path
):
    sdks = make_sdks(provider.url, max_retries=1)
    http = HTTPX2ClientInstrumentor()
    if http_spans:
        http.instrument(tracer_provider=tracing)
    try:
        cassette = Cassette()
        with cassette.recording() as recording:
            with tracing.get_tracer("app").start_as_current_span("agent") as agent:
                program(sdks, ask_chat, stream_chat)
        asked = len(provider.requests)
        cassette.save(tmp_path / "c.jsonl")
        with Cassette.load(tmp_path / "c.jsonl").replaying() as session:
            with tracing.get_tracer("app").start_as_current_span("agent"):
                first, second = program(sdks, ask_chat, stream_chat)
    finally:
        http.uninstrument()

    prompts = [e.request["messages"][0]["parts"][0]["content"] for e in cassette.entries]
    assert prompts == [
        "hello",
        "count to twenty",
        "[429] retry",
        "count to a hundred, and stop",
        "[count] twin",
        "[count] twin",
    ]
    assert [e.index for e in cassette.entries] == list(range(6))
    assert [e.response_integrity for e in cassette.entries] == ["whole"] * 3 + ["partial"] + [
        "whole"
    ] * 2
    assert [f.error.status for f in cassette.failures] == [400]
    assert recording.summary.recorded == 7
    # the place is the span's, which is none of HTTP
    assert {e.source.path for e in cassette.entries} == {("agent",)}
    spans = {e.source.span_id for e in cassette.entries}
    assert len(spans) == 6
    assert f"{agent.get_span_context().span_id:016x}" not in spans
    assert not cassette.report.of("not_replayable")

    assert str(session.summary).startswith("served 7, live 0, missed 0, unplayed 0")
    assert first.choices[0].message.content != second.choices[0].message.content
    assert len(provider.requests) == asked
    assert not session.divergences


class Client:
    """A model client of the program's own, on top of the SDK."""

    model = "m"

    def __init__(self, ask, sdks):
        self._ask = ask
        self._sdks = sdks

    def complete(self, request):
        return self._ask(self._sdks, request.messages[0].text).choices[0].message.content


RECORDERS = ("wrapper", "processor", "transport")
COMBINATIONS = [c for n in (1, 2, 3) for c in itertools.combinations(RECORDERS, n)]


@pytest.mark.parametrize("recorders", COMBINATIONS, ids="+".join)
def test_wrapper_processor_and_transport_in_any_combination_make_one_entry(
    recorders, provider, make_sdks, ask_chat
):
    sdks = make_sdks(provider.url)
    if "transport" not in recorders:
        CassetteInstrumentor().uninstrument()
    tracing = TracerProvider()
    if "processor" in recorders:
        tracing.add_span_processor(CassetteSpanProcessor())
    instrumentation = shown(tracing)
    try:
        cassette = Cassette()
        client = Client(ask_chat, sdks)
        with cassette.recording():
            if "wrapper" in recorders:
                wrapped = cassette.wrap_llm(client)
                answers = [wrapped.complete(text).text for text in ("one", "two")]
            else:
                answers = [
                    ask_chat(sdks, text).choices[0].message.content for text in ("one", "two")
                ]
    finally:
        instrumentation.uninstrument()
        tracing.shutdown()

    assert answers == ["Echo: one", "Echo: two"]
    said = [e.response["choices"][0]["message"]["parts"][0]["content"] for e in cassette.entries]
    assert said == answers
    assert [e.index for e in cassette.entries] == [0, 1]


def test_a_replay_under_another_instrumentation_and_under_none(tracing, sdks, ask_chat, provider):
    cassette = Cassette()
    recorder = hidden(tracing)
    with cassette.recording():
        ask_chat(sdks, "hello")
    recorder.uninstrument()
    recorded = Cassette(cassette.entries, mode="strict")

    with recorded.replaying() as bare:
        ask_chat(sdks, "hello")
    other = official(tracing)
    with recorded.replaying() as under_another:
        ask_chat(sdks, "hello")
    other.uninstrument()

    for session in (bare, under_another):
        assert str(session.summary).startswith("served 1, live 0, missed 0, unplayed 0")
    assert len(provider.requests) == 1
