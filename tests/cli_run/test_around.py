"""What a program does beside its recorded calls, and what the account of it says."""

from __future__ import annotations

import json
import sys

import pytest


def entries(bench):
    lines = (bench.folder / "run.jsonl").read_text().splitlines()[1:]
    return [json.loads(line) for line in lines]


def test_tools_are_read_off_the_next_request(bench, program):
    recorded = bench.record(*program("loop"))
    ran = bench.replay(*program("loop"))

    tool = next(each for each in entries(bench) if each["kind"] == "tool")
    assert (tool["name"], tool["request"], tool["response"], tool["inferred"]) == (
        "look_up",
        {"id": 1},
        {"state": "sent"},
        True,
    )
    assert "recorded 3 calls (2 llm, 1 tool)" in recorded.err
    assert ran.out == recorded.out
    assert ran.report["verdict"] == "identical"
    assert (ran.report["served"], ran.report["beyond_reach"]) == (2, {"tool": 1})
    assert "what it ran of them was real; --tools answers those of known frameworks" in ran.err


def test_a_request_that_no_codec_reads_is_refused_and_counted(bench, program):
    command = program("around", "image")
    recorded = bench.record(*command)
    ran = bench.replay(*command, options=["--fail-on-divergence"])

    assert "/v1/images/generations passed unrecorded: no codec reads it" in recorded.err
    assert ran.out.splitlines() == ["Echo: one", "409"]
    assert (ran.code, ran.report["verdict"]) == (3, "cannot_tell")
    assert ran.report["unread"] == {"127.0.0.1/v1/images/generations": 1}
    assert "1 request to 127.0.0.1/v1/images/generations refused: no codec reads it" in ran.err
    assert bench.trap.connections == 0


@pytest.mark.parametrize("how", ["hidden", "cleared"])
def test_a_python_that_takes_no_part_makes_the_verdict_doubtful(bench, program, how):
    bench.record(*program("around", how))
    ran = bench.replay(*program("around", how), options=["--fail-on-divergence"])

    assert ran.out.splitlines() == ["Echo: one", how]
    assert (ran.code, ran.report["verdict"]) == (3, "cannot_tell")
    assert ran.report["out_of_reach"] == [sys.executable]


def test_tries_of_one_call_are_one_call(bench, program):
    recorded = bench.record(*program("around", "flaky"))

    assert bench.provider.prompts.count("[flaky]") == 2
    assert "recorded 2 calls (2 llm)" in recorded.err
    assert "missing from the cassette" not in recorded.err


def test_processes_follow_each_other_as_they_started(bench, program):
    command = program("workers", "forked", "first", "second")
    bench.record(*command)
    asked = [each["request"]["messages"][0]["parts"][0]["content"] for each in entries(bench)]
    assert asked == ["from the parent", "first", "second"]
    assert bench.replay(*command).report["verdict"] == "identical"


def test_a_report_that_cannot_be_written_is_told_before_the_program_runs(bench, program, tape):
    (bench.folder / "run.jsonl").write_bytes(tape)
    ran = bench.command(
        *["replay", "--report", "run.jsonl/r.json", "run.jsonl", "--"],
        *program("plain", "one", "two"),
    )
    assert (ran.code, ran.out) == (2, "")
    assert "choose another path" in ran.err


def test_a_folder_of_cassettes_asks_for_one(bench, program, tape):
    (bench.folder / "calls").mkdir()
    (bench.folder / "calls" / "a.jsonl").write_bytes(tape)
    ran = bench.command("replay", "calls", "--", *program("plain", "one", "two"))
    assert ran.code == 2
    assert "calls: a folder of cassettes; name one of them: a.jsonl" in ran.err


def test_an_extra_call_says_what_helps(bench, program, tape):
    (bench.folder / "run.jsonl").write_bytes(tape)
    ran = bench.replay(*program("plain", "one", "two", "three"))
    assert "record again, or let what is not recorded go live with --mode fallthrough" in ran.err
    assert "--ignore POINTER" not in ran.err
    assert "mode='fallthrough' makes the call for real" in ran.err


def test_what_is_no_recording_names_what_is_accepted(bench, program):
    (bench.folder / "notes.txt").write_text("buy milk\n")
    ran = bench.command("replay", "notes.txt", "--", *program("plain", "one"))
    assert (ran.code, ran.out) == (2, "")
    assert "Accepted: a cassette; OTLP JSON" in ran.err
