"""Replaying sessions of a folder, scored."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_cassette.errors import CassetteFormatError
from otel_cassette.harness import (
    Fixture,
    MockLayer,
    Recorder,
    ReplayError,
    ReplayHarness,
    Step,
    StepType,
)

DATA = Path(__file__).parent.parent / "data" / "sessions"


@pytest.fixture
def harness(tmp_path: Path) -> ReplayHarness:
    shutil.copy(DATA / "refund_1_2.json", tmp_path / "refund-1003.json")
    return ReplayHarness(tmp_path)


def _agent(mock: MockLayer) -> Callable[[str], str]:
    plan, answer, lookup = mock.llm("plan"), mock.llm("answer"), mock.tool("lookup_order")

    def run(query: str) -> str:
        order_id = plan(prompt=query)["order_id"]
        lookup(order_id)
        reply = answer(model="gpt-4o-mini", messages=[{"role": "user", "content": query}])
        return str(reply["choices"][0]["message"]["content"])

    return run


def mentions_all(output: str, fixture: Fixture) -> bool:
    return all(text in output for text in fixture.expected["must_mention"])


def step_ratio(output: str, fixture: Fixture) -> float:
    return len(fixture.steps) / fixture.expected["max_steps"]


def test_an_agent_is_replayed_and_scored(harness: ReplayHarness) -> None:
    result = harness.replay("refund-1003", _agent, [mentions_all, step_ratio])
    assert result["output"] == "20.50 is on its way to your card."
    assert result["scores"] == {"mentions_all": True, "step_ratio": 4 / 6}
    assert result["session_id"] == "refund-1003"
    assert result["served"] == 3
    assert result["divergences"] == result["unplayed"] == result["masked"] == []


def test_scores_are_the_values_of_the_evaluators_unchanged(harness: ReplayHarness) -> None:
    value = object()

    async def slow(output: str, fixture: Fixture) -> str:
        await asyncio.sleep(0)
        return output[:5]

    result = harness.replay(
        "refund-1003", _agent, {"odd": lambda o, f: value, "slow": slow, "none": lambda o, f: None}
    )
    assert result["scores"]["odd"] is value
    assert result["scores"]["slow"] == "20.50"
    assert result["scores"]["none"] is None
    assert harness.replay("refund-1003", _agent)["scores"] == {}


def test_exceptions_of_agent_and_evaluators_propagate(harness: ReplayHarness) -> None:
    def broken(output: str, fixture: Fixture) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        harness.replay("refund-1003", _agent, [broken])
    with pytest.raises(ValueError, match="two evaluators are named"):
        harness.replay("refund-1003", _agent, [mentions_all, mentions_all])


def test_an_agent_that_departs_is_an_error_even_when_it_catches_it(harness: ReplayHarness) -> None:
    def careless(mock: MockLayer) -> Callable[[str], str]:
        lookup = mock.tool("lookup_order")

        def run(query: str) -> str:
            try:
                lookup(order_id="A-9")
            except Exception as error:
                return f"tool failed: {type(error).__name__}"
            return "fine"

        return run

    with pytest.raises(ReplayError, match="arguments/order_id"):
        harness.replay("refund-1003", careless, [mentions_all])
    result = harness.replay("refund-1003", careless, mode="lenient")
    assert result["output"] == "fine"
    assert [d.fields for d in result["divergences"]] == [("/arguments/order_id",)]


def test_an_async_agent_is_run_to_its_end(tmp_path: Path) -> None:
    async def fetch(x: int) -> int:
        return x * 2

    recorder = Recorder("double", "21")
    asyncio.run(recorder.tool("fetch", fetch)(21))
    recorder.save(tmp_path / "double.json")

    def factory(mock: MockLayer) -> Callable[[str], Any]:
        double = mock.tool("fetch")

        async def run(query: str) -> int:
            await asyncio.sleep(0)
            return int(await double(int(query)))

        return run

    harness = ReplayHarness(str(tmp_path))
    assert harness.replay("double", factory)["output"] == 42

    async def inside() -> dict[str, Any]:
        with pytest.raises(RuntimeError, match="areplay"):
            harness.replay("double", factory)
        return await harness.areplay("double", factory, [lambda output, fixture: output])

    assert asyncio.run(inside())["scores"] == {"<lambda>": 42}


def test_a_fixture_may_be_given_itself() -> None:
    fixture = Fixture("s", "q", [Step(StepType.TOOL_CALL, "t", {}, 1)])
    result = ReplayHarness().replay(fixture, lambda mock: lambda query: mock.tool("t")())
    assert result["output"] == 1
    assert ReplayHarness().fixtures_dir == Path("fixtures")


def test_a_missing_or_damaged_session_says_where_and_what_to_do(
    harness: ReplayHarness, tmp_path: Path
) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"no session 'nope'.*nope\.json.*Recorder\('nope', query\)"
    ):
        harness.load("nope")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(CassetteFormatError, match=r"bad\.json:1: not JSON"):
        harness.load("bad")
    for outside in ("../refund-1003", str(tmp_path.parent / "x")):
        with pytest.raises(ValueError, match="outside"):
            harness.load(outside)


class TestEvents:
    @pytest.fixture
    def spans(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
        provider, exporter = TracerProvider(), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
        yield provider, exporter
        provider.shutdown()

    @staticmethod
    def _events(span: ReadableSpan) -> list[tuple[str, dict[str, Any]]]:
        return [(event.name, dict(event.attributes or {})) for event in span.events]

    def test_scores_go_out_on_the_current_span(
        self, harness: ReplayHarness, spans: tuple[TracerProvider, InMemorySpanExporter]
    ) -> None:
        provider, exporter = spans
        evaluators: dict[str, Any] = {
            "ok": lambda o, f: True,
            "ratio": lambda o, f: 0.5,
            "tone": lambda o, f: "kind",
            "nan": lambda o, f: float("nan"),
            "why": lambda o, f: {"key": "sk-" + "7a" * 16},
        }
        with provider.get_tracer("test").start_as_current_span("run"):
            harness.replay("refund-1003", _agent, evaluators)
        (span,) = exporter.get_finished_spans()
        name = "gen_ai.evaluation.name"
        assert self._events(span) == [
            (
                "gen_ai.evaluation.result",
                {
                    name: "ok",
                    "gen_ai.evaluation.score.value": 1.0,
                    "gen_ai.evaluation.score.label": "true",
                },
            ),
            ("gen_ai.evaluation.result", {name: "ratio", "gen_ai.evaluation.score.value": 0.5}),
            ("gen_ai.evaluation.result", {name: "tone", "gen_ai.evaluation.score.label": "kind"}),
            ("gen_ai.evaluation.result", {name: "nan", "gen_ai.evaluation.score.label": "nan"}),
            (
                "gen_ai.evaluation.result",
                {name: "why", "gen_ai.evaluation.explanation": '{"key": "<redacted:openai-key>"}'},
            ),
        ]

    def test_without_a_current_span_each_has_one_of_its_own(
        self, harness: ReplayHarness, spans: tuple[TracerProvider, InMemorySpanExporter]
    ) -> None:
        harness.replay("refund-1003", _agent, {"long": lambda o, f: "x" * 5000})
        (span,) = spans[1].get_finished_spans()
        assert span.name == "cassette.evaluation"
        ((name, attributes),) = self._events(span)
        assert name == "gen_ai.evaluation.result"
        assert len(attributes["gen_ai.evaluation.score.label"]) == 480
