"""Replaying a session: which step a call gets, and what departs."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from otel_cassette.harness import Fixture, MockLayer, ReplayError, Step, StepType

DATA = Path(__file__).parent.parent / "data" / "sessions"
TOOL, LLM, RETRIEVAL = StepType.TOOL_CALL, StepType.LLM, StepType.RETRIEVAL


def _fixture(*steps: tuple[StepType, str, dict[str, Any], Any]) -> Fixture:
    return Fixture("s", "q", [Step(*step) for step in steps])


def test_steps_are_served_in_one_order_over_the_kinds_bound() -> None:
    fixture = Fixture.from_json((DATA / "refund_1_2.json").read_bytes())
    mock = MockLayer(fixture)
    plan, answer = mock.llm("plan"), mock.llm("answer")
    lookup, policies = mock.tool("lookup_order"), mock.retrieval("policies")
    assert plan(prompt="Please refund order A-1003.") == {
        "action": "lookup_order",
        "order_id": "A-1003",
    }
    with pytest.raises(
        ReplayError, match=r"^Expected 'lookup_order' but agent called 'policies'\n"
    ):
        policies(query="refund delivered order", k=2)
    assert lookup("A-1003")["total"] == 20.5
    assert policies("refund delivered order", k=2)[0].startswith("Delivered")
    assert mock.unplayed == [fixture.steps[3]]
    answer(
        model="gpt-4o-mini", messages=[{"role": "user", "content": "Please refund order A-1003."}]
    )
    assert mock.unplayed == []
    assert mock.served == fixture.steps
    with pytest.raises(
        ReplayError, match=r"^No recorded step left for tool 'lookup_order'\n"
    ) as caught:
        lookup("A-1003")
    assert caught.value.divergence.reason == "extra_call"
    assert caught.value.divergence.index == 1
    with pytest.raises(ReplayError, match=r"^No recorded step left for llm 'plan'"):
        plan("x")


def test_steps_of_kinds_that_are_not_bound_do_not_count() -> None:
    mock = MockLayer(Fixture.from_json((DATA / "refund_1_2.json").read_bytes()))
    assert mock.tool("lookup_order")(order_id="A-1003")["delivered"] is True
    assert mock.unplayed == []


def test_a_name_bound_as_a_tool_is_served_whatever_its_type() -> None:
    fixture = Fixture.from_json((DATA / "refund_1_2.json").read_bytes())
    mock = MockLayer(fixture)
    bound = {name: mock.tool(name) for name in ("plan", "lookup_order", "policies", "answer")}
    for step in fixture.steps:
        assert bound[step.name](**step.args) == step.output
    assert mock.unplayed == []


def test_a_name_mismatch_leaves_the_place() -> None:
    mock = MockLayer(_fixture((TOOL, "a", {"x": 1}, "A"), (TOOL, "b", {}, "B")))
    a, b = mock.tool("a"), mock.tool("b")
    for _ in range(2):
        with pytest.raises(ReplayError, match=r"^Expected 'a' but agent called 'b'\n") as caught:
            b()
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert (error.divergence.reason, error.divergence.index) == ("tool_changed", 0)
    assert (error.divergence.expected_name, error.divergence.actual_name) == ("a", "b")
    assert str(error).endswith(error.divergence.diff)
    assert '-  "name": "a"' in error.divergence.diff
    assert a(1) == "A"
    assert b() == "B"
    assert len(mock.divergences) == len(mock.errors) == 2


def test_the_same_name_of_another_type_says_the_types() -> None:
    mock = MockLayer(_fixture((LLM, "x", {}, 1), (TOOL, "x", {}, 2)))
    retrieval, llm = mock.retrieval("x"), mock.llm("x")
    with pytest.raises(
        ReplayError, match=r"^Expected 'x' \(llm\) but agent called 'x' \(retrieval\)"
    ):
        retrieval()
    assert llm() == 1


def test_other_arguments_are_an_error_with_fields_and_diff_and_leave_the_place() -> None:
    mock = MockLayer(_fixture((TOOL, "refund", {"order_id": "A-1003", "amount": 20.5}, "ok")))
    refund = mock.tool("refund")
    with pytest.raises(ReplayError) as caught:
        refund(order_id="A-1003", amount=205)
    divergence = caught.value.divergence
    assert (divergence.reason, divergence.kind, divergence.fields) == (
        "request_changed",
        "tool",
        ("/arguments/amount",),
    )
    assert divergence.expected_request == {"order_id": "A-1003", "amount": 20.5}
    assert divergence.actual_request == {"order_id": "A-1003", "amount": 205}
    assert '-    "amount": 20.5,\n+    "amount": 205,' in str(caught.value)
    assert 'mode="lenient"' in str(caught.value)
    assert refund("A-1003", 20.5) == "ok"


def test_lenient_ignores_arguments_but_not_names() -> None:
    mock = MockLayer(
        _fixture((TOOL, "refund", {"amount": 20.5}, "ok"), (TOOL, "mail", {}, "sent")),
        mode="lenient",
    )
    assert mock.tool("refund")(amount=1, extra=True) == "ok"
    assert [d.reason for d in mock.divergences] == ["request_changed"]
    assert mock.divergences[0].mode == "lenient"
    mock.tool("mail")
    with pytest.raises(ReplayError, match="Expected 'mail' but agent called 'refund'"):
        mock.tool("refund")(amount=20.5)
    with pytest.raises(ValueError, match="'strict' and 'lenient'"):
        MockLayer(Fixture("s", "q"), mode="loose")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recorded", "args", "kwargs"),
    [
        ({"a": 1, "b": 2}, (1, 2), {}),
        ({"a": 1, "b": 2}, (1,), {"b": 2}),
        ({"a": 1, "b": 2}, (), {"b": 2, "a": 1.0}),
        ({"a": 1, "more": [2, 3]}, (1, 2, 3), {}),
        ({"items": [1]}, ([1],), {}),
        ({"items": [1]}, (1,), {}),
        ({"arg0": 3, "arg1": 7}, (3, 7), {}),
        ({}, (), {}),
    ],
)
def test_positional_arguments_go_by_the_recorded_names(
    recorded: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert MockLayer(_fixture((TOOL, "t", recorded, "ok"))).tool("t")(*args, **kwargs) == "ok"


@pytest.mark.parametrize(
    ("recorded", "args", "kwargs"),
    [
        ({"a": 1}, (1, 2), {}),
        ({"a": 1}, (), {}),
        ({"a": 1}, (True,), {}),
        ({"a": "1"}, (1,), {}),
        ({"a": 2**53}, (2**53 + 1,), {}),
        ({"a": None}, (), {}),
        ({"more": [2, 3]}, (3, 2), {}),
    ],
)
def test_other_arguments_never_pass(
    recorded: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(ReplayError):
        MockLayer(_fixture((TOOL, "t", recorded, "ok"))).tool("t")(*args, **kwargs)


def test_model_requests_are_compared_as_such() -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    parts = {
        "model": "m",
        "messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
    }
    assert MockLayer(_fixture((LLM, "llm", chat, "ok"))).llm("llm")(**parts, tools=None) == "ok"
    changed = {"model": "m", "messages": [{"role": "user", "content": "ho"}]}
    with pytest.raises(ReplayError) as caught:
        MockLayer(_fixture((LLM, "llm", chat, "ok"))).llm("llm")(**changed)
    assert caught.value.divergence.fields == ("/messages/0/parts/0/content",)
    # a field that a request does not have is compared all the same
    with pytest.raises(ReplayError):
        MockLayer(_fixture((LLM, "llm", {**chat, "temperature": 0}, "ok"))).llm("llm")(
            **chat, temperature=1
        )


def test_outputs_are_copies() -> None:
    fixture = _fixture((TOOL, "t", {}, {"items": []}))
    MockLayer(fixture).tool("t")()["items"].append(1)
    assert MockLayer(fixture).tool("t")() == {"items": []}


def test_an_error_survives_pickling() -> None:
    with pytest.raises(ReplayError) as caught:
        MockLayer(Fixture("s", "q")).tool("t")(x=1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.divergence == caught.value.divergence
    assert json.dumps(again.divergence.to_dict())


def test_threads_share_one_order_and_each_step_is_served_once() -> None:
    mock = MockLayer(_fixture(*[(TOOL, "t", {"x": 1}, i) for i in range(200)]))
    tool = mock.tool("t")
    got: list[int] = []
    threads = [
        threading.Thread(target=lambda: got.extend(tool(1) for _ in range(25))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(200))
