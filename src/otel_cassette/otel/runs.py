"""One cassette file a run in a directory: which traces are open, which belong together, when to write.

Lives here: `RunDirectory`, which the processor and the exporter feed. Not here: how a file is
written (`writing.py`), the thread that looks for quiet runs (`closer.py`).

A run is written when the local root of each of its traces has ended and nothing has come for the
quiet period, and on `flush`. It stays in memory for a while after that: a late span opens it again,
and the file is written anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from otel_cassette.formats import looks_like_call
from otel_cassette.formats.base import Batch
from otel_cassette.formats.runs import Index
from otel_cassette.model.span import LogRecord
from otel_cassette.otel.closer import Closer
from otel_cassette.otel.forking import after_fork
from otel_cassette.otel.guard import Troubles
from otel_cassette.otel.masking import MaskedLines
from otel_cassette.otel.segments import Segments
from otel_cassette.otel.take import DEFAULT_MAX_ENTRY_BYTES, SpanTake
from otel_cassette.otel.writing import write_run
from otel_cassette.redaction import Redactor

DEFAULT_MAX_RUNS = 1000
DEFAULT_QUIET_PERIOD_S = 30.0
DEFAULT_MAX_HELD_BYTES = 256 * 1024 * 1024

_logger = logging.getLogger("otel_cassette")


@dataclass(frozen=True, slots=True)
class RunsWritten:
    """What a directory got: `files` cassettes, and what to do about calls that cannot be replayed."""

    files: int = 0
    remedies: tuple[str, ...] = ()


class TraceTake(SpanTake):
    """What is known of one trace.

    Attributes:
        trace_id: Its id.
        root_ended: Whether a span without a local parent has ended.
        dirty: Whether there is something that its file does not have.
        path: The file that holds it; None before it was written.
    """

    def __init__(
        self, trace_id: int, lines: MaskedLines, max_entry_bytes: int, lock: threading.RLock
    ) -> None:
        super().__init__(None, max_entry_bytes=max_entry_bytes, lock=lock, lines=lines)
        self.trace_id = trace_id
        self.root_ended = False
        self.dirty = False
        self.path: Path | None = None
        self.activity: tuple[int, int] = (-1, -1)
        self.quiet_since: float = 0.0

    def is_quiet(self, now: float, quiet_period_s: float) -> bool:
        """Return whether the root has ended and nothing has come for the quiet period."""
        activity = (self.version, self.skeleton_count)
        if activity != self.activity:
            self.activity, self.quiet_since = activity, now
        return self.root_ended and now - self.quiet_since >= quiet_period_s


class RunDirectory:
    """Spans in, cassette files out; safe for threads.

    Args:
        directory: Where the files go; made when the first is written.
        redactor: Rules applied before anything is written.
        troubles: The account of what could not be done.
        max_runs: How many traces are held; beyond it the oldest is written and let go.
        max_entry_bytes: As for `SpanTake`.
        quiet_period_s: Seconds.
        max_held_bytes: How much content is held, bytes; beyond it as for *max_runs*.

    Attributes:
        takes: What is known of each trace, by trace id.
        written: How many files were written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        redactor: Redactor | None,
        troubles: Troubles,
        max_runs: int = DEFAULT_MAX_RUNS,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
        quiet_period_s: float = DEFAULT_QUIET_PERIOD_S,
        max_held_bytes: int = DEFAULT_MAX_HELD_BYTES,
    ) -> None:
        self.takes: dict[int, TraceTake] = {}
        self.directory = directory
        self.quiet_period_s = quiet_period_s
        self._written = 0
        self._remedies: dict[str, None] = {}
        self._redactor = redactor
        self._lines = MaskedLines(redactor)
        self._troubles = troubles
        self._max_runs = max_runs
        self._max_entry_bytes = max_entry_bytes
        self._max_held_bytes = max_held_bytes
        self._held_bytes = 0
        self._lock = threading.RLock()
        self._writing = threading.Lock()  # taken before the other one, never inside it
        self._done: dict[int, None] = {}
        self._segments = Segments(directory, redactor)
        self._closer = Closer(self._tick, quiet_period_s)
        after_fork(self.forget)

    # -- spans and logs -------------------------------------------------------------------------

    def take_of(self, trace_id: int) -> TraceTake:
        """Return what is known of a trace; a trace that is new makes room for itself."""
        if self._is_full():
            self._make_room()
        with self._lock:
            take = self.takes.get(trace_id)
            if take is None:
                take = TraceTake(trace_id, self._lines, self._max_entry_bytes, self._lock)
                self.takes[trace_id] = take
            return take

    def finished(self, take: TraceTake, span: ReadableSpan) -> bool:
        """Keep a finished span that may be a call; return False when its content is too large.

        Raises:
            OSError: It is kept, but not on disk.
        """
        with self._lock:
            before = take.content_bytes
            try:
                self._open(take)
            finally:
                whole = take.finished(span)
                self._held_bytes += take.content_bytes - before
            return whole

    def logged(self, log: LogRecord) -> bool:
        """Keep a log record of a trace that is known; return whether it is.

        Raises:
            OSError: It is kept, but not on disk.
        """
        take = self.takes.get(int(log.trace_id or "0", 16))
        if take is None:
            return False
        with self._lock:
            try:
                self._open(take)
            finally:
                take.logged(log)
        return True

    def root_ended(self, take: TraceTake) -> None:
        """Note that a span without a local parent has ended."""
        take.root_ended = True
        if not take.spans and not take.logs and not take.opened:
            # No call in it: nearly all traces of most programs. A late call starts it anew.
            self.takes.pop(take.trace_id, None)

    def _open(self, take: TraceTake) -> None:
        """Make the trace one that has to be written, with a spool under it."""
        if take.dirty:
            return
        take.dirty = True
        self._done.pop(take.trace_id, None)
        self._closer.start()
        if take.spool is None:
            self._segments.begin(take)

    # -- room -----------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        return len(self.takes) >= self._max_runs or self._held_bytes > self._max_held_bytes

    def _make_room(self) -> None:
        while self.takes and self._is_full():
            with self._lock:
                trace_id = next(iter(self._done), None) or next(iter(self.takes), None)
                take = None if trace_id is None else self.takes.get(trace_id)
                if take is None:
                    return
                group = self._group_of(take)
            if any(one.dirty for one in group):
                self._troubles.note(
                    "runs written early",
                    f"more than {self._max_runs} traces (or {self._max_held_bytes} bytes) were open: "
                    "the oldest was written before it was quiet; raise max_runs",
                )
                self._write(group)
            with self._lock:
                for one in group:
                    self._let_go(one)

    def _group_of(self, take: TraceTake) -> list[TraceTake]:
        """Return the traces that share a file with *take*: it is replaced as a whole, or not at all."""
        if take.dirty:
            groups = self._groups()
            return next((group for group in groups if take in group), [take])
        if take.path is None:
            return [take]
        return [one for one in self.takes.values() if one.path == take.path]

    def _let_go(self, take: TraceTake) -> None:
        if self.takes.pop(take.trace_id, None) is not None:
            self._held_bytes -= take.content_bytes
        self._done.pop(take.trace_id, None)

    # -- writing --------------------------------------------------------------------------------

    def close_quiet(self) -> None:
        """Write every run of which all traces are quiet."""
        now = time.monotonic()
        with self._lock:
            takes = [take for take in self.takes.values() if take.dirty]
            quiet = {t.trace_id for t in takes if t.is_quiet(now, self.quiet_period_s)}
            groups = self._groups() if quiet else []
        for group in groups:
            dirty = [take for take in group if take.dirty]
            if dirty and all(take.trace_id in quiet for take in dirty):
                self._write(group)

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Write every run as it stands; return False when there was no time for all, or one failed."""
        deadline = time.monotonic() + timeout_s
        complete = True
        with self._lock:
            groups = self._groups()
        for group in groups:
            if not any(take.dirty for take in group):
                continue
            if time.monotonic() > deadline:
                return False
            complete = self._write(group) and complete
        return complete

    def shutdown(self, timeout_s: float = 30.0) -> bool:
        """Write everything; spools of what could not be written stay for `recover`."""
        self._closer.stop()
        complete = self.flush(timeout_s)
        with self._lock:
            self._segments.close()
        return complete

    def forget(self) -> None:
        """Start empty in a forked process: what was recorded is its parent's to write."""
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self.takes.clear()
        self._done.clear()
        self._held_bytes = 0
        self._written = 0
        self._remedies.clear()
        self._segments.forget()
        self._closer.forget()

    def _groups(self) -> list[list[TraceTake]]:
        """Return the traces that have calls, those of one run together."""
        index = Index(keep=False, is_call=looks_like_call)
        takes: dict[str, TraceTake] = {}
        for number, take in enumerate(list(self.takes.values())):
            if take.spans or take.logs:
                takes[f"{take.trace_id:032x}"] = take
                index.add(Batch(take.records(), session_hint=True), number)
        runs = index.runs(merge=False)
        return [[takes[f.trace_id] for f in run if f.trace_id in takes] for run in runs]

    @property
    def outcome(self) -> RunsWritten:
        """What was written so far."""
        return RunsWritten(self._written, tuple(self._remedies))

    def _tell(self, remedies: Iterable[str]) -> None:
        """Take note of what to switch on, and say it once: nobody may look at the report."""
        for remedy in remedies:
            if remedy not in self._remedies:
                self._remedies[remedy] = None
                _logger.warning("some recorded calls cannot be replayed: %s", remedy)

    def _write(self, group: list[TraceTake]) -> bool:
        """Write the file of one run; one that fails stays as it is, and its spool too.

        Calls may finish meanwhile, and are not held up: their traces stay to be written.
        """
        with self._writing:
            versions = [take.version for take in group]
            known = [take.path for take in group if take.path is not None]
            try:
                path, remedies = write_run(group, self.directory, self._redactor, known)
            except Exception as error:  # noqa: BLE001 - disks fill up, dialects may raise
                self._troubles.raised(
                    "writing a cassette",
                    error,
                    lost="the run stays in its spool; see otel_cassette.recover",
                )
                self._postpone(group)
                return False
            self._tell(remedies)
            with self._lock:
                self._written += path is not None and path not in known
                whole = [t for t, v in zip(group, versions, strict=True) if t.version == v]
                for take in group:
                    take.path = path
                for take in whole:
                    take.dirty = False
                    self._done[take.trace_id] = None
                self._segments.written(whole)
        return True

    @staticmethod
    def _postpone(group: Iterable[TraceTake]) -> None:
        for take in group:
            take.quiet_since = time.monotonic()

    def _tick(self) -> None:
        try:
            self.close_quiet()
        except Exception as error:  # noqa: BLE001 - the thread has nobody to tell
            self._troubles.raised("closing runs", error, lost="runs are written at the next flush")
