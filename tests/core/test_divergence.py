"""`ReplayDivergence`, `request_diff`, and divergences between two recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette import (
    Cassette,
    CassetteEntry,
    ReplayDivergence,
    find_divergence,
    find_divergences,
    llm_key,
    request_diff,
    tool_key,
)


def llm(prompt: str, index: int = 0) -> CassetteEntry:
    return CassetteEntry(
        kind="llm",
        index=index,
        request={"messages": [{"role": "user", "content": prompt}]},
        response={"choices": []},
    )


def tool(index: int, name: str = "t", **arguments: Any) -> CassetteEntry:
    return CassetteEntry(kind="tool", index=index, name=name, request=arguments, response=1)


def chats(*prompts: str) -> Cassette:
    return Cassette([llm(p, i) for i, p in enumerate(prompts)])


# -- request_diff ------------------------------------------------------------------------------------


def test_equal_requests_have_no_diff() -> None:
    assert request_diff({"b": 1, "a": [2]}, {"a": [2], "b": 1}) == ("", False)


def test_the_diff_is_of_pretty_json_with_the_names_of_both_sides() -> None:
    diff, cut = request_diff(
        {"b": 2, "a": "ü"}, {"b": 3, "a": "ü"}, expected_label="old", actual_label="new"
    )
    assert not cut
    assert diff.splitlines() == [
        "--- old",
        "+++ new",
        "@@ -1,4 +1,4 @@",
        " {",
        '   "a": "ü",',
        '-  "b": 2',
        '+  "b": 3',
        " }",
    ]


@pytest.mark.parametrize(("present", "signs"), [((True, False), "-"), ((False, True), "+")])
def test_a_side_without_a_call_is_an_empty_document(present: tuple[bool, bool], signs: str) -> None:
    diff, _ = request_diff({"a": 1}, {"a": 1}, present=present)
    body = diff.splitlines()[3:]
    assert body == [f"{signs}{line}" for line in ("{", '  "a": 1', "}")]


def test_the_bounds_of_a_diff() -> None:
    diff, cut = request_diff(
        {"a": ["x" * 600] * 3}, {"a": ["y" * 600] * 3}, max_lines=6, max_line_chars=50
    )
    lines = diff.splitlines()
    assert cut
    assert len(lines) == 7
    assert lines[-1] == "... (7 more diff lines)"
    assert all(len(line) <= 50 for line in lines[:-1])
    assert lines[5].endswith("...")
    whole, _ = request_diff({"a": ["x" * 600] * 3}, {"a": ["y" * 600] * 3}, max_line_chars=10_000)
    assert len(whole.splitlines()) == 13
    assert request_diff({"a": 1}, {"a": 2})[1] is False


@pytest.mark.parametrize("size", [600, 5_000, 3_000_000])
def test_a_change_far_into_a_long_text_is_shown(size: int) -> None:
    head, tail = "Look the order up.\n" * (size // 19), "Answer in one sentence.\n" * 100
    diff, cut = request_diff(
        {"a": 1, "prompt": f"{head}Refund up to 50 EUR.{tail}"},
        {"a": 1, "prompt": f"{head}Refund up to 20 EUR.{tail}"},
    )
    assert cut
    old, new = (line for line in diff.splitlines()[3:] if line[0] in "-+")
    assert old.startswith("-...")
    assert new.startswith("+...")
    assert "Refund up to 50 EUR." in old
    assert "Refund up to 20 EUR." in new
    assert max(len(old), len(new)) <= 500


def test_a_text_that_only_got_longer_shows_what_came() -> None:
    head = "Be brief. " * 48
    diff, _ = request_diff({"prompt": head}, {"prompt": f"{head}{'Never refund. ' * 9}"})
    old, new = (line for line in diff.splitlines()[3:] if line[0] in "-+")
    assert old.endswith('Be brief. "')
    assert "Never refund. " in new


json_lists = st.lists(st.integers(0, 3) | st.text("ab", max_size=2), max_size=40)


@given(json_lists, json_lists)
def test_a_diff_turns_one_document_into_the_other(one: list[Any], other: list[Any]) -> None:
    """Applied by line numbers: heads and tails that are set aside shift no line numbers."""
    diff, cut = request_diff(one, other)
    assert not cut
    before, after = (json.dumps(v, indent=2, sort_keys=True) for v in (one, other))
    if before == after:
        assert diff == ""
        return
    assert _patch(before, diff) == after


def _patch(before: str, diff: str) -> str:
    """Apply a unified diff by its line numbers alone."""
    source, result, at = before.splitlines(), [], 0
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1][1:].split(",")[0])
            result += source[at : start - 1]
            at = start - 1
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert source[at] == line[1:]
            at += 1
            if line.startswith(" "):
                result.append(line[1:])
    return "\n".join(result + source[at:])


# -- ReplayDivergence --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sides", "reason", "summary"),
    [
        (
            {"expected_key": "a", "actual_key": "b", "fields": ("/messages/3/parts/0/content",)},
            "request_changed",
            "llm call #2: request differs (messages/3/parts/0/content)",
        ),
        (
            {"expected_key": "a", "actual_key": "b", "fields": ("/a", "/b", "/c", "/d", "/e")},
            "request_changed",
            "llm call #2: request differs (a, b, c and 2 more)",
        ),
        ({"actual_key": "b"}, "extra_call", "llm call #2: extra call, the recording has none"),
        (
            {"expected_key": "a"},
            "missing_call",
            "llm call #2: missing call, only the recording has it",
        ),
        (
            {"expected_key": "a", "actual_key": "b", "cascade_of": "tool#1"},
            "request_changed",
            "llm call #2: request differs; follows from tool#1",
        ),
    ],
)
def test_the_summary_of_a_divergence(sides: dict[str, Any], reason: str, summary: str) -> None:
    request = {"messages": [{"role": "user", "content": "x"}]}
    divergence = ReplayDivergence.create(
        "llm", 2, expected_request=request, actual_request={"messages": []}, **sides
    )
    assert divergence.reason == reason
    assert divergence.summary() == summary
    assert str(divergence) == f"{summary}\n{divergence.diff}"
    assert (divergence.expected_request is None) == ("expected_key" not in sides)
    assert (divergence.actual_request is None) == ("actual_key" not in sides)


def test_another_tool_is_told_by_name_and_the_diff_is_of_name_and_arguments() -> None:
    divergence = ReplayDivergence.create(
        "tool", 0, expected_request={"id": 1}, actual_request={"id": 1}, expected_name="look", actual_name="refund",
        expected_key=tool_key("look", {"id": 1}), actual_key=tool_key("refund", {"id": 1}), mode="strict", span_id="ab",
    )  # fmt: skip
    assert divergence.reason == "tool_changed"
    assert divergence.summary() == "tool call #0: 'look' was recorded, 'refund' was called"
    assert [line for line in divergence.diff.splitlines()[3:] if line[0] in "+-"] == [
        '-  "name": "look"',
        '+  "name": "refund"',
    ]
    assert '   "arguments": {' in divergence.diff


def test_a_divergence_as_json() -> None:
    divergence = ReplayDivergence.create("llm", 0, actual_request={"messages": []}, actual_key="k")
    whole = json.loads(json.dumps(divergence.to_dict()))
    assert whole["actual_request"] == {"messages": []}
    less = divergence.to_dict(include_requests=False)
    assert "actual_request" not in less
    assert "expected_request" not in less
    assert (less["actual_key"], less["diff"]) == ("k", divergence.diff)
    assert ReplayDivergence.model_validate(whole) == divergence


# -- between two recordings ---------------------------------------------------------------------------


def test_the_first_divergence_is_by_index() -> None:
    assert find_divergence(chats("a", "b"), chats("a", "b")) is None
    changed = find_divergence(chats("a", "b", "c"), chats("a", "x", "y"))
    assert changed is not None
    assert (changed.reason, changed.index, changed.mode) == ("request_changed", 1, None)
    assert changed.fields == ("/messages/0/parts/0/content",)
    assert changed.expected_key == llm_key({"messages": "b"})
    missing, extra = (
        find_divergence(chats("a", "b"), chats("a")),
        find_divergence(chats("a"), chats("a", "b")),
    )
    assert missing is not None
    assert extra is not None
    assert (missing.reason, missing.index, missing.actual_key) == ("missing_call", 1, None)
    assert (extra.reason, extra.index, extra.expected_key) == ("extra_call", 1, None)


def test_divergences_are_aligned_so_that_one_inserted_call_is_one() -> None:
    found = find_divergences(chats("a", "b", "c"), chats("a", "new", "b", "c"))
    assert [(d.reason, d.index) for d in found] == [("extra_call", 1)]
    found = find_divergences(chats("a", "b", "c"), chats("a", "c"))
    assert [(d.reason, d.index) for d in found] == [("missing_call", 1)]
    by_index = find_divergences(chats("a", "b", "c"), chats("a", "new", "b", "c"), align=False)
    assert [d.reason for d in by_index] == ["request_changed", "request_changed", "extra_call"]


def test_tools_are_compared_by_name_and_arguments() -> None:
    one = Cassette([tool(0, "look", id=1), tool(1, "refund", id=1)])
    other = Cassette([tool(0, "look", id=1), tool(1, "cancel", id=1)])
    assert find_divergence(one, other) is None, "by default of model calls"
    found = find_divergence(one, other, kind="tool")
    assert found is not None
    assert (found.reason, found.expected_name, found.actual_name) == (
        "tool_changed",
        "refund",
        "cancel",
    )


def test_recordings_may_be_given_as_files(tmp_path: Path) -> None:
    chats("a").save(tmp_path / "a.jsonl")
    chats("b").save(tmp_path / "b.jsonl")
    found = find_divergence(tmp_path / "a.jsonl", str(tmp_path / "b.jsonl"))
    assert found is not None
    assert found.reason == "request_changed"
