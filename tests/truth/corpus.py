"""Recorded runs with what was really sent: spans of real instrumentations, and the wire requests.

Reads `tests/data/traces` and `tests/data/dialects/openinference`; their READMEs say where the files
come from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from otel_cassette import Cassette
from otel_cassette.engine import LiveCall
from otel_cassette.wire import CODECS

DATA = Path(__file__).parents[1] / "data"
ROOTS = (DATA / "traces", DATA / "dialects" / "openinference")
FILES = {
    f"{path.parent.name}/{path.name.removesuffix('.otlp.jsonl')}": path
    for root in ROOTS
    for path in sorted(root.glob("*/*.otlp.jsonl"))
    if not path.name.endswith(".logs.otlp.jsonl")
}
CODEC_OF = {
    "gemini.generateContent": "google.generate",
    "google.generateContent": "google.generate",
    "openai.chat.completions": "openai.chat",
}
"""Names of the APIs in the truth files, where they differ from the codecs'."""


def sources(run: str) -> list[Path]:
    """The files of a run: spans, and log records where there are any."""
    spans = FILES[run]
    logs = spans.with_name(spans.name.replace(".otlp.jsonl", ".logs.otlp.jsonl"))
    return [path for path in (spans, logs) if path.exists()]


def cassette_of(run: str) -> Cassette:
    return Cassette.from_trace(sources(run), merge=True)


def truth_calls(run: str) -> list[dict[str, Any]]:
    """What the provider and the tools really got, in the order in which it came."""
    path = FILES[run]
    truth = json.loads(
        path.with_name(path.name.replace(".otlp.jsonl", ".truth.json")).read_text("utf-8")
    )
    return sorted(truth["calls"], key=lambda c: (c.get("start_ns") or 0, c["seq"]))


def failed(call: dict[str, Any]) -> bool:
    return bool(call.get("error")) or (call.get("status") or 200) >= 400


def live_call(call: dict[str, Any]) -> LiveCall:
    """A call of the truth as the engine takes it."""
    if call["kind"] not in ("llm", "embedding"):
        return LiveCall(call["kind"], call["request"], name=call["name"])
    return LiveCall(call["kind"], decoded(call, call["request"]))


def decoded(call: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """A wire request through its codec; Gemini has its model in the URL."""
    codec = CODECS[CODEC_OF.get(call["api"], call["api"])]
    path = call.get("path") or f"/v1beta/models/{call['name']}:generateContent"
    return codec.decode_request(body, path=path)


def recorded_truth(run: str, cassette: Cassette) -> Iterator[dict[str, Any]]:
    """The calls of the truth that have a counterpart in the recording.

    A failed call counts where a span tells of it; a retry inside an SDK has none.
    """
    failures = cassette.failures
    spans = {f.source.span_id for f in failures if f.source is not None}
    kinds = {record.kind for record in [*cassette.entries, *failures]}
    for call in truth_calls(run):
        if call["kind"] not in kinds:
            continue
        if failed(call) and not any(f.kind == call["kind"] for f in failures):
            continue
        if failed(call) and call.get("client_span") and call["client_span"] not in spans:
            continue
        yield call
