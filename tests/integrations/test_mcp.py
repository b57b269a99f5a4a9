"""Tool calls of MCP client sessions, against a server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp.types as types
import pytest
from mcp.client import Client
from mcp.server import MCPServer

from otel_cassette import Cassette, CassetteEntry, CassetteMissError


@pytest.fixture(autouse=True)
def _instrumented(instrument: Callable[[str], None]) -> None:
    instrument("mcp")


@pytest.fixture
def server(ran: list[dict[str, Any]]) -> MCPServer:
    made = MCPServer("orders")

    @made.tool()
    def lookup_order(order_id: str) -> dict[str, Any]:
        ran.append({"order_id": order_id})
        if order_id == "Z-9":
            raise ValueError("order Z-9 not found")
        return {"order_id": order_id, "status": "delivered"}

    @made.tool()
    def say(text: str) -> str:
        ran.append({"text": text})
        return text.upper()

    return made


def in_session(server: MCPServer, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def connected() -> Any:
        async with Client(server) as client:
            return await work(client.session)

    return asyncio.run(connected())


def test_a_replay_gives_the_sdks_own_result_and_asks_no_server(
    server: MCPServer, ran: list[dict[str, Any]]
) -> None:
    async def work(session: Any) -> Any:
        return [
            await session.call_tool("lookup_order", {"order_id": "A-1"}),
            await session.call_tool("say", {"text": "hi"}),
        ]

    cassette = Cassette()
    with cassette.recording():
        first = in_session(server, work)
    assert [(e.kind, e.name, e.request) for e in cassette.entries] == [
        ("tool", "lookup_order", {"order_id": "A-1"}),
        ("tool", "say", {"text": "hi"}),
    ]
    with cassette.replaying() as session:
        again = in_session(server, work)
    assert [type(result) for result in again] == [types.CallToolResult] * 2
    assert [r.model_dump() for r in again] == [r.model_dump() for r in first]
    assert again[0].structured_content == {"order_id": "A-1", "status": "delivered"}
    assert len(ran) == 2
    assert (session.summary.served, session.divergences) == (2, [])


def test_an_error_result_is_an_answer_as_on_the_wire(
    server: MCPServer, ran: list[dict[str, Any]]
) -> None:
    async def work(session: Any) -> Any:
        return await session.call_tool("lookup_order", {"order_id": "Z-9"})

    cassette = Cassette()
    with cassette.recording():
        first = in_session(server, work)
    with cassette.replaying():
        again = in_session(server, work)
    assert first.is_error
    assert again.model_dump() == first.model_dump()
    assert len(ran) == 1


def test_an_exception_of_the_call_is_raised_again(server: MCPServer) -> None:
    async def work(session: Any) -> str:
        with pytest.raises(Exception, match=r"(?i)tim") as caught:
            await session.call_tool("lookup_order", {"order_id": "A-1"}, 0.000001)
        return f"{type(caught.value).__name__}: {caught.value}"

    cassette = Cassette()
    with cassette.recording():
        first = in_session(server, work)
    assert (len(cassette.failures), cassette.entries) == (1, [])
    with cassette.replaying():
        assert in_session(server, work) == first


def test_calls_at_once_get_their_own_answers(server: MCPServer, ran: list[dict[str, Any]]) -> None:
    async def work(session: Any) -> list[str]:
        results = await asyncio.gather(
            *(session.call_tool("say", {"text": f"t{n}"}) for n in range(30))
        )
        return [result.content[0].text for result in results]

    cassette = Cassette()
    with cassette.recording():
        in_session(server, work)
    with cassette.replaying() as session:
        assert in_session(server, work) == [f"T{n}" for n in range(30)]
    assert (len(ran), session.summary.served) == (30, 30)


def test_a_changed_argument_by_mode(server: MCPServer, ran: list[dict[str, Any]]) -> None:
    async def say(session: Any, text: str) -> str:
        content = (await session.call_tool("say", {"text": text})).content
        return str(content[0].text)

    cassette = Cassette()
    with cassette.recording():
        in_session(server, lambda s: say(s, "a"))
    ran.clear()
    with pytest.raises(CassetteMissError, match='"b"'), cassette.replaying(mode="strict"):
        in_session(server, lambda s: say(s, "b"))
    with cassette.replaying(mode="lenient"):
        assert in_session(server, lambda s: say(s, "b")) == "A"
    assert ran == []
    with cassette.replaying(mode="fallthrough") as session:
        assert in_session(server, lambda s: say(s, "b")) == "B"
    assert (ran, session.summary.live) == ([{"text": "b"}], 1)


@pytest.mark.parametrize(
    ("response", "text", "structured"),
    [
        ("plain text", "plain text", None),
        ({"status": "sent"}, '{"status": "sent"}', {"status": "sent"}),
        ([1, 2], "[1, 2]", None),
        ({"content": [1, 2]}, '{"content": [1, 2]}', {"content": [1, 2]}),
        ([{"type": "text", "text": "block"}], "block", None),
        (None, "null", None),
    ],
)
def test_what_a_framework_recorded_of_a_tool_becomes_a_result(
    server: MCPServer, ran: list[dict[str, Any]], response: Any, text: str, structured: Any
) -> None:
    entry = CassetteEntry(
        kind="tool", index=0, name="say", request={"text": "x"}, response=response
    )

    async def work(session: Any) -> Any:
        return await session.call_tool("say", {"text": "x"})

    with Cassette([entry], mode="strict").replaying():
        result = in_session(server, work)
    assert isinstance(result, types.CallToolResult)
    assert [block.text for block in result.content] == [text]
    assert result.structured_content == structured
    assert ran == []
