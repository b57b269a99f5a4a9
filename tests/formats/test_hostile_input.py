"""Cut, damaged and hostile sources: the good part or one kind of error, and no span nobody wrote."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats import limits, read_traces, unpack
from otel_cassette.model.span import SpanRecord

DATA = Path(__file__).parent.parent / "data" / "traces-formats"


def spans_of(content: bytes) -> tuple[list[SpanRecord], list[str]]:
    """All spans with their contents decoded, and warnings; nothing for an error of ours."""
    try:
        traces = list(read_traces(content))
        spans = [span for trace in traces for span in trace.spans]
        for span in spans:
            repr((span.attributes, span.events))
    except CassetteFormatError as error:
        return [], [str(error)]
    return spans, [warning for trace in traces for warning in trace.warnings]


def small(n: int, **more: Any) -> dict[str, Any]:
    span = {
        "traceId": "ab" * 16,
        "spanId": f"{n:016x}",
        "name": f"s{n}",
        "startTimeUnixNano": str(n),
        "attributes": [{"key": "k", "value": {"stringValue": "v"}}],
        "links": [{"traceId": "cd" * 16, "spanId": "ef" * 8}],
        **more,
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


LINES = b"".join(json.dumps(small(n), separators=(",", ":")).encode() + b"\n" for n in (1, 2, 3))
PRETTY = b"\n".join(json.dumps(small(n), indent=1).encode() for n in (1, 2, 3)) + b"\n"


def whole_before(content: bytes, cut: int) -> int:
    """How many of the three values stand whole before *cut*, whatever the last line break."""
    ends = [
        i + 1
        for i, _ in enumerate(content)
        if content[: i + 1].count(b"{") == content[: i + 1].count(b"}")
        and content[i : i + 1] == b"}"
    ]
    return sum(1 for end in ends if end <= cut)


@pytest.mark.parametrize("content", [LINES, PRETTY], ids=["lines", "pretty"])
def test_cut_at_every_byte_keeps_what_is_whole_and_says_where_the_rest_is(content: bytes) -> None:
    for cut in range(len(content)):
        spans, said = spans_of(content[:cut])
        whole = whole_before(content, cut)
        assert [span.name for span in spans] == [f"s{n + 1}" for n in range(whole)]
        assert all(dict(span.attributes) == {"k": "v"} for span in spans)
        rest = content[:cut].strip()
        assert said or (whole and rest.endswith(b"}"))


@pytest.mark.parametrize(
    "name",
    [
        "collector_fileexporter_proto.bin",
        "collector_json_zstd_legacy.bin",
        "collector_json_zstd_native.jsonl.zst",
        "collector_jsonl.jsonl.gz",
        "py_otlp_request.binpb",
    ],
)
def test_packed_files_cut_at_every_byte_invent_nothing(name: str) -> None:
    content = (DATA / name).read_bytes()
    known = {(span.trace_id, span.span_id, span.name) for span in spans_of(content)[0]}
    for cut in range(0, len(content), 7):
        spans, said = spans_of(content[:cut])
        assert {(span.trace_id, span.span_id, span.name) for span in spans} <= known
        assert len(spans) == len(known) or said


@pytest.mark.parametrize(
    "name", ["py_otlp_json_file.jsonl", "py_otlp_request.binpb", "collector_jsonl.jsonl.gz"]
)
def test_changed_bytes_raise_nothing_else(name: str) -> None:
    content = (DATA / name).read_bytes()
    rng = random.Random(4)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        spans, _ = spans_of(bytes(damaged))
        assert len(spans) <= 5


def test_changed_types_raise_nothing_else() -> None:
    rng = random.Random(5)
    odd: list[Any] = [
        None,
        True,
        0,
        -1,
        1e400,
        "",
        "x",
        [],
        {},
        [None],
        {"x": []},
        "9" * 5000,
        10**30,
    ]

    def changed(value: Any) -> Any:
        if rng.random() < 0.06:
            return rng.choice(odd)
        if isinstance(value, dict):
            return {key: changed(item) for key, item in value.items()}
        return [changed(item) for item in value] if isinstance(value, list) else value

    original = [
        json.loads(line) for line in (DATA / "py_otlp_json_file.jsonl").read_text().splitlines()
    ]
    for _ in range(300):
        values = changed(original)
        spans, _ = spans_of(json.dumps(values).encode())
        assert len(spans) <= 5
        try:
            plain = sum(len(trace.spans) for trace in read_traces(values))
        except (CassetteFormatError, TypeError, FileNotFoundError):  # a string is a path
            plain = 0
        assert plain <= 5


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b'{"resourceSpans":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"'
        + b"ab" * 16
        + b'","spanId":"'
        + b"1" * 16
        + b'","attributes":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}]}]}]}",
        b'{"resourceSpans":[{"resource":'
        + b'{"attributes":' * 50_000
        + b"1"
        + b"}" * 50_000
        + b"}]}",
        b"9" * 100_000,
        b'"' + b"\\u" * 50_000,
        b'{"x":1}\n' * 50_000,
        b"{\n" * 50_000,
    ],
)
def test_hostile_json_is_one_clean_error(content: bytes) -> None:
    with pytest.raises(CassetteFormatError):
        list(read_traces(content))


def test_a_file_without_anything_readable_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"\n\n" + LINES[:50])
    with pytest.raises(CassetteFormatError, match="from byte 2") as caught:
        list(read_traces(path))
    assert (caught.value.path, caught.value.line) == (str(path), 3)


def test_deep_attribute_values_are_refused_when_they_are_looked_at() -> None:
    def nested(levels: int) -> Any:
        value: Any = {"stringValue": "x"}
        for _ in range(levels):
            value = {"arrayValue": {"values": [value]}}
        return [{"key": "deep", "value": value}]

    allowed = json.dumps(small(1, attributes=nested(limits.MAX_DEPTH))).encode()
    (trace,) = read_traces(allowed)
    assert repr(trace.spans[0].attributes["deep"]).count("[") == limits.MAX_DEPTH
    (trace,) = read_traces(json.dumps(small(1, attributes=nested(limits.MAX_DEPTH + 1))).encode())
    with pytest.raises(CassetteFormatError, match="nested deeper"):
        repr(trace.spans[0].attributes)


@pytest.mark.parametrize("packing", ["gzip", "zstd", "framed zstd"])
def test_what_unpacks_beyond_any_honest_size_is_refused(
    packing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "RATIO_FREE_BYTES", 1 << 20)
    bomb = LINES + b" " * (50 << 20)
    frame = zstandard.ZstdCompressor().compress(bomb)
    content = {
        "gzip": gzip.compress(bomb),
        "zstd": frame,
        "framed zstd": struct.pack(">I", len(frame)) + frame,
    }
    with pytest.raises(CassetteFormatError, match=r"times its size|beyond any honest size"):
        list(read_traces(content[packing]))


def test_packings_inside_packings_end_somewhere() -> None:
    content = LINES
    for _ in range(3):
        content = gzip.compress(content)
    assert len(spans_of(content)[0]) == 3
    with pytest.raises(CassetteFormatError, match="times over"):
        list(read_traces(gzip.compress(content)))


def test_several_gzip_members_are_one_file() -> None:
    assert (
        len(spans_of(b"".join(gzip.compress(line + b"\n") for line in LINES.splitlines()))[0]) == 3
    )


def test_a_single_value_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_cassette.formats.stream.MAX_VALUE_BYTES", 100)
    with pytest.raises(CassetteFormatError, match="one value of more than"):
        list(read_traces(io.BytesIO(LINES)))
