"""Canonical JSON and keys: the vectors of RFC 8785, the published ones, and properties."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette import LLMRequest, llm_key, tool_key
from otel_cassette.keys import canonical_json

DOCS = Path(__file__).parents[2] / "docs"
VECTORS = json.loads((DOCS / "test-vectors.json").read_text("utf-8"))["vectors"]

# RFC 8785, appendix B: IEEE 754 bits and the text of the number.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
# The three rows that docs/keys.md departs from: whole numbers beyond 2^53 keep all their digits.
EXACT_NUMBERS = {
    "4430000000000000": ("295147905179352830000", "295147905179352825856"),
    "444b1ae4d6e2ef4e": ("999999999999999700000", "999999999999999737856"),
    "444b1ae4d6e2ef4f": ("999999999999999900000", "999999999999999868928"),
}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def _double(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]


@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS.items())
def test_numbers_of_rfc_8785(bits: str, text: str) -> None:
    assert canonical_json(_double(bits)) == text


@pytest.mark.parametrize(("bits", "texts"), EXACT_NUMBERS.items())
def test_the_departure_from_rfc_8785_keeps_all_digits(bits: str, texts: tuple[str, str]) -> None:
    rounded, exact = texts
    assert float(rounded) == float(exact) == _double(bits)
    assert canonical_json(_double(bits)) == canonical_json(int(exact)) == exact


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_hold_is_an_error_with_its_place(value: float) -> None:
    with pytest.raises(ValueError, match=r"not JSON at /a~1b/1: (nan|-?inf) has no JSON form"):
        canonical_json({"a/b": [0, value]})
    with pytest.raises(ValueError, match="no JSON form"):
        tool_key("t", {"x": value})
    with pytest.raises(ValueError, match="no JSON form"):
        llm_key({"messages": [], "params": {"temperature": value}})


def test_foreign_values_are_an_error_that_does_not_show_them() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    with pytest.raises(ValueError, match="a value of type Secret") as caught:
        canonical_json({"x": Secret()})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ValueError, match="an object key is of type int"):
        canonical_json({"x": {1: 2}})


def test_a_value_that_holds_itself_is_an_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="holds itself"):
        canonical_json(loop)


def test_the_example_of_rfc_8785_section_3_2_2() -> None:
    text = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        r'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + r"'B\"\\\\\"/" + '"}'
    )
    assert canonical_json(json.loads(text)) == expected


def test_the_order_of_keys_of_rfc_8785_section_3_2_3() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    made = json.loads(canonical_json(dict.fromkeys(keys)))
    assert list(made) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (0, -0.0), (10**21, 1e21), (2**60, float(2**60)), (-(10**22), -1e22), (100, 1e2)],
)
def test_numbers_stand_by_value(one: float, other: float) -> None:
    assert tool_key("t", {"x": one}) == tool_key("t", {"x": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (2**53, 2**53 + 1),
        (10**30, 10**30 + 1),
        (1, "1"),
        (None, 0),
        ({}, []),
        ("", None),
    ],
)
def test_values_that_differ_have_keys_that_differ(one: Any, other: Any) -> None:
    assert tool_key("t", {"x": one}) != tool_key("t", {"x": other})


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["about"])
def test_the_published_vectors(vector: dict[str, Any]) -> None:
    """The canonical texts were written by hand; their digests are sha256sum's."""
    assert hashlib.sha256(vector["canonical"].encode()).hexdigest() == vector["key"]
    if vector["kind"] == "tool":
        assert (
            canonical_json({"name": vector["name"], "arguments": vector["arguments"]})
            == vector["canonical"]
        )
        assert tool_key(vector["name"], vector["arguments"]) == vector["key"]
    else:
        assert llm_key(vector["request"]) == vector["key"]
        assert llm_key(LLMRequest.model_validate(vector["request"])) == vector["key"]


def test_the_page_shows_keys_of_the_vectors() -> None:
    shown = set(re.findall(r"`([0-9a-f]{64})`", (DOCS / "keys.md").read_text("utf-8")))
    assert len(shown) == 2
    assert shown <= {v["key"] for v in VECTORS}


@given(json_values)
def test_canonical_json_reads_back_as_the_same_value(value: Any) -> None:
    made = canonical_json(value)
    assert canonical_json(json.loads(made)) == made
    assert " " not in re.sub(r'"(?:[^"\\]|\\.)*"', "", made)


@given(
    st.dictionaries(st.text(max_size=5), json_values, max_size=6), st.randoms(use_true_random=False)
)
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], chance: random.Random) -> None:
    def shuffled(part: Any) -> Any:
        if isinstance(part, dict):
            items = [(k, shuffled(v)) for k, v in part.items()]
            chance.shuffle(items)
            return dict(items)
        return [shuffled(v) for v in part] if isinstance(part, list) else part

    assert tool_key("t", shuffled(value)) == tool_key("t", value)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_whole_numbers_have_one_text_as_int_and_as_float(number: float) -> None:
    same = float(number) if abs(number) < 2**1000 else number
    if same == number:
        assert canonical_json(same) == canonical_json(number)
        if float(same).is_integer():
            assert canonical_json(int(same)) == canonical_json(number)
    assert float(json.loads(canonical_json(number))) == (
        float(number) if abs(number) < 2**1000 else number
    )


@given(json_values, json_values)
def test_equal_texts_are_equal_values(one: Any, other: Any) -> None:
    def plain(value: Any) -> Any:
        """Numbers by value, booleans apart from numbers."""
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return (type(value).__name__, value)
        if isinstance(value, int | float):
            return ("number", value)
        if isinstance(value, list):
            return ("list", [plain(v) for v in value])
        return ("object", {k: plain(v) for k, v in value.items()})

    assert (canonical_json(one) == canonical_json(other)) == (plain(one) == plain(other))


def test_keys_do_not_depend_on_how_a_request_is_given() -> None:
    chat = [{"role": "user", "content": "hi"}]
    made = {
        llm_key({"messages": chat}),
        llm_key(LLMRequest(messages=chat)),  # type: ignore[arg-type]
        llm_key(LLMRequest(messages="hi")),  # type: ignore[arg-type]
        llm_key({"messages": "hi"}),
    }
    assert len(made) == 1


@pytest.mark.parametrize("field", ["operation", "provider"])
def test_what_is_carried_is_not_compared(field: str) -> None:
    assert llm_key({"messages": "hi", field: "one"}) == llm_key({"messages": "hi", field: "two"})


def test_what_stands_beside_a_request_counts() -> None:
    base = {"messages": "hi"}
    assert llm_key({**base, "temperature": 0.2}) == llm_key(
        {**base, "params": {"temperature": 0.2}}
    )
    assert llm_key({**base, "temperature": 0.2}) != llm_key({**base, "temperature": 0.3})
    assert llm_key({**base, "grammar": "x"}) != llm_key({**base, "grammar": "y"})
    assert llm_key({**base, "grammar": "x"}) == llm_key({**base, "extra": {"grammar": "x"}})
    assert llm_key({**base, "stream": True}) == llm_key(base)
