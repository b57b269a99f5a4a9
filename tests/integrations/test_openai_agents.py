"""Tools of the OpenAI Agents SDK in a session, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    Runner,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import BaseModel

from otel_cassette import Cassette, CassetteMissError


@pytest.fixture(autouse=True)
def _instrumented(instrument: Callable[[str], None]) -> Iterator[None]:
    set_tracing_disabled(True)
    instrument("openai_agents")
    yield
    set_tracing_disabled(False)


class Order(BaseModel):
    id: str
    total: float


def scripted(*turns: Any) -> ScriptedModel:
    """Each turn is a text, or a list of `(tool, arguments)`."""
    steps: list[Any] = []
    for number, turn in enumerate(turns):
        if isinstance(turn, str):
            steps.append([assistant_message(turn)])
            continue
        steps.append(
            [
                function_call(name, json.dumps(args), call_id=f"call_{number}_{place}")
                for place, (name, args) in enumerate(turn)
            ]
        )
    return ScriptedModel(steps)


def support_tools(ran: list[dict[str, Any]], **options: Any) -> list[FunctionTool]:
    @function_tool(**options)
    def lookup_order(order_id: str) -> dict:  # type: ignore[type-arg]
        """Look up an order by id."""
        ran.append({"order_id": order_id})
        return {"order_id": order_id, "status": "lost"}

    @function_tool(**options)
    async def refund(order_id: str, amount: float) -> str:
        """Refund an order."""
        ran.append({"order_id": order_id, "amount": amount})
        return "refunded for real"

    return [lookup_order, refund]


def run(model: ScriptedModel, tools: list[FunctionTool]) -> Any:
    agent = Agent(name="support_agent", model=model, tools=list(tools))
    return asyncio.run(Runner.run(agent, "hello", run_config=RunConfig(tracing_disabled=True)))


def outputs(result: Any) -> list[Any]:
    """What the model is told of each tool call."""
    return [
        item["output"]
        for item in result.to_input_list()
        if item.get("type") == "function_call_output"
    ]


def test_an_agent_replays_the_tools_of_an_exported_trace(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    trace = recorded("dialects/openinference/openai-agents-openinference/refund")
    turns = [[(call["name"], call["request"])] for call in trace.tools]
    with trace.cassette.replaying(kinds={"tool"}) as session:
        result = run(scripted(*turns, trace.output), support_tools(ran))
    # The SDK tells the model of a value as Python's `str` writes it.
    assert outputs(result) == [str(call["response"]) for call in trace.tools]
    assert result.final_output == trace.output
    assert ran == []
    assert (session.summary.served, session.unplayed, session.divergences) == (2, [], [])


def test_a_failure_of_an_exported_trace_is_raised_where_it_happened(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    trace = recorded("dialects/openinference/openai-agents-openinference/tool_error__raise")
    failure = trace.tools[0]
    turn = [(failure["name"], failure["request"])]
    tools = support_tools(ran, failure_error_function=None)
    with (
        trace.cassette.replaying(kinds={"tool"}),
        pytest.raises(Exception, match=failure["error"]["message"]),
    ):
        run(scripted(turn, "unreached"), tools)
    assert ran == []


def test_a_failure_that_the_sdk_hides_from_the_trace_fails_again(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    trace = recorded("dialects/openinference/openai-agents-openinference/tool_error")
    failure = trace.tools[0]
    turn = [(failure["name"], failure["request"])]
    with trace.cassette.replaying(kinds={"tool"}):
        result = run(scripted(turn, trace.output), support_tools(ran))
    assert outputs(result) == ["An error occurred while running the tool. Please try again."]
    assert ran == []


def test_recording_and_replaying_tell_the_model_the_same(ran: list[dict[str, Any]]) -> None:
    turns = (
        [("lookup_order", {"order_id": "A-1"}), ("lookup_order", {"order_id": "A-2"})],
        [("refund", {"order_id": "A-1", "amount": 5})],
        "done",
    )
    cassette = Cassette()
    with cassette.recording():
        first = outputs(run(scripted(*turns), support_tools(ran)))
    assert [(e.kind, e.name, e.request) for e in cassette.entries] == [
        ("tool", "lookup_order", {"order_id": "A-1"}),
        ("tool", "lookup_order", {"order_id": "A-2"}),
        ("tool", "refund", {"order_id": "A-1", "amount": 5}),
    ]
    assert len(ran) == 3
    with cassette.replaying() as session:
        assert outputs(run(scripted(*turns), support_tools(ran))) == first
    assert len(ran) == 3
    assert (session.summary.served, session.divergences) == (3, [])


def test_outputs_are_shown_to_the_model_as_when_they_were_recorded() -> None:
    calls = []

    @function_tool
    def order() -> Order:
        calls.append("order")
        return Order(id="A-1", total=2.5)

    @function_tool
    def pair() -> tuple:  # type: ignore[type-arg]
        calls.append("pair")
        return (1, "b")

    @function_tool
    def picture() -> list:  # type: ignore[type-arg]
        calls.append("picture")
        return [
            ToolOutputText(text="a cat"),
            ToolOutputImage(image_url="https://example.org/c.png"),
        ]

    turns = ([("order", {}), ("pair", {}), ("picture", {})], "done")
    tools = [order, pair, picture]
    cassette = Cassette()
    with cassette.recording():
        first = outputs(run(scripted(*turns), tools))
    with cassette.replaying():
        again = outputs(run(scripted(*turns), tools))
    assert again == first
    assert sorted(calls) == ["order", "pair", "picture"]
    assert first[:2] == ["id='A-1' total=2.5", "(1, 'b')"]
    assert [item["type"] for item in first[2]] == ["input_text", "input_image"]


def test_the_failure_function_sees_a_recorded_failure_as_the_real_one() -> None:
    calls = []

    def explain(ctx: Any, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    @function_tool(failure_error_function=explain)
    def lookup_order(order_id: str) -> str:
        calls.append(order_id)
        raise LookupError(f"order {order_id} not found")

    turns = ([("lookup_order", {"order_id": "Z-9"})], "sorry")
    cassette = Cassette()
    with cassette.recording():
        first = outputs(run(scripted(*turns), [lookup_order]))
    with cassette.replaying():
        again = outputs(run(scripted(*turns), [lookup_order]))
    assert first == again == ["LookupError: order Z-9 not found"]
    assert calls == ["Z-9"]


def test_a_changed_argument_by_mode(ran: list[dict[str, Any]]) -> None:
    def changed() -> Any:
        return run(scripted([("lookup_order", {"order_id": "A-2"})], "ok"), support_tools(ran))

    cassette = Cassette()
    with cassette.recording():
        run(scripted([("lookup_order", {"order_id": "A-1"})], "ok"), support_tools(ran))
    ran.clear()
    model = scripted([("lookup_order", {"order_id": "A-2"})], "ok")
    with pytest.raises(CassetteMissError, match="A-2"), cassette.replaying(mode="strict"):
        run(model, support_tools(ran))
    assert len(model.calls) == 1  # the miss ended the run: the model was not told of an error
    with cassette.replaying(mode="lenient") as session:
        assert "A-1" in outputs(changed())[0]
    assert (ran, len(session.divergences)) == ([], 1)
    with cassette.replaying(mode="fallthrough") as session:
        assert "A-2" in outputs(changed())[0]
    assert (ran, session.summary.live) == ([{"order_id": "A-2"}], 1)


def test_a_tool_with_an_invoker_of_its_own(ran: list[dict[str, Any]]) -> None:
    async def invoke(ctx: Any, arguments: str) -> str:
        ran.append(json.loads(arguments))
        return "played"

    def tool(name: str) -> FunctionTool:
        schema = {"type": "object", "properties": {"song": {"type": "string"}}}
        return FunctionTool(
            name=name,
            description="Play.",
            params_json_schema=schema,
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )

    play = tool("play")
    assert play.on_invoke_tool is invoke
    turns = ([("play", {"song": "a"})], "done")
    cassette = Cassette()
    with cassette.recording():
        first = outputs(run(scripted(*turns), [play]))
        assert play.on_invoke_tool is play.on_invoke_tool
        renamed = copy.copy(play)
    with cassette.replaying() as session:
        assert outputs(run(scripted(*turns), [play])) == first == ["played"]
    assert (ran, session.summary.served) == ([{"song": "a"}], 1)
    assert cassette.entries[0].request == {"song": "a"}
    assert play.on_invoke_tool is renamed.on_invoke_tool is invoke


def test_an_agent_as_a_tool_is_played_whole_and_its_tools_belong_to_it(
    ran: list[dict[str, Any]],
) -> None:
    def team() -> Agent:
        inner = Agent(
            name="clerk",
            model=scripted([("lookup_order", {"order_id": "A-1"})], "it is lost"),
            tools=list(support_tools(ran)),
        )
        ask = inner.as_tool(tool_name="ask_clerk", tool_description="Ask.")
        return Agent(
            name="boss", model=scripted([("ask_clerk", {"input": "A-1?"})], "ok"), tools=[ask]
        )

    config = RunConfig(tracing_disabled=True)
    cassette = Cassette()
    with cassette.recording():
        first = asyncio.run(Runner.run(team(), "hello", run_config=config))
    assert [e.name for e in cassette.entries] == ["ask_clerk"]
    assert [(e.name, e.parent.index) for e in cassette.nested] == [("lookup_order", 0)]
    with cassette.replaying() as session:
        again = asyncio.run(Runner.run(team(), "hello", run_config=config))
    assert outputs(again) == outputs(first) == ["it is lost"]
    assert (len(ran), session.summary.served) == (1, 1)


def test_streamed_runs_are_answered_too(ran: list[dict[str, Any]]) -> None:
    async def streamed() -> Any:
        agent = Agent(
            name="support_agent",
            model=scripted([("lookup_order", {"order_id": "A-1"})], "ok"),
            tools=list(support_tools(ran)),
        )
        result = Runner.run_streamed(agent, "hi", run_config=RunConfig(tracing_disabled=True))
        async for _ in result.stream_events():
            pass
        return outputs(result)

    cassette = Cassette()
    with cassette.recording():
        first = asyncio.run(streamed())
    with cassette.replaying():
        assert asyncio.run(streamed()) == first
    assert len(ran) == 1
