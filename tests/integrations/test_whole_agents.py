"""Whole agents on the real SDK: model calls answered at the HTTP layer, tools by the integrations.

The programs are written as those that made the traces were; nothing in them knows of a replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import agents
import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from otel_cassette.clients.instrumentor import CassetteInstrumentor

SYSTEM = "You are a support agent for ACME. Use the tools."


def lookup_order(order_id: str) -> dict:  # type: ignore[type-arg]
    """Look up an order by id."""
    raise AssertionError(order_id)


def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    raise AssertionError(order_id)


async def get_weather(city: str) -> dict:  # type: ignore[type-arg]
    """Weather of a city."""
    raise AssertionError(city)


def search_docs(query: str) -> list[str]:
    """Search the docs."""
    raise AssertionError(query)


@pytest.fixture(autouse=True)
def _answered(monkeypatch: pytest.MonkeyPatch, instrument: Callable[[str], None]) -> Iterator[None]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agents.set_tracing_disabled(True)
    instrument("langchain")
    instrument("pydantic_ai")
    instrument("openai_agents")
    instrumentor = CassetteInstrumentor()
    instrumentor.instrument()
    yield
    instrumentor.uninstrument()
    agents.set_tracing_disabled(False)


def test_a_pydantic_ai_agent_replays_its_trace(recorded: Any) -> None:
    async def program() -> str:
        async with AsyncOpenAI(api_key="x") as client:
            model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client))
            tools = [lookup_order, refund, get_weather, search_docs]
            agent = Agent(model, name="support_agent", instructions=SYSTEM, tools=tools)
            return (await agent.run("Please refund my order A-17.")).output

    trace = recorded("traces/pydantic-ai/refund__v6")
    with trace.cassette.replaying(block_network=True) as session:
        assert asyncio.run(program()) == trace.output
    assert (session.summary.served, session.divergences, session.unplayed) == (5, [], [])


@pytest.mark.parametrize(
    ("scenario", "model", "prompt", "served"),
    [
        ("refund", agents.OpenAIResponsesModel, "Please refund my order A-17.", 5),
        ("refund__chat", agents.OpenAIChatCompletionsModel, "Please refund my order A-17.", 5),
        ("tool_error", agents.OpenAIResponsesModel, "Please refund my order Z-99.", 3),
    ],
)
def test_an_openai_agents_agent_replays_its_trace(
    recorded: Any, scenario: str, model: Any, prompt: str, served: int
) -> None:
    async def program() -> str:
        async with AsyncOpenAI(api_key="x") as client:
            agent = agents.Agent(
                name="support_agent",
                instructions=SYSTEM,
                model=model("gpt-4o-mini", openai_client=client),
                tools=[agents.function_tool(f) for f in (lookup_order, refund, get_weather)],
            )
            return str((await agents.Runner.run(agent, prompt)).final_output)

    trace = recorded(f"dialects/openinference/openai-agents-openinference/{scenario}")
    with trace.cassette.replaying(block_network=True) as session:
        assert asyncio.run(program()) == trace.output
    assert (session.summary.served, session.divergences, session.unplayed) == (served, [], [])


def test_a_langchain_agent_replays_its_trace(recorded: Any) -> None:
    async def program() -> str:
        async with AsyncOpenAI(api_key="x") as client:
            model = ChatOpenAI(
                model="gpt-4o-mini",
                temperature=0.2,
                use_responses_api=True,
                stream_usage=True,
                api_key="x",
                root_async_client=client,
                async_client=client.chat.completions,
            )
            tools = [tool(f) for f in (lookup_order, refund, get_weather)]
            agent = create_agent(model, tools, system_prompt=SYSTEM, name="support_agent")
            asked = {"messages": [("user", "Please refund my order A-17.")]}
            return str((await agent.ainvoke(asked))["messages"][-1].text)

    trace = recorded("dialects/openinference/langchain-openinference/refund__responses")
    with trace.cassette.replaying(block_network=True) as session:
        answer = asyncio.run(program())
    # The truth has the last message's blocks as Python writes them; ids of blocks are new.
    assert answer in trace.output
    assert answer.startswith("Done: ")
    assert (session.summary.served, session.divergences, session.unplayed) == (5, [], [])
