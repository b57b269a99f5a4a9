"""`CassetteSpanExporter`: one cassette file a run, behind a `BatchSpanProcessor`.

Lives here: the guarded callbacks of the SDK. Not here: runs and files (`runs.py`). Where a program
builds its provider itself, `CassetteSpanProcessor(directory=...)` records the same and loses less:
it sees spans start, and has a call on disk before a batch is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_cassette.dialects import REGISTRY
from otel_cassette.model.span import LogRecord
from otel_cassette.otel import collectors
from otel_cassette.otel.candidates import CandidateTest
from otel_cassette.otel.forking import after_fork
from otel_cassette.otel.guard import Troubles
from otel_cassette.otel.reporting import RecordingReport
from otel_cassette.otel.runs import DEFAULT_MAX_RUNS, DEFAULT_QUIET_PERIOD_S, RunDirectory
from otel_cassette.otel.take import DEFAULT_MAX_ENTRY_BYTES
from otel_cassette.redaction import DEFAULT_RULES, Redactor, RuleLike
from otel_cassette.session.names import OWN_SPAN_PREFIX


class CassetteSpanExporter(SpanExporter):
    """Writes the calls of exported spans to cassette files, one a run.

    A run is written when the local root of each of its traces has ended and nothing more came for
    the quiet period, on `force_flush` and on `shutdown`. A late span opens it again: its file is
    written anew.

    Args:
        directory: Where the files go, named by trace id; made when the first is written.
        quiet_period_s: Seconds.
        max_runs: How many traces are held at once; beyond it the oldest is written and let go.
        max_entry_bytes: A call with more content than this keeps its place, without the content.
        redact: Redaction rules; `()` for none.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        quiet_period_s: float = DEFAULT_QUIET_PERIOD_S,
        max_runs: int = DEFAULT_MAX_RUNS,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
        redact: Iterable[RuleLike] = DEFAULT_RULES,
    ) -> None:
        self.troubles: Troubles = Troubles("CassetteSpanExporter")
        rules = (redact,) if isinstance(redact, str) else tuple(redact)
        self._runs = RunDirectory(
            Path(directory),
            redactor=Redactor(rules) if rules else None,
            troubles=self.troubles,
            max_runs=max_runs,
            max_entry_bytes=max_entry_bytes,
            quiet_period_s=quiet_period_s,
        )
        self._is_candidate = CandidateTest(
            marker.decode() for dialect in REGISTRY for marker in dialect.markers
        )
        self._calls = 0
        self._logs = 0
        self._shut_down = False
        collectors.add(self)
        after_fork(self._after_fork)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep the spans of a batch; FAILURE when one could not be kept, or after `shutdown`."""
        if self._shut_down:
            return SpanExportResult.FAILURE
        kept = [self._keep_guarded(span) for span in spans]
        return SpanExportResult.SUCCESS if all(kept) else SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Write every run as it stands; False when that failed or took too long."""
        try:
            return self._runs.flush(timeout_millis / 1000)
        except Exception as error:  # noqa: BLE001 - as above
            self.troubles.raised("force_flush", error, lost="runs are not written yet")
            return False

    def shutdown(self) -> None:
        """Write every run; what could not be written stays in its spool."""
        if self._shut_down:
            return
        self._shut_down = True
        collectors.remove(self)
        try:
            self._runs.shutdown()
        except Exception as error:  # noqa: BLE001 - as above
            self.troubles.raised("shutdown", error, lost="runs are left in their spools")

    @property
    def report(self) -> RecordingReport:
        """What was recorded so far, and what could not be."""
        written = self._runs.outcome
        return RecordingReport(
            calls=self._calls,
            logs=self._logs,
            runs=written.files,
            problems=dict(self.troubles.counts),
            lines=tuple(self.troubles.lines),
            remedies=written.remedies,
        )

    def collect_log(self, log: LogRecord) -> bool:
        """Keep a log record; its span may be exported later."""
        if self._shut_down or not log.trace_id:
            return False
        self._runs.take_of(int(log.trace_id, 16))
        kept = self._runs.logged(log)
        self._logs += kept
        return kept

    def _keep_guarded(self, span: ReadableSpan) -> bool:
        try:
            self._keep(span)
        except Exception as error:  # noqa: BLE001 - nothing is raised into the program
            self.troubles.raised("export", error, lost="a finished span is not recorded")
            return False
        return True

    def _keep(self, span: ReadableSpan) -> None:
        context = span.context
        if context is None or span.name.startswith(OWN_SPAN_PREFIX):
            return
        take = self._runs.take_of(context.trace_id)
        parent = span.parent
        if self._is_candidate(span):
            self._calls += 1
            if take.is_full:
                self.troubles.too_many()
            if not self._runs.finished(take, span):
                self.troubles.too_large(span.name)
        else:
            take.skeletons.append((context, parent, span.name, span.start_time))
        if parent is None or parent.is_remote:
            self._runs.root_ended(take)

    def _after_fork(self) -> None:
        self.troubles.clear()
        self._calls = self._logs = 0
