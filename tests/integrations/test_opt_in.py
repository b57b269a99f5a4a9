"""Nothing is patched before it is asked for, and everything is put back."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from agents.tool import FunctionTool
from langchain_core.tools import BaseTool
from mcp.client.session import ClientSession
from pydantic_ai.capabilities import CombinedCapability

from otel_cassette import Cassette, CassetteError
from otel_cassette.integrations import langchain, mcp, openai_agents, pydantic_ai
from otel_cassette.integrations.imports import instrument_when_imported
from otel_cassette.integrations.patching import Patches

PLACES: list[tuple[ModuleType, Any, str]] = [
    (langchain, BaseTool, "run"),
    (langchain, BaseTool, "arun"),
    (mcp, ClientSession, "call_tool"),
    (pydantic_ai, CombinedCapability, "get_wrapper_toolset"),
    (openai_agents, FunctionTool, "on_invoke_tool"),
]


@pytest.mark.parametrize(("module", "owner", "name"), PLACES)
def test_instrumenting_twice_and_taking_it_back(module: ModuleType, owner: Any, name: str) -> None:
    before = vars(owner).get(name)
    module.instrument()
    once = vars(owner)[name]
    module.instrument()
    assert vars(owner)[name] is once
    assert once is not before
    assert inspect.iscoroutinefunction(once) == inspect.iscoroutinefunction(before)
    module.uninstrument()
    module.uninstrument()
    assert vars(owner).get(name) is before


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        (langchain, "langchain_core.tools", "langchain"),
        (mcp, "mcp.types", "mcp"),
        (pydantic_ai, "pydantic_ai.capabilities", "pydantic-ai"),
        (openai_agents, "agents.tool", "openai-agents"),
    ],
)
def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, missing: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(CassetteError, match=rf'pip install "otel-cassette\[{extra}\]"'):
        module.instrument()


def test_what_is_imported_already_is_instrumented_at_once() -> None:
    before = [vars(owner).get(name) for _, owner, name in PLACES]
    undo = instrument_when_imported()
    during = [vars(owner).get(name) for _, owner, name in PLACES]
    undo()
    assert all(a is not b for a, b in zip(during, before, strict=True))
    assert [vars(owner).get(name) for _, owner, name in PLACES] == before


def test_what_others_put_around_it_later_stays() -> None:
    class Framework:
        def call(self) -> str:
            return "real"

    def ours(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: f"ours({original(self)})"

    patches = Patches("a framework")
    patches.apply(lambda: [patches.replace(Framework, "call", ours)])
    inner = Framework.call

    @functools.wraps(inner)
    def theirs(self: Any) -> str:
        return f"theirs({inner(self)})"

    Framework.call = theirs  # type: ignore[method-assign]
    assert Framework().call() == "theirs(ours(real))"
    patches.revert()
    assert Framework().call() == "theirs(real)"


def test_a_release_without_the_place_says_so() -> None:
    patches = Patches("a framework")
    with pytest.raises(CassetteError, match=r"a framework has no object\.gone"):
        patches.apply(lambda: [patches.replace(object, "gone", lambda original: original)])


def test_two_integrations_that_see_one_call_make_one_entry(
    instrument: Callable[[str], None], ran: list[dict[str, Any]]
) -> None:
    """A LangChain tool that calls an MCP tool of its name with its arguments is that tool."""
    import asyncio

    from langchain_core.tools import tool
    from mcp.client import Client
    from mcp.server import MCPServer

    instrument("langchain")
    instrument("mcp")
    server = MCPServer("orders")

    @server.tool(name="lookup_order")
    def serve(order_id: str) -> str:
        ran.append({"order_id": order_id})
        return "sent"

    async def work() -> Any:
        async with Client(server) as client:

            @tool
            async def lookup_order(order_id: str) -> str:
                """Look up."""
                result = await client.session.call_tool("lookup_order", {"order_id": order_id})
                other = await client.session.call_tool("lookup_order", {"order_id": "other"})
                return str(result.content[0].text + other.content[0].text)

            return await lookup_order.ainvoke({"order_id": "A-1"})

    cassette = Cassette()
    with cassette.recording():
        assert asyncio.run(work()) == "sentsent"
    assert [(e.name, e.response) for e in cassette.entries] == [("lookup_order", "sentsent")]
    assert [(e.request, e.parent.index) for e in cassette.nested] == [({"order_id": "other"}, 0)]
    ran.clear()
    with cassette.replaying():
        assert asyncio.run(work()) == "sentsent"
    assert ran == []
