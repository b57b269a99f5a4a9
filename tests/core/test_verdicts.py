"""The verdict table of docs/verdicts.md, cell by cell: with calls, tasks and threads."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from pathlib import Path

import pytest

from otel_cassette import Cassette, CassetteEntry, CassetteMissError

sys.path.insert(0, str(Path(__file__).parent))
import verdict_table as table

ROWS = table.rows_with("each call gets")
KEPT = table.rows_with("recording")
LIVE_ROWS = [
    row for row in ROWS if row["case"].startswith("concurrent") and row["match"] == "content"
]


def _id(row: dict[str, str]) -> str:
    return "-".join(
        row[k] for k in ("case", "option", "match", "mode") if row.get(k, "-") != "-"
    ).replace(" ", "_")


def _cassette(row: dict[str, str]) -> Cassette:
    return Cassette(
        table.recording(row["recorded"]),
        mode=row["mode"],
        match=row["match"],
        **table.options(row["option"]),
    )


def test_the_table_has_every_case_in_every_mode_and_match() -> None:
    cases = {row["case"] for row in ROWS}
    wanted = {
        "swapped prompts", "changed prompt", "changed model", "concurrent distinct", "concurrent identical",
        "inserted", "missing", "unverifiable", "beyond the end", "kind not in play", "recorded failure",
        "suspect answer", "partial answer", "truncated answer", "redacted answer", "dropped answer",
        "absent answer", "inside a live tool",
    }  # fmt: skip
    assert wanted <= cases
    for case in cases:
        cells = {(r["match"], r["mode"]) for r in ROWS if r["case"] == case}
        modes = ("strict", "lenient", "fallthrough")
        assert cells == {(match, mode) for match in ("index", "content") for mode in modes}, case


@pytest.mark.parametrize("flavour", ["sync", "tasks", "threads"])
@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_a_row(row: dict[str, str], flavour: str) -> None:
    cassette = _cassette(row)
    got = getattr(table.Player(cassette), flavour)(table.words(row["live"]))
    assert " ".join(got) == row["each call gets"]
    assert table.found_divergences(cassette) == table.places(row["divergences"])
    assert [table.text_of(e) for e in cassette.unplayed] == row["unplayed"].replace("-", "").split()
    assert table.found_flags(cassette) == table.places(row["flags"])
    live = row["each call gets"].count("live")
    assert sum("live" in outcome.flags for outcome in cassette.calls) == live
    missed = row["each call gets"].count("miss")
    assert sum("missed" in outcome.flags for outcome in cassette.calls) == missed
    if cassette.divergences:
        assert cassette.first_divergence is not None
        assert cassette.first_divergence.mode == row["mode"]


@pytest.mark.parametrize("row", LIVE_ROWS, ids=_id)
@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_the_concurrent_rows_hold_in_any_order(row: dict[str, str], way: str) -> None:
    """By content, whatever order the calls arrive in; identical requests are never given out twice."""
    calls = table.words(row["live"])
    wanted = row["each call gets"].split()
    for seed in range(20):
        order = list(range(len(calls)))
        random.Random(seed).shuffle(order)
        cassette = _cassette(row)
        player = table.Player(cassette)
        got: dict[int, str] = {}
        if way == "tasks":

            async def run(player: table.Player = player, order: list[int] = order) -> list[str]:
                return await asyncio.gather(*(player.acall(calls[i]) for i in order))

            got = dict(zip(order, asyncio.run(run()), strict=True))
        else:
            barrier = threading.Barrier(len(calls))

            def one(i: int, player: table.Player = player, got: dict[int, str] = got,
                    barrier: threading.Barrier = barrier) -> None:  # fmt: skip
                barrier.wait()
                got[i] = player.call(calls[i])

            threads = [threading.Thread(target=one, args=(i,)) for i in order]
            [t.start() for t in threads]
            [t.join() for t in threads]
        answers = [got[i] for i in range(len(calls))]
        identical = row["case"] == "concurrent identical"
        assert (sorted(answers) if identical else answers) == (
            sorted(wanted) if identical else wanted
        )
        assert cassette.divergences == []
        ties = sum("tie" in outcome.flags for outcome in cassette.calls)
        assert ties == (len(calls) if identical else 0)


@pytest.mark.parametrize(
    "row", KEPT, ids=lambda r: f"{r['recorded']}-{r['live']}-{r['match']}".replace(" ", "")
)
def test_what_is_kept_with_record_new(row: dict[str, str], tmp_path: Path) -> None:
    cassette = Cassette(
        table.recording(row["recorded"]), mode="fallthrough", match=row["match"], record_new=True
    )
    table.Player(cassette).sync(table.words(row["live"]))

    def letters(entries: list[CassetteEntry]) -> str:
        return " ".join(
            e.llm_request.messages[-1].text[-1] for e in sorted(entries, key=lambda e: e.index)
        )

    assert letters(cassette.entries) == row["recording"]
    cassette.save(tmp_path / "c.jsonl")
    again = Cassette.load(tmp_path / "c.jsonl")
    assert letters(again.entries) == row["recording"]
    assert [e.index for e in again.entries_of("llm")] == list(range(len(row["recording"].split())))


def test_without_record_new_the_recording_stays_as_it_was() -> None:
    cassette = Cassette(table.recording("A B"), mode="fallthrough")
    before = cassette.entries
    table.Player(cassette).sync(table.words("A X C"))
    assert cassette.entries == before


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_record_new_is_for_fallthrough(mode: str) -> None:
    cassette = Cassette(table.recording("T"), mode=mode, record_new=True, kinds=["llm"])
    table.Player(cassette).sync(table.words("T"))
    assert table.text_of(cassette.entries[0]) == "t"


@pytest.mark.parametrize("match", ["index", "content"])
def test_a_miss_that_cannot_be_told_says_so_and_names_the_remedy(match: str) -> None:
    cassette = Cassette(table.recording("?A"), mode="strict", match=match)
    with pytest.raises(CassetteMissError, match="cannot tell") as caught:
        cassette.wrap_llm().complete("prompt A")
    assert "allow_unverified=True" in str(caught.value)
    assert cassette.calls[0].verdict == "cannot_tell"
    assert cassette.divergences == []


@pytest.mark.parametrize("integrity", ["truncated", "redacted", "dropped", "absent"])
def test_a_miss_for_an_answer_that_is_not_whole_names_limit_and_remedy(integrity: str) -> None:
    cassette = Cassette(table.recording(f"A!{integrity}"), mode="strict")
    with pytest.raises(CassetteMissError, match="allow_partial=True") as caught:
        cassette.wrap_llm().complete(table.prompt(table.Word("A")))
    assert "recorded llm call #0" in str(caught.value)
    assert caught.value.divergence is None
    assert cassette.unplayed == []


def test_a_swap_is_noted_where_it_happened_and_nowhere_else() -> None:
    cassette = Cassette(table.recording("A B C X"), mode="strict", match="content")
    table.Player(cassette).sync(table.words("A C B X"))
    assert table.found_flags(cassette) == ["1 reordered"]
