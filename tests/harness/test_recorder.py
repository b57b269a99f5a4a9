"""Recording a session."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import functools
import inspect
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from otel_cassette.harness import Fixture, MockLayer, Recorder, ReplayError, Step, StepType


def _lookup(order_id: str, *, verbose: bool = False) -> dict[str, Any]:
    return {"order_id": order_id, "verbose": verbose}


def _steps(recorder: Recorder) -> list[tuple[str, str, Any, Any]]:
    return [(s.type.value, s.name, s.args, s.output) for s in recorder.fixture.steps]


def test_calls_are_steps_with_arguments_by_parameter_name() -> None:
    recorder = Recorder("s1", "Refund A-1003")
    lookup = recorder.tool("lookup", _lookup)
    plan = recorder.llm("plan", lambda prompt: prompt.upper())
    search = recorder.retrieval("search", lambda query, *more, **options: [query])
    assert lookup("A-1003") == {"order_id": "A-1003", "verbose": False}
    assert plan(prompt="hi") == "HI"
    assert search("a", "b", "c", k=2) == ["a"]
    assert lookup(verbose=True, order_id="A-1") == {"order_id": "A-1", "verbose": True}
    assert _steps(recorder) == [
        ("tool_call", "lookup", {"order_id": "A-1003"}, {"order_id": "A-1003", "verbose": False}),
        ("llm", "plan", {"prompt": "hi"}, "HI"),
        ("retrieval", "search", {"query": "a", "more": ["b", "c"], "k": 2}, ["a"]),
        (
            "tool_call",
            "lookup",
            {"verbose": True, "order_id": "A-1"},
            {"order_id": "A-1", "verbose": True},
        ),
    ]
    assert all(s.latency_ms >= 0 for s in recorder.fixture.steps)
    assert isinstance(recorder.fixture, Fixture)
    assert (recorder.fixture.session_id, recorder.fixture.query) == ("s1", "Refund A-1003")
    assert lookup.__name__ == "lookup"


def test_methods_and_callables_without_a_signature_are_recorded_too() -> None:
    class Shop:
        def refund(self, order_id: str) -> str:
            return f"refunded {order_id}"

        def __call__(self, x: int) -> int:
            return x + 1

    recorder = Recorder("s", "q")
    assert recorder.tool("refund", Shop().refund)("A") == "refunded A"
    assert recorder.tool("shop", Shop())(1) == 2
    assert recorder.tool("largest", max)(3, 7) == 7
    assert recorder.tool("unbound", Shop.refund)(Shop(), "B") == "refunded B"
    assert recorder.tool("half", functools.partial(divmod, 9))(2) == (4, 1)
    assert [s[2] for s in _steps(recorder)][:4] == [
        {"order_id": "A"},
        {"x": 1},
        {"arg0": 3, "arg1": 7},
        {"order_id": "B"},
    ]
    assert list(recorder.fixture.steps[4].args.values()) == [2]


def test_coroutine_functions_stay_coroutine_functions() -> None:
    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        return f"body of {url}"

    recorder = Recorder("s", "q")
    wrapped = recorder.tool("fetch", fetch)
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped("u")) == "body of u"
    later = recorder.llm("later", lambda prompt: asyncio.sleep(0, f"body of {prompt}"))
    assert asyncio.run(_await(later("p"))) == "body of p"
    assert _steps(recorder) == [
        ("tool_call", "fetch", {"url": "u"}, "body of u"),
        ("llm", "later", {"prompt": "p"}, "body of p"),
    ]
    mock = MockLayer(recorder.fixture)
    assert asyncio.run(_await(mock.tool("fetch")("u"))) == "body of u"
    assert mock.llm("later", is_async=False)(prompt="p") == "body of p"


async def _await(awaitable: Any) -> Any:
    return await awaitable


def test_generators_are_recorded_when_they_end_or_are_left() -> None:
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    async def acount(to: int) -> AsyncIterator[int]:
        for i in range(to):
            yield i

    recorder = Recorder("s", "q")
    counted = recorder.tool("count", count)
    assert list(counted(3)) == [0, 1, 2]
    for value in counted(5):
        if value == 1:
            break
    assert [s[3] for s in _steps(recorder)] == [[0, 1, 2], [0, 1]]
    with pytest.raises(TypeError, match="async generator"):
        recorder.tool("acount", acount)


def test_a_call_that_fails_raises_and_leaves_no_step() -> None:
    recorder = Recorder("s", "q")

    def broken(x: int) -> int:
        raise KeyError(x)

    async def abroken(x: int) -> int:
        raise KeyError(x)

    def half(x: int) -> Iterator[int]:
        yield x
        raise KeyError(x)

    with pytest.raises(KeyError):
        recorder.tool("broken", broken)(1)
    with pytest.raises(KeyError):
        asyncio.run(recorder.tool("abroken", abroken)(1))
    with pytest.raises(KeyError):
        list(recorder.tool("half", half)(1))
    assert recorder.fixture.steps == []


def test_values_become_json_as_pydantic_does_it_and_else_their_str() -> None:
    class Order(BaseModel):
        id: str
        at: datetime.date

    @dataclasses.dataclass
    class Line:
        price: decimal.Decimal

    class Odd:
        def __str__(self) -> str:
            return "odd one"

    loop: list[Any] = []
    loop.append(loop)
    recorder = Recorder("s", "q")
    tool = recorder.tool("t", lambda value: value)
    for value in (
        Order(id="A", at=datetime.date(2026, 11, 29)),
        Line(decimal.Decimal("1.50")),
        {3},
        Odd(),
        float("nan"),
        b"\xff",
        loop,
    ):
        assert tool(value) is value
    assert [s[3] for s in _steps(recorder)][:5] == [
        {"id": "A", "at": "2026-11-29"},
        {"price": "1.50"},
        [3],
        "odd one",
        "nan",
    ]
    assert all(isinstance(s[3], str) for s in _steps(recorder)[5:])
    json.loads(recorder.fixture.to_json(), parse_constant=pytest.fail)


def test_text_cut_in_the_middle_of_a_sign_is_saved(tmp_path: Path) -> None:
    recorder = Recorder("s", "q")
    recorder.tool("t", lambda x: x)("half \ud83d")
    recorder.save(tmp_path / "s.json")
    assert Fixture.from_json((tmp_path / "s.json").read_bytes()).steps[0].output == "half \ud83d"


def test_what_the_agent_changes_afterwards_is_not_recorded() -> None:
    recorder = Recorder("s", "q")

    def grow(items: list[int]) -> list[int]:
        items.append(2)
        return items

    result = recorder.tool("grow", grow)([1])
    result.append(3)
    assert _steps(recorder) == [("tool_call", "grow", {"items": [1]}, [1, 2])]


def test_parallel_calls_stand_in_the_order_they_began() -> None:
    recorder = Recorder("s", "q")

    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    wrapped = recorder.tool("wait", wait)

    async def both() -> None:
        await asyncio.gather(wrapped(0.05), wrapped(0.0), wrapped(0.02))

    asyncio.run(both())
    assert [s.args["seconds"] for s in recorder.fixture.steps] == [0.05, 0.0, 0.02]

    gate = threading.Barrier(8)
    tool = recorder.tool("threaded", lambda i: (gate.wait(10), time.sleep(0.01), i)[2])
    threads = [threading.Thread(target=tool, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(s.output for s in recorder.fixture.steps[3:]) == list(range(8))


def test_secrets_are_masked_before_they_enter_the_fixture(tmp_path: Path) -> None:
    secret, other = "sk-" + "7a" * 16, "ghp_" + "7b" * 18
    recorder = Recorder("s", f"use {secret}")
    login = recorder.tool("login", lambda key, user: {"token": other, "user": user})
    assert login(secret, "ada") == {"token": other, "user": "ada"}
    recorder.fixture.final_output = f"your token is {other}"
    recorder.fixture.expected = {"not": secret}
    path = tmp_path / "deep" / "s.json"
    recorder.save(path)
    text = path.read_text(encoding="utf-8")
    assert secret not in text
    assert other not in text
    assert json.loads(text)["steps"][0]["args"] == {"key": "<redacted:openai-key>", "user": "ada"}

    # the same call with the same secret, or with a new one, is still the same call
    fixture = Fixture.from_json(text)
    for key in (secret, "sk-" + "9c" * 16):
        mock = MockLayer(fixture)
        assert mock.tool("login")(key, user="ada") == {
            "token": "<redacted:github-token>",
            "user": "ada",
        }
        assert mock.masked == [fixture.steps[0]]
    with pytest.raises(ReplayError) as caught:
        MockLayer(fixture).tool("login")(key=secret, user=other)
    assert secret not in str(caught.value)
    assert other not in repr(caught.value.divergence)


def test_rules_of_the_user_hold_for_the_replay_too(tmp_path: Path) -> None:
    recorder = Recorder("s", "q", redact=[("customer", r"C-\d+")])
    recorder.tool("get", lambda customer: customer)("C-17")
    recorder.save(tmp_path / "s.json")
    fixture = Fixture.from_json((tmp_path / "s.json").read_bytes())
    assert fixture.steps[0].args == {"customer": "<redacted:customer>"}
    assert MockLayer(fixture).tool("get")("C-18") == "<redacted:customer>"

    plain = Recorder("s", "q", redact=())
    plain.tool("get", lambda key: key)("sk-" + "7a" * 16)
    assert plain.fixture.steps[0].output == "sk-" + "7a" * 16
    assert MockLayer(plain.fixture).tool("get")("sk-" + "7a" * 16) == "sk-" + "7a" * 16
    with pytest.raises(ReplayError):
        MockLayer(plain.fixture).tool("get")("sk-" + "7b" * 16)


def test_saving_writes_the_document_and_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "s1.json"
    recorder = Recorder("s1", "q")
    recorder.tool("t", lambda x: x)(1)
    recorder.save(path)
    recorder.tool("t", lambda x: x)(2)
    recorder.save(str(path))
    assert path.read_text(encoding="utf-8") == recorder.fixture.to_json()
    assert Fixture.from_json(path.read_text(encoding="utf-8")) == recorder.fixture
    assert list(path.parent.iterdir()) == [path]
    assert recorder.fixture.steps[1] == Step(
        StepType.TOOL_CALL, "t", {"x": 2}, 2, recorder.fixture.steps[1].latency_ms
    )
