"""Which traces of a source are one run, from what is learnt of each span in passing.

A run is a trace, with those joined to it by a span link, by a session or conversation id, and
traces of bare calls (every span without a parent is itself a call) of one resource together.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter, itemgetter

from otel_cassette.formats.base import Batch
from otel_cassette.model.span import LogRecord, SpanRecord

IsCall = Callable[[SpanRecord], bool]
RunKey = Callable[[SpanRecord], "Hashable | None"]

SESSION_KEYS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
    "langsmith.metadata.session_id",
    "gcp.vertex.agent.session_id",
)
"""Attributes that name the session a span belongs to (`langsmith.trace.session_name` is a project)."""

SESSION_MARKERS = (b"session.id", b"conversation.id", b"session_id", b"sessionId")
"""One of these stands in each of the keys."""

_START_NS = attrgetter("start_ns")
_SPAN_ID = attrgetter("span_id")
_MANY_SPANS = 100_000
_OWN_SPANS = "cassette."


class TraceFacts:
    """What is known of one trace id: its spans or the chunks that hold them, and what joins it."""

    __slots__ = (
        "bare",
        "chunks",
        "key",
        "links",
        "order",
        "resource",
        "sessions",
        "spans",
        "start_ns",
        "trace_id",
    )

    def __init__(self, trace_id: str) -> None:
        self.trace_id: str = trace_id
        self.start_ns: int = 0
        self.spans: list[SpanRecord] = []
        # Where in the source its spans stand: (number of a stretch, index of its first span).
        self.order: list[tuple[int, int]] = []
        self.chunks: array[int] | None = None
        self.links: set[str] | None = None
        self.sessions: set[str] | None = None
        self.bare: bool | None = None
        self.resource: int = 0
        self.key: Hashable | None = None


class Index:
    """The traces of a source, filled batch by batch.

    With *keep* the spans themselves are held; without, only the numbers of the chunks they are in.
    """

    def __init__(self, *, keep: bool, is_call: IsCall, run_key: RunKey | None = None) -> None:
        self.keep = keep
        self.traces: dict[str, TraceFacts] = {}
        self.logs: dict[str, list[LogRecord]] = defaultdict(list)
        self.log_chunks: dict[str, array[int]] = defaultdict(lambda: array("Q"))
        self.span_count: int = 0
        self._is_call = is_call
        self._run_key = run_key
        self._ties: list[Sequence[str]] = []
        self._stretches = 0

    def add(self, batch: Batch, chunk: int | None) -> None:
        """Take in the spans and logs of a batch; it is chunk number *chunk*, or held by the caller."""
        is_call, run_key, hint = self._is_call, self._run_key, batch.session_hint
        keep = self.keep or chunk is None
        facts: TraceFacts | None = None
        for span in batch.spans:
            if facts is None or facts.trace_id != span.trace_id:
                facts = self._facts(span.trace_id, chunk)
                spans = facts.spans
            if keep:
                spans.append(span)
            elif span.start_ns and (not facts.start_ns or span.start_ns < facts.start_ns):
                facts.start_ns = span.start_ns
            if span.parent_span_id is None and facts.bare is not False:
                facts.bare = is_call(span)
                facts.resource = id(span.resource)
            if span.links:
                self._note_links(facts, span)
            if hint and not facts.sessions:
                _note_sessions(facts, span)
            if run_key is not None and facts.key is None:
                facts.key = run_key(span)
        self.span_count += len(batch.spans)
        for log in batch.logs:
            if log.trace_id and keep:
                self.logs[log.trace_id].append(log)
            elif log.trace_id and chunk is not None:
                self.log_chunks[log.trace_id].append(chunk)

    def _facts(self, trace_id: str, chunk: int | None) -> TraceFacts:
        facts = self.traces.get(trace_id)
        if facts is None:
            facts = self.traces[trace_id] = TraceFacts(trace_id)
        if self.keep or chunk is None:
            self._stretches += 1
            facts.order.append((self._stretches, len(facts.spans)))
        elif facts.chunks is None:
            facts.chunks = array("Q", (chunk,))
        elif facts.chunks[-1] != chunk:
            facts.chunks.append(chunk)
        return facts

    def tie(self, trace_ids: Sequence[str]) -> None:
        """Keep these trace ids in one run, whatever else is known."""
        self._ties.append(trace_ids)

    def runs(self, *, merge: bool) -> list[list[TraceFacts]]:
        """Return the runs, by their first span's start; each with its traces by start."""
        for facts in self.traces.values():
            starts = filter(None, map(_START_NS, facts.spans))
            facts.start_ns = min(starts, default=facts.start_ns)
        groups = self._joined() if not merge else [list(self.traces.values())]
        for group in groups:
            group.sort(key=_start)
        return sorted(filter(None, groups), key=lambda group: _start(group[0]))

    @staticmethod
    def _note_links(facts: TraceFacts, span: SpanRecord) -> None:
        # Marks of a replay link to what was recorded; that makes them no part of the recording.
        if not span.name.startswith(_OWN_SPANS):
            facts.links = facts.links or set()
            facts.links.update(
                link.trace_id for link in span.links if link.trace_id != facts.trace_id
            )

    def _joined(self) -> list[list[TraceFacts]]:
        parents = {trace_id: trace_id for trace_id in self.traces}

        def find(trace_id: str) -> str:
            while parents[trace_id] != trace_id:
                parents[trace_id] = parents[parents[trace_id]]
                trace_id = parents[trace_id]
            return trace_id

        def join(trace_ids: Iterable[str]) -> None:
            known = [find(trace_id) for trace_id in trace_ids if trace_id in parents]
            for trace_id in known[1:]:
                parents[find(trace_id)] = find(known[0])

        together: dict[Hashable, list[str]] = defaultdict(list)
        for facts in self.traces.values():
            if self._run_key is not None:
                if facts.key is not None:
                    together["key", facts.key].append(facts.trace_id)
                continue
            join((facts.trace_id, *(facts.links or ())))
            for session in facts.sessions or ():
                together["session", session].append(facts.trace_id)
            if facts.bare:
                together["bare", facts.resource].append(facts.trace_id)
        for trace_ids in (*together.values(), *self._ties):
            join(trace_ids)
        groups: dict[str, list[TraceFacts]] = defaultdict(list)
        for facts in self.traces.values():
            groups[find(facts.trace_id)].append(facts)
        return list(groups.values())


def _note_sessions(facts: TraceFacts, span: SpanRecord) -> None:
    if span.may_hold(*SESSION_MARKERS):
        attributes = span.attributes
        for key in SESSION_KEYS:
            value = attributes.get(key)
            if isinstance(value, str) and value:
                facts.sessions = {*(facts.sessions or ()), value}


def _start(facts: TraceFacts) -> tuple[int, str]:
    return facts.start_ns, facts.trace_id


def in_order(run: Sequence[TraceFacts]) -> list[SpanRecord]:
    """Return the spans that are held of a run's traces, in the order of the source."""
    if len(run) == 1:
        return run[0].spans
    stretches = []
    for facts in run:
        if not facts.spans:
            continue
        ends = [first for _, first in facts.order[1:]] + [len(facts.spans)]
        stretches += [
            (number, facts.spans[first:end])
            for (number, first), end in zip(facts.order, ends, strict=True)
        ]
    stretches.sort(key=itemgetter(0))
    return [span for _, spans in stretches for span in spans]


def distinct(spans: Sequence[SpanRecord]) -> Sequence[SpanRecord]:
    """Return *spans* with each (trace id, span id) once: the ended one, then the fullest, then the first."""
    if _all_distinct(spans):
        return spans
    places: dict[tuple[str, str], int] = {}
    kept: list[SpanRecord] = []
    for span in spans:
        place = places.setdefault((span.trace_id, span.span_id), len(kept))
        if place == len(kept):
            kept.append(span)
        elif _worth(span) > _worth(kept[place]):
            kept[place] = span
    return kept


def _all_distinct(spans: Sequence[SpanRecord]) -> bool:
    if len(spans) <= _MANY_SPANS:
        return len(set(map(_SPAN_ID, spans))) == len(spans)
    # Part by part, as one set of them all would be the greatest thing in memory.
    ids = (
        {span.span_id for span in spans if span.span_id[-1] == digit}
        for digit in "0123456789abcdef"
    )
    return sum(map(len, ids)) == len(spans)


def _worth(span: SpanRecord) -> tuple[bool, int, int]:
    return span.end_ns > 0, len(span.attributes), len(span.events)
