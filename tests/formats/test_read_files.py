"""Every spelling and packing of OTLP that real writers make, against what the official decoder says."""

from __future__ import annotations

import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats import load_trace, read_traces
from otel_cassette.model.span import SpanRecord, Trace

DATA = Path(__file__).parent.parent / "data" / "traces-formats"
SAME_FIVE_SPANS = [
    "collector_fileexporter_proto.bin",
    "collector_json_zstd_legacy.bin",
    "collector_json_zstd_native.jsonl.zst",
    "collector_jsonl.jsonl.gz",
    "otlp_json_array_of_requests.json",
    "otlp_mixed_signals.jsonl",
    "protobuf_MessageToJson_base64.json",
    "protobuf_MessageToJson_intenums.json",
    "py_otlp_json_file.jsonl",
    "py_otlp_request.binpb",
]
STATUS = ("UNSET", "OK", "ERROR")


def oracle_value(value: Any) -> Any:
    """An AnyValue message as plain values, by the message class's own fields."""
    member = value.WhichOneof("value")
    if member is None:
        return None
    if member == "array_value":
        return [oracle_value(item) for item in value.array_value.values]
    if member == "kvlist_value":
        return {pair.key: oracle_value(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, member)


def oracle_attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: oracle_value(pair.value) for pair in pairs}


def oracle(message: Any) -> dict[str, dict[str, Any]]:
    """All facts of all spans of a TracesData message, by span id."""
    return {
        span.span_id.hex(): {
            "trace_id": span.trace_id.hex(),
            "parent_span_id": span.parent_span_id.hex() or None,
            "name": span.name,
            "kind": span.kind,
            "start_ns": span.start_time_unix_nano,
            "end_ns": span.end_time_unix_nano,
            "attributes": oracle_attributes(span.attributes),
            "events": [
                (e.name, e.time_unix_nano, oracle_attributes(e.attributes)) for e in span.events
            ],
            "links": [
                (k.trace_id.hex(), k.span_id.hex(), oracle_attributes(k.attributes))
                for k in span.links
            ],
            "status": (STATUS[span.status.code], span.status.message),
            "trace_state": span.trace_state,
            "dropped": (
                span.dropped_attributes_count,
                span.dropped_events_count,
                span.dropped_links_count,
            ),
            "resource": oracle_attributes(group.resource.attributes),
            "scope": (part.scope.name, part.scope.version or None),
        }
        for group in message.resource_spans
        for part in group.scope_spans
        for span in part.spans
    }


def facts(span: SpanRecord) -> dict[str, Any]:
    return {
        "trace_id": span.trace_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "kind": span.kind,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "attributes": dict(span.attributes),
        "events": [(e.name, e.time_ns, dict(e.attributes)) for e in span.events],
        "links": [(k.trace_id, k.span_id, dict(k.attributes)) for k in span.links],
        "status": (span.status_code, span.status_message),
        "trace_state": span.trace_state,
        "dropped": (span.dropped_attributes, span.dropped_events, span.dropped_links),
        "resource": dict(span.resource.attributes),
        "scope": (span.scope.name, span.scope.version),
    }


def by_id(trace: Trace) -> dict[str, dict[str, Any]]:
    return {span.span_id: facts(span) for span in trace.spans}


def comparable(spans: dict[str, dict[str, Any]]) -> str:
    """Text that is equal for equal spans: NaN equals itself, -0.0 differs from 0.0 and 1 from 1.0.

    Less one stack trace, whose file paths differ between the recordings.
    """
    parts = []
    for span_id, span in sorted(spans.items()):
        events = [
            (n, t, {k: v for k, v in a.items() if k != "exception.stacktrace"})
            for n, t, a in span["events"]
        ]
        parts.append(
            (span_id, {**span, "attributes": sorted(span["attributes"].items()), "events": events})
        )
    return repr(parts)


@pytest.fixture(scope="module")
def five_spans() -> dict[str, dict[str, Any]]:
    return oracle(TracesData.FromString((DATA / "py_otlp_request.binpb").read_bytes()))


@pytest.mark.parametrize("name", SAME_FIVE_SPANS)
def test_every_spelling_and_packing_holds_the_same_spans(
    name: str, five_spans: dict[str, Any]
) -> None:
    assert comparable(by_id(load_trace(DATA / name))) == comparable(five_spans)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("legacy_instrumentationLibrarySpans.json", 3),
        ("js_otlp_json.json", 2),
        ("pypi_otlp_json.json", 5),
        ("otlp_proto_example_trace.json", 1),
    ],
)
def test_other_spellings_keep_their_spans(name: str, count: int) -> None:
    trace = load_trace(DATA / name)
    assert len(trace.spans) == count
    assert trace.warnings == ()


def test_javascript_numbers_nan_and_half_a_surrogate_pair() -> None:
    span = next(
        s for s in load_trace(DATA / "js_otlp_json.json").spans if s.name.startswith("chat")
    )
    assert span.attributes["edge.1e21"] == 10**21
    assert span.attributes["edge.beyond"] == 1152921504606847000
    assert span.attributes["edge.nan"] is None
    assert span.attributes["edge.lone"] == "\ufffdx"
    assert span.attributes["edge.bytes"] == b"\x00\xff\x01"
    assert span.links[0].trace_id == "512287adf5a25831dad216fceb703588"


def test_bare_nan_and_snake_case_counts() -> None:
    spans = load_trace(DATA / "pypi_otlp_json.json").spans
    chat = next(span for span in spans if span.name.startswith("chat"))
    assert math.isnan(chat.attributes["edge.nan"])
    assert chat.attributes["edge.inf"] == math.inf
    assert chat.dropped_attributes == 4


def test_upper_case_ids_become_lower_case() -> None:
    (span,) = load_trace(DATA / "otlp_proto_example_trace.json").spans
    assert (span.trace_id, span.span_id) == ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")


def test_the_good_part_of_a_cut_file_is_kept_with_the_place_of_the_rest() -> None:
    trace = load_trace(DATA / "collector_partial_last_line.jsonl")
    assert len(trace.spans) == 3
    (warning,) = trace.warnings
    assert "line 2 (from byte 6731)" in warning
    assert "cut" in warning


MAKERS = {
    "py_console.txt": "Python's ConsoleSpanExporter",
    "py_zipkin_v2.json": "Zipkin",
    "tempo_search_negative.json": "trace search",
    "jaeger_v3_FindTraceSummaries.json": "trace search",
}


@pytest.mark.parametrize("path", sorted((DATA / "refused").iterdir()), ids=lambda path: path.name)
def test_another_format_is_named_with_what_is_accepted(path: Path) -> None:
    with pytest.raises(CassetteFormatError) as caught:
        list(read_traces(path))
    assert "looks like" in caught.value.reason
    assert MAKERS.get(path.name, path.name.split("_")[0]).lower() in caught.value.reason.lower()
    assert "OTLP JSON" in caught.value.reason
    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b'{"resourceSpans":[]}\n{}\n', "export without spans"),
        (b'{"log":{"entries":[]}}', "HTTP archive"),
        (b'{"id":1,"turns":[]}\n', "no known trace format"),
        (b'{"resourceLogs":[]}', "logs only"),
        (b'{"resourceMetrics":[]}', "metrics only"),
        (b"Traceback (most recent call last):\n", "no JSON"),
        (b"PK\x03\x04\x00\x00", "zip"),
        (b"\x89\x00\x01\x02", "neither JSON nor OTLP protobuf"),
        (
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00","spanId":"1","name":"x"}]}]}]}',
            "valid trace id",
        ),
    ],
)
def test_no_span_is_an_error_with_its_reason(content: bytes, reason: str) -> None:
    with pytest.raises(CassetteFormatError, match=reason):
        list(read_traces(content))


def one_span(**changes: Any) -> dict[str, Any]:
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "chat",
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, **changes}]}]}]}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("5B8EFFF798038103D269B633813FC60C", "5b8efff798038103d269b633813fc60c"),
        ("0x5b8efff798038103d269b633813fc60c", "5b8efff798038103d269b633813fc60c"),
        ("W47/95gDgQPSabYzgT/GDA==", "5b8efff798038103d269b633813fc60c"),
        ("W47_95gDgQPSabYzgT_GDA==", "5b8efff798038103d269b633813fc60c"),
        ("5b8efff7-9803-8103-d269-b633813fc60c", "5b8efff798038103d269b633813fc60c"),
        ("d269b633813fc60c", "0000000000000000d269b633813fc60c"),
    ],
)
def test_trace_ids_are_told_by_their_length(written: str, read: str) -> None:
    assert load_trace(one_span(traceId=written)).trace_id == read
    assert load_trace(json.dumps(one_span(traceId=written)).encode()).trace_id == read


def test_pretty_documents_one_after_the_other_with_bom_and_crlf() -> None:
    docs = [one_span(spanId=f"{n:016x}") for n in (1, 2, 3)]
    text = "\r\n\r\n".join(json.dumps(doc, indent=2).replace("\n", "\r\n") for doc in docs)
    trace = load_trace(b"\xef\xbb\xbf" + text.encode())
    assert [int(span.span_id, 16) for span in trace.spans] == [1, 2, 3]
    assert trace.warnings == ()
    assert len(load_trace(text.encode("utf-16")).spans) == 3


def test_a_damaged_line_in_the_middle_is_left_out_alone() -> None:
    lines = [json.dumps(one_span(spanId=f"{n:016x}")) for n in (1, 2, 3)]
    lines[1] = lines[1][:-20]
    trace = load_trace("\n".join(lines).encode())
    assert [int(span.span_id, 16) for span in trace.spans] == [1, 3]
    assert "line 2" in trace.warnings[0]
    assert "damaged" in trace.warnings[0]


def test_values_glued_together_on_one_line_are_all_read() -> None:
    text = "".join(json.dumps(one_span(spanId=f"{n:016x}")) for n in (1, 2))
    assert len(load_trace(text.encode()).spans) == 2


def test_bare_resource_spans_and_bare_spans() -> None:
    (group,) = one_span()["resourceSpans"]
    (span,) = one_span(startTimeUnixNano="5")["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert load_trace(json.dumps(group).encode()).spans[0].name == "chat"
    assert load_trace(json.dumps(span).encode()).spans[0].start_ns == 5


def test_of_spans_sent_twice_the_ended_and_fullest_is_kept() -> None:
    full = [{"key": "a", "value": {"intValue": "1"}}]
    sent = [
        one_span(),
        one_span(endTimeUnixNano="9"),
        one_span(endTimeUnixNano="9", attributes=full),
        one_span(attributes=full),
    ]
    trace = load_trace("\n".join(map(json.dumps, sent)).encode())
    (span,) = trace.spans
    assert (span.end_ns, dict(span.attributes)) == (9, {"a": 1})
    assert "3 spans stood in the source more than once" in trace.warnings[0]


def test_the_last_of_equal_keys_wins_and_an_empty_value_is_none() -> None:
    pairs = [
        {"key": "a", "value": {"intValue": 1}},
        {"key": "a", "value": {"stringValue": "2"}},
        {"key": "b", "value": {}},
    ]
    assert dict(load_trace(one_span(attributes=pairs)).spans[0].attributes) == {"a": "2", "b": None}
    raw = json.dumps(one_span(attributes=pairs)).encode()
    assert dict(load_trace(raw).spans[0].attributes) == {"a": "2", "b": None}


@pytest.mark.parametrize("name", ["anthropic-sdk-native--refund", "otel-genai-openai--refund"])
def test_protobuf_and_json_of_one_run_are_equal(name: str) -> None:
    from_json = load_trace(DATA / "runs" / f"{name}.otlp.jsonl", merge=True)
    from_protobuf = load_trace(DATA / "runs" / f"{name}.pb", merge=True)
    assert by_id(from_json) == by_id(from_protobuf)
    assert by_id(from_json) == oracle(
        TracesData.FromString((DATA / "runs" / f"{name}.pb").read_bytes())
    )


def test_sources_of_every_kind_hold_the_same(tmp_path: Path) -> None:
    path = DATA / "py_otlp_json_file.jsonl"
    content = path.read_bytes()
    message = TracesData.FromString((DATA / "py_otlp_request.binpb").read_bytes())
    packed = tmp_path / "misleading.json"
    packed.write_bytes(gzip.compress(content))
    (tmp_path / "rest").mkdir()
    for number, line in enumerate(content.splitlines()):
        (tmp_path / "rest" / f"{number}.txt").write_bytes(line)
    (tmp_path / "rest" / "notes.md").write_text("no trace")
    wanted = set(by_id(load_trace(path)))
    opened = path.open("rb")
    sources: list[Any] = [
        str(path),
        content,
        bytearray(content),
        io.BytesIO(content),
        io.StringIO(content.decode()),
        opened,
        json.loads(content.splitlines()[0].decode()),
        [json.loads(line) for line in content.decode().splitlines()],
        message,
        packed,
        tmp_path / "rest",
        str(tmp_path / "rest" / "*.txt"),
        list((tmp_path / "rest").glob("*.txt")),
        load_trace(path),
        list(load_trace(path).spans),
        MessageToDict(message),
    ]
    found = [set(by_id(load_trace(source))) for source in sources]
    opened.close()
    assert found[6] < wanted
    assert all(ids == wanted for number, ids in enumerate(found) if number != 6)


def test_a_missing_file_and_what_is_no_source() -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        list(read_traces("/nonexistent/trace.jsonl"))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        list(read_traces("/nonexistent/*.jsonl"))
    with pytest.raises(TypeError, match="give a path"):
        list(read_traces(5))
    with pytest.raises(CassetteFormatError, match="looks like Tempo"):
        list(read_traces([DATA / "refused" / "tempo_v1.json", DATA / "py_otlp_json_file.jsonl"]))


def test_zstd_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    for name in ("collector_json_zstd_legacy.bin", "collector_json_zstd_native.jsonl.zst"):
        with pytest.raises(CassetteFormatError, match=r"otel-cassette\[zstd\]"):
            list(read_traces(DATA / name))
