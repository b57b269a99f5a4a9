"""File shapes of exported traces: from any source to runs (`Trace`), one file per shape.

What a span means is not decided here but in `dialects/`.
"""

from __future__ import annotations

from otel_cassette.formats.calls import looks_like_call
from otel_cassette.formats.reader import TraceCandidate, candidate_of, load_trace, read_traces
from otel_cassette.formats.sdk import log_of, span_of

__all__ = [
    "TraceCandidate",
    "candidate_of",
    "load_trace",
    "log_of",
    "looks_like_call",
    "read_traces",
    "span_of",
]
