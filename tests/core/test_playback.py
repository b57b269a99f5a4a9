"""The state of a playback: modes, rewind, taking over, causes and what follows, sessions."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, CassetteEntry, CassetteError, CassetteMissError


class Model:
    def __init__(self, answers: str = "live") -> None:
        self.answers = answers

    def complete(self, request: Any) -> str:
        return f"{self.answers}: {request.messages[-1].text}"


def recorded(*prompts: str) -> Cassette:
    cassette = Cassette()
    llm = cassette.wrap_llm(Model("old"))
    for prompt in prompts:
        llm.complete(prompt)
    return Cassette(cassette.entries, mode="strict")


def texts(cassette: Cassette) -> list[str]:
    return [e.llm_response.text for e in cassette.entries_of("llm")]


# -- modes and rewind --------------------------------------------------------------------------------


def test_a_fresh_cassette_records_and_rewound_it_plays() -> None:
    cassette = Cassette()
    llm = cassette.wrap_llm(Model("old"))
    assert [llm.complete(p).text for p in "ab"] == ["old: a", "old: b"]
    assert [(c.kind, c.index, c.verdict) for c in cassette.calls] == [
        ("llm", 0, "recorded"),
        ("llm", 1, "recorded"),
    ]
    assert (cassette.divergences, cassette.unplayed) == ([], [])
    cassette.mode = "strict"
    cassette.rewind()
    assert cassette.calls == []
    assert [llm.complete(p).text for p in "ab"] == ["old: a", "old: b"]
    assert [c.verdict for c in cassette.calls] == ["identical", "identical"]


def test_assigning_the_mode_keeps_the_counters() -> None:
    cassette = recorded("a", "b", "c", "d")
    llm = cassette.wrap_llm(Model())
    assert llm.complete("a").text == "old: a"
    cassette.mode = "lenient"
    assert llm.complete("x").text == "old: b"
    cassette.mode = "fallthrough"
    assert llm.complete("y").text == "live: y"
    cassette.mode = "strict"
    assert llm.complete("d").text == "old: d"
    assert [(d.index, d.mode) for d in cassette.divergences] == [(1, "lenient"), (2, "fallthrough")]
    assert [c.index for c in cassette.calls] == [0, 1, 2, 3]


def test_recording_after_playing_goes_on_where_the_playing_stopped() -> None:
    cassette = recorded("a", "b", "c")
    llm = cassette.wrap_llm(Model("new"))
    llm.complete("a")
    cassette.mode = "record"
    llm.complete("B")
    assert texts(cassette) == ["old: a", "new: B", "old: c"]
    cassette.mode = "strict"
    assert llm.complete("c").text == "old: c"
    assert [c.verdict for c in cassette.calls] == ["identical", "recorded", "identical"]


def test_recording_after_a_rewind_replaces_by_index() -> None:
    cassette = recorded("a", "b", "c")
    cassette.mode = "record"
    cassette.rewind()
    llm = cassette.wrap_llm(Model("new"))
    llm.complete("A")
    llm.complete("B")
    assert texts(cassette) == ["new: A", "new: B", "old: c"]
    cassette.rewind()
    llm.complete("AA")
    assert texts(cassette) == ["new: AA", "new: B", "old: c"]


def test_a_call_that_outlives_its_take_replaces_nothing() -> None:
    cassette = Cassette()
    started, go = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        assert go.wait(10)
        return "slow"

    thread = threading.Thread(target=cassette.wrap_tool(slow, name="t"))
    thread.start()
    assert started.wait(10)
    cassette.wrap_tool(lambda: "quick", name="t")()
    cassette.mode = "strict"
    go.set()
    thread.join()
    assert [(e.index, e.response) for e in cassette.entries] == [(0, "quick"), (1, "slow")]


def test_calls_that_overlap_are_indexed_by_their_start() -> None:
    cassette = Cassette()

    async def wait(n: int) -> int:
        await asyncio.sleep((3 - n) / 100)
        return n

    async def main() -> None:
        tool = cassette.wrap_tool(wait)
        await asyncio.gather(*(asyncio.create_task(tool(n)) for n in range(3)))

    asyncio.run(main())
    assert [(e.index, e.response) for e in cassette.entries] == [(0, 0), (1, 1), (2, 2)]


def test_new_calls_are_appended_in_the_order_they_began() -> None:
    cassette = Cassette(mode="fallthrough", record_new=True)

    async def wait(n: int) -> int:
        await asyncio.sleep((3 - n) / 100)
        return n

    async def main() -> None:
        tool = cassette.wrap_tool(wait)
        await asyncio.gather(*(asyncio.create_task(tool(n)) for n in range(3)))

    asyncio.run(main())
    assert [(e.index, e.response) for e in cassette.entries] == [(0, 0), (1, 1), (2, 2)]


def test_a_second_session_replaces_what_the_first_appended() -> None:
    cassette = recorded("a")
    cassette.mode = "fallthrough"
    for text in ("x", "y"):
        with cassette.replaying(match="index", record_new=True):
            llm = cassette.wrap_llm(Model("new"))
            llm.complete("a")
            llm.complete(text)
    assert texts(cassette) == ["old: a", "new: y"]


def test_a_live_call_that_fails_is_not_stored() -> None:
    class Breaks:
        def complete(self, _request: Any) -> str:
            raise TimeoutError

    cassette = recorded("a")
    cassette.mode = "fallthrough"
    with cassette.replaying(record_new=True), pytest.raises(TimeoutError):
        cassette.wrap_llm(Breaks()).complete("x")
    assert texts(cassette) == ["old: a"]


def test_unplayed_counts_only_kinds_in_play_and_playable_entries() -> None:
    tool = CassetteEntry(kind="tool", index=0, name="t", request={}, response=1)
    lost = CassetteEntry(
        kind="tool", index=1, name="t", request={}, response=None, response_integrity="absent"
    )
    llm = recorded("a").entries[0]
    assert Cassette([tool, lost, llm], mode="strict").unplayed == [tool, llm]
    assert Cassette([tool, lost, llm], mode="strict", kinds=["llm"]).unplayed == [llm]


def test_inferred_tools_are_unplayed_only_once_a_tool_was_asked_for() -> None:
    inferred = [
        CassetteEntry(kind="tool", index=i, name="t", request={"n": i}, response=i, inferred=True)
        for i in range(2)
    ]
    cassette = Cassette(inferred, mode="strict")
    assert cassette.unplayed == []
    cassette.wrap_tool(lambda n: n, name="t")(0)
    assert [e.index for e in cassette.unplayed] == [1]


# -- causes ------------------------------------------------------------------------------------------


def _agent(cassette: Cassette, weather: str, client: Any = None) -> None:
    llm = cassette.wrap_llm(client or Model("old"))
    look = cassette.wrap_tool(lambda city: weather, name="look")
    llm.complete("where?")
    seen = look("Paris")
    llm.complete(
        [{"role": "user", "content": "so?"}, {"role": "tool", "tool_call_id": "c", "content": seen}]
    )
    llm.complete(
        [
            {"role": "user", "content": "so?"},
            {"role": "tool", "tool_call_id": "c", "content": seen},
            {"role": "user", "content": "and now?"},
        ]
    )


@pytest.mark.parametrize("mode", ["lenient", "fallthrough"])
def test_what_follows_from_a_changed_tool_result_names_its_cause(mode: Any) -> None:
    cassette = Cassette()
    _agent(cassette, "sunny")
    again = Cassette(cassette.entries, mode=mode, kinds=["llm"])
    _agent(again, "rainy")
    assert [(d.kind, d.index, d.cascade_of) for d in again.divergences] == [
        ("llm", 1, "tool#0"),
        ("llm", 2, "tool#0"),
    ]
    assert again.divergences[0].summary().endswith("; follows from tool#0")


def test_a_changed_prompt_is_a_cause_and_its_echo_is_not() -> None:
    cassette = recorded("one", "two")
    cassette.mode = "lenient"
    llm = cassette.wrap_llm()
    llm.complete("ONE")
    llm.complete("TWO")
    assert [d.cascade_of for d in cassette.divergences] == [None, None]
    chat = Cassette(mode="record")
    for text in ("a",):
        chat.wrap_llm(Model()).complete([{"role": "user", "content": text}])
        chat.wrap_llm(Model()).complete(
            [
                {"role": "user", "content": text},
                {"role": "assistant", "content": "x"},
                {"role": "user", "content": "go"},
            ]
        )
    again = Cassette(chat.entries, mode="lenient")
    again.wrap_llm().complete([{"role": "user", "content": "A"}])
    again.wrap_llm().complete(
        [
            {"role": "user", "content": "A"},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "go"},
        ]
    )
    assert [d.cascade_of for d in again.divergences] == [None, "llm#0"]


def test_a_call_that_turns_out_to_be_extra_is_nobodys_cause() -> None:
    cassette = recorded("a", "b")
    cassette.mode = "lenient"
    with cassette.replaying() as session:
        llm = cassette.wrap_llm()
        llm.complete("x")  # held against a, for now
        llm.complete("a")  # takes a back
        llm.complete("x")  # held against b: not because of the first x
    assert [(d.reason, d.cascade_of) for d in session.divergences] == [
        ("extra_call", None),
        ("request_changed", None),
    ]


def test_a_call_that_looked_like_an_echo_and_turns_out_to_be_extra_follows_from_nothing() -> None:
    def chat(first: str) -> list[dict[str, str]]:
        return [
            {"role": "user", "content": first},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "go"},
        ]

    cassette = Cassette()
    llm = cassette.wrap_llm(Model())
    llm.complete("one")
    llm.complete(chat("one"))
    again = Cassette(cassette.entries, mode="lenient", match="content")
    played = again.wrap_llm()
    played.complete("ONE")
    played.complete(chat("ONE"))
    assert [d.cascade_of for d in again.divergences] == [None, "llm#0"]
    played.complete(chat("one"))
    assert [(d.reason, d.cascade_of) for d in again.divergences] == [
        ("request_changed", None),
        ("extra_call", None),
    ]


# -- sessions ----------------------------------------------------------------------------------------


def test_wrappers_belong_to_the_session_whatever_their_cassette() -> None:
    one, other = recorded("a"), Cassette()
    llm = other.wrap_llm(Model())
    tool = other.wrap_tool(lambda: "live", name="t")
    with one.replaying() as session:
        assert llm.complete("a").text == "old: a"
        with pytest.raises(CassetteMissError):
            tool()
    assert [c.kind for c in session.calls] == ["llm", "tool"]
    assert other.entries == []
    assert llm.complete("a").text == "live: a"
    assert len(other.entries) == 1


def test_a_sessions_arguments_win_and_its_state_is_its_own() -> None:
    cassette = recorded("a", "b")
    llm = cassette.wrap_llm(Model())
    llm.complete("a")
    with cassette.replaying(mode="fallthrough", match="index", kinds=["llm"]) as session:
        assert [llm.complete(p).text for p in "xb"] == ["live: x", "old: b"]
    assert (session.summary.served, session.summary.live, session.summary.unplayed) == (1, 1, 0)
    assert cassette.mode == "strict"
    assert cassette.calls == session.calls, "the cassette shows its last session"
    assert llm.complete("b").text == "old: b", "its own wrappers went on where they were"


def test_the_mode_of_a_session_is_the_cassettes_and_record_becomes_strict() -> None:
    cassette = Cassette(recorded("a").entries)
    assert cassette.mode == "record"
    with cassette.replaying() as session:
        assert session.playback.mode == "strict"
        with pytest.raises(CassetteMissError):
            cassette.wrap_llm(Model()).complete("x")
    lenient = Cassette(recorded("a").entries, mode="lenient")
    with lenient.replaying():
        assert lenient.wrap_llm().complete("x").text == "old: a"


def test_a_session_says_how_it_went() -> None:
    cassette = recorded("a", "a", "b", "c")
    cassette.mode = "fallthrough"
    with cassette.replaying() as session:
        llm = cassette.wrap_llm(Model())
        for prompt in ("a", "a", "x"):
            llm.complete(prompt)
    assert str(session.summary) == "served 2, live 1, missed 0, unplayed 1, ties 2"
    assert [d.summary() for d in session.missing] == [
        "llm call #3: missing call, only the recording has it"
    ]
    assert session.first_divergence is not None
    assert session.first_divergence.reason == "request_changed"


def test_recording_blocks_save_and_hold_every_wrapper(tmp_path: Path) -> None:
    cassette = Cassette()
    tool = Cassette().wrap_tool(lambda n: n, name="t")
    with cassette.recording(tmp_path / "c.jsonl") as session:
        tool(1)
        assert len(cassette.entries) == 1, "a finished call is visible at once"
    assert session.summary.recorded == 1
    assert Cassette.load(tmp_path / "c.jsonl").entries[0].response == 1


def test_a_block_is_used_once_at_a_time() -> None:
    block = recorded("a").replaying()
    with block, pytest.raises(CassetteError, match="open already"):
        block.__enter__()


def test_where_the_context_is_lost_the_one_open_session_answers() -> None:
    cassette = recorded("a")
    llm = cassette.wrap_llm()
    with cassette.replaying(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(llm.complete, "a").result().text == "old: a"


def test_where_the_context_is_lost_and_several_are_open_it_is_an_error() -> None:
    one, other = recorded("a"), recorded("a")
    llm = one.wrap_llm()
    barrier = threading.Barrier(2)
    errors: list[BaseException] = []
    answers: list[str] = []

    def session(cassette: Cassette) -> None:
        with cassette.replaying():
            barrier.wait()
            answers.append(llm.complete("a").text)  # its own context: no doubt
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1) as pool:
                try:
                    pool.submit(llm.complete, "a").result()
                except CassetteError as error:
                    errors.append(error)
                try:
                    pool.submit(context.run, llm.complete, "a").result()
                except CassetteMissError:
                    answers.append("miss")
            barrier.wait()

    threads = [threading.Thread(target=session, args=(c,)) for c in (one, other)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(answers) == ["miss", "miss", "old: a", "old: a"]
    assert len(errors) == 2
    assert all(
        "2 cassette sessions are open" in str(e) and "copy_context" in str(e) for e in errors
    )


def test_tasks_and_to_thread_keep_their_session() -> None:
    one, other = recorded("a"), recorded("b")

    async def use(cassette: Cassette, prompt: str) -> str:
        with cassette.replaying():
            await asyncio.sleep(0)
            return await asyncio.to_thread(lambda: Cassette().wrap_llm().complete(prompt).text)

    async def main() -> list[str]:
        return await asyncio.gather(use(one, "a"), use(other, "b"))

    assert asyncio.run(main()) == ["old: a", "old: b"]


def test_after_its_block_a_session_answers_nobody() -> None:
    cassette = recorded("a", "b")
    llm = cassette.wrap_llm()
    with cassette.replaying():
        context = contextvars.copy_context()
        llm.complete("a")
    assert context.run(llm.complete, "a").text == "old: a", (
        "the cassette's own counters, from the start"
    )


def test_record_new_replaces_an_entry_that_was_recorded_in_this_process() -> None:
    cassette = Cassette()
    answers = iter(("first", "second", "third"))
    tool = cassette.wrap_tool(lambda order: next(answers), name="look_up")
    with cassette.recording():
        tool("A")
        tool("B")
    with cassette.replaying(mode="fallthrough", record_new=True):
        assert (tool("A"), tool("C")) == ("first", "third")
    assert [(e.request, e.response) for e in cassette.entries] == [
        ({"order": "A"}, "first"),
        ({"order": "C"}, "third"),
    ]
    with cassette.replaying() as session:
        assert (tool("A"), tool("C")) == ("first", "third")
    assert session.summary.served == 2
