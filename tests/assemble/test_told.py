"""Tools that a recording without spans of them tells of."""

from __future__ import annotations

from typing import Any

from otel_cassette import CassetteEntry
from otel_cassette.assemble.told import with_told_tools


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def asks(*calls: tuple[str | None, str, dict[str, Any]]) -> dict[str, Any]:
    parts = [{"type": "tool_call", "name": name, "arguments": given} for _, name, given in calls]
    for part, (call_id, _, _) in zip(parts, calls, strict=True):
        if call_id is not None:
            part["id"] = call_id
    return {"role": "assistant", "parts": parts}


def told(call_id: str | None, value: Any, name: str | None = None) -> dict[str, Any]:
    part = {"type": "tool_call_response", "response": value}
    part.update({"id": call_id} if call_id is not None else {})
    part.update({"name": name} if name is not None else {})
    return {"role": "tool", "parts": [part]}


def entries(*turns: tuple[list[Any], Any], provider: str = "openai") -> list[CassetteEntry]:
    return [
        CassetteEntry(
            kind="llm",
            index=index,
            request={"provider": provider, "messages": messages},
            response={"choices": [{"message": answer}]},
        )
        for index, (messages, answer) in enumerate(turns)
    ]


def tools(records: list[Any]) -> list[tuple[str | None, Any, Any]]:
    return [(r.name, r.request, r.response) for r in records if r.kind == "tool"]


DONE = {"role": "assistant", "content": "done"}


def test_ids_that_a_provider_counts_per_answer_do_not_mix_turns_up() -> None:
    one, two = asks(("call_0", "f", {"n": 1})), asks(("call_0", "f", {"n": 2}))
    first = [user("a"), one, told("call_0", "one")]
    second = [*first, DONE, user("b")]
    made = with_told_tools(
        entries(
            ([user("a")], one),
            (first, DONE),
            (second, two),
            ([*second, two, told("call_0", "two")], DONE),
        )
    )
    assert tools(made) == [("f", {"n": 1}, "one"), ("f", {"n": 2}, "two")]
    assert [r.kind for r in made] == ["llm", "tool", "llm", "llm", "tool", "llm"]


def test_the_same_id_and_arguments_again_are_the_next_call() -> None:
    again = asks(("call_0", "f", {}))
    first = [user("a"), again, told("call_0", "one")]
    made = with_told_tools(
        entries(
            ([user("a")], again), (first, again), ([*first, again, told("call_0", "two")], DONE)
        )
    )
    assert tools(made) == [("f", {}, "one"), ("f", {}, "two")]


def test_the_same_call_in_another_conversation_has_its_own_result() -> None:
    for call_id in ("call_0", None):
        asked = asks((call_id, "f", {}), (call_id, "f", {}))
        results = [told(call_id, value) for value in ("one", "two", "three", "four")]
        made = with_told_tools(
            entries(
                ([user("a")], asked),
                ([user("a"), asked, *results[:2]], DONE),
                ([user("b")], asked),
                ([user("b"), asked, *results[2:]], DONE),
            )
        )
        assert [value for _, _, value in tools(made)] == ["one", "two", "three", "four"]


def test_results_without_ids_go_by_name_and_lose_gemini_s_wrapping() -> None:
    both = asks((None, "f", {}), (None, "g", {}))
    results = [told(None, {"result": "G"}, "g"), told(None, {"result": "F"}, "f")]
    made = with_told_tools(
        entries(([user("a")], both), ([user("a"), both, *results], DONE), provider="gcp.gemini")
    )
    assert tools(made) == [("f", {}, "F"), ("g", {}, "G")]


def test_a_recording_that_knows_of_tools_is_left_alone() -> None:
    asked = asks(("c1", "f", {}))
    model = entries(([user("a")], asked), ([user("a"), asked, told("c1", 1)], DONE))
    own = CassetteEntry(kind="tool", index=0, name="f", request={}, response=1)
    assert with_told_tools([*model, own]) == [*model, own]
