"""Errors of the command: one line with the place, the reason and what to do, and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def no_call_trace(path: Path) -> Path:
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "GET /",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
    }
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    return path


@pytest.mark.parametrize("name", ["from-trace", "show"])
def test_a_missing_file(command: Any, tmp_path: Path, name: str) -> None:
    ran = command(name, tmp_path / "nope.json")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("otel-cassette: error: ")
    assert "no such file" in ran.err
    assert "nope.json" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"hello\nworld\n", "no JSON value"), (b'{"a": 1}', "no known trace format")],
)
def test_a_file_that_is_no_trace(command: Any, tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    ran = command("from-trace", path)
    assert ran.code == 2
    assert ran.err.startswith(f"otel-cassette: error: {path}:")
    assert says in ran.err
    assert "Accepted: OTLP JSON" in ran.err


def test_a_trace_without_a_call(command: Any, tmp_path: Path) -> None:
    path = no_call_trace(tmp_path / "t.json")
    target = tmp_path / "c.jsonl"
    ran = command("from-trace", path, "-o", target)
    assert ran.code == 2
    assert ran.err == (
        f"otel-cassette: error: {path}: no call among the 1 spans: no LLM, tool, retrieval or embedding "
        "span of a known vocabulary. Is the instrumentation of the model's SDK on, and was it the right "
        "file?\n"
    )
    assert not target.exists()


def test_a_damaged_cassette_names_its_line(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"format": "otel-cassette", "version": 1}\n{"kind": "llm", "ind\n')
    ran = command("show", path)
    assert ran.code == 2
    assert ran.err.startswith(f"otel-cassette: error: {path}:2: ")


def test_a_later_version_names_what_to_install(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"format": "otel-cassette", "version": 99}\n')
    ran = command("show", path)
    assert ran.code == 2
    assert "otel-cassette" in ran.err
    assert "99" in ran.err


def test_a_cassette_that_cannot_be_written(command: Any, traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    ran = command("from-trace", traces / "pydantic-ai" / "refund__v6.otlp.jsonl", "-o", folder)
    assert ran.code == 2
    assert str(folder) in ran.err
    assert "Traceback" not in ran.err


def test_a_trace_is_not_replaced_by_its_cassette(
    command: Any, traces: Path, tmp_path: Path
) -> None:
    source = traces / "pydantic-ai" / "refund__v6.otlp.jsonl"
    path = tmp_path / "trace.jsonl"
    path.write_bytes(source.read_bytes())
    ran = command("from-trace", path, "-o", path)
    assert ran.code == 2
    assert "is no cassette" in ran.err
    assert path.read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["diff", "only-one"],
        ["show", "f", "--trace-id", "x", "--merge"],
        ["demo", "--otlp", "here"],
    ],
)
def test_wrong_usage(command: Any, arguments: list[str]) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert ran.err.startswith("usage: otel-cassette")


def test_a_fault_of_ours_is_no_one_liner(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> bool:
        msg = "a bug"
        raise TypeError(msg)

    monkeypatch.setattr("otel_cassette.cli.show.is_cassette_file", broken)
    with pytest.raises(TypeError, match="a bug"):
        command("show", "file")


def test_a_reader_that_leaves_is_no_error(traces: Path) -> None:
    source = traces / "pydantic-ai" / "refund__v6.otlp.jsonl"
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "otel_cassette", "show", str(source), "--json"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")
