"""The one registry of span attributes, events and span names that the package writes.

Lives here: names with their type and meaning; docs/attributes.md, the Collector configuration, the
dashboards and the queries are made of them. Not here: code that writes them (`marks.py`, `otel/`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DIVERGED_ATTR = "replay_diverged"
DIVERGENCE_ATTR = "replay_divergence"
SPAN_TYPE_ATTR = "cassette.span.type"
REQUEST_ATTR = "cassette.request"
RESPONSE_ATTR = "cassette.response"
YIELDS_ATTR = "cassette.yields"

ID_ATTR = "cassette.id"
MODE_ATTR = "cassette.mode"
KIND_ATTR = "cassette.kind"
INDEX_ATTR = "cassette.index"
SOURCE_ATTR = "cassette.source"
TIE_ATTR = "cassette.tie_break"
REASON_ATTR = "cassette.divergence.reason"
FIELDS_ATTR = "cassette.divergence.fields"
SCOPE_ATTR = "cassette.divergence.scope"
CASCADE_ATTR = "cassette.divergence.cascade_of"
DIFF_ATTR = "cassette.divergence.diff"
DIGEST_ATTR = "cassette.divergence.digest"
SERVED_ATTR = "cassette.served"
LIVE_ATTR = "cassette.live"
MISSED_ATTR = "cassette.missed"
UNPLAYED_ATTR = "cassette.unplayed"
TIES_ATTR = "cassette.ties"
DIVERGED_COUNT_ATTR = "cassette.diverged"
MISSING_ATTR = "cassette.missing_calls"

SERVED_METRIC = "cassette.calls.served"
LIVE_METRIC = "cassette.calls.live"
MISSED_METRIC = "cassette.calls.missed"
DIVERGED_METRIC = "cassette.calls.diverged"
PROBLEMS_METRIC = "cassette.problems"

TRACESTATE_KEY = "cassette"
DIVERGENCE_EVENT = "cassette.divergence"
DIVERGENCE_SPAN = "cassette.divergence"
REPLAY_SPAN = "cassette.replay"
EVALUATION_SPAN = "cassette.evaluation"
OWN_SPAN_PREFIX = "cassette."
"""Begins the names of spans that show a replay; they are never entries."""

MAX_STRING_BYTES = 2000
"""Longest string put on a span; Tempo cuts at 2,048 bytes without a mark."""
MAX_DIFF_ITEMS = 60


@dataclass(frozen=True, slots=True)
class Name:
    """One attribute: its key, type, where it stands, and what it says."""

    key: str
    type: Literal["bool", "string", "int", "string[]"]
    where: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One counter: its name, unit, and what it counts; those of calls say `cassette.mode` too."""

    key: str
    unit: str
    meaning: str


ATTRIBUTES: tuple[Name, ...] = (
    Name(
        DIVERGED_ATTR,
        "bool",
        "call span, local root, replay span, own span",
        "the replay departed here; only ever true",
    ),
    Name(
        DIVERGENCE_ATTR,
        "string",
        "as above",
        "one line: which call, which fields; on roots and the replay span JSON of the first divergence",
    ),
    Name(ID_ATTR, "string", "replay span, own span", "random id of one replay"),
    Name(
        MODE_ATTR,
        "string",
        "replay span, own span, call span marked at its start",
        "strict, lenient or fallthrough",
    ),
    Name(KIND_ATTR, "string", "call span, own span", "llm, tool, retrieval or embedding"),
    Name(
        INDEX_ATTR,
        "int",
        "call span, own span",
        "0-based place of the call in the sequence of its kind",
    ),
    Name(
        SOURCE_ATTR,
        "string",
        "replay span, own span",
        "the recording: its file as it was given, or its trace",
    ),
    Name(TIE_ATTR, "bool", "call span", "the entry was chosen among equal ones by order alone"),
    Name(
        REASON_ATTR,
        "string",
        "call span, own span",
        "request_changed, tool_changed, extra_call or missing_call",
    ),
    Name(FIELDS_ATTR, "string[]", "call span, own span", "JSON pointers to what differs"),
    Name(SCOPE_ATTR, "string[]", "own span", "what was compared"),
    Name(
        CASCADE_ATTR, "string", "call span, own span", "the call this divergence only follows from"
    ),
    Name(DIFF_ATTR, "string[]", "event, own span", "the diff, one line an item, at most 60"),
    Name(
        DIGEST_ATTR,
        "string[]",
        "own span, event",
        "recorded and live key; on the event where content must not be shown",
    ),
    Name(SERVED_ATTR, "int", "replay span", "calls answered from the recording"),
    Name(LIVE_ATTR, "int", "replay span", "calls that went to the real thing"),
    Name(MISSED_ATTR, "int", "replay span", "calls that got no answer"),
    Name(UNPLAYED_ATTR, "int", "replay span", "recorded calls that never came"),
    Name(TIES_ATTR, "int", "replay span", "choices among equal entries by order alone"),
    Name(DIVERGED_COUNT_ATTR, "int", "replay span", "divergences"),
    Name(
        MISSING_ATTR, "string[]", "replay span", "the recorded calls that never came, one line each"
    ),
    Name(SPAN_TYPE_ATTR, "string", "spans of the tracing wrappers", "llm_call or tool_call"),
    Name(
        REQUEST_ATTR, "string", "spans of the tracing wrappers", "the request as JSON, without loss"
    ),
    Name(
        RESPONSE_ATTR,
        "string",
        "spans of the tracing wrappers",
        "the response as JSON, without loss",
    ),
    Name(
        YIELDS_ATTR,
        "string",
        "spans of the tracing wrappers",
        "what a traced generator gave, as a JSON array",
    ),
)

METRICS: tuple[Metric, ...] = (
    Metric(SERVED_METRIC, "{call}", "calls of replays answered from the recording"),
    Metric(LIVE_METRIC, "{call}", "calls of replays that went to the real thing"),
    Metric(MISSED_METRIC, "{call}", "calls of replays that got no answer"),
    Metric(DIVERGED_METRIC, "{call}", "divergences of replays"),
    Metric(
        PROBLEMS_METRIC,
        "{problem}",
        "what failed in our own callbacks, by `problem`; the program was not affected",
    ),
)

SPANS: tuple[tuple[str, str], ...] = (
    (REPLAY_SPAN, "a whole replay; it ends last and carries the totals and the missing calls"),
    (
        DIVERGENCE_SPAN,
        "one a divergence, child of the call's span, with a link to the recorded span",
    ),
    (EVALUATION_SPAN, "holds the event of a score that was given outside of any span"),
)
EVENTS: tuple[tuple[str, str], ...] = (
    (DIVERGENCE_EVENT, "on the diverged call's span and on its own span: the diff, or digests"),
)
