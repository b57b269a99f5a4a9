"""Content in log records: joined to its span, whichever side records it."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Tracer
from recording_calls import LOG_RECORD, answer_of, message, question_of, tracer_with

from otel_cassette import (
    Cassette,
    CassetteLogRecordProcessor,
    CassetteSpanExporter,
    CassetteSpanProcessor,
    recover,
)

DETAILS = "gen_ai.client.inference.operation.details"
BARE = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}


def logger_with(processor: CassetteLogRecordProcessor) -> object:
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(processor)
    return provider.get_logger("test")


def call(tracer: Tracer, logger: object, question: str, answer: str) -> None:
    """A call without content on its span, its content in the event that comes before the end."""
    with tracer.start_as_current_span("chat gpt-4o", attributes=BARE):
        attributes = {
            "gen_ai.input.messages": [message("user", question)],
            "gen_ai.output.messages": [message("assistant", answer, finish_reason="stop")],
        }
        logger.emit(LOG_RECORD(event_name=DETAILS, attributes=attributes))  # type: ignore[attr-defined]
        logger.emit(LOG_RECORD(event_name="other", body="nothing"))  # type: ignore[attr-defined]


def test_into_a_cassette() -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette)
    logger = logger_with(CassetteLogRecordProcessor(processor))
    call(tracer_with(processor), logger, "who?", "me")
    (entry,) = cassette.entries
    assert (question_of(entry), answer_of(entry)) == ("who?", "me")
    assert processor.report.logs == 1


def test_into_the_session_without_being_told_of_the_processor() -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor())
    logger = logger_with(CassetteLogRecordProcessor())
    with cassette.recording():
        call(tracer, logger, "who?", "me")
    assert [answer_of(e) for e in cassette.entries] == ["me"]


def test_into_a_directory_and_back_from_its_spool(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    logger = logger_with(CassetteLogRecordProcessor(processor))
    call(tracer_with(processor), logger, "who?", "me")
    (spool,) = tmp_path.glob(".*")
    copied = tmp_path / "copy"
    copied.mkdir()
    (copied / spool.name).write_bytes(spool.read_bytes())
    processor.shutdown()
    for folder in (tmp_path, copied):
        paths = recover(folder) or list(folder.glob("*.jsonl"))
        (entry,) = Cassette.load(paths[0]).entries
        assert (question_of(entry), answer_of(entry)) == ("who?", "me")


def test_for_an_exporter(tmp_path: Path) -> None:
    exporter = CassetteSpanExporter(tmp_path)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    logger = logger_with(CassetteLogRecordProcessor(exporter))
    call(provider.get_tracer("t"), logger, "who?", "me")
    exporter.shutdown()
    (path,) = tmp_path.glob("*.jsonl")
    assert [answer_of(e) for e in Cassette.load(path).entries] == ["me"]


def test_without_log_records_the_report_says_what_to_set() -> None:
    cassette = Cassette()
    processor = CassetteSpanProcessor(cassette)
    tracer_with(processor).start_span("chat gpt-4o", attributes=BARE).end()
    (entry,) = cassette.entries
    assert entry.response_integrity == "absent"
    source = cassette.own_playback().journal.source
    assert source is not None
    (line,) = source.report
    assert line.status == "not_replayable"
    assert line.remedy


def test_a_log_record_outside_of_all_spans_is_left_alone() -> None:
    processor = CassetteSpanProcessor(Cassette())
    logs = CassetteLogRecordProcessor(processor)
    logger_with(logs).emit(LOG_RECORD(event_name=DETAILS))  # type: ignore[attr-defined]
    assert processor.report.logs == 0
    assert logs.troubles.counts == {}
    assert logs.force_flush()
