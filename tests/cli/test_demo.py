"""`otel-cassette demo`: the whole story, as its own process, with nothing but Python in the environment."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, find_divergences


def spans_of(path: Path) -> list[dict[str, Any]]:
    """Return the spans of an OTLP JSON Lines file, without our own reader."""
    return [
        span
        for line in path.read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def attributes_of(span: dict[str, Any]) -> dict[str, Any]:
    return {a["key"]: next(iter(a["value"].values())) for a in span.get("attributes", ())}


def test_it_tells_the_story(process: Any) -> None:
    ran = process("demo")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert "\x1b" not in ran.out
    text = ran.out
    assert "  5 calls recorded from the spans; exported as OTLP JSON to recorded.otlp.jsonl" in text
    assert "  identical: served 5, live 0, missed 0, unplayed 0" in text
    assert "  diverged: served 5, live 0, missed 0, unplayed 0" in text
    assert (
        "x llm call #0: request differs (system_instructions)\n"
        "  --- recorded\n"
        "  +++ replayed\n"
        "  @@ /system_instructions @@\n"
        "   You are the refund desk of a small bookshop.\n"
        "   Look the order up before you decide anything.\n"
        "  -Refund up to 50 EUR yourself; leave more to a colleague.\n"
        "  +Refund up to 20 EUR yourself; leave more to a colleague.\n"
        "   Answer in one friendly sentence.\n"
    ) in text


def test_it_says_the_same_every_time(process: Any) -> None:
    assert process("demo").out == process("demo").out


def test_strict_stops_and_fallthrough_goes_live(process: Any) -> None:
    strict = process("demo", "--mode", "strict")
    assert strict.code == 0
    assert "stopped by CassetteMissError: llm call #0 has no recorded answer" in strict.out
    live = process("demo", "--mode", "fallthrough", "--match", "index")
    assert live.code == 0
    assert "  diverged: served 2, live 3, missed 0, unplayed 0" in live.out


def test_the_kept_traces_replay_and_compare(process: Any, tmp_path: Path) -> None:
    ran = process("demo", "--keep", "kept")
    assert ran.code == 0
    folder = tmp_path / "kept"
    recorded, changed = folder / "recorded.otlp.jsonl", folder / "changed.otlp.jsonl"
    assert sorted(span["name"] for span in spans_of(recorded)) == [
        "chat stand-in-1",
        "chat stand-in-1",
        "chat stand-in-1",
        "execute_tool lookup_order",
        "execute_tool refund",
        "refund_agent",
    ]
    assert len(Cassette.load(folder / "refund.cassette.jsonl").entries) == 5
    assert find_divergences(recorded, folder / "replayed.otlp.jsonl") == []
    found = find_divergences(recorded, changed)
    assert [d.fields for d in found if d.is_first_cause] == [("/system_instructions",)]
    diff = process("diff", recorded, changed, "--fail-on-divergence")
    assert diff.code == 1


def test_the_spans_of_the_changed_replay_say_so(process: Any, tmp_path: Path) -> None:
    ran = process("demo", "--keep", "kept")
    assert ran.code == 0
    spans = spans_of(tmp_path / "kept" / "changed.otlp.jsonl")
    marked = [span for span in spans if attributes_of(span).get("replay_diverged") is True]
    assert sorted(span["name"] for span in marked) == [
        "cassette.divergence",
        "cassette.divergence",
        "cassette.divergence",
        "cassette.replay",
        "chat stand-in-1",
        "chat stand-in-1",
        "chat stand-in-1",
    ]
    recorded = {
        (span["traceId"], span["spanId"])
        for span in spans_of(tmp_path / "kept" / "recorded.otlp.jsonl")
        if span["name"] == "chat stand-in-1"
    }
    links = [
        (link["traceId"], link["spanId"])
        for span in marked
        if span["name"] == "cassette.divergence"
        for link in span["links"]
    ]
    assert (len(links), set(links)) == (3, recorded)
    assert (
        "  7 spans of changed.otlp.jsonl carry replay_diverged=true, "
        "3 of them with a link to the recorded call\n"
    ) in ran.out
    for span in spans_of(tmp_path / "kept" / "replayed.otlp.jsonl"):
        assert "replay_diverged" not in attributes_of(span)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An OTLP receiver that shares no code with the SDK: its address, and the file of what it got."""
    port, log = free_port(), tmp_path / "received.ndjson"
    with log.open("wb") as stream:
        running = subprocess.Popen(
            [sys.executable, "-u", "-m", "oteltap", "--port", str(port)],
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}", log
    running.terminate()
    running.wait(10)


def test_it_sends_its_spans_to_a_backend(process: Any, receiver: tuple[str, Path]) -> None:
    url, log = receiver
    ran = process("demo", "--otlp", url)
    assert ran.code == 0, ran.err
    received = [
        json.loads(line)
        for line in log.read_text(encoding="utf-8").splitlines()
        if line.startswith("{")
    ]
    spans = [line for line in received if "spanId" in line]
    assert (
        f"{len(spans)} spans sent to {url}: search service refund-desk for replay_diverged=true"
        in ran.out
    )
    assert "replay_diverged" in log.read_text(encoding="utf-8")


def test_a_backend_that_is_not_there_is_said(process: Any) -> None:
    ran = process("demo", "--otlp", f"http://127.0.0.1:{free_port()}")
    assert ran.code == 2
    assert "the backend did not take" in ran.err
    assert "is an OTLP/HTTP receiver listening there?" in ran.err
    assert "Traceback" not in ran.err
