"""Spans written as OTLP JSON: held against the specification and against protobuf's own parser."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, format_span_id, format_trace_id

from otel_cassette.otel.otlp_json import OTLPJsonFileSpanExporter, otlp_json_line


@pytest.fixture
def spans() -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("a", "1")
    with tracer.start_as_current_span("root", kind=SpanKind.SERVER) as root:
        link = Link(root.get_span_context(), {"why": "é"})
        with tracer.start_as_current_span("child", links=[link]) as child:
            child.set_attributes({"n": 2**53 + 1, "f": 0.5, "b": True, "s": ["x", "y"], "t": "ü\n"})
            child.add_event("e", {"k": 1})
            child.set_status(Status(StatusCode.ERROR, "no"))
    return list(exporter.get_finished_spans())


def flat(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [s for r in document["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]]


def test_ids_are_hex_and_numbers_as_the_specification_says(spans: list[ReadableSpan]) -> None:
    child, root = flat(json.loads(otlp_json_line(spans)))
    context = spans[0].get_span_context()
    assert context is not None
    assert child["traceId"] == format_trace_id(context.trace_id)
    assert child["spanId"] == format_span_id(context.span_id)
    assert child["parentSpanId"] == child["links"][0]["spanId"] == root["spanId"]
    assert "parentSpanId" not in root
    assert child["startTimeUnixNano"] == str(spans[0].start_time)  # 64 bit: decimal strings
    assert root["kind"] == 2  # enums: numbers; SPAN_KIND_SERVER
    assert child["status"] == {"message": "no", "code": 2}
    values = {a["key"]: a["value"] for a in child["attributes"]}
    assert values["n"] == {"intValue": "9007199254740993"}
    assert values["s"] == {"arrayValue": {"values": [{"stringValue": "x"}, {"stringValue": "y"}]}}


def test_protobufs_own_parser_reads_the_same_message(spans: list[ReadableSpan]) -> None:
    document = json.loads(otlp_json_line(spans))
    for span in flat(document):
        for record in (span, *span.get("links", ())):
            for field in ("traceId", "spanId", "parentSpanId"):
                if field in record:
                    record[field] = base64.b64encode(bytes.fromhex(record[field])).decode()
    assert ParseDict(document, ExportTraceServiceRequest()) == encode_spans(spans)


def test_every_batch_is_a_line_of_its_own(spans: list[ReadableSpan], tmp_path: Path) -> None:
    path = tmp_path / "new" / "spans.jsonl"
    exporter = OTLPJsonFileSpanExporter(path)
    assert exporter.export(spans[:1]) is SpanExportResult.SUCCESS
    assert exporter.export(spans[1:]) is SpanExportResult.SUCCESS
    lines = path.read_bytes().split(b"\n")
    assert [len(flat(json.loads(line))) for line in lines[:-1]] == [1, 1]
    assert lines[-1] == b""


def test_a_file_that_cannot_be_written_is_logged_and_never_raised(
    spans: list[ReadableSpan], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = OTLPJsonFileSpanExporter(tmp_path / "spans.jsonl")
    exporter.path = tmp_path  # a folder
    assert exporter.export(spans) is SpanExportResult.FAILURE
    assert [r.getMessage()[:20] for r in caplog.records] == ["cannot write 2 spans"]
