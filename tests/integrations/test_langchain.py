"""Tools of LangChain and LangGraph in a session: `create_agent` with a scripted chat model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    Tool,
    ToolException,
    tool,
)
from langgraph.types import Command

from otel_cassette import Cassette, CassetteError, CassetteMissError


class ScriptedModel(GenericFakeChatModel):
    """Says what the script says, whatever the tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self


def scripted(*turns: Any) -> ScriptedModel:
    """Each turn is a text, or a list of `(tool, arguments)`."""
    messages = []
    for number, turn in enumerate(turns):
        if isinstance(turn, str):
            messages.append(AIMessage(turn))
            continue
        calls = [
            {"name": name, "args": args, "id": f"call_{number}_{place}", "type": "tool_call"}
            for place, (name, args) in enumerate(turn)
        ]
        messages.append(AIMessage("", tool_calls=calls))
    return ScriptedModel(messages=iter(messages))


def support_tools(ran: list[dict[str, Any]]) -> list[BaseTool]:
    @tool
    def lookup_order(order_id: str) -> dict:  # type: ignore[type-arg]
        """Look up an order by id."""
        ran.append({"order_id": order_id})
        return {"order_id": order_id, "status": "lost"}

    @tool
    async def refund(order_id: str, amount: float) -> str:
        """Refund an order."""
        ran.append({"order_id": order_id, "amount": amount})
        return "refunded for real"

    return [lookup_order, refund]


@pytest.fixture(autouse=True)
def _instrumented(instrument: Callable[[str], None]) -> None:
    instrument("langchain")


def as_call(name: str, args: dict[str, Any], call_id: str = "call_live") -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    return [m for m in state["messages"] if isinstance(m, ToolMessage)]


def test_an_agent_replays_the_tools_of_an_exported_trace(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    run = recorded("dialects/openinference/langchain-openinference/refund__responses")
    turns = [[(call["name"], call["request"])] for call in run.tools]
    agent = create_agent(scripted(*turns, run.output), support_tools(ran))
    with run.cassette.replaying(kinds={"tool"}) as session:
        state = asyncio.run(agent.ainvoke({"messages": [("user", "Please refund my order A-17.")]}))
    results = [m.content for m in tool_messages(state)]
    assert json.loads(results[0]) == run.tools[0]["response"]
    assert results[1] == run.tools[1]["response"]
    assert [m.tool_call_id for m in tool_messages(state)] == ["call_0_0", "call_1_0"]
    assert ran == []
    assert (session.summary.served, session.unplayed, session.divergences) == (2, [], [])


def test_a_failure_of_an_exported_trace_is_raised_where_it_happened(
    recorded: Any, ran: list[dict[str, Any]]
) -> None:
    run = recorded("dialects/openinference/langchain-openinference/tool_error")
    failure = run.tools[0]
    agent = create_agent(
        scripted([(failure["name"], failure["request"])], "unreached"), support_tools(ran)
    )
    with run.cassette.replaying(kinds={"tool"}), pytest.raises(ValueError, match="Z-99") as caught:
        asyncio.run(agent.ainvoke({"messages": [("user", "Please refund my order Z-99.")]}))
    assert str(caught.value) == failure["error"]["message"]
    assert ran == []


def test_recording_and_replaying_give_the_same_messages(ran: list[dict[str, Any]]) -> None:
    turns = (
        [("lookup_order", {"order_id": "A-1"}), ("lookup_order", {"order_id": "A-2"})],
        [("refund", {"order_id": "A-1", "amount": 5})],
        "done",
    )

    async def run() -> list[Any]:
        agent = create_agent(scripted(*turns), support_tools(ran))
        state = await agent.ainvoke({"messages": [("user", "hello")]})
        return [(m.content, m.name, m.status, m.artifact) for m in tool_messages(state)]

    cassette = Cassette()
    with cassette.recording():
        first = asyncio.run(run())
    *looked_up, last = [(e.kind, e.name, e.request) for e in cassette.entries]
    # The two of one turn run in threads of an executor: either may come first.
    assert sorted(looked_up, key=str) == [
        ("tool", "lookup_order", {"order_id": "A-1"}),
        ("tool", "lookup_order", {"order_id": "A-2"}),
    ]
    assert last == ("tool", "refund", {"order_id": "A-1", "amount": 5})
    assert len(ran) == 3
    with cassette.replaying() as session:
        assert asyncio.run(run()) == first
    assert len(ran) == 3
    assert (session.summary.served, session.divergences) == (3, [])


def test_the_sync_path_is_answered_too(ran: list[dict[str, Any]]) -> None:
    lookup_order, _ = support_tools(ran)
    cassette = Cassette()
    with cassette.recording():
        first = lookup_order.invoke(as_call("lookup_order", {"order_id": "A-1"}))
        plain = lookup_order.invoke({"order_id": "A-1"})
    with cassette.replaying():
        again = lookup_order.invoke(as_call("lookup_order", {"order_id": "A-1"}, "call_other"))
        assert lookup_order.invoke({"order_id": "A-1"}) == plain
    assert again.content == first.content
    assert again.tool_call_id == "call_other"
    assert len(ran) == 2


def test_a_changed_argument_is_a_miss_in_strict_and_nothing_runs(ran: list[dict[str, Any]]) -> None:
    lookup_order, _ = support_tools(ran)
    cassette = Cassette()
    with cassette.recording():
        lookup_order.invoke({"order_id": "A-1"})
    ran.clear()
    with pytest.raises(CassetteMissError, match="A-2"), cassette.replaying():
        lookup_order.invoke({"order_id": "A-2"})
    assert ran == []
    assert cassette.divergences[0].reason == "request_changed"


def test_a_changed_argument_is_answered_in_lenient(ran: list[dict[str, Any]]) -> None:
    lookup_order, _ = support_tools(ran)
    cassette = Cassette()
    with cassette.recording():
        first = lookup_order.invoke({"order_id": "A-1"})
    ran.clear()
    with cassette.replaying(mode="lenient") as session:
        assert lookup_order.invoke({"order_id": "A-2"}) == first
    assert ran == []
    assert [d.reason for d in session.divergences] == ["request_changed"]


def test_a_changed_argument_runs_for_real_in_fallthrough(ran: list[dict[str, Any]]) -> None:
    lookup_order, _ = support_tools(ran)
    cassette = Cassette()
    with cassette.recording():
        lookup_order.invoke({"order_id": "A-1"})
    ran.clear()
    cassette.mode = "fallthrough"
    with cassette.replaying(record_new=True) as session:
        assert lookup_order.invoke({"order_id": "A-2"})["order_id"] == "A-2"
    assert ran == [{"order_id": "A-2"}]
    assert session.summary.live == 1
    assert cassette.entries[0].request == {"order_id": "A-2"}


def test_a_miss_ends_the_block_though_the_agent_hides_it(ran: list[dict[str, Any]]) -> None:
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(support_tools(ran), handle_tool_errors=True))
    graph.add_edge(START, "tools")
    app = graph.compile()
    asked = AIMessage("", tool_calls=[as_call("lookup_order", {"order_id": "A-9"})])
    hidden = []
    with pytest.raises(CassetteMissError), Cassette(mode="strict").replaying():
        hidden = tool_messages(app.invoke({"messages": [asked]}))
    assert hidden[0].status == "error"
    assert ran == []


def test_tools_that_run_live_are_compared_only(ran: list[dict[str, Any]]) -> None:
    lookup_order, _ = support_tools(ran)
    cassette = Cassette()
    with cassette.recording():
        lookup_order.invoke({"order_id": "A-1"})
    with cassette.replaying(kinds={"llm"}) as session:
        lookup_order.invoke({"order_id": "A-1"})
    assert len(ran) == 2
    assert session.divergences == []


def test_a_tool_error_is_handled_as_when_it_was_recorded() -> None:
    refused = ToolException("card expired")

    @tool
    def pay(amount: float) -> str:
        """Pay."""
        raise refused

    pay.handle_tool_error = True
    cassette = Cassette()
    with cassette.recording():
        first = pay.invoke(as_call("pay", {"amount": 1.0}))
    assert cassette.failures[0].error.type == "langchain_core.tools.base.ToolException"
    with cassette.replaying():
        again = pay.invoke(as_call("pay", {"amount": 1.0}))
    assert (again.content, again.status) == (first.content, "error") == ("card expired", "error")


def test_an_artifact_comes_back(ran: list[dict[str, Any]]) -> None:
    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[dict[str, Any]]]:
        """Search."""
        ran.append({"query": query})
        return "2 hits", [{"id": 1}, {"id": 2}]

    cassette = Cassette()
    with cassette.recording():
        first = search.invoke(as_call("search", {"query": "x"}))
    with cassette.replaying():
        again = search.invoke(as_call("search", {"query": "x"}))
    assert (again.content, again.artifact) == (first.content, first.artifact)
    assert again.artifact == [{"id": 1}, {"id": 2}]
    assert len(ran) == 1


def test_an_artifact_that_a_trace_does_not_hold_is_none() -> None:
    @tool(response_format="content_and_artifact")
    def lookup_order(order_id: str) -> tuple[str, Any]:
        """Look up."""
        raise AssertionError(order_id)

    entry = {"kind": "tool", "index": 0, "name": "lookup_order", "request": {"order_id": "A"}}
    from otel_cassette import CassetteEntry

    cassette = Cassette([CassetteEntry(**entry, response={"status": "sent"})], mode="strict")
    with cassette.replaying():
        message = lookup_order.invoke(as_call("lookup_order", {"order_id": "A"}))
    assert (json.loads(message.content), message.artifact) == ({"status": "sent"}, None)


def test_messages_and_commands_come_back_as_such(ran: list[dict[str, Any]]) -> None:
    @tool
    def hand_over(team: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:  # type: ignore[type-arg]
        """Hand over."""
        ran.append({"team": team})
        message = ToolMessage(f"handed to {team}", tool_call_id=tool_call_id)
        return Command(update={"messages": [message], "team": team}, goto="billing")

    cassette = Cassette()
    with cassette.recording():
        hand_over.invoke(as_call("hand_over", {"team": "billing"}, "call_first"))
    assert cassette.entries[0].request == {"team": "billing"}
    with cassette.replaying():
        again = hand_over.invoke(as_call("hand_over", {"team": "billing"}, "call_second"))
    assert isinstance(again, Command)
    assert (again.goto, again.update["team"]) == ("billing", "billing")
    message = again.update["messages"][0]
    assert isinstance(message, ToolMessage)
    assert (message.content, message.tool_call_id) == ("handed to billing", "call_second")
    assert len(ran) == 1


def test_injected_arguments_are_none_of_the_models() -> None:
    @tool
    def note(text: str, user: Annotated[object, InjectedToolArg]) -> str:
        """Note."""
        return f"{text} by {user}"

    cassette = Cassette()
    with cassette.recording():
        note.invoke({"text": "hello", "user": "u-1"})
    assert cassette.entries[0].request == {"text": "hello"}
    with cassette.replaying():
        assert note.invoke({"text": "hello", "user": "u-2"}) == "hello by u-1"


def test_a_tool_of_one_string_has_its_argument_by_name(ran: list[dict[str, Any]]) -> None:
    def shout(text: str) -> str:
        ran.append({"text": text})
        return text.upper()

    old = Tool(name="shout", func=shout, description="Shout.")
    cassette = Cassette()
    with cassette.recording():
        assert old.invoke("hey") == "HEY"
    with cassette.replaying():
        assert old.invoke("hey") == "HEY"
    assert ran == [{"text": "hey"}]
    assert list(cassette.entries[0].request.values()) == ["hey"]


def test_a_tool_class_keeps_its_own_state() -> None:
    class Counter(BaseTool):
        name: str = "count"
        description: str = "Count."
        total: int = 0

        def _run(self, step: int) -> int:
            self.total += step
            return self.total

    counter = Counter()
    cassette = Cassette()
    with cassette.recording():
        assert [counter.invoke({"step": 2}), asyncio.run(counter.ainvoke({"step": 3}))] == [2, 5]
    assert counter.total == 5
    assert [e.response for e in cassette.entries] == [2, 5]
    with cassette.replaying():
        assert [counter.invoke({"step": 2}), counter.invoke({"step": 3})] == [2, 5]
    assert counter.total == 5


def test_callbacks_see_a_played_tool_as_a_real_one(ran: list[dict[str, Any]]) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    class Seen(BaseCallbackHandler):
        def __init__(self) -> None:
            self.events: list[Any] = []

        def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
            self.events.append(("start", serialized["name"], kwargs["inputs"]))

        def on_tool_end(self, output: Any, **kwargs: Any) -> None:
            self.events.append(("end", output))

    lookup_order, _ = support_tools(ran)
    cassette = Cassette()
    recorded, played = Seen(), Seen()
    with cassette.recording():
        lookup_order.invoke({"order_id": "A-1"}, config={"callbacks": [recorded]})
    with cassette.replaying():
        lookup_order.invoke({"order_id": "A-1"}, config={"callbacks": [played]})
    assert played.events == recorded.events
    assert len(played.events) == 2


def test_model_calls_inside_a_tool_belong_to_it() -> None:
    class Client:
        def complete(self, request: Any) -> str:
            return "a summary"

    cassette = Cassette()
    client = cassette.wrap_llm(Client(), model="m")

    @tool
    def summarise(text: str) -> str:
        """Summarise."""
        return client.complete(text).text or ""

    @tool
    async def report(text: str) -> str:
        """Report."""
        return await summarise.ainvoke({"text": text})

    with cassette.recording():
        assert asyncio.run(report.ainvoke({"text": "long"})) == "a summary"
    assert [(e.kind, e.name) for e in cassette.entries] == [("tool", "report")]
    inner_tool, inner_model = sorted(cassette.nested, key=lambda e: e.kind, reverse=True)
    assert (inner_tool.name, inner_tool.parent.kind, inner_tool.parent.parent) == (
        "summarise",
        "tool",
        None,
    )
    assert (inner_model.kind, inner_model.parent.parent) == ("llm", inner_tool.parent)
    with cassette.replaying() as session:
        assert asyncio.run(report.ainvoke({"text": "long"})) == "a summary"
    assert session.summary.served == 1


def test_an_interrupt_passes_and_the_resumed_call_is_recorded(ran: list[dict[str, Any]]) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import interrupt

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        answer = interrupt({"pay": amount})
        ran.append({"amount": amount})
        return f"paid: {answer}"

    agent = create_agent(
        scripted([("pay", {"amount": 3})], "done"), [pay], checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t"}}
    cassette = Cassette()
    with cassette.recording():
        asked = agent.invoke({"messages": [("user", "pay")]}, config)
        done = agent.invoke(Command(resume="yes"), config)
    assert asked["__interrupt__"][0].value == {"pay": 3}
    assert tool_messages(done)[0].content == "paid: yes"
    assert [(e.name, e.response) for e in cassette.entries] == [("pay", "paid: yes")]
    assert (cassette.failures, ran) == ([], [{"amount": 3}])


def test_a_result_without_json_is_what_the_model_is_told() -> None:
    class Opaque:
        def __str__(self) -> str:
            return "an opaque thing"

    @tool
    def fetch() -> Any:
        """Fetch."""
        return Opaque()

    cassette = Cassette()
    with cassette.recording():
        first = fetch.invoke(as_call("fetch", {}))
    with cassette.replaying():
        again = fetch.invoke(as_call("fetch", {}))
    assert again.content == first.content == "an opaque thing"


def test_an_argument_without_json_is_named() -> None:
    @tool
    def keep(thing: Any) -> str:
        """Keep."""
        return "kept"

    with Cassette().recording(), pytest.raises(CassetteError, match=r"'thing' of tool 'keep'"):
        keep.invoke({"thing": object()})


def test_without_a_session_nothing_changes(ran: list[dict[str, Any]]) -> None:
    lookup_order, _ = support_tools(ran)
    assert lookup_order.invoke({"order_id": "A-1"})["status"] == "lost"
    assert ran == [{"order_id": "A-1"}]
