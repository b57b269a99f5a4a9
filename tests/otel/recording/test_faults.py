"""Whatever breaks inside a callback: the program goes on, one log line, one counter, one report line."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Tracer
from recording_calls import LOG_RECORD, Kept, chat, question_of, tracer_with

from otel_cassette import (
    Cassette,
    CassetteLogRecordProcessor,
    CassetteSpanExporter,
    CassetteSpanProcessor,
    recover,
)
from otel_cassette.otel import writing
from otel_cassette.otel.spool import Spool


class BrokenError(Exception):
    """What the tests have the parts raise."""


def breaking(*_: Any, **__: Any) -> Any:
    raise BrokenError("on purpose")


def full_disk(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


Fault = Callable[[pytest.MonkeyPatch, CassetteSpanProcessor], None]


def in_sessions(patch: pytest.MonkeyPatch, processor: CassetteSpanProcessor) -> None:
    patch.setattr(processor, "_start_in_session", breaking)


def in_the_test_of_a_span(patch: pytest.MonkeyPatch, processor: CassetteSpanProcessor) -> None:
    patch.setattr(processor, "_is_candidate", breaking)


def in_the_conversion(patch: pytest.MonkeyPatch, _: CassetteSpanProcessor) -> None:
    patch.setattr("otel_cassette.otel.take.span_of", breaking)


def in_the_redactor(patch: pytest.MonkeyPatch, _: CassetteSpanProcessor) -> None:
    patch.setattr("otel_cassette.otel.masking.MaskedLines.span", breaking)


def on_the_disk(patch: pytest.MonkeyPatch, _: CassetteSpanProcessor) -> None:
    patch.setattr("os.write", full_disk)


@pytest.mark.parametrize(
    ("fault", "callback", "error"),
    [
        (in_sessions, "on_start", "BrokenError"),
        (in_the_test_of_a_span, "on_end", "BrokenError"),
        (in_the_conversion, "on_end", "BrokenError"),
        (in_the_redactor, "on_end", "BrokenError"),
        (on_the_disk, "on_end", "OSError"),
    ],
)
def test_a_fault_in_a_callback(
    fault: Fault,
    callback: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    processor, kept = CassetteSpanProcessor(), Kept()
    tracer = tracer_with(processor, kept)
    with Cassette().recording(tmp_path / "c.jsonl"), monkeypatch.context() as patch:
        fault(patch, processor)
        for _ in range(5):
            chat(tracer, "the program's own call")

    # The program and the processors after ours saw everything.
    assert len(kept.spans) == 5
    lines = [r for r in caplog.records if r.name == "otel_cassette"]
    assert len(lines) == 1
    assert lines[0].levelno == logging.WARNING
    assert callback in lines[0].getMessage()
    assert processor.report.problems == {f"{callback}: {error}": 5}
    assert len(processor.report.lines) == 1


def test_a_dialect_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette)
    chat(tracer_with(processor), "q")
    monkeypatch.setattr("otel_cassette.dialects.otel_genai.OTelGenAI.read", breaking)
    assert cassette.entries == []
    source = cassette.own_playback().journal.source
    assert source is not None
    assert [line.status for line in source.report] == ["unreadable"]
    assert "BrokenError" in str(source.report)


def test_a_full_disk_keeps_the_call_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    tracer = tracer_with(processor)
    with monkeypatch.context() as patch:
        patch.setattr("os.write", full_disk)
        chat(tracer, "kept")
    assert processor.force_flush()
    (path,) = tmp_path.glob("*.jsonl")
    assert [question_of(e) for e in Cassette.load(path).entries] == ["kept"]


def test_a_cassette_that_cannot_be_written_stays_in_its_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    tracer = tracer_with(processor)
    chat(tracer, "kept")
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_atomically", full_disk)
        assert processor.force_flush() is False
        assert processor.force_flush() is False
        processor.shutdown()
    assert list(tmp_path.glob("*.jsonl")) == []
    assert processor.report.problems == {"writing a cassette: OSError": 3}
    assert len([r for r in caplog.records if r.name == "otel_cassette"]) == 1
    (path,) = recover(tmp_path)
    assert [question_of(e) for e in Cassette.load(path).entries] == ["kept"]
    assert list(tmp_path.glob(".*")) == []


def test_a_run_that_could_not_be_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    chat(tracer_with(processor), "kept")
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_atomically", full_disk)
        assert processor.force_flush() is False
    assert processor.force_flush() is True
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("method", ["force_flush", "shutdown"])
def test_a_fault_in_flush_and_shutdown(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    name = "flush" if method == "force_flush" else "shutdown"
    monkeypatch.setattr(f"otel_cassette.otel.runs.RunDirectory.{name}", breaking)
    assert not getattr(processor, method)()
    assert processor.report.problems == {f"{method}: BrokenError": 1}
    assert len([r for r in caplog.records if r.name == "otel_cassette"]) == 1


def test_a_fault_in_the_exporter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer: Tracer = provider.get_tracer("t")
    monkeypatch.setattr(exporter, "_is_candidate", breaking)
    chat(tracer, "one")
    chat(tracer, "two")
    assert exporter.report.problems == {"export: BrokenError": 2}
    assert len([r for r in caplog.records if r.name == "otel_cassette"]) == 1
    monkeypatch.undo()
    chat(tracer, "three")
    exporter.shutdown()
    (path,) = tmp_path.glob("*.jsonl")
    assert [question_of(e) for e in Cassette.load(path).entries] == ["three"]


def test_a_fault_in_the_log_processor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processor = CassetteSpanProcessor(Cassette())
    logs = CassetteLogRecordProcessor(processor)
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(logs)
    monkeypatch.setattr("otel_cassette.otel.logs.log_of", breaking)
    tracer = tracer_with(processor)
    with tracer.start_as_current_span("chat gpt-4o"):
        for _ in range(3):
            provider.get_logger("t").emit(LOG_RECORD(event_name="gen_ai.user.message", body="x"))
    assert logs.troubles.counts == {"on_emit: BrokenError": 3}
    assert len([r for r in caplog.records if r.name == "otel_cassette"]) == 1


def test_a_wrapped_call_survives_a_spool_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Spool, "write", full_disk)
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda n: n * 2, name="double")
    with cassette.recording(tmp_path / "c.jsonl"):
        assert [tool(n=n) for n in range(4)] == [0, 2, 4, 6]
    assert len([r for r in caplog.records if r.name == "otel_cassette"]) == 1
    assert [e.response for e in Cassette.load(tmp_path / "c.jsonl").entries] == [0, 2, 4, 6]


def test_problems_are_counted_for_the_users_metrics() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from otel_cassette.otel.guard import Troubles

    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("otel_cassette")
    troubles = Troubles("test")
    troubles._counter = meter.create_counter("otel_cassette.recording.problems")
    for _ in range(3):
        troubles.raised("on_end", BrokenError("x"), lost="nothing")
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    (point,) = metric.data.data_points
    assert (metric.name, point.value) == ("otel_cassette.recording.problems", 3)
    assert dict(point.attributes) == {"problem": "on_end: BrokenError"}
