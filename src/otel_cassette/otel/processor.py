"""`CassetteSpanProcessor`: the calls of a program that is instrumented already, recorded as they finish.

Lives here: which recording a span belongs to, and the guarded callbacks of the SDK. Not here: what
is kept of a span (`take.py`), runs and files (`runs.py`), logs (`logs.py`).

The callbacks run on every span of a program: they decode nothing, take no lock for spans that are
no calls, and raise nothing, since the SDK guards nothing either.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext

from otel_cassette.dialects import REGISTRY
from otel_cassette.model.span import LogRecord
from otel_cassette.otel import collectors
from otel_cassette.otel.candidates import CandidateTest
from otel_cassette.otel.forking import after_fork
from otel_cassette.otel.guard import Troubles
from otel_cassette.otel.live import LIVE
from otel_cassette.otel.reporting import RecordingReport
from otel_cassette.otel.runs import (
    DEFAULT_MAX_RUNS,
    DEFAULT_QUIET_PERIOD_S,
    RunDirectory,
    RunsWritten,
    TraceTake,
)
from otel_cassette.otel.source import CassetteSource
from otel_cassette.otel.take import DEFAULT_MAX_ENTRY_BYTES, SpanTake
from otel_cassette.redaction import DEFAULT_RULES, Redactor, RuleLike
from otel_cassette.session import Session, inside, open_sessions, session_in
from otel_cassette.session.names import OWN_SPAN_PREFIX

_UNKNOWN: Any = object()


class CassetteSpanProcessor(SpanProcessor):
    """Records the LLM, tool, retrieval and embedding spans of a program.

    Where they go: into *cassette*; else into the cassette of the recording session that is open
    where a span starts (`with cassette.recording():`); else, with *directory*, into one file a run;
    else nowhere, at next to no cost. What a replay makes goes nowhere, but for an explicit
    *cassette* that is not the one replayed.

    A finished call is in `cassette.entries` at once. With a directory, and in `recording(path)`, it
    is on disk too: a process that is killed loses none (`otel_cassette.recover`).

    Nothing is ever raised into the program. `report` says what could not be recorded.

    Args:
        cassette: The cassette to record into.
        directory: Where to write one cassette file a run, where no cassette or session takes a span.
        max_runs: How many traces are held at once in *directory* mode; beyond it the oldest is
            written and let go.
        max_entry_bytes: A call with more content than this keeps its place, without the content.
        quiet_period_s: In *directory* mode, how long after the end of its local root a run is
            written, seconds; `force_flush` writes at once.
        redact: Redaction rules in *directory* mode; `()` for none. Cassettes have their own.
    """

    def __init__(
        self,
        cassette: Any = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        max_runs: int = DEFAULT_MAX_RUNS,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
        quiet_period_s: float = DEFAULT_QUIET_PERIOD_S,
        redact: Iterable[RuleLike] = DEFAULT_RULES,
    ) -> None:
        self.troubles: Troubles = Troubles("CassetteSpanProcessor")
        self._is_candidate = CandidateTest(
            marker.decode() for dialect in REGISTRY for marker in dialect.markers
        )
        self._max_entry_bytes = max_entry_bytes
        self._sessions = open_sessions()
        self._cassette = cassette
        self._fixed: CassetteSource | None = None
        # Where most spans go: the given cassette, or the one recording session that is open.
        self._usual: SpanTake | None = None
        self._known_session: Session | None = None
        if cassette is not None:
            self._fixed = self._usual = self._source_of(cassette.own_playback())
        self._runs: RunDirectory | None = None
        self._takes: Mapping[int, TraceTake] = {}
        if directory is not None:
            rules = (redact,) if isinstance(redact, str) else tuple(redact)
            self._runs = RunDirectory(
                Path(directory),
                redactor=Redactor(rules) if rules else None,
                troubles=self.troubles,
                max_runs=max_runs,
                max_entry_bytes=max_entry_bytes,
                quiet_period_s=quiet_period_s,
            )
            self._takes = self._runs.takes
        self._always = cassette is not None or directory is not None
        # Open spans that began in a session; None for those of a replay, which go nowhere.
        self._live: dict[int, SpanTake | None] = {}
        self._calls = 0
        self._logs = 0
        self._shut_down = False
        self._written = RunsWritten()
        collectors.add(self)
        LIVE.is_fed = True
        after_fork(self._after_fork)

    # -- callbacks of the SDK -------------------------------------------------------------------

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note which recording a span belongs to."""
        sessions = self._sessions
        take: SpanTake | None
        try:
            parent = span.parent
            if not sessions:
                if parent is None or parent.is_remote:
                    LIVE.started(span, parent_context)
                if not self._always:
                    return
                take = self._fixed or self._takes.get(span.context.trace_id)
                if take is None:
                    take = self._take_of(span.context.trace_id)
            elif sessions[-1] is self._known_session and len(sessions) == 1:
                # One recording and nothing else: what a recording is, nearly always.
                if parent is None or parent.is_remote:
                    LIVE.started(span, parent_context)
                take = self._usual
                if inside() is not None:
                    self._note_inside(span, take)
            else:
                LIVE.started(span, parent_context)
                if self._always or len(sessions) > 1 or sessions[0].is_recording:
                    self._start_in_session(span, parent_context)
                return
            if take is not None:
                take.opened[span.context.span_id] = span
        except Exception as error:  # noqa: BLE001 - the SDK would raise it into the program
            self.troubles.raised("on_start", error, lost="a span is not recorded")

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a call, or the place of another span in the tree."""
        sessions = self._sessions
        if sessions and sessions[-1] is not self._known_session:
            LIVE.ended(span)
        take: SpanTake | None = self._usual
        if take is None and not self._live and not self._always:
            return
        try:
            context = span.context
            if take is None and not self._live:
                take = self._takes.get(context.trace_id)
            if take is None or take.opened.pop(context.span_id, None) is None:
                take = self._other_take(context)
                if take is None:
                    return
            parent = span.parent
            if self._is_candidate(span):
                self._keep(take, span)
            else:
                take.skeletons.append((context, parent, span.name, span.start_time))
            if self._runs is not None and (parent is None or parent.is_remote):
                self._root_ended(take)
        except Exception as error:  # noqa: BLE001 - as above
            self.troubles.raised("on_end", error, lost="a finished span is not recorded")

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Write every run of the directory as it stands; False when that failed or took too long."""
        try:
            return self._runs is None or self._runs.flush(timeout_millis / 1000)
        except Exception as error:  # noqa: BLE001 - as above
            self.troubles.raised("force_flush", error, lost="runs are not written yet")
            return False

    def shutdown(self) -> None:
        """Write every run of the directory, and stop recording."""
        if self._shut_down:
            return
        self._shut_down = True
        try:
            if self._runs is not None:
                self._runs.shutdown()
        except Exception as error:  # noqa: BLE001 - as above
            self.troubles.raised("shutdown", error, lost="runs are left in their spools")
        finally:
            if self._runs is not None:
                self._written = self._runs.outcome
            self._always, self._fixed, self._runs, self._takes = False, None, None, {}
            self._sessions = ()
            self._usual = self._known_session = None
            self._live.clear()
            collectors.remove(self)

    # -- account --------------------------------------------------------------------------------

    @property
    def report(self) -> RecordingReport:
        """What was recorded so far, and what could not be."""
        written = self._written if self._runs is None else self._runs.outcome
        return RecordingReport(
            calls=self._calls,
            logs=self._logs,
            runs=written.files,
            problems=dict(self.troubles.counts),
            lines=tuple(self.troubles.lines),
            remedies=written.remedies,
        )

    def collect_log(self, log: LogRecord) -> bool:
        """Keep a log record of a span that is being recorded; return whether it is."""
        take = self._live.get(int(log.span_id or "0", 16))
        if self._runs is not None and (take is None or isinstance(take, TraceTake)):
            kept = self._runs.logged(log)
        elif take is not None:
            take.logged(log)
            kept = True
        elif self._fixed is not None and not self._sessions:
            self._fixed.logged(log)
            kept = True
        else:
            kept = False
        self._logs += kept
        return kept

    # -- parts ----------------------------------------------------------------------------------

    def _start_in_session(self, span: Span, parent_context: Context | None) -> None:
        """Find the session of a span that has just started, and note where the span goes."""
        sessions = self._sessions
        if self._runs is not None:
            # Other work of the program goes on beside the session, and has a place to go.
            session = session_in(parent_context)
        else:
            # A context that was lost (a plain thread pool) leaves the one session there is.
            session = sessions[0] if len(sessions) == 1 else self._one_of(parent_context)
        take = self._take_in(session, span.context.trace_id)
        span_id = span.context.span_id
        if take is not None:
            take.opened[span_id] = span
            self._live[span_id] = take
            self._note_inside(span, take)
        elif self._always:
            self._live[span_id] = None

    def _take_in(self, session: Session | None, trace_id: int) -> SpanTake | None:
        """Return where the spans of *session* go; None for those of a replay."""
        if session is None:
            return self._fixed or self._take_of(trace_id)
        if self._fixed is not None and session.owner is not self._cassette:
            return self._fixed
        if not session.is_recording:
            return None
        take = self._source_of(session.playback)
        if self._runs is None and (self._usual is None or not self._usual.opened):
            self._usual, self._known_session = take, session
        return take

    def _other_take(self, context: SpanContext) -> SpanTake | None:
        """Return where a finished span goes that is not one of the usual recording."""
        usual = self._usual
        if (
            usual is not None
            and usual is not self._fixed
            and not usual.opened
            and not self._sessions
        ):
            self._usual = self._known_session = None  # that recording is over
        span_id = context.span_id
        take: SpanTake | None = self._live.pop(span_id, _UNKNOWN) if self._live else _UNKNOWN
        if take is _UNKNOWN:
            take = self._fixed or self._take_of(context.trace_id)
        if take is not None:
            take.opened.pop(span_id, None)
        return take

    @staticmethod
    def _note_inside(span: Span, take: SpanTake | None) -> None:
        step = inside()
        if step is not None and step.ticket is not None and isinstance(take, CassetteSource):
            take.inside[f"{span.context.span_id:016x}"] = step.ticket

    def _one_of(self, parent_context: Context | None) -> Session | None:
        session = session_in(parent_context)
        if session is None:
            self.troubles.note(
                "spans outside of all sessions",
                "several cassette sessions are open and a span was started outside the context of all "
                "of them, so it is recorded in none: carry the context into the thread",
            )
        return session

    def _take_of(self, trace_id: int) -> SpanTake | None:
        runs = self._runs
        return None if runs is None else runs.take_of(trace_id)

    def _source_of(self, playback: Any) -> CassetteSource:
        return CassetteSource.of(
            playback.journal, playback.redactor, max_entry_bytes=self._max_entry_bytes
        )

    def _keep(self, take: SpanTake, span: ReadableSpan) -> None:
        if span.name.startswith(OWN_SPAN_PREFIX):
            return
        self._calls += 1
        if take.is_full:
            self.troubles.too_many()
        if self._runs is not None and isinstance(take, TraceTake):
            whole = self._runs.finished(take, span)
        else:
            whole = take.finished(span)
        if not whole:
            self.troubles.too_large(span.name)

    def _root_ended(self, take: SpanTake) -> None:
        if self._runs is not None and isinstance(take, TraceTake):
            self._runs.root_ended(take)

    def _after_fork(self) -> None:
        self._live.clear()
        self.troubles.clear()
        self._calls = self._logs = 0
