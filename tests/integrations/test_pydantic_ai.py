"""Tools of pydantic-ai agents in a session: `FunctionModel` says what the trace's model said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from otel_cassette import Cassette, CassetteMissError
from otel_cassette.integrations.pydantic_ai import toolset_class


class Range(BaseModel):
    low: int
    high: int = 10


def scripted(*turns: Any, as_text: bool = True) -> FunctionModel:
    """Each turn is a text, or a list of `(tool, arguments)`; a run begins at the first one."""

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = sum(isinstance(m, ModelResponse) for m in messages)
        turn = turns[number]
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(
            parts=[
                ToolCallPart(name, json.dumps(args) if as_text else args, f"call_{number}_{place}")
                for place, (name, args) in enumerate(turn)
            ]
        )

    return FunctionModel(say)


def support_agent(model: FunctionModel, ran: list[dict[str, Any]]) -> Agent[None, str]:
    agent = Agent(model)

    @agent.tool_plain
    def lookup_order(order_id: str) -> dict[str, Any]:
        ran.append({"order_id": order_id})
        return {"order_id": order_id, "status": "lost"}

    @agent.tool_plain
    async def refund(order_id: str, amount: float) -> str:
        ran.append({"order_id": order_id, "amount": amount})
        return "refunded for real"

    return agent


@pytest.fixture(autouse=True)
def _instrumented(instrument: Callable[[str], None]) -> None:
    instrument("pydantic_ai")


def run(agent: Agent[None, Any], prompt: str | None = None, **options: Any) -> Any:
    return asyncio.run(agent.run(prompt, **options))


def returns(result: Any) -> list[Any]:
    return [
        part.content
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


@pytest.mark.parametrize("scenario", ["refund__v2", "refund__v6"])
def test_an_agent_replays_the_tools_of_an_exported_trace(
    recorded: Any, ran: list[dict[str, Any]], scenario: str
) -> None:
    trace = recorded(f"traces/pydantic-ai/{scenario}")
    turns = [[(call["name"], call["request"])] for call in trace.tools]
    agent = support_agent(scripted(*turns, trace.output), ran)
    with trace.cassette.replaying(kinds={"tool"}) as session:
        result = run(agent, "Please refund my order A-17.")
    assert returns(result) == [call["response"] for call in trace.tools]
    assert result.output == trace.output
    assert ran == []
    assert (session.summary.served, session.unplayed, session.divergences) == (2, [], [])


def test_parallel_tools_of_an_exported_trace_get_their_own_answers(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    trace = recorded("traces/pydantic-ai/parallel__stream")
    calls = list(reversed([(call["name"], call["request"]) for call in trace.tools]))
    agent = Agent(scripted(calls, "done"))

    @agent.tool_plain
    async def get_weather(city: str) -> str:
        ran.append({"city": city})
        return "unknown"

    with trace.cassette.replaying(kinds={"tool"}) as session:
        told = returns(run(agent, "Weather?"))
    assert told == list(reversed([call["response"] for call in trace.tools]))
    assert (ran, len(told), session.divergences) == ([], 2, [])


def test_a_failure_of_an_exported_trace_is_raised_where_it_happened(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    trace = recorded("traces/pydantic-ai/tool_error__v5")
    failure = trace.tools[0]
    agent = support_agent(scripted([(failure["name"], failure["request"])]), ran)
    with (
        trace.cassette.replaying(kinds={"tool"}),
        pytest.raises(ValueError, match="Z-99") as caught,
    ):
        run(agent, "Please refund my order Z-99.")
    assert str(caught.value) == failure["error"]["message"]
    assert ran == []


def test_a_retry_of_an_exported_trace_is_a_retry_again(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    trace = recorded("traces/pydantic-ai/tool_retry")
    turns = [[(call["name"], call["request"])] for call in trace.tools]
    agent = support_agent(scripted(*turns, "found it"), ran)
    with trace.cassette.replaying(kinds={"tool"}):
        result = run(agent, "find my order")
    told = [str(p.content) for m in result.all_messages() for p in m.parts if is_retry(p)]
    assert [trace.tools[0]["error"]["message"] in text for text in told] == [True]
    assert returns(result)[-1] == trace.tools[1]["response"]
    assert ran == []


def is_retry(part: Any) -> bool:
    return isinstance(part, RetryPromptPart) or getattr(part, "outcome", "") == "retried"


def test_recording_and_replaying_give_the_same_messages(ran: list[dict[str, Any]]) -> None:
    turns = (
        [("lookup_order", {"order_id": "A-1"}), ("lookup_order", {"order_id": "A-2"})],
        [("refund", {"order_id": "A-1", "amount": 5})],
        "done",
    )
    agent = support_agent(scripted(*turns), ran)
    cassette = Cassette()
    with cassette.recording():
        first = returns(run(agent, "hello"))
    assert [(e.kind, e.name, e.request) for e in cassette.entries] == [
        ("tool", "lookup_order", {"order_id": "A-1"}),
        ("tool", "lookup_order", {"order_id": "A-2"}),
        ("tool", "refund", {"order_id": "A-1", "amount": 5}),
    ]
    assert len(ran) == 3
    with cassette.replaying() as session:
        assert returns(run(agent, "hello")) == first
    assert len(ran) == 3
    assert (session.summary.served, session.divergences) == (3, [])


def test_arguments_are_those_that_the_model_gave(ran: list[dict[str, Any]]) -> None:
    agent = Agent(scripted([("count", {"within": {"low": "3"}})], "ok", as_text=False))

    @agent.tool
    def count(ctx: RunContext[None], within: Range, step: int = 1) -> int:
        ran.append({"within": within, "step": step})
        return within.high - within.low

    cassette = Cassette()
    with cassette.recording():
        assert returns(run(agent, "hi")) == [7]
    assert cassette.entries[0].request == {"within": {"low": "3"}}
    with cassette.replaying():
        assert returns(run(agent, "hi")) == [7]
    assert ran == [{"within": Range(low=3), "step": 1}]


def test_a_changed_argument_by_mode(ran: list[dict[str, Any]]) -> None:
    cassette = Cassette()
    with cassette.recording():
        run(support_agent(scripted([("lookup_order", {"order_id": "A-1"})], "ok"), ran), "hi")
    changed = support_agent(scripted([("lookup_order", {"order_id": "A-2"})], "ok"), ran)
    ran.clear()
    with pytest.raises(CassetteMissError, match="A-2"), cassette.replaying(mode="strict"):
        run(changed, "hi")
    with cassette.replaying(mode="lenient") as session:
        assert returns(run(changed, "hi"))[0]["order_id"] == "A-1"
    assert (ran, len(session.divergences)) == ([], 1)
    with cassette.replaying(mode="fallthrough") as session:
        assert returns(run(changed, "hi"))[0]["order_id"] == "A-2"
    assert (ran, session.summary.live) == ([{"order_id": "A-2"}], 1)


def test_a_retry_recorded_here_is_a_retry_again() -> None:
    attempts = []
    agent = Agent(scripted([("find", {"n": 1})], [("find", {"n": 2})], "ok"))

    @agent.tool_plain
    def find(n: int) -> str:
        attempts.append(n)
        if n == 1:
            raise ModelRetry("not that one")
        return "found"

    cassette = Cassette()
    with cassette.recording():
        run(agent, "hi")
    with cassette.replaying():
        assert run(agent, "hi").output == "ok"
    assert attempts == [1, 2]
    assert [(f.error.message, f.follows) for f in cassette.failures] == [("not that one", -1)]


def test_files_and_tool_returns_come_back_as_such(ran: list[dict[str, Any]]) -> None:
    picture = BinaryContent(data=b"\x89PNG\xff\x00", media_type="image/png")
    agent = Agent(scripted([("draw", {}), ("look", {})], "ok"))

    @agent.tool_plain
    def draw() -> BinaryContent:
        ran.append({})
        return picture

    @agent.tool_plain
    def look() -> ToolReturn:
        ran.append({})
        return ToolReturn("a cat", content=["see", picture], metadata={"score": 1})

    cassette = Cassette()
    with cassette.recording():
        first = run(agent, "hi").all_messages()
    with cassette.replaying():
        again = run(agent, "hi").all_messages()
    assert len(ran) == 2

    def seen(content: Any) -> Any:
        if isinstance(content, BinaryContent):
            return content.data, content.media_type
        return list(map(seen, content)) if isinstance(content, list) else content

    def parts(messages: list[ModelMessage]) -> list[Any]:
        return [
            (p.part_kind, seen(p.content), getattr(p, "metadata", None))
            for m in messages
            for p in m.parts
            if p.part_kind in ("tool-return", "user-prompt")
        ]

    assert parts(again) == parts(first)
    assert parts(again)[1] == ("tool-return", (picture.data, "image/png"), None)


def test_an_approval_that_was_asked_for_is_asked_for_again(ran: list[dict[str, Any]]) -> None:
    agent = Agent(
        scripted([("pay", {"amount": 3})], "paid"), output_type=[str, DeferredToolRequests]
    )

    @agent.tool
    def pay(ctx: RunContext[None], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 2})
        ran.append({"amount": amount})
        return "ok"

    def both() -> tuple[Any, str]:
        asked = run(agent, "pay")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.approvals
        answer = DeferredToolResults(approvals={call.tool_call_id: True})
        done = run(agent, message_history=asked.all_messages(), deferred_tool_results=answer)
        return asked.output.metadata, str(done.output)

    cassette = Cassette()
    with cassette.recording():
        first = both()
    with cassette.replaying() as session:
        assert both() == first
    assert first[0] == {"call_0_0": {"limit": 2}}
    assert (ran, session.divergences) == ([{"amount": 3}], [])


def test_one_toolset_alone_without_instrumenting(
    instrument: Callable[[str], None], ran: list[dict[str, Any]]
) -> None:
    from otel_cassette.integrations import pydantic_ai

    pydantic_ai.uninstrument()
    tools = FunctionToolset()

    @tools.tool_plain
    def now() -> str:
        ran.append({})
        return "noon"

    agent = Agent(scripted([("now", {})], "ok"), toolsets=[toolset_class()(tools)])
    cassette = Cassette()
    with cassette.recording():
        run(agent, "hi")
    with cassette.replaying() as session:
        assert returns(run(agent, "hi")) == ["noon"]
    assert (len(ran), session.summary.served) == (1, 1)


def test_model_calls_inside_a_tool_belong_to_it() -> None:
    class Client:
        async def acomplete(self, request: Any) -> str:
            return "a summary"

    cassette = Cassette()
    client = cassette.wrap_llm(Client(), model="m")
    agent = Agent(scripted([("a", {"t": "x"}), ("b", {"t": "y"})], "ok"))

    @agent.tool_plain
    async def a(t: str) -> str:
        await asyncio.sleep(0.01)
        return (await client.acomplete(t)).text or ""

    @agent.tool_plain
    async def b(t: str) -> str:
        return (await client.acomplete(t)).text or ""

    with cassette.recording():
        run(agent, "hi")
    prompts = {
        (e.parent.kind, e.parent.index): e.request["messages"][0]["parts"][0]["content"]
        for e in cassette.nested
    }
    assert [e.name for e in cassette.entries] == ["a", "b"]
    assert prompts == {("tool", 0): "x", ("tool", 1): "y"}


def test_many_runs_at_once_get_their_own_answers(ran: list[dict[str, Any]]) -> None:
    agents = [
        support_agent(scripted([("lookup_order", {"order_id": f"A-{n}"})], "ok"), ran)
        for n in range(50)
    ]

    async def all_of_them() -> list[Any]:
        results = await asyncio.gather(*(agent.run("hi") for agent in agents))
        return [returns(result)[0]["order_id"] for result in results]

    cassette = Cassette()
    with cassette.recording():
        first = asyncio.run(all_of_them())
    ran.clear()
    with cassette.replaying() as session:
        assert asyncio.run(all_of_them()) == first == [f"A-{n}" for n in range(50)]
    assert (ran, session.summary.served, session.divergences) == ([], 50, [])
