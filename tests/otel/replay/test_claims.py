"""`current_claim`: the way in for clients that nobody wraps."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry import context as otel_context
from replay_setup import MakeTelemetry, llm_entry, openai_body

from otel_cassette import (
    Cassette,
    CassetteError,
    CassetteFailure,
    CassetteMissError,
    Claim,
    LLMResponse,
    ReplaySampler,
    current_claim,
)

CHAT = {"gen_ai.operation.name": "chat"}


def own_client(question: str) -> str:
    """A client of a program's own, as the docs show it."""
    claim = current_claim()
    if claim is not None:
        return str(claim.answer(openai_body(question)).text)
    return "from the provider"


def test_a_client_that_asks_is_answered(make_telemetry: MakeTelemetry, cassette: Cassette) -> None:
    telemetry = make_telemetry(ReplaySampler())
    assert current_claim() is None
    assert own_client("Where is order A-17?") == "from the provider"
    with cassette.replaying() as session:
        with telemetry.tracer.start_as_current_span("chat", attributes=CHAT):
            claim = current_claim()
            assert isinstance(claim, Claim)
            assert (claim.kind, claim.index) == ("llm", 0)
            assert claim.entry is not None
            assert claim.entry.llm_response.text == "Shipped."
            assert own_client("Where is order A-17?") == "Shipped."
        assert own_client("Refund it.") == "Done."
    assert session.summary.served == 2
    assert session.divergences == []
    assert current_claim() is None


def test_a_divergence_is_recorded_and_a_miss_raised(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    with (
        cassette.replaying(mode="strict") as session,
        telemetry.tracer.start_as_current_span("chat", attributes=CHAT) as span,
        pytest.raises(CassetteMissError, match="A-18") as missed,
    ):
        own_client("Where is order A-18?")
    (divergence,) = session.divergences
    assert missed.value.divergence == divergence
    assert divergence.span_id == format(span.get_span_context().span_id, "016x")
    assert telemetry.named("chat").attributes["replay_diverged"] is True


def test_tools_are_answered_by_arguments_with_the_name_of_the_span(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    with (
        cassette.replaying(),
        telemetry.tracer.start_as_current_span("execute_tool lookup_order"),
    ):
        claim = current_claim()
        assert claim is not None
        assert (claim.kind, claim.name) == ("tool", "lookup_order")
        result = claim.answer({"order_id": "B-2"})
        assert result == {"status": "lost"}
        result["status"] = "changed"
        again = claim.answer({"order_id": "A-17"})
    assert again == {"status": "shipped"}
    assert cassette.entries_of("tool")[1].response == {"status": "lost"}


def test_no_sampler_is_needed(make_telemetry: MakeTelemetry, cassette: Cassette) -> None:
    telemetry = make_telemetry()
    with cassette.replaying(), telemetry.tracer.start_as_current_span("agent"):
        claim = current_claim()
        assert claim is not None
        assert (claim.kind, claim.index) == ("llm", None)
        assert isinstance(claim.answer(openai_body("Refund it.")), LLMResponse)
        assert claim.answer({"order_id": "A-17"}, kind="tool", name="lookup_order") == {
            "status": "shipped"
        }


def test_an_unknown_kind_is_an_error_and_no_divergence(cassette: Cassette) -> None:
    with cassette.replaying() as session:
        claim = current_claim()
        assert claim is not None
        with pytest.raises(ValueError, match="kind='tools': one of llm, tool,"):
            claim.answer({"order_id": "A-17"}, kind="tools", name="lookup_order")  # type: ignore[arg-type]
    assert session.divergences == []


def test_what_goes_live_needs_the_real_call(cassette: Cassette) -> None:
    with cassette.replaying(mode="fallthrough") as session:
        claim = current_claim()
        assert claim is not None
        real = {"choices": [{"message": {"role": "assistant", "content": "really"}}]}
        answer = claim.answer(openai_body("New?"), live=lambda: real)
        assert answer.text == "really"
        with pytest.raises(CassetteMissError, match="pass live="):
            claim.answer(openai_body("New again?"))
    assert session.summary.live == 2


def test_a_live_call_that_fails_raises_its_own_error(cassette: Cassette) -> None:
    def broken() -> Any:
        raise TimeoutError("no answer")

    with cassette.replaying(mode="fallthrough"):
        claim = current_claim()
        assert claim is not None
        with pytest.raises(TimeoutError, match="no answer"):
            claim.answer({"order_id": "new"}, kind="tool", name="lookup_order", live=broken)


def test_a_recorded_failure_is_raised_again() -> None:
    failure = CassetteFailure(
        kind="llm",
        request=openai_body("Boom?"),
        error={"type": "TimeoutError", "message": "slow"},
    )
    cassette = Cassette([llm_entry(0, "Hi", "Hello")], mode="strict")
    cassette._journal.replace([*cassette.entries, failure])
    with cassette.replaying():
        claim = current_claim()
        assert claim is not None
        with pytest.raises(TimeoutError, match="slow"):
            claim.answer(openai_body("Boom?"))


def test_a_recording_has_no_claims(cassette: Cassette) -> None:
    with cassette.recording():
        assert current_claim() is None


def test_a_poisoned_session_fails_alike(cassette: Cassette) -> None:
    miss = CassetteMissError(
        kind="llm", index=0, mode="strict", expected=None, actual_request={}, actual_key="k"
    )
    block = cassette.replaying()
    session = block.__enter__()
    session.poison(miss)
    with pytest.raises(CassetteMissError, match="llm call #0"):
        current_claim()
    with pytest.raises(CassetteMissError) as raised:
        block.__exit__(None, None, None)
    assert raised.value is miss


def test_an_explicit_context_is_asked(make_telemetry: MakeTelemetry, cassette: Cassette) -> None:
    with cassette.replaying() as session:
        kept = otel_context.get_current()
    assert current_claim(kept) is None, "the session is over"
    with cassette.replaying() as session:
        kept = otel_context.get_current()
        claims: list[Claim | None] = []
        thread = threading.Thread(target=lambda: claims.append(current_claim(kept)))
        thread.start()
        thread.join()
    (claim,) = claims
    assert claim is not None
    assert claim.session is session


def test_two_sessions_and_a_lost_context_are_a_clear_error(cassette: Cassette) -> None:
    errors: list[BaseException] = []

    def lost() -> None:
        try:
            current_claim()
        except CassetteError as error:
            errors.append(error)

    with cassette.replaying(), Cassette(mode="strict").replaying():
        thread = threading.Thread(target=lost)
        thread.start()
        thread.join()
    (error,) = errors
    assert "2 cassette sessions are open" in str(error)
