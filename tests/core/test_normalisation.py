# ruff: noqa: E501 - one case a row reads better than one a screen
"""Each rule of docs/normalisation.md: spellings that are one request, and meanings that are two."""

from __future__ import annotations

import base64
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette import llm_key
from otel_cassette.keys import compare, full_scope, llm_request

PAGE = (Path(__file__).parents[2] / "docs" / "normalisation.md").read_text("utf-8")
USER = {"role": "user", "content": "hi"}


def call(arguments: Any, ident: str | None = "c1", name: str = "f") -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_call", "name": name, "arguments": arguments}
    return part if ident is None else {**part, "id": ident}


def result(value: Any, ident: str | None = "c1", key: str = "response") -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_call_response", key: value}
    return part if ident is None else {**part, "id": ident}


def named(value: Any, name: str) -> dict[str, Any]:
    return {**result(value, None), "name": name}


def turn(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), **fields}


PNG = base64.b64encode(b"png").decode()
TOOL = {"name": "add", "parameters": {"type": "object", "properties": {"a_b": {"type": "string"}}}}

# rule -> groups; the requests of a group are one, those of different groups are different.
RULES: dict[int, list[list[dict[str, Any]]]] = {
    1: [
        [
            chat(USER, turn("assistant", call({"a": 1, "b": [1.0]}))),
            chat(USER, turn("assistant", call('{"b":[1],  "a":1.0}'))),
        ],
        [chat(USER, turn("assistant", call(nothing))) for nothing in (None, "", {}, "{}")],
        [chat(USER, turn("assistant", call({"a": True, "b": [1]})))],
        [chat(USER, turn("assistant", call('{"a": 1')))],
    ],
    2: [
        [
            chat({"role": "system", "content": "be\nbrief"}, USER),
            chat({"role": "system", "content": "be"}, {"role": "system", "content": "brief"}, USER),
            chat(USER, system_instructions=[text("be\nbrief")]),
            chat({"role": "system", "content": "brief"}, USER, system_instructions=[text("be")]),
        ],
        [chat(USER, {"role": "system", "content": "be\nbrief"})],
        [chat(USER)],
        [chat({"role": "user", "content": "be\nbrief\nhi"})],
    ],
    3: [
        [chat({"role": "developer", "content": "x"}, USER), chat({"role": "system", "content": "x"}, USER)],
        [chat({"role": "user", "content": "x"}, USER)],
    ],
    4: [
        [
            chat(USER, turn("assistant", call({}), call({}, "c2")), turn("tool", result(1)), turn("tool", result(2, "c2"))),
            chat(USER, turn("assistant", call({}), call({}, "c2")), turn("user", result(1), result(2, "c2"))),
            chat(
                USER,
                turn("assistant", call({}), call({}, "c2")),
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "2"},
                ]},
            ),
        ],
        [chat(USER, turn("assistant", call({}), call({}, "c2")), turn("user", result(1), result(2, "c2"), text("and?")))],
    ],
    5: [
        [
            chat(USER, turn("assistant", call({})), turn("tool", result(value, key=key)))
            for value in ({"a": 1}, '{"a": 1.0}', [{"type": "text", "text": '{"a":1}'}], [{"text": '{"a":1}'}])
            for key in ("response", "result")
        ],
        [
            chat(USER, turn("assistant", call({})), turn("tool", result(value)))
            for value in ("no such order", {"error": "no such order"}, '{"error": "no such order"}')
        ],
        [chat(USER, turn("assistant", call({})), turn("tool", result({"a": 2})))],
        [chat(USER, turn("assistant", call({})), turn("tool", result({"error": "no such order", "code": 4})))],
    ],
    6: [
        [
            chat(USER, turn("assistant", call({"n": 1}), call({"n": 2}, "c2")), turn("tool", result("A")), turn("tool", result("B", "c2"))),
            chat(USER, turn("assistant", call({"n": 1}), call({"n": 2}, "c2")), turn("tool", result("B", "c2")), turn("tool", result("A"))),
        ],
        [chat(USER, turn("assistant", call({"n": 1}), call({"n": 2}, "c2")), turn("tool", result("B")), turn("tool", result("A", "c2")))],
    ],
    7: [
        [
            chat(USER, turn("assistant", text("look"), call({"n": 1}), call({"n": 2}, "c2"))),
            chat(USER, turn("assistant", call({"n": 1}), text("look"), call({"n": 2}, "c2"))),
            chat(USER, turn("assistant", call({"n": 1}), call({"n": 2}, "c2"), text("look"))),
        ],
        [chat(USER, turn("assistant", text("look"), call({"n": 2}), call({"n": 1}, "c2")))],
    ],
    8: [
        [
            chat(USER, {"role": "assistant", "content": content, "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]})
            for content in (None, "", [])
        ]
        + [chat(USER, turn("assistant", {"type": "reasoning", "content": ""}, call({})))],
        [chat(USER, turn("assistant", text(" "), call({})))],
    ],
    9: [
        [
            chat(USER, turn("assistant", text("one")), turn("assistant", call({}))),
            chat(USER, turn("assistant", text("one"), call({}))),
        ],
        [chat(USER, {"role": "user", "content": "there"}), chat({"role": "user", "content": "hi\nthere"})],
        [chat(USER, turn("assistant", text("there")))],
        [chat(USER, {**turn("assistant", text("there")), "prefix": True})],
    ],
    10: [
        [
            chat({"role": "user", "content": "a\nb"}),
            chat({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            chat(turn("user", text("a"), text("b"))),
        ],
        [chat({"role": "user", "content": "a b"})],
        [chat(turn("user", text("a"), {"type": "uri", "uri": "http://x"}, text("b")))],
    ],
    11: [
        [
            chat(USER, turn("assistant", call({}, one), call({}, two)), turn("tool", result("A", one)), turn("tool", result("B", two)))
            for one, two in (("c1", "c2"), ("toolu_9", "toolu_3"))
        ]
        + [chat(USER, turn("assistant", call({}, None), call({}, None)), turn("tool", result("A", None)), turn("tool", result("B", None)))],
        [chat(USER, turn("assistant", call({}), call({}, "c2")), turn("tool", result("A", "c2")), turn("tool", result("B", "c1")))],
        # Without ids the name says whose a result is, in any order; without a name the order does.
        [
            chat(USER, turn("assistant", call({}, None, "f"), call({}, None, "g")), turn("user", *results))
            for results in (
                [named("A", "f"), named("B", "g")],
                [named("B", "g"), named("A", "f")],
                [result("A", None), result("B", None)],
                [named("B", "g"), result("A", None)],
            )
        ],
        [chat(USER, turn("assistant", call({}, None, "f"), call({}, None, "g")), turn("user", named("A", "g"), named("B", "f")))],
    ],
    12: [
        [
            chat(turn("user", {"type": "blob", "mime_type": "image/png", "content": PNG})),
            chat(turn("user", {"type": "blob", "mime_type": "image/png", "content": PNG, "modality": "image"})),
            chat(turn("user", {"type": "uri", "uri": f"data:image/png;base64,{PNG}"})),
            chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"}}]}),
        ],
        [chat(turn("user", {"type": "blob", "mime_type": "image/jpeg", "content": PNG}))],
        [chat(turn("user", {"type": "blob", "mime_type": "image/png", "content": PNG[:-4]}))],
        [
            chat(turn("user", {"type": "uri", "uri": "https://x/p.png"})),
            chat(turn("user", {"type": "uri", "uri": "https://x/p.png", "modality": "image", "mime_type": None})),
        ],
        [chat(turn("user", {"type": "uri", "uri": "https://x/q.png"}))],
        [chat(turn("user", {"type": "file", "file_id": "f1"})), chat(turn("user", {"type": "file", "file_id": "f1", "modality": "image"}))],
    ],
    13: [
        [
            chat(USER, turn("assistant", {"type": "reasoning", "content": "so", **more}, text("x")))
            for more in ({}, {"signature": "abc"}, {"id": "rs_1"})
        ],
        [chat(USER, turn("assistant", {"type": "reasoning", "content": "hence"}, text("x")))],
        [chat(USER, turn("assistant", text("x")))],
    ],
    14: [
        [
            chat(USER, tools=[TOOL]),
            chat(USER, tools=[{**TOOL, "description": "", "strict": True, "type": "function"}]),
            chat(USER, tools=[{"type": "function", "function": TOOL}]),
            chat(USER, tools=[{"name": "add", "input_schema": TOOL["parameters"], "cache_control": {"type": "ephemeral"}}]),
            chat(USER, tools=[{"name": "add", "inputSchema": TOOL["parameters"]}]),
            chat(USER, tools=[{"name": "add", "parameters": {"type": "OBJECT", "properties": {"a_b": {"type": "STRING"}}}}]),
        ],
        [
            chat(USER, tools=[{"name": "add", "parameters": {"type": "object", key: False}}])
            for key in ("additionalProperties", "additional_properties")
        ],
        [chat(USER, tools=[{**TOOL, "description": "adds"}])],
        [chat(USER, tools=[{**TOOL, "name": "sum"}])],
        [chat(USER, tools=[TOOL, {**TOOL, "name": "sum"}])],
        [chat(USER, tools=[{**TOOL, "name": "sum"}, TOOL])],
        [chat(USER, tools=[{"name": "add", "parameters": {"type": "object", "properties": {"aB": {"type": "string"}}}}])],
    ],
    15: [
        [chat(USER, tool_choice=choice) for choice in (None, "auto", {"type": "auto"})] + [chat(USER)],
        [chat(USER, tool_choice=choice) for choice in ("any", "required", {"type": "any"}, {"type": "required"})],
        [
            chat(USER, tool_choice={"type": "function", "function": {"name": "f"}}),
            chat(USER, tool_choice={"type": "tool", "name": "f"}),
            chat(USER, tool_choice={"type": "function", "name": "f"}),
        ],
        [chat(USER, tool_choice={"type": "tool", "name": "g"})],
        [chat(USER, tool_choice="none"), chat(USER, tool_choice={"type": "none"})],
    ],
    16: [
        [chat(USER, params={name: 5}) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")],
        [chat(USER, params={"max_tokens": 6})],
        [
            chat(USER),
            chat(USER, params={"seed": None, "n": 1, "stream": True, "stream_options": {"include_usage": True}, "timeout": 3}),
            chat(USER, params={"extra_headers": {"a": "b"}, "betas": ["x"], "extra_query": {}}),
        ],
        [
            chat(USER, params={"stop": "END"}),
            chat(USER, params={"stop_sequences": ["END"]}),
            chat(USER, params={"stop_sequences": '["END"]'}),
            chat(USER, params={"stop_sequences": ['["END"]']}),
        ],
        [chat(USER, params={"stop": ["END", "FIN"]})],
        [
            chat(USER, params={"temperature": 1}),
            chat(USER, params={"temperature": 1.0}),
            chat(USER, temperature=1),
            chat(USER, params={"extra_body": {"temperature": 1}}),
        ],
        [chat(USER, params={"temperature": 0})],
        [chat(USER, params={"n": 2})],
        [chat(USER, extra={"grammar": "x"}), chat(USER, params={"extra_body": {"grammar": "x"}}), chat(USER, grammar="x")],
    ],
    17: [
        [chat(USER, model=model) for model in ("gpt-4o", "openai/gpt-4o", "azure/gpt-4o")],
        [chat(USER, model="gpt-4o-2024-08-06")],
        [chat(USER, model="gpt-4o-mini")],
        [chat(USER, model="org/gpt-4o")],
    ],
    19: [
        [chat(USER), chat({**USER, "name": "bob"})],
        [chat(USER, turn("assistant", call({})), {"role": "tool", "tool_call_id": "c1", "name": name, "content": "x"}) for name in ("f", "g")],
    ],
    21: [
        [chat(USER, {"role": role, "content": "yes"}) for role in ("assistant", "model", "ai", "tool-call")],
        [chat({"role": role, "content": "hi"}) for role in ("user", "human", "tool-response")],
    ],
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_spellings_are_one_request(rule: int) -> None:
    for group in RULES[rule]:
        first = llm_request(group[0])
        for other in group[1:]:
            assert llm_request(other).fields == first.fields
            assert llm_key(other) == llm_key(group[0])
            assert compare(first, llm_request(other)).equal


@pytest.mark.parametrize("rule", RULES)
def test_meanings_are_different_requests(rule: int) -> None:
    for one, other in itertools.combinations(RULES[rule], 2):
        for a, b in itertools.product(one, other):
            assert llm_key(a) != llm_key(b), (a, b)
            comparison = compare(llm_request(a), llm_request(b))
            assert not comparison.equal
            assert comparison.pointers


def test_a_model_known_by_its_answer_is_compared_by_family() -> None:
    asked = llm_request(chat(USER, model="gpt-4o"))
    scope = full_scope("llm") - {"model"} | {"model/family"}

    def known(model: str | None) -> bool:
        return compare(llm_request(chat(USER, model=model), scope=scope), asked).equal

    for model in (
        "gpt-4o",
        "gpt-4o-2024-08-06",
        "gpt-4o-0613",
        "gpt-4o-latest",
        "gpt-4o@001",
        "openai/gpt-4o-20240806",
        None,
    ):
        assert known(model), model
    for model in ("gpt-4o-mini", "gpt-4", "gpt-4o-mini-2024-07-18", "gpt-4o-audio"):
        assert not known(model), model


@pytest.mark.parametrize(
    "value", ["<class 'app.Order'>", "<openai.Omit object at 0x7f>", "<NotGiven at 0x7f>"]
)
def test_what_the_source_could_not_write_is_out_of_scope(value: str) -> None:
    """Rule 18."""
    recorded = llm_request(
        chat(USER, response_format=value, params={"temperature": value, "seed": 1})
    )
    assert compare(
        recorded,
        llm_request(
            chat(
                USER,
                response_format={"type": "json_object"},
                params={"temperature": 0.3, "seed": 1},
            )
        ),
    ).equal
    assert not compare(
        recorded, llm_request(chat(USER, params={"temperature": 0.3, "seed": 2}))
    ).equal


def test_every_rule_of_the_page_is_tested_or_belongs_to_a_dialect() -> None:
    numbers = {int(n) for n in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert numbers == set(range(1, 25))
    assert numbers - set(RULES) == {
        18,
        20,
        22,
        23,
        24,
    }  # 18 above; the others are tested with their dialects


roles = st.sampled_from(["user", "assistant"])
contents = st.text(min_size=1, max_size=20)


@given(st.lists(st.tuples(roles, contents), min_size=1, max_size=6))
def test_chat_shape_and_parts_are_one(messages: list[tuple[str, str]]) -> None:
    as_chat = chat(*({"role": role, "content": content} for role, content in messages))
    as_parts = chat(*(turn(role, text(content)) for role, content in messages))
    as_blocks = chat(
        *(
            {"role": role, "content": [{"type": "text", "text": content}]}
            for role, content in messages
        )
    )
    assert llm_key(as_chat) == llm_key(as_parts) == llm_key(as_blocks)


@given(st.lists(st.tuples(roles, contents), min_size=1, max_size=6), st.data())
def test_one_changed_text_is_another_request(messages: list[tuple[str, str]], data: Any) -> None:
    place = data.draw(st.integers(0, len(messages) - 1))
    role, content = messages[place]
    changed = [*messages[:place], (role, content + "!"), *messages[place + 1 :]]
    one, other = (
        chat(*({"role": r, "content": c} for r, c in each)) for each in (messages, changed)
    )
    assert llm_key(one) != llm_key(other)


@given(
    st.dictionaries(
        st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=4
    )
)
def test_arguments_as_text_and_as_value_are_one(arguments: dict[str, Any]) -> None:
    one = chat(USER, turn("assistant", call(arguments)))
    other = chat(USER, turn("assistant", call(json.dumps(arguments, indent=1))))
    assert llm_key(one) == llm_key(other)


@given(st.permutations(["c1", "c2", "c3"]), st.permutations([0, 1, 2]))
def test_results_in_any_order_with_any_ids_are_one(ids: list[str], order: list[int]) -> None:
    calls = [call({"n": n}, ids[n]) for n in range(3)]
    results = [turn("tool", result(f"r{n}", ids[n])) for n in order]
    plain = [call({"n": n}, f"x{n}") for n in range(3)]
    in_order = [turn("tool", result(f"r{n}", f"x{n}")) for n in range(3)]
    assert llm_key(chat(USER, turn("assistant", *calls), *results)) == llm_key(
        chat(USER, turn("assistant", *plain), *in_order)
    )


def test_normalising_does_not_change_its_input() -> None:
    for group in itertools.chain.from_iterable(RULES.values()):
        for request in group:
            before = json.dumps(request)
            llm_key(request)
            assert json.dumps(request) == before
