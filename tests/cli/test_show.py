"""`otel-cassette show`: cassettes, traces, one call of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, CassetteEntry


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    path = tmp_path / "c.jsonl"
    request = {"model": "m-1", "messages": [{"role": "user", "content": "hi"}]}
    message = {"role": "assistant", "content": "hello there"}
    entries = [
        CassetteEntry(
            kind="llm", index=0, request=request, response={"choices": [{"message": message}]}
        ),
        CassetteEntry(kind="tool", index=0, name="lookup", request={"id": "A-1"}, response=None),
    ]
    Cassette(entries, metadata={"suite": "night"}, ignore=["/params/seed"]).save(path)
    return path


def test_a_cassette_is_listed_call_by_call(command: Any, cassette: Path) -> None:
    ran = command("show", cassette)
    assert ran.code == 0
    assert ran.out == (
        "otel-cassette version 1: 2 calls\n"
        '  metadata  {"suite": "night"}\n'
        '  ignore  ["/params/seed"]\n'
        "  llm #0   m-1     hello there\n"
        '  tool #0  lookup  (id="A-1") -> null\n'
    )


def test_one_call_is_shown_in_full(command: Any, cassette: Path) -> None:
    ran = command("show", cassette, "--call", "llm#0", "--json")
    assert json.loads(ran.out)["request"]["messages"][0]["parts"] == [
        {"type": "text", "content": "hi"}
    ]
    assert "hello there" in command("show", cassette, "--call", "llm 0").out
    missing = command("show", cassette, "--call", "tool#7")
    assert missing.code == 2
    assert missing.err == (
        f"otel-cassette: error: {cassette}: there is no call tool#7; it holds 1 of kind tool\n"
    )
    assert command("show", cassette, "--call", "tools").code == 2


def test_the_json_of_a_cassette_holds_header_and_calls(command: Any, cassette: Path) -> None:
    shown = json.loads(command("show", cassette, "--json").out)
    assert shown["type"] == "cassette"
    assert shown["header"]["metadata"] == {"suite": "night"}
    assert [(call["kind"], call["index"]) for call in shown["calls"]] == [("llm", 0), ("tool", 0)]


def test_a_trace_file_with_several_runs_gives_their_list(command: Any, runs: Path) -> None:
    source = runs / "openai-agents-openinference--refund__session.otlp.jsonl"
    assert command("show", source).out.splitlines()[0] == (
        "2 runs; see one with --trace-id, or all as one with --merge"
    )
    listed = json.loads(command("show", source, "--json").out)["runs"]
    # 2026-11-29 12:14:16 UTC: the start of the first span, 1795954456633302764 ns
    assert (
        f"  {listed[0]['trace_id']}  2026-11-29 12:14:16  5 calls in 11 spans  "
        "openai-agents-openinference-demo: support workflow\n"
    ) in command("show", source).out
    assert [run["calls"] for run in listed] == [5, 5]
    one = command("show", source, "--trace-id", listed[0]["trace_id"])
    assert one.code == 0
    assert one.out.count("llm #") == 3
    assert command("show", source, "--call", "llm#0").code == 2


def test_a_trace_without_content_is_shown_with_what_to_set(command: Any, traces: Path) -> None:
    ran = command("show", traces / "pydantic-ai" / "refund__nocontent.otlp.jsonl")
    assert ran.code == 0
    assert "5 not replayable" in ran.out
    assert ran.out.splitlines()[-1] == "  to do  Use InstrumentationSettings(include_content=True)."


def test_secrets_of_a_trace_are_not_shown(command: Any, tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 2
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "tool_call lookup",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": [
            {"key": "input", "value": {"stringValue": json.dumps({"token": key})}},
            {"key": "output", "value": {"stringValue": "ok"}},
        ],
    }
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    for arguments in ([], ["--json"], ["--call", "tool#0"]):
        ran = command("show", path, *arguments)
        assert ran.code == 0
        assert key not in ran.out
        assert "<redacted:" in ran.out
