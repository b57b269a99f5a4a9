"""What one call of a framework's tool gets, whatever the framework."""

from __future__ import annotations

from typing import Any

import pytest

from otel_cassette import Cassette, CassetteError, CassetteMissError
from otel_cassette.integrations.driving import ToolCall, is_json


def call(name: str = "fetch", **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, encode=lambda result: result, decode=lambda response: response)


def test_a_result_without_json_is_an_error_that_names_the_tool_when_recorded() -> None:
    with Cassette().recording(), pytest.raises(CassetteError, match="the result of tool 'fetch'"):
        call().run(object)


def test_a_result_without_json_passes_when_nothing_is_recorded() -> None:
    with Cassette(mode="fallthrough").replaying() as session:
        assert type(call().run(object)) is object
    assert session.summary.live == 1


def test_what_comes_back_is_a_copy() -> None:
    cassette = Cassette()
    with cassette.recording():
        call().run(lambda: {"items": [1]})
    with cassette.replaying():
        call().run(object)["items"].append(2)
    assert cassette.entries[0].response == {"items": [1]}


def test_after_a_miss_every_later_tool_fails_alike_and_diverges_no_more() -> None:
    cassette = Cassette()
    with cassette.recording():
        call(n=1).run(lambda: "one")
    caught: list[CassetteMissError] = []

    def run_hidden(n: int) -> None:
        try:
            call(n=n).run(lambda: "real")
        except CassetteMissError as miss:
            caught.append(miss)

    with pytest.raises(CassetteMissError) as at_the_end, cassette.replaying() as session:
        [run_hidden(n) for n in (2, 1, 3)]
    assert caught == [at_the_end.value] * 3
    assert [d.reason for d in session.divergences] == ["request_changed"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, True),
        ((1, 2), False),
        ({1: "a"}, False),
        ([{"a": {1}}], False),
        (b"x", False),
    ],
)
def test_json_is_what_comes_back_alike(value: Any, *, expected: bool) -> None:
    assert is_json(value) is expected
