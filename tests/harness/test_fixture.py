"""The session document: what it holds, that nothing in it is lost, and what is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_cassette.cassette import Cassette
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.harness import Fixture, MockLayer, Recorder, Step, StepType
from otel_cassette.model.entry import CassetteEntry

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


class TestCassettes:
    def test_a_session_becomes_a_cassette_and_comes_back_as_it_was(self, tmp_path: Path) -> None:
        text = (DATA / "refund_1_2.json").read_text(encoding="utf-8")
        fixture = Fixture.from_json(text)
        cassette = fixture.to_cassette()
        assert cassette.mode == "strict"
        assert [(e.kind, e.index, e.name, e.opaque) for e in cassette.entries] == [
            ("llm", 0, "plan", True),
            ("tool", 0, "lookup_order", False),
            ("retrieval", 0, "policies", False),
            ("llm", 1, None, False),
        ]
        assert json.loads(Fixture.from_cassette(cassette).to_json()) == json.loads(text)
        # and through a cassette file too
        assert cassette.save(tmp_path / "refund.cassette.jsonl") == 4
        loaded = Cassette.load(tmp_path / "refund.cassette.jsonl")
        assert json.loads(Fixture.from_cassette(loaded).to_json()) == json.loads(text)

    def test_its_entries_play_in_a_cassette(self) -> None:
        cassette = Fixture.from_json((DATA / "refund_1_2.json").read_bytes()).to_cassette()
        answer = cassette.entries_of("llm")[1]
        assert answer.llm_response.text == "20.50 is on its way to your card."
        # the canonical form, written out
        assert (
            cassette.entries_of("llm")[0].key
            == hashlib.sha256(
                b'{"arguments":{"prompt":"Please refund order A-1003."},"name":"plan"}'
            ).hexdigest()
        )

        @cassette.wrap_tool
        def lookup_order(order_id: str) -> dict[str, object]:
            raise AssertionError(order_id)

        assert lookup_order("A-1003")["total"] == 20.5

    def test_an_edited_cassette_wins_over_the_shape_of_the_step(self) -> None:
        cassette = Fixture.from_json((DATA / "refund_1_2.json").read_bytes()).to_cassette()
        entries = cassette.entries
        changed = {
            "choices": [
                {"message": {"role": "assistant", "parts": [{"type": "text", "content": "no"}]}}
            ]
        }
        entries[3] = entries[3].model_copy(update={"response": changed})
        fixture = Fixture.from_cassette(Cassette(entries, metadata=cassette.metadata))
        assert fixture.steps[3].output == changed

    def test_a_cassette_that_was_no_session_gets_id_query_and_output_from_its_calls(self) -> None:
        cassette = Cassette(
            [
                CassetteEntry(
                    kind="llm",
                    index=0,
                    request={
                        "model": "m",
                        "messages": [
                            {"role": "system", "content": "s"},
                            {"role": "user", "content": "hi"},
                        ],
                    },
                    response={"choices": [{"message": {"role": "assistant", "content": "ho"}}]},
                ),
                CassetteEntry(kind="tool", index=0, name="count", request={"to": 2}, yields=(0, 1)),
                CassetteEntry(
                    kind="embedding",
                    index=0,
                    request={"input": "x"},
                    response={"embeddings": [[1.0]]},
                ),
            ],
            metadata={"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"},
        )
        fixture = Fixture.from_cassette(cassette)
        assert (fixture.session_id, fixture.query, fixture.final_output) == (
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "hi",
            "ho",
        )
        assert [(s.type.value, s.name, s.args) for s in fixture.steps][1:] == [
            ("tool_call", "count", {"to": 2})
        ]
        assert fixture.steps[1].output == [0, 1]
        assert Fixture.from_cassette(cassette, session_id="s", query="q").session_id == "s"

    def test_an_answer_that_is_not_whole_is_an_error(self) -> None:
        entry = CassetteEntry(
            kind="tool", index=0, name="t", request={}, response_integrity="truncated"
        )
        with pytest.raises(CassetteError, match=r"tool call #0 .*truncated"):
            Fixture.from_cassette(Cassette([entry]))

    def test_redaction_rules_of_the_recording_go_along(self) -> None:
        recorder = Recorder("s", "q", redact=[("customer", r"C-\d+")])
        recorder.tool("get", lambda customer: customer)("C-17")
        cassette = recorder.fixture.to_cassette()

        @cassette.wrap_tool
        def get(customer: str) -> str:
            raise AssertionError(customer)

        assert get("C-99") == "<redacted:customer>"
        again = Fixture.from_cassette(recorder.fixture.to_cassette())
        assert again == recorder.fixture
        assert MockLayer(again).tool("get")("C-5") == "<redacted:customer>"
        # of a cassette that never was a session too
        plain = Cassette(cassette.entries, redact=[("customer", r"C-\d+")])
        assert MockLayer(Fixture.from_cassette(plain)).tool("get")("C-5") == "<redacted:customer>"

    def test_a_trace_becomes_a_session(self) -> None:
        provider, exporter = TracerProvider(), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("hand-made")
        request = {"model": "m", "messages": [{"role": "user", "content": "Where is A-1?"}]}
        response = {
            "choices": [
                {
                    "message": {"role": "assistant", "content": "On its way."},
                    "finish_reason": "stop",
                }
            ]
        }
        with tracer.start_as_current_span("run"):
            with tracer.start_as_current_span("tool_call lookup") as span:
                span.set_attribute("input", '{"order_id": "A-1"}')
                span.set_attribute(
                    "output", '{"status": "in transit", "key": "sk-' + "7a" * 16 + '"}'
                )
            with tracer.start_as_current_span("llm_call") as span:
                span.set_attribute("input", json.dumps(request))
                span.set_attribute("output", json.dumps(response))
        provider.shutdown()
        spans = exporter.get_finished_spans()
        fixture = Fixture.from_trace(spans)
        assert fixture.session_id == format(spans[0].context.trace_id, "032x")
        assert (fixture.query, fixture.final_output) == ("Where is A-1?", "On its way.")
        assert [(s.type.value, s.name) for s in fixture.steps] == [
            ("tool_call", "lookup"),
            ("llm", "m"),
        ]
        mock = MockLayer(fixture)
        lookup, model = mock.tool("lookup"), mock.llm("m")
        assert lookup("A-1") == {"status": "in transit", "key": "<redacted:openai-key>"}
        assert model(**request)["choices"][0]["message"]["parts"][0]["content"] == "On its way."
        assert Fixture.from_trace(spans, session_id="s", query="q").session_id == "s"
