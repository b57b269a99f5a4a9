"""Equal prompts of many concurrent callers: every caller gets its own recorded answer, or is told of the guess."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_cassette
from otel_cassette import Cassette, LLMRequest
from otel_cassette.session import Session

CALLERS = 200
SCHEDULES = 50
_who: contextvars.ContextVar[int] = contextvars.ContextVar("who")
_tracer = TracerProvider().get_tracer("test")


class Model:
    """Answers with who asks and for which time: a wrong answer shows."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self._lock = threading.Lock()

    def complete(self, _request: LLMRequest) -> str:
        with self._lock:
            place = self.asked[_who.get()]
            self.asked[_who.get()] += 1
        return f"{_who.get()}.{place}"

    async def acomplete(self, request: LLMRequest) -> str:
        await asyncio.sleep(0)
        return self.complete(request)


@dataclass(frozen=True)
class Program:
    """A caller's span name, or None, and its prompts."""

    span: Callable[[int], str | None]
    prompts: Callable[[int], list[str]]


@dataclass
class Asked:
    who: int
    place: int
    answer: str
    ordinal: int

    @property
    def is_wrong(self) -> bool:
        return self.answer != f"{self.who}.{self.place}"


UNIQUE = Program(lambda i: f"caller {i}", lambda _i: ["same"])
UNIQUE_TWICE = Program(lambda i: f"caller {i}", lambda i: ["same", f"own {i}", "same"])
SAME_NAME = Program(lambda _i: "worker", lambda i: [f"I am {i}", "same", "same"])
NOTHING = Program(lambda _i: "worker", lambda _i: ["same"])
NOTHING_TWICE = Program(lambda _i: "worker", lambda _i: ["same", "same"])
NO_SPAN = Program(lambda _i: None, lambda _i: ["same"])
DISTINCT = Program(lambda _i: None, lambda i: [f"I am {i}"])


def play(llm: Any, program: Program, seed: int, count: int = CALLERS) -> list[Asked]:
    """Run all callers as tasks, in an order and with pauses that follow from the seed."""
    chance = random.Random(seed)
    asked: list[Asked] = []
    ordinals = iter(range(count * 10))

    async def caller(who: int) -> None:
        _who.set(who)
        name = program.span(who)
        token = None
        if name is not None:
            span = _tracer.start_span(name)
            token = otel_context.attach(trace.set_span_in_context(span))
        for place, prompt in enumerate(program.prompts(who)):
            for _ in range(chance.randrange(5)):
                await asyncio.sleep(0)
            call = llm.acomplete(prompt)
            ordinal = next(ordinals)
            asked.append(Asked(who, place, (await call).text, ordinal))
        if token is not None:
            otel_context.detach(token)

    async def run() -> None:
        order = list(range(count))
        chance.shuffle(order)
        await asyncio.gather(*(asyncio.create_task(caller(who)) for who in order))

    asyncio.run(run())
    return asked


def record(program: Program, path: Path, *, traced: bool = False, count: int = CALLERS) -> None:
    cassette = Cassette()
    llm: Any = cassette.wrap_llm(Model())
    play(otel_cassette.wrap_llm(llm) if traced else llm, program, 0, count)
    cassette.save(path)


def replays(
    path: Path, program: Program, *, traced: bool = False, schedules: int = SCHEDULES
) -> Iterator[tuple[list[Asked], Session]]:
    cassette = Cassette.load(path)
    llm: Any = cassette.wrap_llm()
    llm = otel_cassette.wrap_llm(llm) if traced else llm
    for seed in range(1, schedules + 1):
        with cassette.replaying(span=False) as session:
            asked = play(llm, program, seed)
        assert session.divergences == []
        assert session.unplayed == []
        yield asked, session


@pytest.mark.parametrize("traced", [False, True], ids=["bare", "behind tracing wrappers"])
@pytest.mark.parametrize(
    "program",
    [UNIQUE, UNIQUE_TWICE, SAME_NAME],
    ids=["by path", "by path, own sequence", "by earlier call"],
)
def test_every_caller_gets_its_own_answer(tmp_path: Path, program: Program, traced: bool) -> None:
    record(program, tmp_path / "c.jsonl", traced=traced)
    schedules = SCHEDULES if program is UNIQUE and not traced else 10
    for asked, session in replays(
        tmp_path / "c.jsonl", program, traced=traced, schedules=schedules
    ):
        assert [a for a in asked if a.is_wrong] == []
        assert session.summary.ties == 0


def test_distinct_prompts_are_never_ties(tmp_path: Path) -> None:
    record(DISTINCT, tmp_path / "c.jsonl")
    for asked, session in replays(tmp_path / "c.jsonl", DISTINCT, schedules=SCHEDULES):
        assert [a for a in asked if a.is_wrong] == []
        assert session.summary.ties == 0


@pytest.mark.parametrize(
    "program",
    [NOTHING, NOTHING_TWICE, NO_SPAN],
    ids=["spans of one name", "spans of one name, twice", "no spans"],
)
def test_callers_that_nothing_tells_apart_are_all_flagged(tmp_path: Path, program: Program) -> None:
    """What follows from a guess is a guess: a caller's second call goes on with the first's."""
    record(program, tmp_path / "c.jsonl")
    calls = CALLERS * len(program.prompts(0))
    some_are_wrong = False
    for asked, session in replays(tmp_path / "c.jsonl", program, schedules=10):
        some_are_wrong = some_are_wrong or any(a.is_wrong for a in asked)
        assert len({a.answer for a in asked}) == calls, "an answer was given twice"
        assert session.summary.ties == calls, "a guess was not flagged"
        for who in range(CALLERS) if program is NOTHING_TWICE else ():
            owners = {a.answer.split(".")[0] for a in asked if a.who == who}
            assert len(owners) == 1, "a caller was taken for two"
    assert some_are_wrong, "the schedules never swapped anybody: the test shows nothing"


def test_a_guess_is_carried_on_and_ends_with_certainty(tmp_path: Path) -> None:
    """First a prompt all share, then one's own, then the shared one again."""
    program = Program(lambda _i: "worker", lambda i: ["same", f"I am {i}", "same"])
    record(program, tmp_path / "c.jsonl")
    for asked, session in replays(tmp_path / "c.jsonl", program, schedules=10):
        flags = {(c.entry.llm_response.text): "tie" in c.flags for c in session.calls}  # type: ignore[union-attr]
        for a in asked:
            if a.place == 1:
                assert not a.is_wrong
                assert not flags[a.answer]
            elif a.is_wrong:
                assert flags[a.answer], a
        # Who was recognised by its own prompt goes on with its own answers.
        assert [a for a in asked if a.place == 2 and a.is_wrong and not flags[a.answer]] == []


def test_one_task_after_another_in_one_span_is_a_sequence(tmp_path: Path) -> None:
    """A sequential program repeats a prompt: its order is its own, nothing is guessed."""
    cassette = Cassette()
    llm = cassette.wrap_llm(Model())
    _who.set(0)

    def run(llm: Any) -> list[str]:
        with _tracer.start_as_current_span("main"):
            return [llm.complete("again").text for _ in range(5)]

    recorded = run(llm)
    cassette.save(tmp_path / "c.jsonl")
    replayed = Cassette.load(tmp_path / "c.jsonl")
    with replayed.replaying(span=False) as session:
        assert run(replayed.wrap_llm()) == recorded
    assert session.summary.ties == 0


@pytest.mark.parametrize("workers", [1, 4])
def test_threads_of_a_pool_in_one_span_are_no_sequence(tmp_path: Path, workers: int) -> None:
    """A pool's thread does one piece of work after another: its calls are not one caller's."""

    def run(llm: Any, order: list[int], workers: int) -> dict[int, str]:
        # Without it the first thread may be done with all of it before a second one starts.
        all_work = threading.Barrier(workers)
        first = order[:workers]
        with _tracer.start_as_current_span("main"), ThreadPoolExecutor(workers) as pool:

            def work(who: int) -> str:
                _who.set(who)
                if who in first:
                    all_work.wait(10)
                return llm.complete("same").text

            jobs = {i: pool.submit(contextvars.copy_context().run, work, i) for i in order}
            return {i: job.result() for i, job in jobs.items()}

    cassette = Cassette()
    run(cassette.wrap_llm(Model()), list(range(20)), 4)
    cassette.save(tmp_path / "c.jsonl")
    replayed = Cassette.load(tmp_path / "c.jsonl")
    with replayed.replaying(span=False) as session:
        got = run(replayed.wrap_llm(), list(reversed(range(20))), workers)
    assert any(answer != f"{i}.0" for i, answer in got.items())
    assert session.summary.ties == 20


def test_threads_with_spans_of_their_own_get_their_own(tmp_path: Path) -> None:
    def run(llm: Any, seed: int) -> dict[int, list[str]]:
        order = list(range(50))
        random.Random(seed).shuffle(order)
        got: dict[int, list[str]] = {}

        def work(who: int) -> None:
            _who.set(who)
            with _tracer.start_as_current_span(f"caller {who}"):
                got[who] = [llm.complete("same").text for _ in range(3)]

        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(work, i)) for i in order
        ]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return got

    cassette = Cassette()
    run(cassette.wrap_llm(Model()), 0)
    cassette.save(tmp_path / "c.jsonl")
    replayed = Cassette.load(tmp_path / "c.jsonl")
    for seed in range(1, 11):
        with replayed.replaying(span=False) as session:
            got = run(replayed.wrap_llm(), seed)
        assert got == {i: [f"{i}.{n}" for n in range(3)] for i in range(50)}
        assert session.summary.ties == 0


def test_calls_inside_tools_belong_to_the_tool(tmp_path: Path) -> None:
    """The tools differ by their arguments, the prompts inside do not."""

    def build(cassette: Cassette, llm: Any) -> Callable[[int], Any]:
        async def ask(who: int) -> str:
            _who.set(who)
            answers = [(await llm.acomplete("same")).text for _ in range(2)]
            return " ".join(answers)

        return cassette.wrap_tool(ask)

    async def run(tool: Any, seed: int) -> dict[int, str]:
        order = list(range(100))
        random.Random(seed).shuffle(order)
        answers = await asyncio.gather(*(asyncio.create_task(tool(i)) for i in order))
        return dict(zip(order, answers, strict=True))

    cassette = Cassette()
    asyncio.run(run(build(cassette, cassette.wrap_llm(Model())), 0))
    cassette.save(tmp_path / "c.jsonl")
    for seed in range(1, 11):
        replayed = Cassette.load(tmp_path / "c.jsonl")
        tool = build(replayed, replayed.wrap_llm())
        with replayed.replaying(kinds=["llm"], span=False) as session:
            got = asyncio.run(run(tool, seed))
        assert got == {i: f"{i}.0 {i}.1" for i in range(100)}
        assert session.divergences == []


def test_an_extra_call_that_takes_another_callers_answer_is_flagged(tmp_path: Path) -> None:
    """Recorded: A and B ask the same once each. Replayed: A asks twice, and takes what is B's."""
    cassette = Cassette()
    llm = cassette.wrap_llm(Model())
    for who, name in enumerate("AB"):
        _who.set(who)
        with _tracer.start_as_current_span(name):
            llm.complete("same")
    cassette.save(tmp_path / "c.jsonl")
    replayed = Cassette.load(tmp_path / "c.jsonl")
    with replayed.replaying(span=False) as session:
        llm = replayed.wrap_llm()
        with _tracer.start_as_current_span("A"):
            assert [llm.complete("same").text for _ in range(2)] == ["0.0", "1.0"]
    assert ["tie" in call.flags for call in session.calls] == [False, True]


def test_without_provenance_the_path_still_tells_callers_apart(tmp_path: Path) -> None:
    cassette = Cassette()
    play(cassette.wrap_llm(Model()), UNIQUE, 0, 50)
    cassette.save(tmp_path / "c.jsonl", provenance=False)
    replayed = Cassette.load(tmp_path / "c.jsonl")
    with replayed.replaying(span=False) as session:
        asked = play(replayed.wrap_llm(), UNIQUE, 1, 50)
    assert [a for a in asked if a.is_wrong] == []
    assert session.summary.ties == 0


def test_a_recording_keeps_who_made_a_call() -> None:
    cassette = Cassette()
    llm = otel_cassette.wrap_llm(cassette.wrap_llm(Model()))
    _who.set(0)
    otel_cassette.wrap_llm(Model())  # a tracing wrapper alone records nothing
    with _tracer.start_as_current_span("agent") as span:
        context = span.get_span_context()
        llm.complete("hi")
    source = cassette.entries[0].source
    assert source is not None
    assert source.path == ("agent",)
    assert source.trace_id == format(context.trace_id, "032x")
    assert source.caller == format(context.span_id, "016x")
