"""What a diverged replay writes on spans: names, places, sizes, and what it must not show.

The limits are the backends': Tempo cuts strings at 2,048 bytes, the SDK keeps 128 attributes.
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.trace import StatusCode
from replay_setup import (
    RECORDED_SPANS,
    RECORDED_TRACE,
    MakeTelemetry,
    llm_entry,
    openai_body,
    openinference_start,
)

from otel_cassette import Cassette, CassetteMissError, ReplayDivergence
from otel_cassette.otel.sampler import ReplaySampler
from otel_cassette.session import marks, metrics, replay_span

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1-mini"}
QUESTION = "Where is order A-18?"
TEMPO_BYTES = 2048


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts_of(item)


def written(span: ReadableSpan) -> list[str]:
    """Every string that the span carries to a backend."""
    values = [*(span.attributes or {}).values(), span.status.description or ""]
    values += [value for event in span.events for value in (event.attributes or {}).values()]
    return [text for value in values for text in texts_of(value)]


def ask(telemetry: Any, cassette: Cassette, question: str = QUESTION) -> str | None:
    """An agent that asks once inside an instrumented client's span."""
    llm = cassette.wrap_llm()
    with telemetry.tracer.start_as_current_span("chat gpt-4.1-mini", attributes=CHAT):
        try:
            return llm.complete(openai_body(question)).text
        except CassetteMissError:
            return None


def test_a_diverged_call_has_marks_an_event_an_own_span_and_a_link(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with (
        cassette.replaying(mode="lenient") as session,
        telemetry.tracer.start_as_current_span("agent"),
    ):
        assert ask(telemetry, cassette) == "Shipped."
    (divergence,) = session.divergences
    call = telemetry.named("chat gpt-4.1-mini")
    own = telemetry.named("cassette.divergence")
    assert divergence.span_id == format(call.context.span_id, "016x")
    for span in (call, own):
        assert span.attributes["replay_diverged"] is True
        assert span.attributes["replay_divergence"] == divergence.summary()
        assert span.attributes["cassette.kind"] == "llm"
        assert span.attributes["cassette.index"] == 0
        assert span.attributes["cassette.divergence.reason"] == "request_changed"
        assert list(span.attributes["cassette.divergence.fields"]) == list(divergence.fields)
        (event,) = span.events
        assert event.name == "cassette.divergence"
        diff = list(event.attributes["cassette.divergence.diff"])
        assert diff == divergence.diff.splitlines()
        assert any(line.startswith("-") and "A-17" in line for line in diff)
        assert any(line.startswith("+") and "A-18" in line for line in diff)
        assert span.status.status_code is StatusCode.UNSET
    assert own.parent.span_id == call.context.span_id
    assert own.attributes["cassette.id"] == session.id
    assert own.attributes["cassette.mode"] == "lenient"
    (link,) = own.links
    assert format(link.context.trace_id, "032x") == RECORDED_TRACE
    assert format(link.context.span_id, "016x") == RECORDED_SPANS[0]


def test_the_local_root_says_what_diverged_first_as_json(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with (
        telemetry.tracer.start_as_current_span("request"),
        cassette.replaying(mode="lenient") as session,
        telemetry.tracer.start_as_current_span("agent"),
    ):
        ask(telemetry, cassette)
        ask(telemetry, cassette, "Cancel it.")
    first = session.divergences[0]
    for name in ("request", "cassette.replay"):
        span = telemetry.named(name)
        assert span.attributes["replay_diverged"] is True
        said = json.loads(span.attributes["replay_divergence"])
        assert (said["kind"], said["index"], said["reason"]) == ("llm", 0, "request_changed")
        assert said["fields"] == list(first.fields)
        assert said["span_id"] == first.span_id
        assert "diff" not in said
        assert "expected_request" not in said
        assert "A-17" not in span.attributes["replay_divergence"]
    assert "replay_diverged" not in telemetry.named("agent").attributes


def test_a_root_that_is_the_call_itself_keeps_the_summary(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with cassette.replaying(mode="lenient", span=False) as session:
        ask(telemetry, cassette)
    call = telemetry.named("chat gpt-4.1-mini")
    assert call.parent is None
    assert call.attributes["replay_divergence"] == session.divergences[0].summary()


def test_the_session_span_ends_last_with_totals_and_missing_calls(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with cassette.replaying(mode="lenient") as session:
        ask(telemetry, cassette)
        ask(telemetry, cassette, "Where is order A-17?")
    span = telemetry.spans[-1]
    assert span.name == "cassette.replay"
    totals = session.summary
    assert (totals.served, totals.diverged, totals.unplayed) == (2, 1, 3)
    assert span.attributes["cassette.served"] == 2
    assert span.attributes["cassette.live"] == 0
    assert span.attributes["cassette.missed"] == 0
    assert span.attributes["cassette.diverged"] == 1
    assert span.attributes["cassette.unplayed"] == 3
    missing = list(span.attributes["cassette.missing_calls"])
    assert len(missing) == 3
    assert sum("'lookup_order'" in line for line in missing) == 2


def test_missing_calls_alone_are_a_divergence_of_the_session(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with cassette.replaying():
        pass
    span = telemetry.named("cassette.replay")
    assert span.attributes["replay_diverged"] is True
    said = json.loads(span.attributes["replay_divergence"])
    assert (said["kind"], said["index"], said["reason"]) == ("llm", 0, "missing_call")


def test_a_replay_without_divergence_shows_none(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    cassette = Cassette([llm_entry(0, QUESTION, "Shipped.")], mode="strict")
    with cassette.replaying():
        ask(telemetry, cassette)
    assert [span.name for span in telemetry.spans] == ["chat gpt-4.1-mini", "cassette.replay"]
    for span in telemetry.spans:
        assert "replay_diverged" not in span.attributes


def test_only_a_miss_makes_our_span_an_error(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    with cassette.replaying(mode="strict"):
        assert ask(telemetry, cassette) is None
    assert telemetry.named("cassette.divergence").status.status_code is StatusCode.ERROR
    assert telemetry.named("cassette.replay").status.status_code is StatusCode.UNSET


def test_a_wrapper_marks_the_span_it_runs_in_without_session_sampler_or_processor(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(processor=False)
    lookup = cassette.wrap_tool(lambda order_id: {"status": "?"}, name="lookup_order")
    cassette.mode = "lenient"
    with telemetry.tracer.start_as_current_span("agent") as agent:
        assert lookup(order_id="Z-9") == {"status": "shipped"}
    (divergence,) = cassette.divergences
    assert divergence.span_id == format(agent.get_span_context().span_id, "016x")
    span = telemetry.named("agent")
    assert span.attributes["replay_diverged"] is True
    assert span.attributes["replay_divergence"] == divergence.summary()
    assert [event.name for event in span.events] == ["cassette.divergence"]


def test_a_wrapper_without_any_span_only_notes_the_divergence(cassette: Cassette) -> None:
    cassette.mode = "lenient"
    cassette.wrap_tool(lambda order_id: None, name="lookup_order")(order_id="Z-9")
    (divergence,) = cassette.divergences
    assert divergence.span_id is None


def test_long_chats_lose_the_mark_and_keep_the_own_span(make_telemetry: MakeTelemetry) -> None:
    """81 messages as OpenInference writes them: 128 attributes evict the oldest."""
    telemetry = make_telemetry(ReplaySampler(), limits=SpanLimits(max_span_attributes=128))
    turns = [{"role": ("user", "assistant")[n % 2], "content": f"turn {n}"} for n in range(81)]
    recorded = llm_entry(0, "?", "Done.").model_copy(
        update={"request": {"model": "m", "messages": turns}}
    )
    cassette = Cassette([recorded], mode="lenient")
    asked = [*turns[:-1], {"role": "user", "content": "another turn"}]
    with (
        cassette.replaying(span=False),
        telemetry.tracer.start_as_current_span(
            "ChatCompletion", attributes=openinference_start("?")
        ) as span,
    ):
        cassette.wrap_llm().complete({"model": "m", "messages": asked})
        for n, turn in enumerate(asked):
            span.set_attribute(f"llm.input_messages.{n}.message.role", turn["role"])
            span.set_attribute(f"llm.input_messages.{n}.message.content", turn["content"])
    assert "replay_diverged" not in telemetry.named("ChatCompletion").attributes
    own = telemetry.named("cassette.divergence")
    assert own.attributes["replay_diverged"] is True
    assert own.attributes["cassette.divergence.fields"] == ("/messages/80/parts/0/content",)


def test_the_attribute_limit_is_warned_of_once(
    make_telemetry: MakeTelemetry,
    cassette: Cassette,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(replay_span, "_warned_of_limit", False)
    make_telemetry(limits=SpanLimits(max_span_attributes=1000))
    with cassette.replaying():
        pass
    assert caplog.records == []
    make_telemetry(limits=SpanLimits(max_span_attributes=128))
    for _ in range(2):
        with cassette.replaying():
            pass
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in record.getMessage()


# -- content ----------------------------------------------------------------------------------------


def _replay_with_text(telemetry: Any, cassette: Cassette, **options: Any) -> str:
    with (
        cassette.replaying(mode="lenient", **options),
        telemetry.tracer.start_as_current_span("agent"),
    ):
        ask(telemetry, cassette, "My secret diagnosis")
    return "\n".join(text for span in telemetry.spans for text in written(span))


def test_without_span_content_marks_carry_pointers_and_digests_only(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry()
    text = _replay_with_text(telemetry, cassette, span_content=False)
    assert "diagnosis" not in text
    assert "A-17" not in text
    own = telemetry.named("cassette.divergence")
    assert own.attributes["cassette.divergence.fields"] == ("/messages/0/parts/0/content",)
    (event,) = own.events
    recorded, replayed = event.attributes["cassette.divergence.digest"]
    assert recorded.split() != replayed.split()
    assert "cassette.divergence.diff" not in event.attributes


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT", False),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false", False),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only", True),
        ("OPENINFERENCE_HIDE_INPUTS", "true", False),
        ("TRACELOOP_TRACE_CONTENT", "false", False),
    ],
)
def test_an_explicit_switch_of_the_environment_hides_content(
    make_telemetry: MakeTelemetry,
    cassette: Cassette,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    *,
    shown: bool,
) -> None:
    monkeypatch.setenv(name, value)
    text = _replay_with_text(make_telemetry(), cassette)
    assert ("diagnosis" in text) is shown


def test_span_content_true_overrules_the_environment(
    make_telemetry: MakeTelemetry, cassette: Cassette, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false")
    assert "diagnosis" in _replay_with_text(make_telemetry(), cassette, span_content=True)


# -- sizes ------------------------------------------------------------------------------------------


def test_no_string_is_long_enough_for_tempo_to_cut(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    words = [f"wörd{n} 漢字 😀 " * 40 for n in range(400)]
    recorded = {"model": "m", "messages": [{"role": "user", "content": word} for word in words]}
    entry = llm_entry(0, "?", "ok").model_copy(update={"request": recorded})
    cassette = Cassette([entry], mode="lenient")
    live = {"model": "m", "messages": [{"role": "user", "content": word[::-1]} for word in words]}
    with (
        cassette.replaying(),
        telemetry.tracer.start_as_current_span("chat gpt-4.1-mini", attributes=CHAT),
    ):
        cassette.wrap_llm().complete(live)
    for span in telemetry.spans:
        for text in written(span):
            assert len(text.encode()) < 2000 < TEMPO_BYTES
    (event,) = telemetry.named("cassette.divergence").events
    assert len(event.attributes["cassette.divergence.diff"]) <= 60


@given(
    st.text(max_size=3000),
    st.lists(st.text(max_size=900), max_size=40),
    st.text(max_size=3000),
)
def test_the_json_of_a_root_is_whole_and_short_whatever_it_is_made_of(
    name: str, fields: list[str], note: str
) -> None:
    divergence = ReplayDivergence(
        kind="tool",
        index=3,
        reason="tool_changed",
        expected_name=name,
        actual_name=name[::-1],
        fields=tuple(fields),
        scope=tuple(fields),
        note=note,
        diff="never shown here",
    )
    text = marks.divergence_json(divergence)
    assert len(text.encode("utf-8", "replace")) < 2000
    said = json.loads(text)
    assert (said["kind"], said["index"]) == ("tool", 3)
    assert "diff" not in said


@given(st.text(max_size=4000))
def test_bounded_text_is_short_and_a_prefix(text: str) -> None:
    short = marks.bounded(text)
    assert len(short.encode()) < 2000
    assert text.encode("utf-8", "replace").decode().startswith(short.removesuffix("..."))


# -- counters ---------------------------------------------------------------------------------------


def test_totals_go_out_as_counters(
    make_telemetry: MakeTelemetry, cassette: Cassette, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics.metrics, "get_meter", provider.get_meter)
    telemetry = make_telemetry()
    with cassette.replaying(mode="lenient"):
        ask(telemetry, cassette)
        ask(telemetry, cassette, "Where is order A-17?")
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }
    mode = {"cassette.mode": "lenient"}
    assert points == {
        "cassette.calls.served": [(2, mode)],
        "cassette.calls.live": [(0, mode)],
        "cassette.calls.missed": [(0, mode)],
        "cassette.calls.diverged": [(1, mode)],
    }
    provider.shutdown()


def test_a_tie_is_shown_on_the_calls_span(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    cassette = Cassette([llm_entry(n, QUESTION, f"{n}") for n in range(2)], mode="strict")
    with cassette.replaying(span=False):
        ask(telemetry, cassette)
    assert telemetry.named("chat gpt-4.1-mini").attributes["cassette.tie_break"] is True


def test_spans_of_abandoned_streams_are_not_kept(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    from otel_cassette.otel.live import LIVE

    telemetry = make_telemetry()
    with cassette.replaying(span=False):
        gc.collect()  # spans of other tests
        before = LIVE.open_count
        span: trace.Span | None = telemetry.tracer.start_span("chat", attributes=CHAT)
        assert LIVE.open_count == before + 1
        span = None  # nobody holds it: a stream that was abandoned
        assert span is None
        gc.collect()
        assert LIVE.open_count == before
