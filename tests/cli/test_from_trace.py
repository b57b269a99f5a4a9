"""`otel-cassette from-trace`, on traces that real instrumentations exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from otel_cassette import Cassette


def test_a_trace_becomes_a_cassette_that_loads(command: Any, traces: Path, tmp_path: Path) -> None:
    source = traces / "pydantic-ai" / "refund__v6.otlp.jsonl"
    target = tmp_path / "made" / "refund.cassette.jsonl"
    ran = command("from-trace", source, "-o", target)
    assert ran.code == 0, ran.err
    truth = json.loads((traces / "pydantic-ai" / "refund__v6.truth.json").read_text())
    expected = [call["kind"] for call in truth["calls"]]
    assert [entry.kind for entry in Cassette.load(target).entries] == expected
    assert ran.out.splitlines()[-1] == f"{len(expected)} calls in {target}"


def test_log_files_are_joined(command: Any, traces: Path) -> None:
    spans = traces / "otel-openai-v2" / "refund--event_only.otlp.jsonl"
    logs = traces / "otel-openai-v2" / "refund--event_only.logs.otlp.jsonl"
    alone = command("from-trace", spans)
    assert alone.code == 2
    assert "none of the 3 call spans can be played" in alone.err
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in alone.err
    together = command("from-trace", spans, logs)
    assert together.code == 0
    assert together.out.startswith(
        "3 spans: 5 replayable (2 of them inferred from later requests)\n"
    )


def test_without_o_nothing_is_written(
    command: Any, traces: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = command("from-trace", traces / "pydantic-ai" / "refund__v6.otlp.jsonl")
    assert ran.code == 0
    assert ran.out.endswith("nothing written: add -o FILE for the cassette\n")
    assert list(tmp_path.iterdir()) == []


def test_a_remedy_is_said_once(command: Any, traces: Path) -> None:
    ran = command("from-trace", traces / "anthropic-sdk-native" / "stream.otlp.jsonl")
    assert ran.code == 0
    assert ran.out.count("not_replayable: llm") == 3
    assert ran.out.count("Record with the HTTP transports") == 1
    assert "  to do  Record with the HTTP transports, which see the provider's payload." in ran.out


def test_failed_calls_are_listed(command: Any, traces: Path) -> None:
    ran = command("from-trace", traces / "anthropic-sdk-native" / "error.otlp.jsonl")
    assert ran.code == 0
    assert "llm (failed)" in ran.out


def test_json_says_what_became_of_each_span(command: Any, traces: Path, tmp_path: Path) -> None:
    target = tmp_path / "c.jsonl"
    ran = command(
        "from-trace", traces / "otel-util-genai" / "extras.otlp.jsonl", "-o", target, "--json"
    )
    report = json.loads(ran.out)
    assert report["cassette"] == str(target)
    lines = report["report"]["lines"]
    assert {line["status"] for line in lines} >= {
        "replayable",
        "not_replayable",
        "missing",
        "wrapper",
    }
    assert all(line["remedy"] for line in lines if line["status"] == "not_replayable")
    assert report["entries"] == len(Cassette.load(target).entries)


def test_several_runs_are_listed_and_can_be_chosen(command: Any, runs: Path) -> None:
    source = runs / "openai-agents-openinference--refund__session.otlp.jsonl"
    trace_ids = {
        span["traceId"]
        for line in source.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    ran = command("from-trace", source)
    assert ran.code == 2
    assert (
        f"{source}: holds 2 runs; choose one with --trace-id, or take all with --merge" in ran.err
    )
    assert all(trace_id in ran.err for trace_id in trace_ids)
    merged = command("from-trace", source, "--merge", "--json")
    lines = json.loads(merged.out)["report"]["lines"]
    assert {line["trace_id"] for line in lines} == trace_ids
    one = min(trace_ids)
    lines = json.loads(command("from-trace", source, "--trace-id", one, "--json").out)["report"][
        "lines"
    ]
    assert {line["trace_id"] for line in lines} == {one}


def test_saving_without_provenance_gives_the_same_bytes_for_two_recordings(
    command: Any, process: Any, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        assert process("demo", "--keep", name).code == 0
        ran = command(
            "from-trace",
            tmp_path / name / "recorded.otlp.jsonl",
            "--no-provenance",
            "-o",
            tmp_path / f"{name}.jsonl",
        )
        assert ran.code == 0
    first, second = (
        (tmp_path / f"{name}.jsonl").read_text().splitlines() for name in ("one", "two")
    )
    assert first[1:] == second[1:]
