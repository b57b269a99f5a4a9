"""The exporter: when a run is written, what opens it again, and which traces are one run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.trace import Link, Tracer, set_span_in_context
from recording_calls import answer_attributes, chat, question_of, request_attributes

from otel_cassette import Cassette, CassetteSpanExporter
from otel_cassette.otel import writing


def tracer_to(exporter: CassetteSpanExporter) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


def questions(folder: Path) -> list[list[str]]:
    return sorted(
        [question_of(e) for e in Cassette.load(p).entries] for p in folder.glob("*.jsonl")
    )


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    waiting = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        waiting.wait(0.02)
    pytest.fail(f"not within {seconds} s")


def test_behind_a_batch_processor(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    for run in "ab":
        with tracer.start_as_current_span("agent"):
            chat(tracer, f"{run}1")
            chat(tracer, f"{run}2")
    provider.shutdown()
    assert questions(tmp_path) == [["a1", "a2"], ["b1", "b2"]]
    assert list(tmp_path.glob(".*")) == []
    assert exporter.report.runs == 2


def test_a_quiet_run_is_written_and_an_open_one_is_not(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path, quiet_period_s=0.1)
    tracer = tracer_to(exporter)
    root = tracer.start_span("agent")
    chat_in(tracer, root, "open")
    with tracer.start_as_current_span("other"):
        chat(tracer, "closed")
    wait_for(lambda: questions(tmp_path))
    assert questions(tmp_path) == [["closed"]]
    root.end()
    wait_for(lambda: len(questions(tmp_path)) == 2)
    assert questions(tmp_path) == [["closed"], ["open"]]
    exporter.shutdown()


def chat_in(tracer: Tracer, parent: object, question: str) -> None:
    context = set_span_in_context(parent)  # type: ignore[arg-type]
    attributes = {**request_attributes(question), **answer_attributes("yes")}
    tracer.start_span("chat gpt-4o", context=context, attributes=attributes).end()


def test_a_late_span_opens_its_run_again(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    root = tracer.start_span("agent")
    chat_in(tracer, root, "one")
    root.end()
    assert exporter.force_flush()
    (path,) = tmp_path.glob("*.jsonl")
    chat_in(tracer, root, "late")
    assert questions(tmp_path) == [["one"]]
    assert list(tmp_path.glob(".*")) != []
    assert exporter.force_flush()
    assert [path] == list(tmp_path.glob("*.jsonl"))
    assert questions(tmp_path) == [["one", "late"]]
    assert exporter.report.runs == 1
    exporter.shutdown()


def test_flush_writes_a_run_that_is_still_open(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    root = tracer.start_span("agent")
    chat_in(tracer, root, "one")
    assert exporter.force_flush()
    assert questions(tmp_path) == [["one"]]
    chat_in(tracer, root, "two")
    root.end()
    exporter.shutdown()
    assert questions(tmp_path) == [["one", "two"]]


def test_traces_of_one_conversation_are_one_run(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    for turn in (1, 2):
        with tracer.start_as_current_span("turn", attributes={"session.id": "s1"}):
            chat(tracer, f"turn {turn}")
    with tracer.start_as_current_span("turn", attributes={"session.id": "s2"}):
        chat(tracer, "somebody else")
    exporter.shutdown()
    assert questions(tmp_path) == [["somebody else"], ["turn 1", "turn 2"]]


def test_bare_calls_of_one_program_are_one_run(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    for question in ("one", "two", "three"):
        chat(tracer, question)
    with tracer.start_as_current_span("agent"):
        chat(tracer, "in an agent")
    exporter.shutdown()
    assert questions(tmp_path) == [["in an agent"], ["one", "two", "three"]]


def test_linked_traces_are_one_run(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    with tracer.start_as_current_span("first") as first:
        chat(tracer, "one")
    link = Link(first.get_span_context())
    attributes = {"session.id": "x"}
    with tracer.start_as_current_span("second", links=[link], attributes=attributes):
        chat(tracer, "two")
    exporter.shutdown()
    assert questions(tmp_path) == [["one", "two"]]


def test_a_run_that_grows_together_is_one_file_in_the_end(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    roots = [tracer.start_span("turn"), tracer.start_span("turn")]
    for number, root in enumerate(roots):
        chat_in(tracer, root, str(number))
    assert exporter.force_flush()
    assert questions(tmp_path) == [["0"], ["1"]]
    for root in roots:
        context = set_span_in_context(root)
        tracer.start_span("note", context=context, attributes={"session.id": "both"}).end()
        root.end()
    exporter.shutdown()
    assert questions(tmp_path) == [["0", "1"]]


def test_nothing_is_written_for_traces_without_calls(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path / "none")
    tracer = tracer_to(exporter)
    for _ in range(10):
        with tracer.start_as_current_span("GET /"):
            tracer.start_span("SELECT").end()
    assert exporter.force_flush()
    exporter.shutdown()
    assert not (tmp_path / "none").exists()


def test_after_shutdown_nothing_is_taken(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    exporter.shutdown()
    exporter.shutdown()
    chat(tracer, "too late")
    assert exporter.export([]) is SpanExportResult.FAILURE
    assert questions(tmp_path) == []


def test_another_recording_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    root = tracer.start_span("agent")
    chat_in(tracer, root, "mine")
    root.end()
    theirs = tmp_path / f"{root.get_span_context().trace_id:032x}.jsonl"
    theirs.write_text('{"format": "otel-cassette", "version": 1}\n', "utf-8")
    exporter.shutdown()
    assert Cassette.load(theirs).entries == []
    (mine,) = tmp_path.glob("*-2.jsonl")
    assert [question_of(e) for e in Cassette.load(mine).entries] == ["mine"]


def test_a_run_that_is_being_written_holds_up_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    tracer = tracer_to(exporter)
    root = tracer.start_span("agent")
    chat_in(tracer, root, "one")
    started, go_on = threading.Event(), threading.Event()
    write = writing.write_run

    def slow(*args: object) -> object:
        started.set()
        assert go_on.wait(10)
        return write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("otel_cassette.otel.runs.write_run", slow)
    thread = threading.Thread(target=exporter.force_flush)
    thread.start()
    assert started.wait(10)
    chat_in(tracer, root, "meanwhile")  # would wait for ever, were it held up
    with tracer.start_as_current_span("agent"):
        chat(tracer, "another run")
    go_on.set()
    thread.join()
    root.end()
    exporter.shutdown()
    assert questions(tmp_path) == [["another run"], ["one", "meanwhile"]]
    assert list(tmp_path.glob(".*")) == []


def test_runs_of_several_traces_are_let_go_together(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path, max_runs=4)
    tracer = tracer_to(exporter)
    roots = [tracer.start_span("turn", attributes={"session.id": "s"}) for _ in range(2)]
    for number, root in enumerate(roots):
        chat_in(tracer, root, str(number))
        root.end()
    assert exporter.force_flush()
    for number in range(6):
        with tracer.start_as_current_span("agent"):
            chat(tracer, f"other {number}")
    chat_in(tracer, roots[1], "very late")
    exporter.shutdown()
    # The joint file is whole; what came after it was let go has a file of its own.
    found = questions(tmp_path)
    assert ["0", "1"] in found
    assert ["very late"] in found
    assert len(found) == 8
