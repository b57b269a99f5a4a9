"""`read_traces` and `load_trace`: from any source to runs.

Puts the parts together: pieces of the source, unpacking, chunks, the index of traces, runs. How
each part works is in its own module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.calls import looks_like_call
from otel_cassette.formats.reading import Reading
from otel_cassette.formats.runs import IsCall, RunKey
from otel_cassette.formats.sources import pieces_of
from otel_cassette.model.span import Trace

_LISTED = 20


@dataclass(frozen=True, slots=True)
class TraceCandidate:
    """One run of a source, as `load_trace` lists it: `start_ns` is nanoseconds since the Unix epoch."""

    trace_id: str
    trace_ids: tuple[str, ...]
    root: str
    service: str | None
    start_ns: int
    spans: int
    calls: int

    def __str__(self) -> str:
        more = f" (+{len(self.trace_ids) - 1} traces)" if len(self.trace_ids) > 1 else ""
        return (
            f"{self.trace_id}{more}  root {self.root!r}, service {self.service or '-'}, "
            f"start {self.start_ns}, {self.calls} calls in {self.spans} spans"
        )


def read_traces(
    source: Any,
    *,
    merge: bool = False,
    trace_id: str | None = None,
    run_key: RunKey | None = None,
    is_call: IsCall = looks_like_call,
) -> Iterator[Trace]:
    """Yield the runs of *source*, by the start of their first span.

    A run is a trace, with those joined to it by a span link, by a session or conversation id, and
    traces of bare calls of one resource together. The whole source is read first, since a trace
    may be spread over all of it; contents of spans are decoded when they are looked at. Sources of
    more than 96 MiB are not kept in memory: their files must stay as they are while spans of them
    are in use.

    Args:
        source: A path, a glob, a directory, a file object, bytes, a dict, an OTLP protobuf message,
            SDK spans and logs, `Trace`s, or a list of these. What it is is told by its content.
        merge: Take everything as one run.
        trace_id: Take only this trace, alone.
        run_key: The caller's own rule: spans of traces with an equal key that is not None are one
            run, other traces stand alone.
        is_call: Tells whether a span is a call, by default from the attributes of common
            instrumentations.

    Raises:
        CassetteFormatError: The source is damaged or is no trace, or the trace is not in it.
        FileNotFoundError: A path or a glob names nothing.
        TypeError: The source is none of these things.
        ValueError: More than one of merge, trace_id and run_key is given.
    """
    if (trace_id is not None) + merge + (run_key is not None) > 1:
        msg = "give only one of merge, trace_id and run_key"
        raise ValueError(msg)
    return _read(source, merge=merge, trace_id=trace_id, run_key=run_key, is_call=is_call)


def load_trace(
    source: Any,
    trace_id: str | None = None,
    *,
    merge: bool = False,
    is_call: IsCall = looks_like_call,
) -> Trace:
    """Return the one run of *source*.

    Args:
        source: As for `read_traces`.
        trace_id: Take only this trace, alone.
        merge: Take everything as one run.
        is_call: Tells whether a span is a call, for the listing.

    Raises:
        CassetteFormatError: There are several runs (`.report` lists them as `TraceCandidate`s), or
            the source cannot be read.
    """
    runs = read_traces(source, merge=merge, trace_id=trace_id, is_call=is_call)
    first = next(runs)
    second = next(runs, None)
    if second is None:
        return first
    candidates = [candidate_of(first, is_call), candidate_of(second, is_call)]
    label = first.source
    del first, second
    candidates += [candidate_of(run, is_call) for run in runs]
    lines = [f"  {candidate}" for candidate in candidates[:_LISTED]]
    if len(candidates) > _LISTED:
        lines.append(f"  ... and {len(candidates) - _LISTED} more")
    raise CassetteFormatError(
        reason=f"holds {len(candidates)} runs; name one by trace_id=, or take all with merge=True:\n"
        + "\n".join(lines),
        path=label,
        report=tuple(candidates),
    )


def candidate_of(trace: Trace, is_call: IsCall = looks_like_call) -> TraceCandidate:
    """Return a run's line in the listing."""
    root = trace.root
    services = (resource.service_name for resource in trace.resources)
    return TraceCandidate(
        trace_id=trace.trace_id or "",
        trace_ids=trace.trace_ids,
        root=root.name if root else "",
        service=next((name for name in services if name), None),
        start_ns=min((span.start_ns for span in trace.spans if span.start_ns), default=0),
        spans=len(trace.spans),
        calls=sum(map(is_call, trace.spans)),
    )


def _read(
    source: Any,
    *,
    merge: bool,
    trace_id: str | None,
    run_key: RunKey | None,
    is_call: IsCall,
) -> Iterator[Trace]:
    reading = Reading(is_call, run_key)
    pieces = list(pieces_of(source, reading.context))
    if (
        pieces
        and not merge
        and trace_id is None
        and run_key is None
        and all(isinstance(p, Trace) for p in pieces)
    ):
        yield from (piece for piece in pieces if isinstance(piece, Trace))
        return
    reading.take(pieces)
    if trace_id is not None:
        yield reading.trace([reading.facts(trace_id)])
        return
    for run in reading.index.runs(merge=merge):
        yield reading.trace(run)
