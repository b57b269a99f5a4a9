"""What the spans of one recording told so far: in memory, and in a spool where there is one.

Lives here: finished calls as they are, skeletons of all other spans, log records, spans still open.
Not here: which span belongs to which recording (`processor.py`, `runs.py`), and what they mean
(`assemble/`), which is asked only when somebody looks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from otel_cassette.formats.sdk import span_of
from otel_cassette.model.span import LogRecord, SpanEvent, SpanRecord
from otel_cassette.otel.masking import MaskedLines
from otel_cassette.otel.spool import Spool
from otel_cassette.redaction import Redactor

MAX_SKELETONS = 100_000
Skeleton = tuple[SpanContext, "SpanContext | None", str, "int | None"]
"""Ids, parent, name and start of a span: its place in the tree."""
DEFAULT_MAX_ENTRY_BYTES = 8 * 1024 * 1024
_KEPT_CHARS = 1024


class SpanTake:
    """The facts of one recording; safe for threads.

    Args:
        redactor: Rules applied before anything is written to the spool.
        max_entry_bytes: A span whose content is larger keeps no value over 1,024 characters.
        lock: Taken while a call is entered; its own by default.
        lines: What writes the spool's lines; its own by default.

    Attributes:
        spans: Finished spans that may be calls, in the order they ended.
        logs: Log records of the GenAI conventions, in the order they came.
        opened: Spans that were started and have not ended, by span id.
        skeletons: The place of finished spans that are no calls; of more than 100,000 the newest.
        version: Changes with every finished call and log record.
        spool: The file that outlives the process; None for none.
        content_bytes: Size of the content held, roughly.
    """

    def __init__(
        self,
        redactor: Redactor | None,
        *,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
        lock: threading.RLock | None = None,
        lines: MaskedLines | None = None,
    ) -> None:
        self.redactor = redactor
        self._lines = lines or MaskedLines(redactor)
        self.spans: list[SpanRecord] = []
        self.logs: list[LogRecord] = []
        self.opened: dict[int, ReadableSpan] = {}
        # Appended to on every span of a program: bounded by itself, no lock, nothing decoded.
        self.skeletons: deque[Skeleton] = deque(maxlen=MAX_SKELETONS)
        self.version: int = 0
        self.spool: Spool | None = None
        self.content_bytes: int = 0
        self._max_entry_bytes = max_entry_bytes
        self._lock = lock or threading.RLock()
        # What the spool has already: skeletons, and spans that are still open.
        self._written: list[Skeleton] = []
        self._announced: set[int] = set()

    @property
    def skeleton_count(self) -> int:
        """How many spans are kept as skeletons."""
        return len(self._written) + len(self.skeletons)

    @property
    def is_full(self) -> bool:
        """Whether skeletons were dropped to make room, or soon will be."""
        return len(self.skeletons) == MAX_SKELETONS

    def finished(self, span: ReadableSpan) -> bool:
        """Keep a finished span that may be a call; return False when its content is too large.

        Raises:
            OSError: It is kept, but could not be written to the spool.
        """
        record = span_of(span)
        if record is None:
            return True
        size = _size(record.attributes, record.events)
        whole = size <= self._max_entry_bytes
        if not whole:
            record = _without_content(record)
            size = 0
        with self._lock:
            self.spans.append(record)
            self.content_bytes += size
            self.version += 1
            if self.spool is not None:
                self._write(self.spool, record)
        return whole

    def logged(self, log: LogRecord) -> None:
        """Keep a log record.

        Raises:
            OSError: It is kept, but could not be written to the spool.
        """
        with self._lock:
            self.logs.append(log)
            self.version += 1
            if self.spool is not None:
                self.spool.write(self._lines.log(log))

    def records(self) -> list[SpanRecord]:
        """Return all spans: the finished ones, skeletons, and those still open (`end_ns` 0)."""
        with self._lock:
            spans = list(self.spans)
        spans += [_skeleton_record(*parts) for parts in (*self._written, *self.skeletons.copy())]
        spans += filter(None, map(_open_record, list(self.opened.values())))
        return spans

    def write_all(self, spool: Spool) -> None:
        """Write to *spool* from now on, first what is held already.

        Raises:
            OSError: It could not be written.
        """
        with self._lock:
            self.skeletons.extendleft(reversed(self._written))
            self._written.clear()
            self._announced.clear()
            self.spool = spool
            for log in self.logs:
                spool.write(self._lines.log(log))
            for record in self.spans:
                self._write(spool, record)

    def renew_lock(self) -> None:
        """Have a free lock in a forked process: a thread that is gone may have held the old one."""
        self._lock = threading.RLock()

    def clear(self) -> None:
        """Forget everything; what is still open stays."""
        with self._lock:
            self.spans, self.logs, self._written = [], [], []
            self.skeletons.clear()
            self.content_bytes = 0
            self.version += 1

    def _write(self, spool: Spool, record: SpanRecord) -> None:
        """Write a call, after the skeletons of what ended since the last one and is open around it."""
        lines = []
        while self.skeletons:
            parts = self.skeletons.popleft()
            lines.append(self._skeleton_line(parts))
            self._written.append(parts)
        del self._written[:-MAX_SKELETONS]
        for span_id, span in list(self.opened.items()):
            if span_id not in self._announced:
                self._announced.add(span_id)
                parts = (span.context, span.parent, span.name, span.start_time)
                lines.append(self._skeleton_line(parts, is_open=True))
        lines.append(self._lines.span(record))
        spool.write(b"".join(lines))

    def _skeleton_line(self, parts: Skeleton, *, is_open: bool = False) -> bytes:
        record = _skeleton_record(*parts)
        if is_open:
            record.end_ns = 0
        return self._lines.span(record)


def _skeleton_record(
    context: SpanContext, parent: SpanContext | None, name: str, start_ns: int | None
) -> SpanRecord:
    """Return a record that says where a span stands; its end is not known, but that it ended is."""
    return SpanRecord(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_span_id=f"{parent.span_id:016x}" if parent is not None and parent.span_id else None,
        name=name,
        start_ns=start_ns or 0,
        end_ns=start_ns or 1,
    )


def _open_record(span: ReadableSpan) -> SpanRecord | None:
    """Return a span as it stands now; its attributes may be changed by others meanwhile."""
    record = span_of(span)
    if record is None:
        return None
    try:
        attributes, events = dict(record.attributes), tuple(record.events)
    except (KeyError, RuntimeError):  # an attribute was evicted, or an event added, just now
        attributes, events = {}, ()
    record._attributes = attributes  # noqa: SLF001 - the record is ours, and the look was now
    record._events = events  # noqa: SLF001
    record.end_ns = 0
    return record


def _size(attributes: Any, events: Iterable[SpanEvent]) -> int:
    """Return roughly how much text there is, in bytes."""
    total = sum(map(_chars, attributes.values()))
    for event in events:
        total += sum(map(_chars, event.attributes.values()))
    return total


def _chars(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_chars, value.values())) + len(value)
    if isinstance(value, list | tuple):
        return sum(map(_chars, value))
    return 8


def _without_content(span: SpanRecord) -> SpanRecord:
    """Return a span without its large values, which count as dropped."""
    attributes = {k: v for k, v in span.attributes.items() if _chars(v) <= _KEPT_CHARS}
    dropped = len(span.attributes) - len(attributes)
    events = [e for e in span.events if _size(e.attributes, ()) <= _KEPT_CHARS]
    span.dropped_attributes += max(dropped, 1)
    span._attributes, span._events = attributes, events  # noqa: SLF001 - new, and nobody else's
    return span
