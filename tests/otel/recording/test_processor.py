"""Where the spans of a program go: a cassette, the open session, a directory, or nowhere."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracerProvider, set_span_in_context
from recording_calls import (
    Kept,
    answer_attributes,
    answer_of,
    chat,
    question_of,
    request_attributes,
    tool_attributes,
    tracer_with,
)

from otel_cassette import Cassette, CassetteSpanProcessor

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


# -- the given cassette ---------------------------------------------------------------------------


def test_a_finished_call_is_visible_at_once() -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(cassette))
    with tracer.start_as_current_span("agent"):
        chat(tracer, "one")
        (entry,) = cassette.entries
        assert question_of(entry) == "one"
        assert entry.source is not None
        assert entry.source.path == ("agent",)
        chat(tracer, "two")
    assert [question_of(e) for e in cassette.entries] == ["one", "two"]
    assert [e.index for e in cassette.entries] == [0, 1]


def test_calls_are_indexed_by_start_not_by_end() -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(cassette))
    first = tracer.start_span("chat m", attributes=request_attributes("slow"))
    second = tracer.start_span("chat m", attributes=request_attributes("fast"))
    for span in (second, first):
        span.set_attributes(answer_attributes("ok"))
        span.end()
    assert [question_of(e) for e in cassette.entries] == ["slow", "fast"]


def test_it_saves_and_replays(tmp_path: Path) -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(cassette))
    chat(tracer, "what is it?", "it is this")
    assert cassette.save(tmp_path / "c.jsonl") == 1
    loaded = Cassette.load(tmp_path / "c.jsonl")
    answer = loaded.wrap_llm().complete(
        {"model": "gpt-4o", "messages": [{"role": "user", "content": "what is it?"}]}
    )
    assert answer.text == "it is this"


def test_spans_that_are_no_calls_are_no_entries() -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette)
    tracer = tracer_with(processor)
    tracer.start_span("GET", attributes={"http.request.method": "GET"}).end()
    tracer.start_span("invoke_agent x", attributes={"gen_ai.operation.name": "invoke_agent"}).end()
    assert cassette.entries == []
    assert processor.report.lines == ()


def test_native_spans_are_told_by_name_and_by_value() -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(cassette))
    tracer.start_span("llm_call", attributes={"input": "hi", "output": "ho"}).end()
    tracer.start_span(
        "anything", attributes={"type": "llm_call", "input": "a", "output": "b"}
    ).end()
    tracer.start_span("anything", attributes={"type": "other", "input": "a", "output": "b"}).end()
    assert [answer_of(e) for e in cassette.entries] == ["ho", "b"]


def test_own_spans_never_become_entries() -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(cassette))
    marked = {**request_attributes("x"), **answer_attributes("y"), "replay_diverged": True}
    for name in ("cassette.divergence", "cassette.replay"):
        tracer.start_span(name, attributes=marked).end()
    assert cassette.entries == []


def test_calls_inside_a_tool_are_nested() -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(cassette))
    attributes = {**tool_attributes("ask", {"q": 1}), "gen_ai.tool.call.result": '"done"'}
    with tracer.start_as_current_span("execute_tool ask", attributes=attributes):
        chat(tracer, "inside")
    (tool,) = cassette.entries
    (inner,) = cassette.nested
    assert (tool.kind, tool.name, tool.response) == ("tool", "ask", "done")
    assert inner.parent is not None
    assert (inner.parent.kind, inner.parent.index) == ("tool", 0)


def test_a_call_that_never_ends_is_in_the_report() -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor()
    tracer = tracer_with(processor)
    with cassette.recording():
        chat(tracer, "done")
        span = tracer.start_span("chat gpt-4o", attributes=request_attributes("left"))
    assert len(cassette.entries) == 1
    assert [line.status for line in cassette.report.of("unfinished")] == ["unfinished"]
    span.end()


def test_content_over_the_limit_keeps_its_place() -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette, max_entry_bytes=10_000)
    tracer = tracer_with(processor)
    chat(tracer, "x" * 20_000)
    chat(tracer, "small")
    chat(tracer, "why?", "y" * 20_000)
    asked, small, answered = cassette.entries
    assert asked.request_integrity == "dropped"
    assert answer_of(asked) == "yes"
    assert question_of(small) == "small"
    assert answered.response_integrity == "dropped"
    assert not answered.is_playable
    assert processor.report.problems == {"content too large": 2}


# -- sessions -------------------------------------------------------------------------------------


def test_the_session_takes_what_starts_in_it_and_nothing_else() -> None:
    tracer = tracer_with(CassetteSpanProcessor())
    chat(tracer, "before")
    cassette = Cassette()
    with cassette.recording():
        chat(tracer, "in it")
    chat(tracer, "after")
    assert [question_of(e) for e in cassette.entries] == ["in it"]


def test_two_sessions_after_one_another() -> None:
    tracer = tracer_with(CassetteSpanProcessor())
    one, two = Cassette(), Cassette()
    with one.recording():
        chat(tracer, "1")
    with two.recording():
        chat(tracer, "2")
    with one.recording():
        chat(tracer, "3")
    assert [question_of(e) for e in one.entries] == ["1", "3"]
    assert [question_of(e) for e in two.entries] == ["2"]


def test_two_sessions_at_once_by_context() -> None:
    tracer = tracer_with(CassetteSpanProcessor())
    cassettes = [Cassette(), Cassette()]

    async def run(number: int) -> None:
        with cassettes[number].recording():
            for turn in range(3):
                await asyncio.sleep(0)
                chat(tracer, f"{number}.{turn}")

    async def both() -> None:
        await asyncio.gather(run(0), run(1))

    asyncio.run(both())
    for number, cassette in enumerate(cassettes):
        assert [question_of(e) for e in cassette.entries] == [f"{number}.{t}" for t in range(3)]


def test_a_thread_that_lost_the_context_belongs_to_the_one_session() -> None:
    tracer = tracer_with(CassetteSpanProcessor())
    cassette = Cassette()
    with cassette.recording():
        thread = threading.Thread(target=chat, args=(tracer, "from a thread"))
        thread.start()
        thread.join()
    assert [question_of(e) for e in cassette.entries] == ["from a thread"]


def test_with_two_sessions_a_lost_context_is_recorded_in_none_and_said() -> None:
    processor = CassetteSpanProcessor()
    tracer = tracer_with(processor)
    one, two = Cassette(), Cassette()
    with one.recording(), two.recording():
        token = otel_context.attach(otel_context.Context())
        chat(tracer, "whose?")
        otel_context.detach(token)
    assert one.entries == two.entries == []
    assert processor.report.problems == {"spans outside of all sessions": 1}


def test_a_span_that_ends_after_its_session_is_still_its_own() -> None:
    tracer = tracer_with(CassetteSpanProcessor())
    cassette = Cassette()
    with cassette.recording():
        span = tracer.start_span("chat gpt-4o", attributes=request_attributes("stream"))
    span.set_attributes(answer_attributes("late"))
    span.end()
    assert [answer_of(e) for e in cassette.entries] == ["late"]


def test_many_threads() -> None:
    tracer = tracer_with(CassetteSpanProcessor())
    cassette = Cassette()

    def work(number: int) -> None:
        for turn in range(50):
            with tracer.start_as_current_span(f"step {number}"):
                chat(tracer, f"{number}.{turn}")

    with cassette.recording():
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = {f"{n}.{t}" for n in range(8) for t in range(50)}
    assert {question_of(e) for e in cassette.entries} == expected
    assert len(cassette.entries) == 400
    assert [e.index for e in cassette.entries] == list(range(400))


def test_a_replay_is_not_recorded_into_what_is_replayed(tmp_path: Path) -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette)
    tracer = tracer_with(processor)
    chat(tracer, "recorded")
    recorded = cassette.entries
    in_directory = tracer_with(CassetteSpanProcessor(directory=tmp_path))
    with cassette.replaying(span=False):
        chat(tracer, "replayed")
        late = tracer.start_span("chat gpt-4o", attributes=request_attributes("late"))
        chat(in_directory, "replayed")
    late.end()
    assert cassette.entries == recorded
    assert files(tmp_path) == []


def test_a_replay_is_recorded_into_another_cassette_when_that_is_asked_for() -> None:
    other = Cassette()
    tracer = tracer_with(CassetteSpanProcessor(other))
    with Cassette().replaying(span=False):
        chat(tracer, "replayed")
    assert [question_of(e) for e in other.entries] == ["replayed"]


# -- a directory ----------------------------------------------------------------------------------


def test_one_file_a_run(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path / "made" / "here")
    tracer = tracer_with(processor)
    for run in ("a", "b"):
        with tracer.start_as_current_span("agent"):
            chat(tracer, f"{run}1")
            chat(tracer, f"{run}2")
    tracer.start_span("GET").end()
    assert processor.force_flush()
    found = [
        [question_of(e) for e in Cassette.load(p).entries] for p in files(tmp_path / "made/here")
    ]
    assert sorted(found) == [["a1", "a2"], ["b1", "b2"]]
    assert processor.report.runs == 2
    processor.shutdown()
    assert processor.report.runs == 2


def test_content_that_was_not_captured_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    tracer = tracer_with(processor)
    for _ in range(2):
        bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        tracer.start_span("chat m", attributes=bare).end()
    for step in (processor.force_flush, processor.shutdown):
        step()
        (remedy,) = processor.report.remedies
        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in remedy
        assert f"cannot be replayed: {remedy}" in str(processor.report)
    assert len([r for r in caplog.records if "cannot be replayed" in r.message]) == 1


def test_a_session_in_a_program_that_records_into_a_directory(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    tracer = tracer_with(processor)
    cassette = Cassette()
    with cassette.recording():
        chat(tracer, "session")
        token = otel_context.attach(otel_context.Context())
        chat(tracer, "beside it")
        otel_context.detach(token)
    processor.shutdown()
    assert [question_of(e) for e in cassette.entries] == ["session"]
    (path,) = files(tmp_path)
    assert [question_of(e) for e in Cassette.load(path).entries] == ["beside it"]


def test_a_quiet_run_is_written_by_itself(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path, quiet_period_s=0.05)
    tracer = tracer_with(processor)
    with tracer.start_as_current_span("agent"):
        chat(tracer, "one")
    wait_for(lambda: files(tmp_path))
    (path,) = files(tmp_path)
    assert [question_of(e) for e in Cassette.load(path).entries] == ["one"]
    assert list(tmp_path.glob(".*")) == []
    processor.shutdown()


def test_more_runs_than_are_held(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path, max_runs=3)
    tracer = tracer_with(processor)
    for run in range(10):
        with tracer.start_as_current_span("agent"):
            chat(tracer, str(run))
    processor.shutdown()
    found = [question_of(e) for p in files(tmp_path) for e in Cassette.load(p).entries]
    assert sorted(found) == [str(run) for run in range(10)]
    assert processor.report.problems["runs written early"] > 0


def test_secrets_reach_no_file(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    tracer = tracer_with(processor)
    nested = json.dumps({"arguments": json.dumps({"api_key": "hunter2-hunter2"})})
    with tracer.start_as_current_span(f"agent {SECRET}"):
        attributes = {**tool_attributes("look", {"key": SECRET}), "gen_ai.tool.call.result": nested}
        tracer.start_span("execute_tool look", attributes=attributes).end()
        (spool,) = tmp_path.glob(".*")
        assert SECRET not in spool.read_text("utf-8")
        assert "hunter2-hunter2" not in spool.read_text("utf-8")
        assert "<redacted:openai-key>" in spool.read_text("utf-8")
    processor.shutdown()
    (path,) = files(tmp_path)
    text = path.read_text("utf-8")
    assert SECRET not in text
    assert "hunter2-hunter2" not in text
    assert '"redact"' in text.splitlines()[0]
    assert Cassette.load(path).entries[0].request == {"key": "<redacted:openai-key>"}


def test_no_redaction_when_none_is_asked_for(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path, redact=())
    chat(tracer_with(processor), SECRET)
    processor.shutdown()
    (path,) = files(tmp_path)
    assert question_of(Cassette.load(path).entries[0]) == SECRET


# -- providers ------------------------------------------------------------------------------------


def test_added_after_tracers_were_cached() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("early")
    early = tracer.start_span("chat gpt-4o", attributes=request_attributes("open already"))
    cassette = Cassette()
    provider.add_span_processor(CassetteSpanProcessor(cassette))
    early.set_attributes(answer_attributes("yes"))
    early.end()
    chat(tracer, "later")
    assert [question_of(e) for e in cassette.entries] == ["open already", "later"]


def test_a_provider_that_was_shut_down() -> None:
    cassette = Cassette()
    provider = TracerProvider(shutdown_on_exit=False)
    processor = CassetteSpanProcessor(cassette)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("t")
    chat(tracer, "before")
    provider.shutdown()
    chat(tracer, "after")
    processor.shutdown()
    assert processor.force_flush()
    assert [question_of(e) for e in cassette.entries] == ["before"]
    assert processor.report.lines == ()


def test_a_provider_that_does_nothing() -> None:
    cassette = Cassette()
    CassetteSpanProcessor(cassette)
    with cassette.recording():
        chat(NoOpTracerProvider().get_tracer("t"), "nowhere")
    assert cassette.entries == []


def test_a_disabled_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette)
    chat(tracer_with(processor), "nowhere")
    assert cassette.entries == []
    assert processor.report.lines == ()


def test_beside_a_batch_processor() -> None:
    class Sent(SpanExporter):
        def __init__(self) -> None:
            self.names: list[str] = []

        def export(self, spans):
            self.names += [span.name for span in spans]
            return SpanExportResult.SUCCESS

    cassette, sent, kept = Cassette(), Sent(), Kept()
    batch = BatchSpanProcessor(sent)
    tracer = tracer_with(batch, CassetteSpanProcessor(cassette), kept)
    with tracer.start_as_current_span("agent"):
        chat(tracer, "one")
    batch.force_flush()
    batch.shutdown()
    assert sent.names == ["chat gpt-4o", "agent"]
    assert [span.name for span in kept.spans] == ["chat gpt-4o", "agent"]
    assert len(cassette.entries) == 1


def test_remote_parents_begin_a_local_root(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path, quiet_period_s=0.05)
    tracer = tracer_with(processor)
    remote = trace.NonRecordingSpan(
        trace.SpanContext(0xA, 0xB, is_remote=True, trace_flags=trace.TraceFlags(1))
    )
    with tracer.start_as_current_span("server", context=set_span_in_context(remote)):
        chat(tracer, "one")
    wait_for(lambda: files(tmp_path))
    assert [p.name for p in files(tmp_path)] == [f"{0xA:032x}.jsonl"]
    processor.shutdown()


def wait_for(condition, seconds: float = 10.0) -> None:
    waiting = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        waiting.wait(0.02)
    pytest.fail(f"not within {seconds} s")
