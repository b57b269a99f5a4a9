"""`wrap_tool` and `wrap_retriever`: every sort of callable, recorded and played back."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from otel_cassette import Cassette, CassetteError, CassetteMissError, RecordedCallError


def replayed(cassette: Cassette, **options: Any) -> Cassette:
    """Return the recording as a fresh strict cassette, read from text."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        cassette.save(f"{folder}/c.jsonl")
        return Cassette.load(f"{folder}/c.jsonl", **options)


def never(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("the real tool was called")


def add(a: int, b: int = 0) -> int:
    return a + b


@dataclass
class Money:
    amount: Decimal
    on: date


class Order(BaseModel):
    id: int
    total: Money


# -- sorts of callables ------------------------------------------------------------------------------


def test_positional_and_keyword_arguments_are_one_call() -> None:
    cassette = Cassette()
    assert cassette.wrap_tool(add)(1, 2) == 3
    for call in (
        lambda t: t(1, 2),
        lambda t: t(a=1, b=2),
        lambda t: t(1, b=2),
        lambda t: t(b=2, a=1),
    ):
        again = replayed(cassette)
        assert call(again.wrap_tool(functools.wraps(add)(lambda a, b=0: never()), name="add")) == 3
    assert cassette.entries[0].request == {"a": 1, "b": 2}


def test_the_wrapper_looks_like_the_tool_and_bears_its_name() -> None:
    cassette = Cassette()
    wrapped = cassette.wrap_tool(add)
    assert (wrapped.__name__, wrapped.__doc__, inspect.signature(wrapped)) == (
        "add",
        add.__doc__,
        inspect.signature(add),
    )
    named = cassette.wrap_tool(name="sum")(add)
    assert named.__name__ == "sum"
    named(1)
    assert cassette.entries[0].name == "sum"

    async def later() -> None: ...
    def gives() -> Iterator[int]:
        yield 1

    async def streams() -> AsyncIterator[int]:
        yield 1

    assert inspect.iscoroutinefunction(cassette.wrap_tool(later))
    assert inspect.isgeneratorfunction(cassette.wrap_tool(gives))
    assert inspect.isasyncgenfunction(cassette.wrap_tool(streams))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_methods_of_every_sort(way: str) -> None:
    def build(cassette: Cassette, real: bool) -> Any:
        class Shop:
            rate = 2

            def __init__(self) -> None:
                self.seen = 0

            @cassette.wrap_tool
            def price(self, item: str) -> int:
                assert real
                self.seen += 1
                return len(item) * self.rate

            @classmethod
            @cassette.wrap_tool(name="open")
            def is_open(cls, day: str) -> bool:
                assert real
                return day != "sunday" and cls.rate == 2

            @cassette.wrap_tool
            @staticmethod
            def greet(name: str) -> str:
                assert real
                return f"hello {name}"

            @cassette.wrap_tool
            async def order(self, item: str) -> str:
                assert real
                return f"ordered {item}"

        return Shop()

    def use(shop: Any) -> list[Any]:
        results = [
            shop.price("lamp"),
            shop.is_open("monday"),
            shop.greet("Zoë"),
            type(shop).greet(name="Bo"),
        ]
        return [*results, asyncio.run(shop.order("lamp"))] if way == "async" else results

    cassette = Cassette()
    recorded = use(build(cassette, real=True))
    assert [e.request for e in cassette.entries][:2] == [{"item": "lamp"}, {"day": "monday"}]
    assert use(build(replayed(cassette), real=False)) == recorded


def test_partials_callable_objects_lambdas_and_builtins() -> None:
    class Adder:
        def __call__(self, a: int, b: int) -> int:
            return a + b

    class Later:
        async def __call__(self, a: int) -> int:
            return a + 1

    cassette = Cassette()
    assert cassette.wrap_tool(functools.partial(add, 5), name="p")(b=1) == 6
    assert cassette.wrap_tool(functools.partial(add, b=5))(1) == 6
    assert cassette.wrap_tool(Adder())(1, 2) == 3
    assert asyncio.run(cassette.wrap_tool(Later(), name="later")(1)) == 2
    assert cassette.wrap_tool(lambda x: x, name="same")("y") == "y"
    assert cassette.wrap_tool(max, name="max")(1, 3) == 3
    assert [(e.name, e.request) for e in cassette.entries] == [
        ("p", {"b": 1}), ("add", {"a": 1}), ("Adder", {"a": 1, "b": 2}), ("later", {"a": 1}), ("same", {"x": "y"}),
        ("max", {"args": [1, 3]}),
    ]  # fmt: skip


def test_var_arguments_and_names_that_meet() -> None:
    def tool(a: int, /, *args: int, **kwargs: Any) -> None: ...

    cassette = Cassette()
    wrapped = cassette.wrap_tool(tool)
    wrapped(1, 2, 3, x=4)
    wrapped(1, a=2)
    assert [e.request for e in cassette.entries] == [
        {"a": 1, "args": [2, 3], "x": 4},
        {"a": 1, "kwargs": {"a": 2}},
    ]


def test_a_call_that_does_not_fit_is_the_tools_own_type_error() -> None:
    cassette = Cassette()
    with pytest.raises(TypeError, match="missing a required argument"):
        cassette.wrap_tool(add)()
    assert cassette.entries == []


def test_ignored_arguments_are_no_arguments() -> None:
    def query(connection: Any, sql: str, **options: Any) -> list[str]:
        assert connection
        return [sql]

    cassette = Cassette()
    tool = cassette.wrap_tool(query, ignore_args=["connection"])
    tool(object(), "select 1")
    assert cassette.entries[0].request == {"sql": "select 1"}
    assert replayed(cassette).wrap_tool(query, ignore_args="connection")(None, "select 1") == [
        "select 1"
    ]
    with pytest.raises(CassetteError, match="it has no parameter conection"):
        cassette.wrap_tool(query, ignore_args=["conection"])


def test_values_become_json_as_pydantic_writes_them() -> None:
    def pay(order: Order, tags: set[str]) -> Order:
        return order

    order = Order(id=1, total=Money(Decimal("12.50"), date(2026, 1, 2)))
    cassette = Cassette()
    assert cassette.wrap_tool(pay)(order, {"x"}) is order
    plain = {"id": 1, "total": {"amount": "12.50", "on": "2026-01-02"}}
    assert cassette.entries[0].request == {"order": plain, "tags": ["x"]}
    assert replayed(cassette).wrap_tool(pay)(order, {"x"}) == plain
    assert replayed(cassette).wrap_tool(pay, restore=True)(order, {"x"}) == order


def test_restore_rebuilds_annotated_types() -> None:
    def orders(n: int) -> list[Money]:
        return [Money(Decimal(i), date(2026, 1, 1)) for i in range(n)]

    def each(n: int) -> Iterator[Money]:
        yield from orders(n)

    async def later(n: int) -> Money | None:
        return orders(n)[-1] if n else None

    cassette = Cassette()
    for fn in (orders, each):
        list(cassette.wrap_tool(fn)(2))
    for n in (0, 1):
        asyncio.run(cassette.wrap_tool(later)(n))
    again = replayed(cassette)
    assert again.wrap_tool(orders, restore=True)(2) == orders(2)
    assert list(again.wrap_tool(each, restore=True)(2)) == orders(2)
    assert [asyncio.run(again.wrap_tool(later, restore=True)(n)) for n in (0, 1)] == [
        None,
        orders(1)[0],
    ]
    with pytest.raises(CassetteError, match="needs a return annotation"):
        again.wrap_tool(lambda: None, name="x", restore=True)


def test_a_recorded_none_is_served_and_is_no_missing_answer() -> None:
    cassette = Cassette()
    assert cassette.wrap_tool(lambda: None, name="nothing")() is None
    again = replayed(cassette)
    assert again.wrap_tool(never, name="nothing")() is None
    assert again.calls[0].verdict == "identical"
    assert again.unplayed == []


def test_what_a_caller_does_to_an_answer_does_not_reach_the_recording() -> None:
    cassette = Cassette()
    value = {"items": [1]}
    cassette.wrap_tool(lambda: value, name="t")()["items"].append(2)
    assert cassette.entries[0].response == {"items": [1]}
    again = replayed(cassette)
    tool = again.wrap_tool(never, name="t")
    tool()["items"].append(3)
    again.rewind()
    assert tool() == {"items": [1]}


def test_a_mutable_argument_is_recorded_as_it_was_passed() -> None:
    cassette = Cassette()
    cassette.wrap_tool(lambda items: items.append(1), name="t")(items := [])
    assert items == [1]
    assert cassette.entries[0].request == {"items": []}


def test_retrievers_are_a_kind_of_their_own() -> None:
    cassette = Cassette()

    @cassette.wrap_retriever
    def search(query: str, top: int = 3) -> list[str]:
        return [query] * top

    @cassette.wrap_retriever(name="web")
    async def search_web(query: str) -> list[str]:
        return [query]

    assert search("a") == ["a"] * 3
    assert asyncio.run(search_web("b")) == ["b"]
    assert [(e.kind, e.index, e.name) for e in cassette.entries] == [
        ("retrieval", 0, "search"),
        ("retrieval", 1, "web"),
    ]
    again = replayed(cassette)
    assert again.wrap_retriever(lambda query, top=3: never(), name="search")("a") == ["a"] * 3


# -- generators --------------------------------------------------------------------------------------


def count_to(n: int) -> Generator[int, Any, str]:
    yield from range(n)
    return "done"


def drained(generator: Generator[Any, Any, Any]) -> tuple[list[Any], Any]:
    items = []
    while True:
        try:
            items.append(next(generator))
        except StopIteration as stop:  # noqa: PERF203 - the end of a generator
            return items, stop.value


def test_a_generator_gives_its_values_and_its_result() -> None:
    cassette = Cassette()
    assert drained(cassette.wrap_tool(count_to)(3)) == ([0, 1, 2], "done")
    assert cassette.entries[0].yields == (0, 1, 2)
    assert drained(replayed(cassette).wrap_tool(count_to)(3)) == ([0, 1, 2], "done")


def test_a_function_that_returns_a_generator_keeps_its_values() -> None:
    cassette = Cassette()
    assert list(cassette.wrap_tool(lambda n: (i for i in range(n)), name="t")(3)) == [0, 1, 2]
    assert cassette.entries[0].yields == (0, 1, 2)
    assert list(replayed(cassette).wrap_tool(lambda n: never(), name="t")(3)) == [0, 1, 2]


def talk() -> Generator[str, str, str]:
    """Says back what it is sent, takes one exception, and tidies up."""
    heard = []
    try:
        word = yield "hello"
        while word != "bye":
            heard.append(word)
            try:
                word = yield f"you said {word}"
            except KeyError as error:
                heard.append(f"caught {error.args[0]}")
                word = yield "ouch"
    finally:
        heard.append("closed")
        LOG.append(heard)
    return "bye"


LOG: list[list[str]] = []


def test_what_is_sent_and_thrown_reaches_the_generator() -> None:
    for wrap in (lambda f: f, Cassette().wrap_tool):
        LOG.clear()
        generator = wrap(talk)()
        assert next(generator) == "hello"
        assert generator.send("a") == "you said a"
        assert generator.throw(KeyError("k")) == "ouch"
        assert generator.send("b") == "you said b"
        with pytest.raises(StopIteration) as stop:
            generator.send("bye")
        assert stop.value.value == "bye"
        assert LOG == [["a", "caught k", "b", "closed"]]


def test_a_generator_left_early_is_closed_recorded_as_partial_and_reading_on_is_a_miss() -> None:
    LOG.clear()
    cassette = Cassette()
    generator = cassette.wrap_tool(talk)()
    assert [next(generator), generator.send("a")] == ["hello", "you said a"]
    generator.close()
    assert LOG == [["a", "closed"]]
    assert cassette.entries[0].response_integrity == "partial"
    again = replayed(cassette)
    played = again.wrap_tool(talk)()
    assert [next(played), next(played)] == ["hello", "you said a"]
    with pytest.raises(CassetteMissError, match="left after 2 values") as caught:
        next(played)
    assert caught.value.actual_request == {}
    assert caught.value.kind == "tool"
    assert again.calls[0].flags == ("partial", "missed")
    again.rewind()
    played = again.wrap_tool(talk)()
    next(played)
    played.close()
    assert again.calls[0].flags == ("partial",)


def test_a_generator_that_is_forgotten_is_recorded_when_it_goes() -> None:
    cassette = Cassette()
    generator = cassette.wrap_tool(count_to)(3)
    next(generator)
    del generator
    gc.collect()
    assert cassette.entries[0].yields == (0,)


def test_a_generator_that_breaks_keeps_what_it_gave_and_how_it_broke() -> None:
    def breaks(n: int) -> Iterator[int]:
        yield from range(n)
        raise ConnectionError("gone")

    cassette = Cassette()
    with pytest.raises(ConnectionError):
        list(cassette.wrap_tool(breaks)(2))
    with pytest.raises(ConnectionError):
        list(cassette.wrap_tool(breaks)(0))
    assert [(e.yields, e.response_integrity) for e in cassette.entries] == [((0, 1), "partial")]
    assert [f.error.message for f in cassette.failures] == ["gone"]
    played = replayed(cassette).wrap_tool(breaks)(2)
    assert [next(played), next(played)] == [0, 1]
    with pytest.raises(ConnectionError, match="gone"):
        next(played)


def test_async_generators_are_driven_the_same_way() -> None:
    async def talk_later() -> AsyncGenerator[str, str]:
        heard = []
        try:
            word = yield "hello"
            while True:
                heard.append(word)
                try:
                    word = yield f"you said {word}"
                except KeyError:
                    word = "caught"
        finally:
            await asyncio.sleep(0)
            heard.append("closed")
            LOG.append(heard)

    async def use(generator: AsyncGenerator[str, str]) -> list[str]:
        said = [
            await generator.__anext__(),
            await generator.asend("a"),
            await generator.athrow(KeyError("k")),
        ]
        await generator.aclose()
        return said

    LOG.clear()
    cassette = Cassette()
    recorded = asyncio.run(use(cassette.wrap_tool(talk_later)()))
    assert recorded == ["hello", "you said a", "you said caught"]
    assert LOG == [["a", "caught", "closed"]]
    assert cassette.entries[0].yields == tuple(recorded)

    async def read() -> list[str]:
        return [item async for item in replayed(cassette).wrap_tool(talk_later)()]

    with pytest.raises(CassetteMissError, match="left after 3 values"):
        asyncio.run(read())


def test_an_async_generator_whose_task_is_cancelled_keeps_what_came() -> None:
    async def slow() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(60)
        yield 2

    cassette = Cassette()

    async def main() -> None:
        async def read() -> None:
            async for _ in cassette.wrap_tool(slow)():
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [(e.yields, e.response_integrity) for e in cassette.entries] == [((1,), "partial")]


def test_a_value_without_json_form_closes_the_generator() -> None:
    closed = []

    def gives() -> Iterator[Any]:
        try:
            yield object()
        finally:
            closed.append(True)

    with pytest.raises(CassetteError, match="the result of tool 'gives'"):
        list(Cassette().wrap_tool(gives)())
    assert closed == [True]


def test_a_generator_plays_what_a_plain_function_recorded() -> None:
    cassette = Cassette()
    cassette.wrap_tool(lambda n: [0, 1], name="t")(2)
    cassette.wrap_tool(lambda n: "one", name="t")(3)
    again = replayed(cassette)

    def t(n: int) -> Iterator[Any]:
        yield never()

    tool = again.wrap_tool(t)
    assert list(tool(2)) == [0, 1]
    assert list(tool(3)) == ["one"]


# -- failures ----------------------------------------------------------------------------------------


class AppError(Exception):
    """Takes more than a text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.status_code = code


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("no such order"), ValueError),
        (KeyError("id"), KeyError),
        (ZeroDivisionError("x"), ZeroDivisionError),
        (AppError(429, "slow down"), RecordedCallError),
    ],
)
@pytest.mark.parametrize("way", ["record_errors", "replaying"])
def test_a_recorded_failure_is_raised_again_and_the_tool_left_alone(
    error: Exception, raised: type[Exception], way: str
) -> None:
    def fails(n: int) -> None:
        raise error

    cassette = Cassette()
    with pytest.raises(type(error)):
        cassette.wrap_tool(fails)(1)
    cassette.wrap_tool(lambda n: "fine", name="fails")(2)
    assert cassette.entries[0].index == 0
    again = replayed(cassette, record_errors=way == "record_errors")

    def run() -> None:
        with pytest.raises(raised) as caught:
            again.wrap_tool(lambda n: never(), name="fails")(1)
        assert str(caught.value) == str(error)
        if isinstance(caught.value, RecordedCallError):
            assert type(caught.value).__name__ == "AppError"
            assert caught.value.status == 429
        assert again.wrap_tool(lambda n: never(), name="fails")(2) == "fine"

    if way == "replaying":
        with again.replaying():
            run()
    else:
        run()
    assert [c.flags for c in again.calls] == [("failure",), ()]


def test_a_retry_after_a_recorded_failure_gets_the_answer() -> None:
    tries = []

    def flaky(n: int) -> str:
        tries.append(n)
        if len(tries) < 3:
            raise TimeoutError("slow")
        return "fine"

    def retry(tool: Callable[[int], str]) -> tuple[str, int]:
        for attempt in range(5):
            try:
                return tool(1), attempt
            except TimeoutError:  # noqa: PERF203 - a retry
                continue
        raise AssertionError

    cassette = Cassette()
    assert retry(cassette.wrap_tool(flaky)) == ("fine", 2)
    assert [f.follows for f in cassette.failures] == [-1, -1]
    for options in ({"match": "index"}, {"match": "content"}):
        again = replayed(cassette)
        with again.replaying(**options):  # type: ignore[arg-type]
            assert retry(again.wrap_tool(lambda n: never(), name="flaky")) == ("fine", 2)
        assert again.divergences == []


# -- calls inside calls -------------------------------------------------------------------------------


def _agent(cassette: Cassette, extra: int = 0, fail: bool = False) -> Callable[[int], Any]:
    inner = cassette.wrap_tool(lambda x: x * 10, name="inner")

    @cassette.wrap_tool
    def middle(x: int) -> int:
        return inner(x) + inner(x + 1)

    @cassette.wrap_tool
    def outer(x: int) -> int:
        result = middle(x)
        for n in range(extra):
            inner(100 + n)
        if fail:
            raise ValueError("at the end")
        return result

    return outer


def test_calls_inside_are_kept_with_their_parents() -> None:
    cassette = Cassette()
    assert _agent(cassette)(1) == 30
    assert [(e.name, e.index) for e in cassette.entries] == [("outer", 0)]
    found = [
        (n.name, n.index, n.parent and n.parent.index, n.parent and n.parent.parent)
        for n in cassette.nested
    ]
    assert [f[:3] for f in found] == [("middle", 0, 0), ("inner", 0, 0), ("inner", 1, 0)]
    assert found[1][3] == cassette.nested[0].parent
    again = replayed(cassette)
    assert again.wrap_tool(lambda x: never(), name="outer")(1) == 30
    assert again.unplayed == []


def test_calls_inside_a_failed_call_are_kept_too(tmp_path: Path) -> None:
    cassette = Cassette()
    with pytest.raises(ValueError, match="at the end"):
        _agent(cassette, fail=True)(1)
    assert cassette.entries == []
    assert [
        (n.name, n.parent is not None and n.parent.failed)
        for n in cassette.nested
        if n.name == "middle"
    ] == [("middle", True)]
    cassette.save(tmp_path / "c.jsonl")
    assert len(Cassette.load(tmp_path / "c.jsonl").nested) == 3


def test_a_new_tool_brings_its_inner_calls_along(tmp_path: Path) -> None:
    cassette = Cassette()
    _agent(cassette)(1)
    again = replayed(cassette, mode="fallthrough", record_new=True)
    tool = _agent(again)
    assert (tool(1), tool(5)) == (30, 110)
    assert [(e.name, e.request) for e in again.entries] == [
        ("outer", {"x": 1}),
        ("outer", {"x": 5}),
    ]
    inside = [
        (n.name, n.request["x"])
        for n in again.nested
        if n.parent and (n.parent.index == 1 or n.parent.parent)
    ]
    assert ("middle", 5) in inside
    again.save(tmp_path / "c.jsonl")
    both = Cassette.load(tmp_path / "c.jsonl", kinds=["llm"])
    tool = _agent(both)
    assert (tool(1), tool(5)) == (30, 110)
    assert both.divergences == []


def test_inside_a_live_tool_calls_are_held_against_those_inside_its_recording() -> None:
    cassette = Cassette()
    _agent(cassette)(1)
    again = replayed(cassette, kinds=["llm"])
    _agent(again, extra=1)(1)
    assert [(d.reason, d.actual_name, d.actual_request) for d in again.divergences] == [
        ("extra_call", "inner", {"x": 100})
    ]


def test_an_unfinished_call_keeps_its_inner_calls_back_until_it_is_done() -> None:
    cassette = Cassette()
    seen = []

    def outer() -> None:
        cassette.wrap_tool(lambda: 1, name="inner")()
        seen.append((len(cassette.entries), len(cassette.nested)))

    cassette.wrap_tool(outer)()
    assert seen == [(0, 0)]
    assert (len(cassette.entries), len(cassette.nested)) == (1, 1)


@pytest.mark.parametrize("match", ["index", "content"])
def test_a_failure_stands_after_the_answer_it_followed(match: Any) -> None:
    tries = []

    def flaky() -> int:
        tries.append(1)
        if len(tries) == 2:
            raise TimeoutError("slow")
        return len(tries)

    def run(tool: Callable[[], int]) -> list[Any]:
        results: list[Any] = []
        for _ in range(3):
            try:
                results.append(tool())
            except TimeoutError:  # noqa: PERF203 - what is looked for
                results.append("failed")
        return results

    cassette = Cassette()
    assert run(cassette.wrap_tool(flaky)) == [1, "failed", 3]
    again = replayed(cassette)
    with again.replaying(match=match):
        assert run(again.wrap_tool(never, name="flaky")) == [1, "failed", 3]


def test_calls_inside_an_unknown_tool_take_nothing_from_the_top() -> None:
    cassette = Cassette()
    inner = cassette.wrap_tool(lambda x: x, name="inner")
    inner(1)
    again = replayed(cassette, mode="fallthrough")
    again_inner = again.wrap_tool(lambda x: "live", name="inner")
    with again.replaying():
        assert again.wrap_tool(lambda: again_inner(1), name="new")() == "live"
        assert again_inner(1) == 1


def test_a_new_take_of_a_tool_replaces_what_was_inside_it() -> None:
    cassette = Cassette()
    _agent(cassette)(1)
    cassette.rewind()
    cassette.wrap_tool(lambda x: 30, name="outer")(1)
    assert [e.response for e in cassette.entries] == [30]
    assert cassette.nested == []


# -- arguments of any shape ---------------------------------------------------------------------------


def never_x(x: Any) -> Any:
    raise AssertionError("the real tool was called")


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (2**70, 2**70 + 1),
        ("\ud800", "\ud801"),
        (deep(60), deep(61)),
        (1, True),
        (1, "1"),
        (None, []),
        ({}, []),
        ([None], []),
        (["named", {}], {"named": {}}),
    ],
)
@pytest.mark.parametrize("match", ["content", "index"])
def test_arguments_that_look_alike_have_answers_of_their_own(
    value: Any, other: Any, match: Any
) -> None:
    answers = iter(["first", "second"])
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda x: next(answers), name="t")
    assert (tool(value), tool(other)) == ("first", "second")

    again = replayed(cassette, match=match).wrap_tool(never_x, name="t")
    assert (again(value), again(other)) == ("first", "second")

    swapped = replayed(cassette, match=match)
    again = swapped.wrap_tool(never_x, name="t")
    if match == "content":
        assert (again(other), again(value)) == ("second", "first")
        assert swapped.divergences == []
    else:
        with pytest.raises(CassetteMissError):
            again(other)
        assert [d.reason for d in swapped.divergences] == ["request_changed"]


def test_arguments_in_another_spelling_are_the_same() -> None:
    cassette = Cassette()
    cassette.wrap_tool(lambda x: "kept", name="t")({"a": 1, "b": [2.0]})
    played = replayed(cassette)
    assert played.wrap_tool(never_x, name="t")({"b": [2], "a": 1.0}) == "kept"
    assert played.divergences == []
