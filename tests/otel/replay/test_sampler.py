"""The replay sampler: what it leaves alone, what it un-drops, the claim it carries, marks at start.

The tracestate grammar is W3C Trace Context's; the ratio's arithmetic is the SDK's own sampler.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.propagators.textmap import default_getter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanContext, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from replay_setup import MakeTelemetry, llm_entry, openai_body, openinference_start, tool_entry

from otel_cassette import Cassette
from otel_cassette.engine import Engine
from otel_cassette.otel.claims import hint_in
from otel_cassette.otel.sampler import ReplaySampler, sampler_from_environment
from otel_cassette.otel.troubles import REPLAY_TROUBLES

TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
MEMBER = re.compile(r"[a-z0-9.:-]{1,64}")


class Fixed(ALWAYS_ON.__class__):  # type: ignore[misc]
    """A delegate that answers with one and the same result."""

    def __init__(self, result: SamplingResult) -> None:
        super().__init__(result.decision)
        self.result = result

    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        return self.result


def test_without_a_session_the_delegates_very_result_is_returned() -> None:
    result = SamplingResult(Decision.RECORD_ONLY, {"a": 1})
    sampler = ReplaySampler(Fixed(result))
    assert sampler.should_sample(None, TRACE_ID, "chat") is result


def test_the_default_delegate_is_the_sdks_default() -> None:
    assert isinstance(ReplaySampler().delegate, ParentBased)
    assert ParentBased(ALWAYS_ON).get_description() in ReplaySampler().get_description()


def test_an_unknown_on_replay_is_an_error() -> None:
    with pytest.raises(ValueError, match="'sample' or 'delegate'"):
        ReplaySampler(on_replay="always")  # type: ignore[arg-type]


def test_every_span_of_a_replay_is_exported_whatever_the_ratio(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler(ParentBased(TraceIdRatioBased(0.1))))
    with cassette.replaying(span=False):
        for _ in range(300):
            with telemetry.tracer.start_as_current_span("agent"):
                telemetry.tracer.start_span("step", attributes={"n": 1}).end()
    assert len(telemetry.spans) == 600
    assert telemetry.all_named("step")[0].attributes == {"n": 1}


def test_on_replay_delegate_keeps_the_decision(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler(ALWAYS_OFF, on_replay="delegate"))
    with cassette.replaying(span=False) as session:
        span = telemetry.tracer.start_span("chat", attributes={"gen_ai.operation.name": "chat"})
        span.end()
    assert telemetry.spans == ()
    assert span.get_span_context().trace_state["cassette"] == f"{session.id}.llm.0"


def test_a_recording_un_drops_with_the_callers_attributes_and_the_parents_tracestate() -> None:
    sampler = ReplaySampler(ALWAYS_OFF)
    parent = SpanContext(
        TRACE_ID, 0xB7AD6B7169203331, is_remote=True, trace_state=TraceState([("congo", "t61")])
    )
    context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
    assert (
        sampler.should_sample(context, TRACE_ID, "chat", None, {"a": 1}).decision is Decision.DROP
    )
    with Cassette().recording():
        result = sampler.should_sample(context, TRACE_ID, "chat", None, {"a": 1})
        kept = ReplaySampler(ALWAYS_ON).should_sample(context, TRACE_ID, "chat", None, {"a": 1})
    assert result.decision is Decision.RECORD_ONLY
    assert dict(result.attributes) == {"a": 1}
    assert result.trace_state is not None
    assert dict(result.trace_state) == {"congo": "t61"}
    assert kept.decision is Decision.RECORD_AND_SAMPLE


def test_a_claim_is_inherited_and_the_next_sibling_gets_the_next(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    tracer = telemetry.tracer
    chat = {"gen_ai.operation.name": "chat"}
    seen: dict[str, str] = {}

    def note(name: str, span: trace.Span) -> None:
        seen[name] = span.get_span_context().trace_state["cassette"]

    with cassette.replaying(span=False) as session:
        llm = cassette.wrap_llm()
        with tracer.start_as_current_span("agent") as agent:
            note("agent", agent)
            with tracer.start_as_current_span("chat a", attributes=chat) as first:
                note("first", first)
                with tracer.start_as_current_span("POST") as http:
                    note("http", http)
                    with tracer.start_as_current_span("chat inner", attributes=chat) as nested:
                        note("nested", nested)
                llm.complete(openai_body("Where is order A-17?"))
            with tracer.start_as_current_span("chat b", attributes=chat) as second:
                note("second", second)
                with tracer.start_as_current_span("execute_tool lookup_order") as tool:
                    note("tool", tool)
    sid = session.id
    assert seen == {
        "agent": sid,
        "first": f"{sid}.llm.0",
        "http": f"{sid}.llm.0",
        "nested": f"{sid}.llm.0",
        "second": f"{sid}.llm.1",
        "tool": f"{sid}.tool.0",
    }
    assert all(MEMBER.fullmatch(value) for value in seen.values())


def test_open_siblings_claim_different_places_and_an_unused_claim_is_given_back(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    chat = {"gen_ai.operation.name": "chat"}

    def started() -> tuple[trace.Span, int | None]:
        span = telemetry.tracer.start_span("chat", attributes=chat)
        hint = hint_in(span.get_span_context())
        assert hint is not None
        return span, hint.index

    with cassette.replaying(span=False):
        first, at_first = started()
        second, at_second = started()
        third, at_third = started()
        first.end()
        fourth, at_fourth = started()
        for span in (second, third, fourth):
            span.end()
    assert (at_first, at_second, at_third, at_fourth) == (0, 1, None, 0)


def test_a_claim_is_no_reservation(make_telemetry: MakeTelemetry, cassette: Cassette) -> None:
    """A callback's span beside the SDK's own: claims drift, answers do not."""
    telemetry = make_telemetry(ReplaySampler())
    chat = {"gen_ai.operation.name": "chat"}
    answers = []
    with cassette.replaying(span=False) as session:
        llm = cassette.wrap_llm()
        for question in ("Where is order A-17?", "Refund it."):
            callback = telemetry.tracer.start_span(
                "ChatOpenAI", otel_context.Context(), attributes=chat
            )
            with telemetry.tracer.start_as_current_span("chat", attributes=chat):
                answers.append(llm.complete(openai_body(question)).text)
            callback.end()
    assert answers == ["Shipped.", "Done."]
    assert (session.summary.served, session.summary.diverged) == (2, 0)


def test_equal_requests_are_answered_in_order_beside_a_callbacks_span(
    make_telemetry: MakeTelemetry,
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    cassette = Cassette([llm_entry(n, "Roll a die.", f"{n + 1}") for n in range(3)], mode="strict")
    chat = {"gen_ai.operation.name": "chat"}
    answers = []
    with cassette.replaying(span=False):
        llm = cassette.wrap_llm()
        for _ in range(3):
            callback = telemetry.tracer.start_span(
                "ChatOpenAI", otel_context.Context(), attributes=chat
            )
            with telemetry.tracer.start_as_current_span("chat", attributes=chat):
                answers.append(llm.complete(openai_body("Roll a die.")).text)
            callback.end()
    assert answers == ["1", "2", "3"]


def test_w3c_propagation_carries_the_claim_and_another_process_ignores_it(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    propagator = TraceContextTextMapPropagator()
    headers: dict[str, str] = {}
    chat = {"gen_ai.operation.name": "chat"}
    with (
        cassette.replaying(span=False) as session,
        telemetry.tracer.start_as_current_span("chat", attributes=chat),
    ):
        propagator.inject(headers)
    assert headers["tracestate"] == f"cassette={session.id}.llm.0"
    # No session is open any more: as in a process that never had one.
    context = propagator.extract(headers, otel_context.Context(), default_getter)
    result = ReplaySampler().should_sample(context, TRACE_ID, "chat", None, chat)
    assert result.decision is Decision.RECORD_AND_SAMPLE
    assert dict(result.attributes) == chat


def test_a_full_tracestate_keeps_its_members(cassette: Cassette) -> None:
    members = [(f"k{n}", "v") for n in range(32)]
    parent = SpanContext(
        TRACE_ID,
        0xB7AD6B7169203331,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=TraceState(members),
    )
    with cassette.replaying(span=False):
        context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        result = ReplaySampler().should_sample(context, TRACE_ID, "chat")
    assert result.trace_state is not None
    assert list(result.trace_state.items()) == members


def test_parent_based_around_the_sampler_asks_it_for_roots_only(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ParentBased(root=ReplaySampler(ALWAYS_OFF)))
    with cassette.replaying(span=False), telemetry.tracer.start_as_current_span("agent"):
        telemetry.tracer.start_span("step").end()
    assert sorted(span.name for span in telemetry.spans) == ["agent", "step"]


# -- marks at start --------------------------------------------------------------------------------


def start_marks(telemetry: Any, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes a span has the moment it was started, as far as they are marks."""
    span = telemetry.tracer.start_span(name, attributes=attributes)
    result = {k: v for k, v in span.attributes.items() if k.startswith(("replay_", "cassette."))}
    span.end()
    return result


@pytest.mark.parametrize("match", ["index", "content"])
def test_a_whole_request_that_nothing_equals_is_marked_at_start(
    make_telemetry: MakeTelemetry, cassette: Cassette, match: Any
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    with cassette.replaying(span=False, match=match) as session:
        same = start_marks(telemetry, "ChatCompletion", openinference_start("Where is order A-17?"))
        later = start_marks(telemetry, "ChatCompletion", openinference_start("Refund it."))
        changed = start_marks(telemetry, "ChatCompletion", openinference_start("Cancel it."))
    assert same == {}
    assert later == {}, "calls that run at once are made in any order"
    assert changed["replay_diverged"] is True
    assert changed["cassette.divergence.reason"] == "request_changed"
    assert session.divergences == [], "a peek enters nothing into the account"


def test_tool_arguments_that_nothing_equals_are_marked_at_start(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())

    def tool(arguments: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup_order",
            "gen_ai.tool.call.arguments": arguments,
        }

    name = "execute_tool lookup_order"
    with cassette.replaying(span=False):
        assert start_marks(telemetry, name, tool('{"order_id": "A-17"}')) == {}
        changed = start_marks(telemetry, name, tool('{"order_id": "Z-9"}'))
        unknown = start_marks(telemetry, name, {"gen_ai.operation.name": "execute_tool"})
    assert changed["replay_diverged"] is True
    assert unknown == {}


def test_a_call_beyond_the_end_is_marked_at_start(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    chat = {"gen_ai.operation.name": "chat"}
    with cassette.replaying(span=False):
        llm = cassette.wrap_llm()
        llm.complete(openai_body("Where is order A-17?"))
        assert start_marks(telemetry, "chat", chat) == {}
        llm.complete(openai_body("Refund it."))
        beyond = start_marks(telemetry, "chat", chat)
        after = start_marks(telemetry, "chat", {**chat, "gen_ai.response.id": "chatcmpl-1"})
        embedding = start_marks(telemetry, "embeddings", {"gen_ai.operation.name": "embeddings"})
    assert beyond["cassette.divergence.reason"] == "extra_call"
    assert after == {}, "a span that shows its answer at start was made after the call"
    assert embedding == {}, "of a kind that the recording does not have nothing is known"


# -- the guard --------------------------------------------------------------------------------------


def test_a_fault_in_the_engine_leaves_the_users_span_alone(
    make_telemetry: MakeTelemetry,
    cassette: Cassette,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    telemetry = make_telemetry(ReplaySampler())

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("disk on fire")

    before = REPLAY_TROUBLES.total
    with cassette.replaying(span=False) as session:
        monkeypatch.setattr(Engine, "claim", broken)
        for _ in range(5):
            with telemetry.tracer.start_as_current_span(
                "chat", attributes={"gen_ai.operation.name": "chat"}
            ):
                pass
    assert len(telemetry.all_named("chat")) == 5
    assert REPLAY_TROUBLES.total == before + 5
    assert len([r for r in caplog.records if "disk on fire" in r.getMessage()]) == 1
    (fault,) = session.faults
    assert "disk on fire" in fault
    REPLAY_TROUBLES.clear()


def test_a_lost_context_uses_the_only_session_and_none_of_several(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler(ALWAYS_OFF))

    def in_plain_thread() -> None:
        thread = threading.Thread(target=lambda: telemetry.tracer.start_span("worker").end())
        thread.start()
        thread.join()

    with cassette.replaying(span=False):
        in_plain_thread()
        assert len(telemetry.spans) == 1
        with Cassette([tool_entry(0, "t", {}, 1)], mode="strict").replaying(span=False):
            in_plain_thread()
            assert len(telemetry.spans) == 1


# -- entry points -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "root"),
    [
        (None, ParentBased(ALWAYS_ON)),
        ("", ParentBased(ALWAYS_ON)),
        ("0.25", ParentBased(TraceIdRatioBased(0.25))),
        ("always_off", ALWAYS_OFF),
        ("parentbased_always_off", ParentBased(ALWAYS_OFF)),
    ],
)
def test_the_sampler_of_the_environment(argument: str | None, root: Any) -> None:
    sampler = sampler_from_environment(argument)
    assert sampler.delegate.get_description() == root.get_description()


def test_an_unreadable_argument_is_an_error() -> None:
    with pytest.raises(ValueError, match="OTEL_TRACES_SAMPLER_ARG='often'"):
        sampler_from_environment("often")
