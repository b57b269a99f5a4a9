"""What a type checker must make of the public API: checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from typing_extensions import assert_type

import otel_cassette
from otel_cassette import (
    CallOutcome,
    Cassette,
    CassetteEntry,
    CassetteFailure,
    CassetteLLM,
    CassetteMode,
    LLMRequest,
    LLMResponse,
    ReplayDivergence,
    Session,
)


class Client:
    """The least a client of one's own has."""

    def complete(self, request: LLMRequest) -> LLMResponse:
        """Answer."""
        raise ValueError(request)


cassette = Cassette()
assert_type(Cassette.load("c.jsonl"), Cassette)
assert_type(cassette.save("c.jsonl"), int)
assert_type(cassette.mode, CassetteMode)
assert_type(cassette.entries, list[CassetteEntry])
assert_type(cassette.nested, list[CassetteEntry])
assert_type(cassette.failures, list[CassetteFailure])
assert_type(cassette.entries_of("tool"), list[CassetteEntry])
assert_type(cassette.calls, list[CallOutcome])
assert_type(cassette.divergences, list[ReplayDivergence])
assert_type(cassette.first_divergence, ReplayDivergence | None)
assert_type(cassette.unplayed, list[CassetteEntry])
cassette.mode = "strict"

llm = cassette.wrap_llm(Client())
assert_type(llm, CassetteLLM)
assert_type(llm.complete("hi"), LLMResponse)
assert_type(llm.complete({"messages": "hi"}), LLMResponse)
assert_type(llm.complete([{"role": "user", "content": "hi"}]).text, str)


@cassette.wrap_tool
def add(a: int, b: int = 0) -> int:
    """Add."""
    return a + b


@cassette.wrap_tool(name="later", ignore_args=["client"])
async def later(client: object, text: str) -> str:
    """Wait."""
    return text if client else ""


@cassette.wrap_retriever
def search(query: str) -> list[str]:
    """Search."""
    return [query]


@cassette.wrap_retriever(name="pages")
def pages(count: int) -> Iterator[int]:
    """Turn pages."""
    yield count


@otel_cassette.wrap_tool
async def streamed(count: int) -> AsyncIterator[int]:
    """Turn pages later."""
    yield count


assert_type(add(1), int)
assert_type(search("x"), list[str])
assert_type(pages(1), Iterator[int])
assert_type(streamed(1), AsyncIterator[int])


async def use() -> None:
    """Await what is awaitable."""
    assert_type(await later(object(), "x"), str)
    assert_type(await llm.acomplete("hi"), LLMResponse)


with cassette.replaying(mode="lenient", kinds=["llm"]) as session:
    assert_type(session, Session)
    assert_type(session.summary.served, int)
with cassette.recording("c.jsonl") as recording:
    assert_type(recording, Session)

assert_type(otel_cassette.tool_key("t", {"a": 1}), str)
assert_type(otel_cassette.request_diff({}, {}), tuple[str, bool])
divergence = ReplayDivergence.create("llm", 0, expected_key="a", actual_key="b")
assert_type(divergence.summary(), str)
assert_type(divergence.to_dict(include_requests=False), dict[str, Any])
