"""`otel-cassette diff`: verdicts, exit codes, and how a divergence reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, CassetteEntry

PROMPT = "You are a desk.\nBe kind.\nBe brief."


def recording(path: Path, *, prompt: str = PROMPT, question: str = "hi", calls: int = 1) -> Path:
    message = {"role": "assistant", "content": "ok"}
    entries = [
        CassetteEntry(
            kind="llm",
            index=index,
            request={
                "model": "m-1",
                "system_instructions": prompt,
                "messages": [{"role": "user", "content": f"{question} {index}"}],
            },
            response={"choices": [{"message": message}]},
        )
        for index in range(calls)
    ]
    Cassette(entries).save(path)
    return path


def test_a_changed_prompt_line_is_shown_as_that_line(command: Any, tmp_path: Path) -> None:
    before = recording(tmp_path / "a.jsonl")
    after = recording(tmp_path / "b.jsonl", prompt=PROMPT.replace("kind", "strict"))
    ran = command("diff", before, after)
    assert ran.code == 0
    assert ran.out == (
        "diverged: 1 call compared, 1 divergence\n"
        "  llm compared on: call_ids, extra, input, messages, model, params, previous_response_id, "
        "response_format, system_instructions, tool_choice, tools\n"
        "\n"
        "x llm call #0: request differs (system_instructions)\n"
        "  --- recorded\n"
        "  +++ replayed\n"
        "  @@ /system_instructions @@\n"
        "   You are a desk.\n"
        "  -Be kind.\n"
        "  +Be strict.\n"
        "   Be brief.\n"
    )


def test_what_follows_from_a_change_is_told_from_its_cause(command: Any, tmp_path: Path) -> None:
    before = recording(tmp_path / "a.jsonl", calls=3)
    after = recording(tmp_path / "b.jsonl", prompt="You are a desk.", calls=3)
    ran = command("diff", before, after, "--match", "index")
    assert "3 divergences, 1 of them a first cause" in ran.out
    assert ran.out.count("@@ /system_instructions @@") == 1
    assert ran.out.endswith(
        "  follows from llm#0; not causes of their own:\n"
        "    llm call #1: request differs (system_instructions)\n"
        "    llm call #2: request differs (system_instructions)\n"
    )


@pytest.mark.parametrize(
    ("second", "verdict", "code"),
    [("same", "identical", 0), ("other", "diverged", 1), ("header", "cannot_tell", 3)],
)
def test_exit_codes(command: Any, tmp_path: Path, second: str, verdict: str, code: int) -> None:
    before = recording(tmp_path / "a.jsonl")
    after = tmp_path / "b.jsonl"
    if second == "header":
        Cassette().save(before)
        Cassette().save(after)
    else:
        recording(after, question="hi" if second == "same" else "bye")
    assert command("diff", before, after).code == 0
    ran = command("diff", before, after, "--fail-on-divergence", "--json")
    assert (ran.code, json.loads(ran.out)["verdict"]) == (code, verdict)


def test_traces_without_content_cannot_be_told_apart(command: Any, traces: Path) -> None:
    folder = traces / "pydantic-ai"
    ran = command(
        "diff",
        folder / "refund__nocontent.otlp.jsonl",
        folder / "refund__v6.otlp.jsonl",
        "--fail-on-divergence",
    )
    assert ran.code == 3
    assert ran.out.startswith("cannot tell: 0 calls compared\n")
    assert "  cannot tell  llm call #0: " in ran.out


def test_two_versions_of_one_instrumentation_agree_on_the_same_run(
    command: Any, traces: Path
) -> None:
    folder = traces / "pydantic-ai"
    ran = command(
        "diff",
        folder / "refund__v2.otlp.jsonl",
        folder / "refund__v6.otlp.jsonl",
        "--fail-on-divergence",
    )
    assert ran.code == 0
    assert ran.out.startswith("identical: 5 calls compared\n")


def test_a_field_can_be_ignored(command: Any, tmp_path: Path) -> None:
    before = recording(tmp_path / "a.jsonl")
    after = recording(tmp_path / "b.jsonl", prompt="other")
    ran = command("diff", before, after, "--ignore", "/system_instructions", "--fail-on-divergence")
    assert ran.code == 0
    wrong = command("diff", before, after, "--ignore", "system_instructions")
    assert wrong.code == 2
    assert "a JSON pointer starts with '/'" in wrong.err


def test_a_kind_can_be_chosen_and_a_missing_call_is_named(command: Any, tmp_path: Path) -> None:
    before, after = recording(tmp_path / "a.jsonl", calls=2), recording(tmp_path / "b.jsonl")
    ran = command("diff", before, after)
    assert "x llm call #1: missing call, only the recording has it\n" in ran.out
    nothing = command("diff", before, after, "--kind", "tool", "--fail-on-divergence")
    assert nothing.code == 3
    assert nothing.out.splitlines()[-1] == "  there was no pair of calls to compare"


def test_the_runs_of_both_sides_can_be_chosen(command: Any, runs: Path) -> None:
    source = runs / "openai-agents-openinference--refund__session.otlp.jsonl"
    listed = json.loads(command("show", source, "--json").out)["runs"]
    first, second = (run["trace_id"] for run in listed)
    same = command(
        "diff",
        source,
        source,
        "--trace-id",
        first,
        "--replayed-trace-id",
        first,
        "--fail-on-divergence",
    )
    assert same.code == 0, same.out
    other = command(
        "diff", source, source, "--trace-id", first, "--replayed-trace-id", second, "--json"
    )
    assert json.loads(other.out)["compared"] == 5


def test_json_names_the_differing_field(command: Any, tmp_path: Path) -> None:
    before = recording(tmp_path / "a.jsonl")
    after = recording(tmp_path / "b.jsonl", question="bye")
    found = json.loads(command("diff", before, after, "--json").out)["divergences"]
    assert [one["fields"] for one in found] == [["/messages/0/parts/0/content"]]
    assert found[0]["actual_request"]["messages"][0]["parts"][0]["content"] == "bye 0"
