"""Faults in our own span code: the user's calls go on, the fault is told once.

The SDK guards nothing: an exception in a callback would reach the user's code.
"""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import Span
from replay_setup import MakeTelemetry, openai_body

from otel_cassette import Cassette, ReplaySampler
from otel_cassette.otel import starting
from otel_cassette.otel.live import LiveSpans
from otel_cassette.otel.troubles import REPLAY_TROUBLES
from otel_cassette.session import marks, metrics, replay_span

CHAT = {"gen_ai.operation.name": "chat"}


def broken(*_: Any, **__: Any) -> Any:
    raise OSError("disk on fire")


@pytest.fixture(autouse=True)
def _fresh_account() -> None:
    REPLAY_TROUBLES.clear()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (LiveSpans, "locate"),
        (LiveSpans, "_match_late"),
        (LiveSpans, "local_root"),
        (marks, "divergence_attributes"),
        (marks, "divergence_event"),
        (marks, "tracer"),
        (starting, "marks"),
        (metrics, "count"),
        (replay_span, "tracer"),
        (replay_span, "divergence_json"),
        (Span, "add_event"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_fault_is_told_and_the_calls_go_on(
    make_telemetry: MakeTelemetry,
    cassette: Cassette,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: Any,
    name: str,
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    monkeypatch.setattr(owner, name, broken)
    answers = []
    with cassette.replaying(mode="lenient") as session:
        for question in ("Where is order A-18?", "Refund it."):
            with telemetry.tracer.start_as_current_span("chat", attributes=CHAT):
                answers.append(cassette.wrap_llm().complete(openai_body(question)).text)
    assert answers == ["Shipped.", "Done."]
    assert (session.summary.served, session.summary.diverged) == (2, 1)
    assert len(telemetry.all_named("chat")) == 2
    told = [record for record in caplog.records if "disk on fire" in record.getMessage()]
    if name == "_match_late":  # every call here has a span that is found: no late one is waited for
        assert told == []
        return
    assert len(told) >= 1
    assert len(told) == len({record.getMessage() for record in told}), "each is told once"


def test_faults_stand_in_the_sessions_report(
    make_telemetry: MakeTelemetry, cassette: Cassette, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = make_telemetry()
    monkeypatch.setattr(LiveSpans, "locate", broken)
    with cassette.replaying() as session:
        for question in ("Where is order A-17?", "Refund it."):
            with telemetry.tracer.start_as_current_span("chat", attributes=CHAT):
                cassette.wrap_llm().complete(openai_body(question))
    (fault,) = session.faults
    assert "disk on fire" in fault
    assert "not marked" in fault
    assert REPLAY_TROUBLES.total == 2
