"""Tools that model requests tell of, in a recording without spans of them.

Lives here: the way of a recording's model calls through the inference of `inferring.py`, and its
results as entries. Not here: the inference; runs made of spans (`run.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from otel_cassette.assemble.calls import Call
from otel_cassette.assemble.inferring import find_results, infer_tools
from otel_cassette.assemble.matching import match_tools
from otel_cassette.dialects.protocol import Reading
from otel_cassette.model.entry import CassetteEntry, CassetteFailure
from otel_cassette.model.span import SpanRecord

Record = CassetteEntry | CassetteFailure
_NO_SPAN = SpanRecord(trace_id="", span_id="", name="")


def with_told_tools(records: Sequence[Record]) -> list[Record]:
    """Return a recording's calls with those of tools that answers ask for and later requests answer.

    Args:
        records: Of one process, in file order. Where one of them is a tool's, something told of the
            tools, and nothing is added.

    Returns:
        The same records, and after each answer the tools it asked for, marked `inferred`.
    """
    if any(each.kind in ("tool", "retrieval") for each in records):
        return list(records)
    models = [
        _model(each, place)
        for place, each in enumerate(records)
        if each.kind == "llm" and not (isinstance(each, CassetteEntry) and each.opaque)
    ]
    known = match_tools([each for each in models if not each.failed], [])
    find_results(known, models)
    after: defaultdict[int, list[Record]] = defaultdict(list)
    for index, call in enumerate(infer_tools(known)[0]):
        after[call.position].append(_entry(call, index))
    return [each for place, record in enumerate(records) for each in (record, *after[place])]


def _model(record: Record, place: int) -> Call:
    """Return a recorded model call as one of a run; its place stands for its time."""
    request = record.request if isinstance(record.request, dict) else {}
    reading = Reading(
        "wire",
        "call",
        kind="llm",
        request=request,
        response=record.response if isinstance(record, CassetteEntry) else None,
        has_request=True,
        has_response=isinstance(record, CassetteEntry),
        error=record.error,
        results_wrapped=str(request.get("provider") or "").startswith("gcp."),
    )
    return Call(reading, _NO_SPAN, place, place, place)


def _entry(call: Call, index: int) -> CassetteEntry:
    reading = call.reading
    return CassetteEntry(
        kind="tool",
        index=index,
        name=reading.name,
        request=reading.request,
        scope=reading.scope,
        request_integrity=reading.request_integrity,
        response=reading.response,
        response_integrity=reading.response_integrity,
        inferred=True,
    )
