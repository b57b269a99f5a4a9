"""The runs of the corpus, assembled once, and their model calls beside what really happened.

Values come from the truth files (see tests/data/traces/README.md).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import truth
from otel_cassette.assemble import Assembly, assemble
from otel_cassette.formats import load_trace
from otel_cassette.model.entry import CassetteEntry

RUNS = sorted(truth.EXPECTED)


@cache
def assembled(run: str) -> Assembly:
    trace = load_trace(truth.sources(run), merge=True)
    return assemble(trace.spans, trace.logs)


def all_of(result: Assembly, kind: str) -> list[CassetteEntry]:
    return [e for e in (*result.entries, *result.nested) if e.kind == kind]


def model_pairs(run: str) -> list[tuple[dict[str, Any], CassetteEntry]]:
    """Each successful model call with its entry: by client span or response id, else in order."""
    entries = all_of(assembled(run), "llm")
    by_span = {e.source.span_id: e for e in entries if e.source}
    by_id = {e.response["id"]: e for e in entries if e.response.get("id")}
    pairs: list[tuple[dict[str, Any], CassetteEntry]] = []
    left = []
    for call in truth.calls(run):
        if call["kind"] == "llm" and truth.succeeded(call):
            entry = by_span.get(call.get("client_span")) or by_id.get(truth.response_id(call))
            if entry is None:
                left.append(call)
            else:
                pairs.append((call, entry))
    paired = {id(entry) for _, entry in pairs}
    rest = [e for e in entries if id(e) not in paired]
    return pairs + list(zip(left, rest, strict=False))
