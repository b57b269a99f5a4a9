"""Sources that are not kept in memory read as those that are; SDK objects read as their export."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats import load_trace, looks_like_call, read_traces
from otel_cassette.model.span import SpanRecord, Trace

DATA = Path(__file__).parent.parent / "data" / "traces-formats"
FILES = [
    DATA / "py_otlp_json_file.jsonl",
    DATA / "collector_json_zstd_legacy.bin",
    DATA / "collector_fileexporter_proto.bin",
    DATA / "pypi_otlp_json.json",
    DATA / "otlp_mixed_signals.jsonl",
    *sorted((DATA / "runs").glob("*.otlp.jsonl")),
]


def everything(trace: Trace) -> list[str]:
    return [
        repr(
            (
                span.trace_id,
                span.span_id,
                span.parent_span_id,
                span.name,
                span.kind,
                span.start_ns,
                span.end_ns,
                sorted(span.attributes.items()),
                span.events,
                span.links,
                span.status_code,
                span.status_message,
                span.trace_state,
                span.dropped_attributes,
                span.resource,
                span.scope,
                looks_like_call(span),
            )
        )
        for span in trace.spans
    ] + [repr(log) for log in trace.logs]


@pytest.mark.parametrize("path", [*FILES, DATA / "runs"], ids=lambda path: path.name)
@pytest.mark.parametrize("merge", [False, True])
def test_read_again_on_demand_it_is_the_same(
    path: Path, merge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.name.endswith(".logs.otlp.jsonl"):
        path = path.parent
    kept = [everything(trace) for trace in read_traces(path, merge=merge)]
    monkeypatch.setattr("otel_cassette.formats.reading.IN_MEMORY_BYTES", 0)
    monkeypatch.setattr("otel_cassette.formats.store.CACHE_BYTES", 1000)
    again = list(read_traces(path, merge=merge))
    assert {type(span).__name__ for trace in again for span in trace.spans} == {"StoredSpan"}
    assert [everything(trace) for trace in again] == kept


def test_a_file_that_changes_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_cassette.formats.reading.IN_MEMORY_BYTES", 0)
    path = tmp_path / "trace.jsonl"
    shutil.copy(DATA / "py_otlp_json_file.jsonl", path)
    trace = load_trace(path)
    whole = path.read_bytes()
    for content in (whole[10:] + whole[:10], b""):
        path.write_bytes(content)
        forget(trace)
        with pytest.raises(CassetteFormatError, match="changed while it was being read"):
            [span.attributes for span in trace.spans]


def forget(trace: Trace) -> None:
    """Drop what was decoded and buffered, as reading many other chunks would."""
    store = trace.spans[0]._store  # type: ignore[attr-defined]
    store._cache.clear()
    if store._open is not None:
        store._open[1].close()
        store._open = None


def sdk_spans() -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop", "n": 3}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("lib", "1.2", schema_url="https://example.org/1")
    elsewhere = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))
    with (
        tracer.start_as_current_span("root", kind=SpanKind.SERVER),
        tracer.start_as_current_span(
            "chat",
            kind=SpanKind.CLIENT,
            links=[Link(elsewhere, {"why": "x"})],
            attributes={"s": "t", "list": [1, 2], "f": 1.0, "b": True, "bytes": b"\x00"},
        ) as span,
    ):
        span.add_event("e", {"k": 1}, timestamp=5)
        span.set_status(Status(StatusCode.ERROR, "boom"))
    return exporter.get_finished_spans()


def test_sdk_spans_read_as_what_the_exporter_makes_of_them() -> None:
    spans = sdk_spans()
    directly = load_trace(list(spans))
    exported = load_trace(encode_spans(spans))

    def facts(trace: Trace) -> dict[str, Any]:
        return {
            span.span_id: (
                span.trace_id,
                span.parent_span_id,
                span.name,
                span.kind,
                span.start_ns,
                span.end_ns,
                dict(span.attributes),
                list(span.events),
                list(span.links),
                span.status_code,
                span.status_message,
                dict(span.resource.attributes),
                span.scope.name,
                span.scope.version,
                span.scope.schema_url,
            )
            for span in trace.spans
        }

    assert facts(directly) == facts(exported)
    assert len(directly.spans) == 2


def test_decoded_spans_are_span_records() -> None:
    for span in load_trace(DATA / "py_otlp_json_file.jsonl").spans:
        assert isinstance(span, SpanRecord)
        assert len({span, span}) == 1
        assert span.may_hold(b"no such text anywhere") is False or not span.attributes
