"""The session document: what it holds, that nothing in it is lost, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path

import pytest

from otel_cassette.errors import CassetteFormatError
from otel_cassette.harness import Fixture, Step, StepType

DATA = Path(__file__).parent.parent / "data" / "sessions"


def test_the_signatures_are_the_published_ones() -> None:
    assert str(inspect.signature(Step)).startswith("(type: ")
    assert list(inspect.signature(Step).parameters) == [
        "type",
        "name",
        "args",
        "output",
        "latency_ms",
    ]
    assert list(inspect.signature(Fixture).parameters) == [
        *("session_id", "query", "steps", "final_output", "expected", "schema_version"),
    ]
    assert {t.name: t.value for t in StepType} == {
        "TOOL_CALL": "tool_call",
        "LLM": "llm",
        "RETRIEVAL": "retrieval",
    }
    assert issubclass(StepType, str)


def test_a_step_is_frozen_positional_and_a_dataclass() -> None:
    step = Step(StepType.TOOL_CALL, "lookup", {"order": "A-1"}, {"total": 20.5})
    assert step.latency_ms == 0
    assert dataclasses.asdict(step) == {
        "type": StepType.TOOL_CALL,
        "name": "lookup",
        "args": {"order": "A-1"},
        "output": {"total": 20.5},
        "latency_ms": 0,
    }
    assert step == Step("tool_call", "lookup", {"order": "A-1"}, {"total": 20.5}, 0)  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        step.name = "other"  # type: ignore[misc]


def test_a_fixture_is_mutable_and_its_defaults_are_its_own() -> None:
    one, other = Fixture("s1", "q"), Fixture("s2", "q")
    one.steps.append(Step(StepType.LLM, "llm", {}, "hi"))
    one.final_output = "done"
    one.expected["tone"] = "kind"
    assert other.steps == []
    assert other.expected == {}
    assert other.final_output is None
    assert one.schema_version == "1.2"
    assert dataclasses.asdict(one)["final_output"] == "done"


def test_the_document_is_json_indented_by_two() -> None:
    fixture = Fixture(
        "s1", "Where is it? äö", [Step(StepType.TOOL_CALL, "f", {"x": 1}, None, 12)], "there"
    )
    text = fixture.to_json()
    assert json.loads(text) == {
        "session_id": "s1",
        "query": "Where is it? äö",
        "steps": [
            {"type": "tool_call", "name": "f", "args": {"x": 1}, "output": None, "latency_ms": 12}
        ],
        "final_output": "there",
        "expected": {},
        "schema_version": "1.2",
    }
    assert text.startswith('{\n  "session_id": "s1",\n')
    assert Fixture.from_json(text) == fixture
    assert Fixture.from_json(text.encode()) == fixture


def test_a_hand_written_document_loads_and_comes_back_as_it_was() -> None:
    text = (DATA / "refund_1_2.json").read_text(encoding="utf-8")
    fixture = Fixture.from_json(text)
    assert [(s.type, s.name) for s in fixture.steps] == [
        (StepType.LLM, "plan"),
        (StepType.TOOL_CALL, "lookup_order"),
        (StepType.RETRIEVAL, "policies"),
        (StepType.LLM, "answer"),
    ]
    # keys that this version does not know, at every level, survive
    assert json.loads(fixture.to_json()) == json.loads(text)
    assert list(json.loads(text)["steps"][1]) != list(dataclasses.asdict(fixture.steps[1]))


def test_what_is_missing_takes_its_default() -> None:
    fixture = Fixture.from_json(
        '{"session_id": "s", "query": "q", "steps": [{"type": "llm", "name": "n", "args": {}, "output": 1}]}'
    )
    assert fixture.steps[0].latency_ms == 0
    assert fixture.expected == {}
    assert fixture.schema_version == "1.2"
    assert Fixture.from_json("{}") == Fixture("", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ('{"session_id": "s",\n "query" 1}', "x.json:2: not JSON"),
        ("[]", "one JSON object, this is list"),
        (b"\xff\xfe", "not UTF-8: byte 0 is 0xff"),
        ('{"schema_version": "1.3"}', "pip install -U otel-cassette"),
        ('{"schema_version": "new"}', "is no version"),
        ('{"steps": [{"type": "dance", "name": "n", "args": {}, "output": 1}]}', "/steps/0/"),
        ('{"steps": [{"type": "llm", "args": {}, "output": 1}]}', "/steps/0/name"),
        ("[" * 100_000, "deeply"),
    ],
)
def test_what_is_no_session_is_an_error_with_path_place_and_reason(
    text: str | bytes, says: str
) -> None:
    with pytest.raises(CassetteFormatError) as caught:
        Fixture.from_json(text, path="x.json")
    assert caught.value.path == "x.json"
    assert says in str(caught.value)
    assert isinstance(caught.value, ValueError)
