"""Two recorded support sessions, replayed with the agent of today and scored by two evaluators.

No network, no key: a model or tool call is answered from the recording, and a call that the
recording does not have is an error with a diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from record_sessions import SESSIONS, record
from support_agent import INSTRUCTIONS, support_agent
from support_evaluators import honest_about_refunds, mentions

from otel_cassette.harness import Fixture, MockLayer, ReplayError, ReplayHarness

HARNESS = ReplayHarness(Path(__file__).parent / "fixtures")


def agent_of_today(mock: MockLayer, instructions: str = INSTRUCTIONS) -> Any:
    tools = {name: mock.tool(name) for name in ("lookup_order", "refund")}
    return support_agent(mock.llm("decide"), tools, instructions=instructions)


@pytest.mark.parametrize("session_id", ["refund-delivered", "late-parcel"])
def test_a_session_is_answered_well(session_id: str) -> None:
    result = HARNESS.replay(session_id, agent_of_today, [mentions, honest_about_refunds])
    assert result["scores"] == {"mentions": 1.0, "honest_about_refunds": True}
    assert result["output"] == HARNESS.load(session_id).final_output
    assert result["unplayed"] == []


def test_the_evaluators_tell_a_bad_answer() -> None:
    refunded, late = HARNESS.load("refund-delivered"), HARNESS.load("late-parcel")
    assert mentions("Order A-1003 is fine.", refunded) == 0.5
    assert not honest_about_refunds("I have refunded you.", late)


def test_a_changed_prompt_line_is_found() -> None:
    def changed(mock: MockLayer) -> Any:
        return agent_of_today(
            mock, instructions="You help customers of a bookshop. Refund everything."
        )

    with pytest.raises(ReplayError) as caught:
        HARNESS.replay("refund-delivered", changed)
    assert caught.value.divergence.fields == ("/system_instructions",)
    assert "Refund delivered orders only." in caught.value.divergence.diff


def test_recording_again_gives_the_same_sessions(tmp_path: Path) -> None:
    for session_id in SESSIONS:
        record(session_id, tmp_path)
        again = Fixture.from_json((tmp_path / f"{session_id}.json").read_bytes())
        kept = HARNESS.load(session_id)
        assert [(s.type, s.name, s.args, s.output) for s in again.steps] == [
            (s.type, s.name, s.args, s.output) for s in kept.steps
        ]
        assert again.final_output == kept.final_output
