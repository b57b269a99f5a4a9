"""Spans fed live give what the exported file gives: for every recorded file, in all three ways in."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_feed import (
    feed,
    files_json,
    from_file,
    merged,
    play,
    runs_json,
    sdk_log,
    sdk_span,
    sources,
)

from otel_cassette import CassetteLogRecordProcessor, CassetteSpanExporter, CassetteSpanProcessor

DATA = Path(__file__).parents[2] / "data"
FILES = sorted(
    path
    for folder in (DATA / "traces", DATA / "dialects")
    for path in folder.rglob("*.otlp.jsonl")
    if not path.name.endswith(".logs.otlp.jsonl") and path.stat().st_size
)


def test_there_are_files() -> None:
    assert len(FILES) > 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_fed_live(path: Path, tmp_path: Path) -> None:
    expected_runs = runs_json(sources(path))

    assert feed(path) == from_file(path)

    by_processor = tmp_path / "processor"
    processor = CassetteSpanProcessor(directory=by_processor, redact=())
    play(merged(path), processor, CassetteLogRecordProcessor(processor))
    assert processor.force_flush()
    assert processor.report.lines == ()
    assert files_json(by_processor) == expected_runs
    processor.shutdown()

    by_exporter = tmp_path / "exporter"
    exporter = CassetteSpanExporter(by_exporter, redact=())
    trace = merged(path)
    resources: dict[int, object] = {}
    for log in trace.logs:
        CassetteLogRecordProcessor(exporter).on_emit(sdk_log(log, resources))
    exporter.export([sdk_span(span, resources) for span in trace.spans])
    exporter.shutdown()
    assert exporter.report.lines == ()
    assert files_json(by_exporter) == expected_runs

    left = [p.name for folder in (by_processor, by_exporter) for p in folder.glob(".*")]
    assert left == []
