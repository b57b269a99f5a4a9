# ruff: noqa: E501 - one case a row reads better than one a screen
"""Comparison on what both sides know; masks; the user's own rules, through a file too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette import Cassette, CassetteEntry, CassetteError, CassetteMissError
from otel_cassette.keys import (
    ComparisonRules,
    compare,
    full_scope,
    intersect,
    llm_request,
    scope_of,
    tool_request,
)
from otel_cassette.keys.masks import masked_equal

SCOPES_PAGE = (Path(__file__).parents[2] / "docs" / "scopes.md").read_text("utf-8")
USER = {"role": "user", "content": "hi"}
TOOLS = [{"name": "f", "description": "d", "parameters": {"type": "object"}}]
FULL: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "system", "content": "brief"}, USER],
    "tools": TOOLS,
    "tool_choice": "required",
    "response_format": {"type": "json_object"},
    "params": {"temperature": 0, "seed": 1},
    "previous_response_id": "r1",
    "extra": {"grammar": "x"},
}
TOKENS = sorted(
    full_scope("llm")
    | {"model/family", "messages/tail", "tools/names", "params/seed", "params/temperature"}
)


def answer(text: str = "ok") -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def entry(request: dict[str, Any], index: int = 0, **fields: Any) -> CassetteEntry:
    return CassetteEntry(
        **{
            "kind": "llm",
            "index": index,
            "request": request,
            "response": answer(str(index)),
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("token", "field", "other"),
    [
        ("model", "model", "gpt-4"),
        ("tools", "tools", []),
        ("tool_choice", "tool_choice", "none"),
        ("response_format", "response_format", None),
        ("params", "params", {"temperature": 1}),
        ("previous_response_id", "previous_response_id", "r2"),
        ("extra", "extra", {}),
        ("messages", "messages", [{"role": "system", "content": "brief"}, {"role": "user", "content": "ho"}]),
        ("system_instructions", "messages", [USER]),
    ],
)  # fmt: skip
def test_only_what_is_in_scope_of_both_counts(token: str, field: str, other: Any) -> None:
    live = llm_request({**FULL, field: other})
    whole = llm_request(FULL)
    assert compare(whole, live).pointers[0].startswith(f"/{token}")
    narrow = llm_request(FULL, scope=full_scope("llm") - {token})
    assert not compare(narrow, live).pointers
    assert not compare(live, narrow).pointers
    assert token not in compare(narrow, live).scope


def test_a_field_in_scope_that_is_absent_is_evidence() -> None:
    assert compare(
        llm_request({"messages": [USER]}), llm_request({"messages": [USER], "tools": TOOLS})
    ).pointers == ("/tools",)


@pytest.mark.parametrize("content", ["messages", "messages/tail", "input", "arguments"])
def test_without_content_in_common_nothing_can_be_told(content: str) -> None:
    rest = full_scope("llm") - {"messages", "input"}
    same = llm_request(FULL, scope=rest)
    comparison = compare(same, llm_request(FULL))
    assert comparison.cannot_tell
    assert not comparison.equal
    if content != "arguments":
        assert not compare(llm_request(FULL, scope=rest | {content}), llm_request(FULL)).cannot_tell
    else:
        assert compare(tool_request("f", {}, scope=frozenset()), tool_request("f", {})).cannot_tell


def test_only_the_last_messages_are_known() -> None:
    scope = full_scope("llm") - {"messages", "system_instructions"} | {"messages/tail"}
    turns = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3"},
    ]
    tail = llm_request({"messages": turns[1:]}, scope=scope)
    assert compare(tail, llm_request({"messages": turns})).equal
    assert not compare(
        tail, llm_request({"messages": [*turns[:2], {"role": "user", "content": "4"}]})
    ).equal
    assert not compare(tail, llm_request({"messages": []})).equal


def test_only_the_names_of_tools_are_known() -> None:
    scope = full_scope("llm") - {"tools"} | {"tools/names"}
    names = llm_request({"messages": [USER], "tools": [{"name": "f"}]}, scope=scope)
    assert compare(names, llm_request({"messages": [USER], "tools": TOOLS})).equal
    assert compare(names, llm_request({"messages": [USER]})).pointers == ("/tools/0/name",)


def test_only_some_parameters_are_known() -> None:
    scope = full_scope("llm") - {"params"} | {"params/seed"}
    known = llm_request({"messages": [USER], "params": {"seed": 1}}, scope=scope)
    assert compare(
        known, llm_request({"messages": [USER], "params": {"seed": 1, "temperature": 0.5}})
    ).equal
    assert compare(known, llm_request({"messages": [USER], "params": {"seed": 2}})).pointers == (
        "/params/seed",
    )
    assert compare(known, llm_request({"messages": [USER]})).pointers == ("/params/seed",)


def test_ids_that_one_side_lost_are_compared_by_position() -> None:
    def chat(
        ids: tuple[str | None, str | None], results: tuple[str | None, str | None]
    ) -> dict[str, Any]:
        calls = [{"type": "tool_call", "id": i, "name": "f", "arguments": {}} for i in ids]
        answers = [
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": i, "response": r}]}
            for i, r in zip(results, "AB", strict=True)
        ]
        return {"messages": [USER, {"role": "assistant", "parts": calls}, *answers]}

    lost = full_scope("llm") - {"call_ids"}
    straight, swapped = chat(("a", "b"), ("a", "b")), chat(("a", "b"), ("b", "a"))
    assert not compare(llm_request(straight), llm_request(swapped)).equal
    without = llm_request(chat((None, None), (None, None)), scope=lost)
    assert compare(without, llm_request(straight)).equal


@given(st.sets(st.sampled_from(TOKENS)), st.sets(st.sampled_from(TOKENS)))
def test_the_intersection_is_known_to_both_and_symmetric(one: set[str], other: set[str]) -> None:
    a, b = frozenset(one), frozenset(other)
    common = intersect(a, b)
    assert common == intersect(b, a)
    stronger = {"model/family": "model", "messages/tail": "messages", "tools/names": "tools"}
    for token in common:
        for side in (a, b):
            assert (
                token in side
                or stronger.get(token) in side
                or (token.startswith("params/") and "params" in side)
            )
    assert intersect(a, a) == a


@given(st.sets(st.sampled_from(TOKENS)), st.sets(st.sampled_from(TOKENS)))
def test_equal_digests_on_a_scope_mean_equal_by_comparison(one: set[str], other: set[str]) -> None:
    """The index over digests and the walk agree, on any pair of scopes."""
    a = llm_request(FULL, scope=frozenset(one))
    for changed in (
        FULL,
        {**FULL, "model": "gpt-4"},
        {**FULL, "params": {"seed": 2, "temperature": 0}},
        {**FULL, "messages": [USER]},
    ):
        b = llm_request(changed, scope=frozenset(other))
        common = intersect(a.scope, b.scope)
        if common & {"model/family", "messages/tail"}:
            continue  # there a digest is no proof by design
        assert (a.digest_on(common) == b.digest_on(common)) == (not compare(a, b).pointers), common


def test_the_page_names_every_token() -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-zA-Z]+)?)`", SCOPES_PAGE.split("- No `scope`")[0]))
    assert (
        full_scope("llm")
        | full_scope("tool")
        | {"model/family", "messages/tail", "tools/names", "params/NAME"}
        <= named
    )
    assert scope_of(None, "llm") == full_scope("llm")


def test_the_widest_scope_goes_first() -> None:
    narrow = entry({"messages": [USER]}, 0, scope=("messages",))
    wide = entry({"messages": [USER], "model": "m"}, 1)
    cassette = Cassette([narrow, wide], mode="strict", match="content")
    assert cassette.wrap_llm().complete({"messages": [USER], "model": "m"}).text == "1"
    assert "messages" in (cassette.calls[0].scope or ())


def test_the_widest_scope_goes_first_also_where_texts_differ() -> None:
    """Found by digests, not by the text of the request."""
    nearly_all = tuple(sorted(full_scope("llm") - {"extra"}))
    entries = [
        entry({"messages": [USER]}, 0, scope=("messages",)),
        entry({"messages": [USER], "model": "m"}, 1, scope=("messages", "model")),
        entry({"messages": [USER], "model": "m"}, 2, scope=nearly_all),
    ]
    cassette = Cassette(entries, mode="strict", match="content")
    llm = cassette.wrap_llm()
    assert [llm.complete({"messages": [USER], "model": "m"}).text for _ in range(3)] == [
        "2",
        "1",
        "0",
    ]


def test_a_masked_match_loses_also_where_texts_differ() -> None:
    def recorded(text: str, index: int) -> CassetteEntry:
        request = {"messages": [{"role": "user", "content": text}], "params": {"max_tokens": 5}}
        return entry(request, index, source=TRACE)

    cassette = Cassette(
        [recorded("pin ****", 0), recorded("pin 1234", 1)], mode="strict", match="content"
    )
    llm = cassette.wrap_llm()
    asked = {"messages": "pin 1234", "params": {"max_completion_tokens": 5}}
    assert [llm.complete(asked).text for _ in range(2)] == ["1", "0"]
    assert ["masked" in call.flags for call in cassette.calls] == [False, True]


def test_what_was_compared_is_said() -> None:
    cassette = Cassette([entry({"messages": [USER]}, scope=("messages", "params"))], mode="lenient")
    cassette.wrap_llm().complete({"messages": "other", "model": "m"})
    assert cassette.calls[0].scope == ("messages", "params")
    divergence = cassette.first_divergence
    assert divergence is not None
    assert divergence.scope == ("messages", "params")
    assert divergence.fields == ("/messages/0/parts/0/content",)


# -- masks ------------------------------------------------------------------------------------------

TRACE = {"dialect": "otel-genai"}


def masked(text: str, index: int = 0, source: dict[str, str] | None = TRACE) -> CassetteEntry:
    return entry({"messages": [{"role": "user", "content": text}]}, index, source=source)


@pytest.mark.parametrize("mask", ["****", "__REDACTED__", "[REDACTED]", "<elided>"])
@pytest.mark.parametrize("match", ["index", "content"])
def test_a_mask_matches_any_text_at_its_place_only(mask: str, match: Any) -> None:
    cassette = Cassette([masked(f"my card is {mask}, thanks")], mode="strict", match=match)
    assert cassette.wrap_llm().complete("my card is 4111 1111, thanks").text == "0"
    assert "masked" in cassette.calls[0].flags
    for other in ("your card is 4111, thanks", "my card is 4111, please", "my card is"):
        again = Cassette([masked(f"my card is {mask}, thanks")], mode="strict", match=match)
        with pytest.raises(CassetteMissError):
            again.wrap_llm().complete(other)


def test_a_mask_in_a_recording_of_our_own_is_only_text() -> None:
    cassette = Cassette([masked("a **** b", source=None)], mode="strict")
    with pytest.raises(CassetteMissError):
        cassette.wrap_llm().complete("a x b")
    assert (
        Cassette([masked("a **** b", source=None)], mode="strict")
        .wrap_llm()
        .complete("a **** b")
        .text
        == "0"
    )


def test_our_own_mask_is_compared_exactly() -> None:
    cassette = Cassette([masked("a <redacted:x> b")], mode="strict")
    with pytest.raises(CassetteMissError):
        cassette.wrap_llm().complete("a y b")


def test_a_masked_match_loses_to_an_exact_one() -> None:
    cassette = Cassette(
        [masked("pin ****", 0), masked("pin 1234", 1)], mode="strict", match="content"
    )
    llm = cassette.wrap_llm()
    assert llm.complete("pin 1234").text == "1"
    assert llm.complete("pin 9999").text == "0"
    assert ["masked" in call.flags for call in cassette.calls] == [False, True]


@pytest.mark.parametrize("match", ["index", "content"])
def test_masks_in_tool_arguments(match: Any) -> None:
    recorded = CassetteEntry(
        kind="tool",
        index=0,
        name="pay",
        request={"card": "****", "sum": 3},
        response="done",
        source=TRACE,
    )  # type: ignore[arg-type]
    cassette = Cassette([recorded], mode="strict", match=match)
    assert cassette.wrap_tool(lambda card, sum: None, name="pay")(card="4111", sum=3) == "done"  # noqa: A006
    again = Cassette([recorded], mode="strict", match=match)
    with pytest.raises(CassetteMissError):
        again.wrap_tool(lambda card, sum: None, name="pay")(card="4111", sum=4)  # noqa: A006


def test_masks_survive_a_save_without_provenance(tmp_path: Path) -> None:
    Cassette([masked("pin ****")]).save(tmp_path / "c.jsonl", provenance=False)
    assert Cassette.load(tmp_path / "c.jsonl").wrap_llm().complete("pin 1").text == "0"


def test_a_media_placeholder_matches_one_part_of_media() -> None:
    recorded = entry(
        {
            "messages": [
                {
                    "role": "user",
                    "parts": [{"type": "blob", "content": "@@@langfuseMedia:type=image@@@"}],
                }
            ]
        },
        source=TRACE,
    )
    live = {
        "messages": [
            {
                "role": "user",
                "parts": [{"type": "blob", "mime_type": "image/png", "content": "aaaa"}],
            }
        ]
    }
    assert Cassette([recorded], mode="strict").wrap_llm().complete(live).text == "0"
    with pytest.raises(CassetteMissError):
        Cassette([recorded], mode="strict").wrap_llm().complete("no image at all")


@given(
    st.lists(st.text(alphabet="ab ", max_size=4), min_size=2, max_size=4),
    st.lists(st.text(max_size=3), min_size=3, max_size=3),
)
def test_a_mask_stands_for_any_text(pieces: list[str], filling: list[str]) -> None:
    recorded = "****".join(pieces)
    live = "".join(p + f for p, f in zip(pieces[:-1], filling, strict=False)) + pieces[-1]
    assert masked_equal(recorded, live)


# -- the user's own rules ---------------------------------------------------------------------------


def drop_greeting(request: dict[str, Any]) -> dict[str, Any]:
    if "messages" in request:
        for turn in request["messages"]:
            for part in turn["parts"]:
                if isinstance(part.get("content"), str):
                    part["content"] = part["content"].removeprefix("Hello! ")
    return request


class Recorder:
    def complete(self, _request: Any) -> str:
        return "ok"


@pytest.mark.parametrize(
    ("rules", "recorded", "equal", "different"),
    [
        ({"ignore": ["/params/seed"]}, {"messages": "x", "seed": 1}, {"messages": "x", "seed": 2}, {"messages": "y", "seed": 1}),
        ({"ignore": "/messages/*/parts/*/content"}, {"messages": "x"}, {"messages": "y"}, {"messages": "x", "model": "m"}),
        ({"ignore": ["/messages/1"]}, {"messages": [USER, USER | {"role": "assistant", "content": "a"}]}, {"messages": [USER, USER | {"role": "assistant", "content": "b"}]}, {"messages": [USER]}),
        ({"normalize": [r"\d{4}-\d\d-\d\d"]}, {"messages": "on 2024-01-01"}, {"messages": "on 2026-12-31"}, {"messages": "at 2024-01-01"}),
        ({"normalize": [(r"order-\d+", "order")]}, {"messages": "order-1"}, {"messages": "order-22"}, {"messages": "order-x"}),
        ({"normalize": [re.compile("[0-9a-f]{8}")]}, {"messages": "id deadbeef"}, {"messages": "id 00000000"}, {"messages": "id xyz"}),
        ({"normalize": [re.compile("[A-F0-9]{4}", re.IGNORECASE)]}, {"messages": "id dead"}, {"messages": "id BEEF"}, {"messages": "id xyz"}),
        ({"normalize": drop_greeting}, {"messages": "Hello! hi"}, {"messages": "hi"}, {"messages": "ho"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("match", ["index", "content"])
def test_rules_hold_for_both_sides_and_go_with_the_file(
    tmp_path: Path, rules: dict[str, Any], recorded: Any, equal: Any, different: Any, match: Any
) -> None:
    cassette = Cassette(**rules)
    cassette.wrap_llm(Recorder()).complete(recorded)
    cassette.save(tmp_path / "c.jsonl")
    given_again = {"normalize": rules["normalize"]} if callable(rules.get("normalize")) else {}
    for _ in range(2):  # a second save keeps them
        loaded = Cassette.load(tmp_path / "c.jsonl", match=match, **given_again)
        assert loaded.wrap_llm().complete(equal).text == "ok"
        with pytest.raises(CassetteMissError):
            Cassette.load(tmp_path / "c.jsonl", match=match, **given_again).wrap_llm().complete(
                different
            )
        loaded.save(tmp_path / "c.jsonl")


def test_tool_arguments_are_ignored_by_pointer() -> None:
    recorded = CassetteEntry(
        kind="tool", index=0, name="f", request={"id": 1, "deep": [{"at": "now"}]}, response=5
    )
    cassette = Cassette([recorded], mode="strict", ignore=["/arguments/deep/0/at"])
    assert cassette.wrap_tool(lambda id, deep: None, name="f")(1, [{"at": "later"}]) == 5  # noqa: A006


def test_a_function_of_the_header_that_is_not_given_is_an_error(tmp_path: Path) -> None:
    Cassette(normalize=[drop_greeting]).save(tmp_path / "c.jsonl")
    with pytest.raises(CassetteError, match="'drop_greeting'") as caught:
        Cassette.load(tmp_path / "c.jsonl")
    assert "normalize=[drop_greeting]" in str(caught.value)
    assert str(tmp_path / "c.jsonl") in str(caught.value)


def test_rules_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="starts with '/'"):
        Cassette(ignore=["messages"])
    with pytest.raises(ValueError, match="pattern"):
        Cassette(normalize=["("])
    with pytest.raises(TypeError, match="normalize=5"):
        Cassette(normalize=[5])  # type: ignore[list-item]


def test_a_damaged_pattern_in_a_header_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(
        '{"format": "otel-cassette", "version": 1, "normalize": [{"pattern": "("}]}\n'
    )
    with pytest.raises(CassetteError, match="pattern") as caught:
        Cassette.load(tmp_path / "c.jsonl")
    assert "c.jsonl" in str(caught.value)


def test_a_rule_that_returns_no_request_is_an_error_that_names_it() -> None:
    def forgets(request: Any) -> None:
        request.clear()

    cassette = Cassette([entry({"messages": [USER]})], mode="strict", normalize=[forgets])
    with pytest.raises(TypeError, match="forgets"):
        cassette.wrap_llm().complete("x")


def test_rules_do_not_change_what_is_recorded(tmp_path: Path) -> None:
    cassette = Cassette(ignore=["/messages"], normalize=[drop_greeting, ("hi", "HI")])
    cassette.wrap_llm(Recorder()).complete("Hello! hi")
    assert cassette.entries[0].llm_request.messages[0].text == "Hello! hi"


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2), max_size=3
    )
)
def test_applying_rules_leaves_the_request_alone(fields: dict[str, Any]) -> None:
    before = {k: list(v) if isinstance(v, list) else v for k, v in fields.items()}
    made = ComparisonRules(["/a", "/*/0"]).apply(fields)
    assert fields == before
    assert "a" not in made
