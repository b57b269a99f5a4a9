"""`install`: what it adds to providers of real set-ups, and what it says it could not do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from replay_setup import Telemetry, openai_body

from otel_cassette import Cassette, ReplaySampler, install
from otel_cassette.otel.processor import CassetteSpanProcessor
from otel_cassette.session import marks

CHAT = {"gen_ai.operation.name": "chat"}


@pytest.fixture
def users() -> Iterator[Telemetry]:
    """A provider that a program built, with its exporter, before anybody thought of cassettes."""
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.1)), shutdown_on_exit=False)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Telemetry(provider, exporter)
    marks.use_provider(None)
    provider.shutdown()


def diverge(telemetry: Telemetry, cassette: Cassette, tracer: trace.Tracer, count: int) -> None:
    for _ in range(count):
        cassette.rewind()
        with (
            cassette.replaying(mode="lenient"),
            tracer.start_as_current_span("chat", attributes=CHAT),
        ):
            cassette.wrap_llm().complete(openai_body("Where is order A-18?"))
    assert telemetry.provider.force_flush()


def test_tracers_got_earlier_have_the_sampler_too(users: Telemetry, cassette: Cassette) -> None:
    cached = users.provider.get_tracer("instrumentation got this at import")
    done = install(users.provider)
    assert (done.tracers, done.notes, done.is_complete) == (1, (), True)
    assert "ReplaySampler" in users.provider.sampler.get_description()
    diverge(users, cassette, cached, 30)
    assert len(users.all_named("chat")) == 30
    assert len(users.all_named("cassette.divergence")) == 30
    assert len(users.all_named("cassette.replay")) == 30
    assert all(span.attributes["replay_diverged"] for span in users.all_named("chat"))


def test_without_a_session_the_ratio_is_what_it_was(users: Telemetry) -> None:
    install(users.provider)
    for _ in range(500):
        users.tracer.start_span("work").end()
    # 500 draws at 10 %: outside of 15..100 has a probability below 1e-6.
    assert 15 <= len(users.spans) <= 100


def test_installing_again_changes_nothing(users: Telemetry) -> None:
    first = install(users.provider)
    again = install(users.provider)
    assert again is first
    assert not isinstance(users.provider.sampler.delegate, ReplaySampler)


def test_a_processor_that_is_there_is_used(users: Telemetry, tmp_path: Path) -> None:
    own = CassetteSpanProcessor()
    users.provider.add_span_processor(own)
    done = install(users.provider, directory=tmp_path)
    assert done.processor is own
    (note,) = done.notes
    assert "directory= was not used" in note
    cassette = Cassette()
    with cassette.recording(), users.tracer.start_as_current_span("llm_call") as span:
        span.set_attributes({"input": "2+2?", "output": "4"})
    assert len(cassette.entries) == 1


def test_a_sampler_of_ours_is_not_put_around_itself() -> None:
    sampler = ReplaySampler(ALWAYS_OFF)
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    assert install(provider).sampler is sampler
    assert provider.sampler is sampler
    marks.use_provider(None)
    provider.shutdown()


def test_runs_outside_of_sessions_are_recorded_where_a_directory_is_given(tmp_path: Path) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    install(provider, directory=tmp_path)
    with provider.get_tracer("app").start_as_current_span(
        "llm_call", attributes={"input": "2+2?", "output": "4", "model": "m"}
    ):
        pass
    assert provider.force_flush()
    marks.use_provider(None)
    provider.shutdown()
    (path,) = tmp_path.glob("*.jsonl")
    (entry,) = Cassette.load(path).entries
    assert entry.llm_response.text == "4"


class Hiding(trace.TracerProvider):
    """A vendor's provider: it takes processors and shows no sampler."""

    def __init__(self) -> None:
        self.processors: list[SpanProcessor] = []

    def get_tracer(self, *args: object, **kwargs: object) -> trace.Tracer:
        return trace.NoOpTracer()

    def add_span_processor(self, processor: SpanProcessor) -> None:
        self.processors.append(processor)


def test_a_provider_that_hides_its_sampler_gets_the_processor_and_a_note() -> None:
    provider = Hiding()
    done = install(provider)
    assert provider.processors == [done.processor]
    assert done.sampler is None
    (note,) = done.notes
    assert "ReplaySampler(delegate)" in note
    assert not done.is_complete
    marks.use_provider(None)


def test_an_sdk_that_keeps_no_tracers(
    users: Telemetry, cassette: Cassette, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = users.provider.get_tracer("instrumentation got this at import")
    other = TracerProvider(sampler=users.provider.sampler, shutdown_on_exit=False)
    others = other.get_tracer("app")
    monkeypatch.delattr(users.provider, "_tracers", raising=False)  # as in older versions
    done = install(users.provider)
    assert (done.tracers, done.notes) == (1, ())
    assert cached.sampler is done.sampler
    assert others.sampler is not done.sampler
    diverge(users, cassette, cached, 20)
    assert len(users.all_named("chat")) == 20


def test_a_no_op_provider_is_said_to_be_one(cassette: Cassette) -> None:
    done = install(trace.NoOpTracerProvider())
    assert (done.processor, done.sampler) == (None, None)
    (note,) = done.notes
    assert "not set up yet" in note
    with cassette.replaying() as session:
        cassette.wrap_llm().complete(openai_body("Where is order A-17?"))
    assert session.summary.served == 1


def test_a_disabled_sdk_is_said_to_be_one(
    monkeypatch: pytest.MonkeyPatch, cassette: Cassette
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    provider = TracerProvider(shutdown_on_exit=False)
    done = install(provider)
    (note,) = done.notes
    assert "OTEL_SDK_DISABLED=true" in note
    tracer = provider.get_tracer("app")
    with cassette.replaying(mode="lenient") as session, tracer.start_as_current_span("chat"):
        cassette.wrap_llm().complete(openai_body("Where is order A-18?"))
    assert (session.summary.served, session.summary.diverged) == (1, 1)
    marks.use_provider(None)
    provider.shutdown()


def test_a_provider_that_was_shut_down_behaves(users: Telemetry, cassette: Cassette) -> None:
    install(users.provider)
    tracer = users.tracer
    users.provider.shutdown()
    with cassette.replaying(mode="lenient") as session, tracer.start_as_current_span("chat"):
        cassette.wrap_llm().complete(openai_body("Where is order A-18?"))
    assert (session.summary.served, session.summary.diverged) == (1, 1)
