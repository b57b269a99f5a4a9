"""`assemble`: a run's spans and log records to entries and a report.

Lives here: the order of the steps, the result, and the lines of the report that are about calls.
Not here: the steps.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from otel_cassette.assemble.calls import Call
from otel_cassette.assemble.duplicates import mark_duplicates
from otel_cassette.assemble.history import complete_histories
from otel_cassette.assemble.inferring import find_results, infer_tools
from otel_cassette.assemble.limits import mark_cut_texts
from otel_cassette.assemble.matching import match_tools
from otel_cassette.assemble.reading import Readings, read_spans, span_line
from otel_cassette.assemble.report import AssemblyReport, ReportLine, SpanStatus
from otel_cassette.assemble.settling import entry_of, failure_of, settle
from otel_cassette.assemble.tree import SpanTree
from otel_cassette.dialects import REGISTRY
from otel_cassette.dialects.payload import forget_histories
from otel_cassette.dialects.protocol import Dialect
from otel_cassette.model.entry import PLAYABLE, CassetteEntry, CassetteFailure, EntryKind
from otel_cassette.model.span import LogRecord, SpanRecord


@dataclass(slots=True)
class Assembly:
    """What a run holds.

    Attributes:
        entries: Calls of the top level in recording order, those that cannot be played too.
        nested: Calls made inside a tool or a retrieval; `parent` says in which.
        failures: Calls that failed without an answer, each with its place.
        report: What became of each span.
        metadata: `trace_id` and `trace_name` of the run, `model` and `provider` where known.
    """

    entries: list[CassetteEntry] = field(default_factory=list)
    nested: list[CassetteEntry] = field(default_factory=list)
    failures: list[CassetteFailure] = field(default_factory=list)
    report: AssemblyReport = field(default_factory=AssemblyReport)
    metadata: dict[str, Any] = field(default_factory=dict)

    def entries_of(self, kind: EntryKind) -> list[CassetteEntry]:
        """Return the top-level entries of one kind, by index."""
        return [entry for entry in self.entries if entry.kind == kind]


def assemble(
    spans: Iterable[SpanRecord],
    logs: Iterable[LogRecord] = (),
    *,
    dialects: Sequence[Dialect] = REGISTRY,
    infer: bool = True,
) -> Assembly:
    """Turn the spans of one run into cassette entries and a report. Pure; never raises on content.

    Args:
        spans: All spans of the run, in any order; unfinished ones have `end_ns` 0.
        logs: Log records of the run; those of call spans hold content in some vocabularies.
        dialects: Vocabularies, the one to be asked first at the front.
        infer: Whether to make tool entries of results that only stand in the next model request.

    Returns:
        Entries, nested entries, failures, report and metadata.
    """
    with _collector_paused():
        try:
            return _assemble(spans, logs, dialects, infer=infer)
        finally:
            forget_histories()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the cyclic garbage collector from running.

    A long run makes millions of objects that all stay: looking through them again and again for
    garbage took half of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _assemble(
    spans: Iterable[SpanRecord],
    logs: Iterable[LogRecord],
    dialects: Sequence[Dialect],
    *,
    infer: bool,
) -> Assembly:
    readings = read_spans(spans, logs, dialects)
    limit = mark_cut_texts(readings.calls)
    tree = SpanTree(readings.spans)
    tree.add_calls(readings.calls)
    mark_duplicates(readings.calls)
    calls = [c for c in readings.calls if c.same_as is None and not c.composite]
    missing = _join_tools(calls, infer=infer)
    for call in calls:
        _check_collapsed(call)
    ordered = settle(calls)
    result = Assembly(metadata=_metadata(readings, ordered))
    lines = _collect(result, ordered, tree)
    result.report = AssemblyReport(
        [*lines, *missing, *_other_lines(readings)],
        spans=len(readings.spans),
        suspected_limit=limit,
    )
    return result


def _join_tools(calls: list[Call], *, infer: bool) -> list[ReportLine]:
    """Join tool spans with the model's calls, and add the tools that have no span to *calls*."""
    models = sorted((c for c in calls if c.kind == "llm"), key=lambda c: c.start_ns)
    tools = sorted((c for c in calls if c.kind == "tool"), key=lambda c: (c.start_ns, c.position))
    complete_histories(models)
    known = match_tools([m for m in models if not m.failed], tools)
    find_results(known, models)
    if not infer:
        return []
    inferred, missing = infer_tools(known)
    calls.extend(inferred)
    return missing


def _check_collapsed(tool: Call) -> None:
    """Mark a model call that ran a tool its own answer does not ask for.

    Automatic function calling makes one span of the whole loop: the first request, the last
    answer, and tools inside; the model's turns between are lost.
    """
    outer = tool.enclosing
    if tool.kind != "tool" or tool.inferred or outer is None or outer.kind != "llm":
        return
    model = outer.kept
    if tool.lies_in(model) and not any(
        part.get("type") == "tool_call" and part.get("name") == tool.reading.name
        for part in model.answer_parts()
    ):
        model.collapsed = True
        model.reading.response_integrity = "dropped"


def _collect(result: Assembly, ordered: Sequence[Call], tree: SpanTree) -> list[ReportLine]:
    lines: list[ReportLine] = []
    followed: defaultdict[tuple[Call | None, EntryKind], int] = defaultdict(lambda: -1)
    for call in ordered:
        key = (call.parent, call.kind)
        if call.failed:
            result.failures.append(failure_of(call, tree, followed[key]))
        else:
            followed[key] = call.index
            entry = entry_of(call, tree)
            (result.entries if call.parent is None else result.nested).append(entry)
        lines.append(_call_line(call))
    return lines


def _call_line(call: Call) -> ReportLine:
    reading = call.reading
    status, reason = _verdict(call)
    model = reading.request.get("model") if isinstance(reading.request, dict) else None
    return ReportLine(
        status,
        kind=call.kind,
        name=reading.name if call.kind in ("tool", "retrieval") else model,
        index=None if call.failed else call.index,
        nested=call.parent is not None,
        inferred=call.inferred,
        span_name=call.span.name,
        trace_id=call.span.trace_id,
        span_id=call.span.span_id,
        dialect=reading.dialect,
        request_integrity=reading.request_integrity,
        response_integrity=reading.response_integrity,
        reason=reason,
        remedy=reading.remedy,
        notes=tuple(reading.notes),
    )


def _verdict(call: Call) -> tuple[SpanStatus, str | None]:
    reading = call.reading
    if call.failed:
        error = reading.error
        # messages of some instrumentations go on with a traceback: a reason is one sentence
        lines = "" if error is None else f"{error.type}: {error.message}".strip().splitlines()
        return (
            "failed",
            f"The call failed: {lines[0].rstrip(': .') if lines else 'no reason given'}.",
        )
    if call.collapsed:
        return (
            "collapsed",
            "One span holds a whole tool loop: the model's turns between were not recorded.",
        )
    if reading.response_integrity not in PLAYABLE:
        return "not_replayable", f"Its answer is {reading.response_integrity}."
    if reading.response_integrity != "whole":
        return "flagged", f"Its answer is {reading.response_integrity}."
    if not reading.has_request:
        return "flagged", "Its request was not captured, so equality cannot be told."
    return "replayable", None


def _other_lines(readings: Readings) -> list[ReportLine]:
    lines = list(readings.lines)
    for call in readings.calls:
        if call.composite:
            reason = "It holds several model calls, each with a span of its own."
            lines.append(span_line(call.span, "wrapper", reading=call.reading, reason=reason))
        elif call.same_as is not None:
            kept = call.kept.span
            reason = f"The same call as span {kept.name!r} ({kept.span_id})."
            lines.append(span_line(call.span, "duplicate", reading=call.reading, reason=reason))
    return lines


def _metadata(readings: Readings, ordered: Sequence[Call]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    spans = readings.spans
    roots = [
        span
        for span in spans.values()
        if not span.parent_span_id or (span.trace_id, span.parent_span_id) not in spans
    ]
    if roots:
        root = min(roots, key=lambda span: (span.start_ns, span.span_id))
        metadata["trace_id"] = root.trace_id
        metadata["trace_name"] = root.name
    for call in ordered:
        request = call.reading.request
        if call.kind == "llm" and isinstance(request, dict):
            for key in ("model", "provider"):
                if request.get(key):
                    metadata.setdefault(key, request[key])
    return metadata
