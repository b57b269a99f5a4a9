"""The agent of today, run against the recorded calls: no model, no refund is paid, and a changed prompt is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent import INSTRUCTIONS, QUESTION, refund_agent
from record import CASSETTE, record

from otel_cassette import Cassette, CassetteMissError


def never(**_: Any) -> None:
    pytest.fail("the real tool was called")


def lookup_order(order_id: str) -> None:
    never(order_id=order_id)


def refund(order_id: str, amount: float) -> None:
    never(order_id=order_id, amount=amount)


def replay(cassette: Cassette, *, instructions: str = INSTRUCTIONS) -> str:
    tools = {"lookup_order": cassette.wrap_tool(lookup_order), "refund": cassette.wrap_tool(refund)}
    return refund_agent(QUESTION, cassette.wrap_llm(), tools, instructions=instructions)


def test_the_agent_still_does_what_was_recorded() -> None:
    cassette = Cassette.load(CASSETTE)
    with cassette.replaying() as session:
        answer = replay(cassette)
    assert "34.50 EUR" in answer
    assert session.divergences == []
    assert session.unplayed == []
    assert str(session.summary) == "served 5, live 0, missed 0, unplayed 0, ties 0"


def test_a_changed_prompt_line_stops_the_replay_and_is_shown() -> None:
    cassette = Cassette.load(CASSETTE)
    with pytest.raises(CassetteMissError) as caught, cassette.replaying():
        replay(cassette, instructions=INSTRUCTIONS.replace("50 EUR", "20 EUR"))
    divergence = caught.value.divergence
    assert divergence is not None
    assert divergence.summary() == "llm call #0: request differs (system_instructions)"
    assert "Refund up to 20 EUR" in divergence.diff


def test_recording_again_gives_the_same_file(tmp_path: Path) -> None:
    assert record(tmp_path / "again.jsonl") == 5
    assert (tmp_path / "again.jsonl").read_bytes() == CASSETTE.read_bytes()
