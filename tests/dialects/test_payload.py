"""Attribute payloads: what is whole, cut, masked or missing.

The cuts are those that backends make: at a number of characters or bytes, mid-string and
mid-character. Tempo's 2,048 bytes and U+FFFD were measured on a real Tempo.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from otel_cassette.dialects.payload import (
    decode_json,
    decode_value,
    forget_histories,
    plain,
    read_messages,
    read_parts,
    read_tools,
    text_integrity,
    worst,
)

MESSAGES = json.dumps(
    [{"role": "user", "parts": [{"type": "text", "content": "é" * 6000}]}], ensure_ascii=False
)


@pytest.mark.parametrize("limit", [200, 1024, 2048, 4095, 4096])
def test_json_cut_anywhere_is_truncated(limit: int) -> None:
    assert decode_json(MESSAGES[:limit]).integrity == "truncated"
    as_bytes = MESSAGES.encode()[:limit].decode("utf-8", "replace")
    assert decode_json(as_bytes).integrity == "truncated"


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b"', '{"a": ', "[1, 2", '["a\\', '["\\ud83', '{"a": tru']
)
def test_every_way_a_cut_can_end_is_truncated(text: str) -> None:
    assert decode_json(text).integrity == "truncated"


@pytest.mark.parametrize("text", ["{'python': 'repr'}", "[oops]", '{"a": 1} trailing'])
def test_what_is_no_json_is_suspect_not_truncated(text: str) -> None:
    assert decode_json(text) == (text, "suspect")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1.5, null] ", [1.5, None]),
        ('"\\ud83d"', "\ud83d"),
        ("[NaN]", ["NaN"]),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_json_is_decoded_by_value(text: str, value: Any) -> None:
    assert decode_json(text) == (value, "whole")


@pytest.mark.parametrize("value", [None, "", "  "])
def test_nothing_is_absent(value: Any) -> None:
    assert decode_json(value).integrity == "absent"


@pytest.mark.parametrize("mask", ["****", "__REDACTED__", "[REDACTED]", "<elided>", "**** ****"])
def test_a_mask_that_is_the_whole_content_is_redacted(mask: str) -> None:
    assert decode_json(mask).integrity == "redacted"
    assert decode_value(mask).integrity == "redacted"
    read = read_messages(json.dumps([{"role": "user", "content": mask}]))
    assert read.integrity == "redacted"


def test_a_mask_among_other_messages_leaves_the_request_whole() -> None:
    # A mask matches any text at its place, so that the request can be compared all the same.
    read = read_messages([{"role": "user", "content": "****"}, {"role": "user", "content": "hi"}])
    assert read.integrity == "whole"
    assert read.items[0]["parts"] == [{"type": "text", "content": "****"}]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("x" * 2048, "suspect"),
        ("x" * 2047, "whole"),
        ("é" * 1024, "suspect"),
        ("x" * 2047 + "\ufffd", "suspect"),
        ("x" * 5000 + "...", "suspect"),
        ("and so on...", "whole"),
        ("a long text…[truncated]", "truncated"),
        ("card ****1234", "suspect"),
    ],
)
def test_free_text_at_a_limit_is_only_suspect(text: str, verdict: str) -> None:
    assert text_integrity(text) == verdict


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ('{"ok": true}', {"ok": True}),
        ('"text"', "text"),
        ("refunded 19.9", "refunded 19.9"),
        ("42", 42),
        ("true", True),
        ("null", None),
        ("None", "None"),
        ("{'a': 1}", "{'a': 1}"),
        ("true story", "true story"),
        ({"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_a_result_is_its_json_value_or_the_text(attribute: Any, value: Any) -> None:
    assert decode_value(attribute) == (value, "whole")


def test_a_cut_result_is_not_taken_for_text() -> None:
    assert decode_value('{"orders": [{"id": "A-1').integrity == "truncated"


def test_plain_json_has_no_tuples_bytes_or_infinities() -> None:
    given = {"a": (1, b"\x00\xff"), "b": math.inf, "c": None}
    assert plain(given) == {"a": [1, "AP8="], "b": "inf", "c": None}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "parts": [{"type": "text"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "t"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "name": "t"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "t"}}]},
    ],
)
def test_parts_without_content_are_hidden_content(message: dict[str, Any]) -> None:
    assert read_messages([message]).integrity == "redacted"


def test_some_parts_without_content_make_the_request_partial() -> None:
    messages = [{"role": "user", "parts": [{"type": "text"}]}, {"role": "user", "content": "hi"}]
    assert read_messages(messages).integrity == "partial"


def test_calls_without_arguments_keep_their_place_and_id() -> None:
    read = read_messages(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "t"}]}]
    )
    assert read.items[0]["parts"] == [{"type": "tool_call", "id": "c", "name": "t"}]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": None},
        {
            "role": "user",
            "parts": [{"type": "text", "content": "hi"}, {"type": "text", "content": ""}],
        },
    ],
)
def test_messages_of_every_shape_become_the_same_parts(message: dict[str, Any]) -> None:
    expected = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    assert read_messages(json.dumps([message])) == (expected, "whole")


def test_a_result_under_its_older_name_is_a_response() -> None:
    part = {"type": "tool_call_response", "id": "c", "name": "t", "result": {"a": 1}}
    (message,) = read_messages([{"role": "user", "parts": [part]}]).items
    assert message["parts"] == [
        {"type": "tool_call_response", "id": "c", "name": "t", "response": {"a": 1}}
    ]


@pytest.mark.parametrize(
    "value", ["Be brief.", '[{"type": "text", "content": "Be brief."}]', ["Be brief."]]
)
def test_instructions_come_as_text_and_as_parts(value: Any) -> None:
    assert read_parts(value) == ([{"type": "text", "content": "Be brief."}], "whole")


@pytest.mark.parametrize(
    "value",
    [
        '[{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}]',
        [{"name": "t", "input_schema": {"type": "object"}, "description": None}],
        ['{"type": "function", "name": "t", "parameters": {"type": "object"}}'],
    ],
)
def test_tool_definitions_of_every_provider_are_one_shape(value: Any) -> None:
    expected = [{"type": "function", "name": "t", "parameters": {"type": "object"}}]
    assert read_tools(value) == (expected, "whole")


def test_the_worst_verdict_counts() -> None:
    assert worst("whole", "partial", "truncated") == "truncated"
    assert worst("whole", "whole") == "whole"


def conversation(turns: int, name: str) -> list[dict[str, Any]]:
    text = "a rather long text that makes the history worth keeping " * 5
    return [
        {"role": "user", "parts": [{"type": "text", "content": f"{name} {i} {text}"}]}
        for i in range(turns)
    ]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
def test_requests_that_repeat_their_history_read_like_any_other(
    separators: tuple[str, str],
) -> None:
    for turns in (3, 4, 4, 9, 2):
        for name in ("a", "b"):
            messages = conversation(turns, name)
            assert read_messages(json.dumps(messages, separators=separators)) == (messages, "whole")
    forget_histories()


def test_a_history_that_goes_on_with_something_else_is_read_from_its_start() -> None:
    first = json.dumps(conversation(3, "a"))
    read_messages(first)
    assert read_messages(first[:-1] + ', {"role": "user"').integrity == "truncated"
    assert read_messages(first[:-1] + ' oops "]').integrity == "suspect"
    assert read_messages(first[:-1] + ", ]").integrity == "suspect"
    changed = conversation(3, "a")
    changed[1]["role"] = "assistant"
    assert read_messages(json.dumps(changed)).items == changed
    forget_histories()


def test_what_is_new_counts_for_the_verdict() -> None:
    messages = conversation(3, "a")
    read_messages(json.dumps(messages))
    hidden = [*messages, {"role": "user", "parts": [{"type": "text"}]}]
    assert read_messages(json.dumps(hidden)).integrity == "partial"
    forget_histories()
