"""An exported trace replays: the agent's own loop, no model, no tool."""

from __future__ import annotations

from replay import TRACE, replay

from otel_cassette import Cassette


def test_every_call_of_the_trace_can_be_replayed() -> None:
    report = Cassette.from_trace(TRACE).report
    assert report.counts == {"replayable": 5}
    assert [line.name for line in report if line.inferred] == ["lookup_order", "refund"]


def test_the_loop_runs_on_the_trace_without_a_difference() -> None:
    answer, session = replay()
    assert answer.startswith("Done! Order A-17 was refunded: €42.50")
    assert session.divergences == []
    assert session.unplayed == []


def test_another_system_prompt_is_the_one_first_cause() -> None:
    _, session = replay("You are a refund assistant. Be polite.")
    causes = [d for d in session.divergences if d.is_first_cause]
    assert [d.fields for d in causes] == [("/system_instructions",)]
    assert "Be polite." in causes[0].diff
