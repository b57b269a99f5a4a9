"""The accounts of several processes added up: pure arithmetic, on reports as processes write them."""

from __future__ import annotations

from typing import Any

import pytest

from otel_cassette import Cassette, CassetteEntry
from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.cli.run_account import EXIT_CODES, account_of

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}


def llm(index: int, text: str) -> CassetteEntry:
    request = {"messages": [{"role": "user", "content": text}]}
    return CassetteEntry(kind="llm", index=index, request=request, response=ANSWER)


def tool(index: int) -> CassetteEntry:
    return CassetteEntry(kind="tool", index=index, name="look", request={"n": index}, response=1)


RECORDING = Cassette([llm(0, "a"), llm(1, "b"), llm(2, "b"), tool(0)])
PLACES = ["llm#0", "llm#1", "llm#2"]


def call(place: str, **facts: Any) -> dict[str, Any]:
    kind = place.partition("#")[0]
    given = {"verdict": "identical", "action": "play", "flags": [], "divergence": None, **facts}
    return {"kind": kind, "index": 0, "place": place, **given}


def process(pid: int, *places: str, status: str = "ended", **facts: Any) -> ProcessReport:
    calls = [call(place) for place in places]
    totals = {"served": len(calls), "live": 0, "missed": 0, "ties": 0, "diverged": 0}
    unplayed = [place for place in PLACES if place not in places]
    if status == "running":
        totals, unplayed = {}, []  # what it never came to tell
    made = {"calls": calls, "totals": totals, "unplayed": unplayed, **facts}
    return ProcessReport(token=str(pid), pid=pid, status=status, **made)


def summary(*reports: ProcessReport) -> tuple[str, int, list[str], list[str]]:
    account = account_of(RECORDING, reports, None)
    missing = [f"{each.kind}#{each.index}" for each in account.missing]
    return account.verdict, account.totals.served, missing, account.repeated


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([process(1, *PLACES)], ("identical", 3, [], [])),
        ([process(1, "llm#0"), process(2, "llm#1", "llm#2")], ("identical", 3, [], [])),
        # Each worker takes the first of two equal entries: the second one is not missing.
        ([process(1, "llm#0", "llm#1"), process(2, "llm#1")], ("identical", 3, [], [])),
        ([process(1, "llm#0"), process(2, "llm#1")], ("diverged", 2, ["llm#2"], [])),
        ([process(1, *PLACES), process(2, "llm#0")], ("diverged", 4, [], ["llm#0"])),
        # Killed before it could sum up; its calls count all the same.
        (
            [process(1, "llm#0"), process(2, "llm#1", "llm#2", status="running")],
            ("identical", 3, [], []),
        ),
        # A process without calls says nothing about what is missing.
        ([process(1, *PLACES), process(2)], ("identical", 3, [], [])),
        # Whether a program without calls departs cannot be told.
        ([process(1)], ("cannot_tell", 0, PLACES, [])),
        # What a program that a miss stopped did not come to is no departure.
        ([process(1, "llm#0", poisoned="no answer")], ("cannot_tell", 1, PLACES[1:], [])),
        ([process(1, *PLACES), process(2, status="failed")], ("cannot_tell", 3, [], [])),
    ],
)
def test_processes_added_up(reports, expected):
    assert summary(*reports) == expected


def test_tools_count_once_one_was_asked_for():
    unasked = account_of(RECORDING, [process(1, *PLACES)], None)
    assert (unasked.beyond_reach, unasked.missing) == ({"tool": 1}, [])

    recording = Cassette([*RECORDING.entries, tool(1)])
    report = process(1, *PLACES, "tool#0", unplayed=["tool#1"])
    asked = account_of(recording, [report], None)
    assert asked.beyond_reach == {}
    assert [(each.kind, each.index) for each in asked.missing] == [("tool", 1)]


def test_tools_read_off_a_request_that_nothing_asks_for_are_not_missing():
    handoff = tool(1).model_copy(update={"inferred": True})
    report = process(1, *PLACES, "tool#0", unplayed=["tool#1"])
    account = account_of(Cassette([*RECORDING.entries, handoff]), [report], None)
    assert (account.verdict, account.missing, account.beyond_reach) == (
        "identical",
        [],
        {"tool": 1},
    )
    assert account.totals.unplayed == 0


def test_kinds_that_are_not_played_are_neither_missing_nor_beyond_reach():
    account = account_of(RECORDING, [process(1, *PLACES)], ["llm"])
    assert (account.verdict, account.beyond_reach) == ("identical", {})


@pytest.mark.parametrize(
    ("facts", "verdict"), [({"verdict": "cannot_tell"}, "cannot_tell"), ({}, "identical")]
)
def test_one_call_that_cannot_be_compared_decides(facts, verdict):
    report = process(1, *PLACES)
    report.calls[0].update(facts)
    assert account_of(RECORDING, [report], None).verdict == verdict


def test_exit_codes_are_those_of_the_contract():
    assert EXIT_CODES == {"identical": 0, "diverged": 1, "cannot_tell": 3}
