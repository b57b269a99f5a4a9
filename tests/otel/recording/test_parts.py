"""The parts of the hot path: which spans are looked at, their lines on disk, what is masked in them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.trace import Link, SpanContext, Status, StatusCode
from recording_calls import Kept, tracer_with

from otel_cassette.dialects import REGISTRY
from otel_cassette.formats import read_traces, span_of
from otel_cassette.model.span import SpanRecord
from otel_cassette.otel.candidates import CandidateTest
from otel_cassette.otel.guard import Troubles
from otel_cassette.otel.masking import MaskedLines
from otel_cassette.redaction import Redactor

MARKERS = [marker.decode() for dialect in REGISTRY for marker in dialect.markers]
SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"


def finished(name: str, **more: Any) -> Any:
    kept = Kept()
    span = tracer_with(kept).start_span(name, **more)
    span.end()
    return kept.spans[0]


@pytest.mark.parametrize(
    ("name", "attributes", "is_candidate"),
    [
        ("GET", {"http.request.method": "GET"}, False),
        ("GET", {}, False),
        ("chat m", {"gen_ai.operation.name": "chat"}, True),
        ("x", {"openinference.span.kind": "LLM"}, True),
        ("llm_call", {}, True),
        ("tool_call: look", {"a": 1}, True),
        ("x", {"span.type": "llm_call"}, True),
        ("x", {"kind": "tool_call"}, True),
        ("x", {"kind": "something"}, False),
        ("x", {"error.type": "Timeout"}, False),
        ("turn", {"session.id": "s"}, True),
    ],
)
def test_candidates(name: str, attributes: dict[str, Any], is_candidate: bool) -> None:
    test = CandidateTest(MARKERS)
    span = finished(name, attributes=attributes)
    assert test(span) is is_candidate
    assert test(span) is is_candidate  # and once more, when the answer is remembered


def test_the_same_keys_with_other_values() -> None:
    test = CandidateTest(MARKERS)
    assert not test(finished("x", attributes={"type": "job"}))
    assert test(finished("x", attributes={"type": "llm_call"}))


def test_names_without_end_do_not_fill_the_memory() -> None:
    test = CandidateTest(MARKERS)
    for number in range(10_000):
        assert not test(finished(f"GET /{number}"))
    assert len(test._known) <= 4096


VALUES = st.one_of(
    st.text(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(st.text()),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
)


@given(st.dictionaries(st.text(min_size=1), VALUES), st.from_regex("[a-z]{3,9}", fullmatch=True))
def test_lines_say_what_opentelemetrys_own_encoding_says(
    attributes: dict[str, Any], name: str
) -> None:
    attributes = {k: v for k, v in attributes.items() if k.strip()}
    link = Link(SpanContext(1, 2, is_remote=False), {"why": "because"})
    kept = Kept()
    span = tracer_with(kept).start_span(name, attributes=attributes, links=[link])
    span.add_event("happened", {"n": 1})
    span.set_status(Status(StatusCode.ERROR, "broke"))
    span.end()
    record = span_of(kept.spans[0])
    assert record is not None
    (ours,) = read_traces(MaskedLines(None).span(record))
    (theirs,) = read_traces(encode_spans(kept.spans))
    assert facts(ours.spans[0]) == facts(theirs.spans[0])


def facts(span: SpanRecord) -> dict[str, Any]:
    names = [
        "trace_id",
        "span_id",
        "parent_span_id",
        "name",
        "kind",
        "start_ns",
        "end_ns",
        "status_code",
        "status_message",
        "dropped_attributes",
    ]
    found = {name: getattr(span, name) for name in names}
    found["attributes"] = dict(span.attributes)
    found["events"] = [(e.name, e.time_ns, dict(e.attributes)) for e in span.events]
    found["links"] = [(k.trace_id, k.span_id, dict(k.attributes)) for k in span.links]
    found["scope"] = (span.scope.name, span.scope.version)
    found["resource"] = dict(span.resource.attributes)
    return found


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, b"\x00\xff", None, {"a": [1, {"b": None}]}, "half \ud800 pair"],
)
def test_odd_values(value: Any) -> None:
    record = SpanRecord(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "1", name="x", attributes={"v": value}
    )
    (trace,) = read_traces(MaskedLines(None).span(record))
    found = trace.spans[0].attributes["v"]
    expected = "half ? pair" if isinstance(value, str) else value
    if isinstance(value, float) and math.isnan(value):
        assert math.isnan(found)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        ({"gen_ai.input.messages": json.dumps([{"content": f"use {SECRET}"}])}, ()),
        ({"note": SECRET}, ()),
        ({"list": [SECRET, "b"]}, ()),
        ({}, [("said", {"body": SECRET})]),
        ({"args": json.dumps({"inner": json.dumps({"password": SECRET})})}, ()),
        ({"authorization": "Basic dXNlcjpwYXNzd29yZA=="}, ()),
    ],
)
def test_masking(attributes: dict[str, Any], events: Any) -> None:
    kept = Kept()
    span = tracer_with(kept).start_span("x", attributes=attributes)
    for name, given_attributes in events:
        span.add_event(name, given_attributes)
    span.end()
    record = span_of(kept.spans[0])
    assert record is not None
    line = MaskedLines(Redactor()).span(record).decode()
    assert SECRET not in line
    assert "dXNlcjpwYXNzd29yZA" not in line
    assert "<redacted:" in line


def test_secrets_of_the_resource() -> None:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    kept = Kept()
    provider = TracerProvider(
        resource=Resource({"process.command_line": f"run --token {SECRET}"}), shutdown_on_exit=False
    )
    provider.add_span_processor(kept)
    provider.get_tracer("t").start_span("x").end()
    record = span_of(kept.spans[0])
    assert record is not None
    assert SECRET not in MaskedLines(Redactor()).span(record).decode()


def test_a_trouble_is_logged_once_a_minute_and_counted_always(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    troubles = Troubles("test")
    for _ in range(100):
        troubles.raised("on_end", ValueError("x"), lost="a span is lost")
    assert len(caplog.records) == 1
    now += 61
    troubles.raised("on_end", ValueError("x"), lost="a span is lost")
    assert len(caplog.records) == 2
    assert troubles.total == 101
    assert troubles.lines == ["test: on_end failed (ValueError: x); a span is lost"]
