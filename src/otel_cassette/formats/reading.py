"""One source while it is read: its pieces taken in, its runs given out.

Decides what is an error, what a warning: content that is damaged in places, or stands beside a
readable rest, is a warning; a source without a single span is an error that says what it holds.
"""

from __future__ import annotations

import os
from pathlib import Path

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.base import Batch, JsonValue, ReadContext
from otel_cassette.formats.ids import trace_id_of
from otel_cassette.formats.limits import IN_MEMORY_BYTES
from otel_cassette.formats.registry import ACCEPTED
from otel_cassette.formats.runs import Index, IsCall, RunKey, TraceFacts, distinct, in_order
from otel_cassette.formats.sources import BytesPiece, FilePiece, Piece
from otel_cassette.formats.store import ChunkStore, Findings, StoredSpan, read_json
from otel_cassette.formats.unpack import Blob, unpack
from otel_cassette.model.span import LogRecord, SpanRecord, Trace

_LISTED = 20


class Reading:
    """What has been read of a source; lives as long as spans of a great one are looked at."""

    def __init__(self, is_call: IsCall, run_key: RunKey | None) -> None:
        self.context: ReadContext = ReadContext()
        self.store: ChunkStore = ChunkStore(self.context)
        self.warnings: list[str] = []
        self.index: Index = Index(keep=True, is_call=is_call, run_key=run_key)
        self.label: str | None = None
        self._signals: set[str] = set()
        self._unusable = 0
        self._refused: list[str] = []

    def take(self, pieces: list[Piece]) -> None:
        """Read all pieces.

        Raises:
            CassetteFormatError: There is no span in them, or a file that was named cannot be read.
        """
        self.label = _label(pieces)
        files: list[tuple[Blob, bool]] = []
        for piece in pieces:
            if isinstance(piece, FilePiece | BytesPiece):
                blob = self._blob(piece)
                if blob is not None:
                    files.append((blob, isinstance(piece, FilePiece) and not piece.chosen))
            else:
                self._take_objects(piece)
        self.index.keep = sum(blob.size for blob, _ in files) <= IN_MEMORY_BYTES
        for blob, may_be_foreign in files:
            self._take_file(blob, may_be_foreign=may_be_foreign)
        if not self.index.span_count:
            raise CassetteFormatError(reason=self._why_nothing(), path=self.label)
        if self._unusable:
            self.warnings.append(
                f"{self._unusable} spans without a valid trace id or span id are left out"
            )

    def facts(self, trace_id: str) -> TraceFacts:
        """Return what is known of one trace.

        Raises:
            CassetteFormatError: It is not in the source.
        """
        found = self.index.traces.get(trace_id_of(trace_id.strip()) or "")
        if found is None:
            known = [facts.trace_id for facts in self.index.traces.values()]
            listed = ", ".join(known[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
            msg = f"holds no trace {trace_id!r}; it holds {listed}"
            raise CassetteFormatError(reason=msg, path=self.label)
        return found

    def trace(self, run: list[TraceFacts]) -> Trace:
        """Return the spans and logs of a run."""
        spans = self._spans(run)
        once = distinct(spans)
        warnings = list(self.warnings)
        if len(once) < len(spans):
            warnings.append(
                f"{len(spans) - len(once)} spans stood in the source more than once; the fullest of each is kept"
            )
        return Trace(once, self._logs(run), self.label, tuple(warnings))

    def _spans(self, run: list[TraceFacts]) -> list[SpanRecord]:
        spans = in_order(run)
        if not any(facts.chunks for facts in run):
            return spans
        spans = list(spans)
        wanted = {facts.trace_id for facts in run}
        for chunk in sorted({chunk for facts in run for chunk in facts.chunks or ()}):
            spans += [
                StoredSpan(span, self.store, chunk, place)
                for place, span in enumerate(self.store.batch(chunk).spans)
                if span.trace_id in wanted
            ]
        return spans

    def _logs(self, run: list[TraceFacts]) -> tuple[LogRecord, ...]:
        if not self.index.logs and not self.index.log_chunks:
            return ()
        wanted = {facts.trace_id for facts in run}
        logs = [log for facts in run for log in self.index.logs.get(facts.trace_id, ())]
        chunks = {chunk for trace_id in wanted for chunk in self.index.log_chunks.get(trace_id, ())}
        for chunk in sorted(chunks):
            logs += [log for log in self.store.batch(chunk).logs if log.trace_id in wanted]
        return tuple(logs)

    def _take_objects(self, piece: Trace | Batch | JsonValue) -> None:
        if isinstance(piece, Trace):
            self.index.add(Batch(spans=list(piece.spans), logs=list(piece.logs)), None)
            self.index.tie(piece.trace_ids)
        elif isinstance(piece, Batch):
            self._unusable += piece.unusable
            self._signals |= piece.signals
            self.index.add(piece, None)
        else:
            findings = Findings()
            try:
                batch = read_json(piece, self.context, findings)
            except RecursionError:
                msg = "an object is nested too deeply"
                raise CassetteFormatError(reason=msg) from None
            self._conclude(findings, None, may_be_foreign=False)
            self.index.add(batch, None)

    def _blob(self, piece: FilePiece | BytesPiece) -> Blob | None:
        """Return the plain content of a file, or None with a warning."""
        label = piece.path if isinstance(piece, FilePiece) else piece.label
        try:
            if isinstance(piece, BytesPiece):
                blob = unpack(
                    piece.handle,
                    path=None,
                    label=label,
                    spool=self.store.spool,
                    warnings=self.warnings,
                )
            else:
                with Path(piece.path).open("rb") as handle:
                    blob = unpack(
                        handle,
                        path=label,
                        label=label,
                        spool=self.store.spool,
                        warnings=self.warnings,
                    )
        except CassetteFormatError as error:
            if isinstance(piece, FilePiece) and not piece.chosen:
                self._leave_out(str(error))
                return None
            raise
        if blob is None:
            self._leave_out(f"{label or 'the source'} is empty")
        return blob

    def _take_file(self, blob: Blob, *, may_be_foreign: bool) -> None:
        findings = self.store.findings = Findings()
        damage = self.store.scan(blob, self.index.add)
        places = list(damage.texts())
        if places and not findings.read and findings.refusal() is None:
            reason = f"no JSON value in it can be read: {places[0]}"
            if not may_be_foreign and blob.kind == "json":
                why = f"{reason}. Accepted: {ACCEPTED}"
                raise CassetteFormatError(blob.label, damage.places[0][0], why)
            self._leave_out(f"{blob.label or 'the source'}: {reason}")
            return
        self.warnings += places[:_LISTED]
        if len(places) > _LISTED:
            more = f"... and {len(places) - _LISTED} more such places"
            self.warnings.append(f"{more} in {blob.label or 'the source'}")
        self._conclude(findings, blob, may_be_foreign=may_be_foreign)

    def _conclude(self, findings: Findings, blob: Blob | None, *, may_be_foreign: bool) -> None:
        """Count in what a piece held; refuse one that held nothing readable."""
        self._signals |= findings.signals
        self._unusable += findings.unusable
        reason = findings.refusal()
        if reason is None:
            return
        label = blob.label if blob else None
        if not findings.read and not may_be_foreign and (findings.shapes or findings.unknowns):
            msg = f"{reason}. Accepted: {ACCEPTED}"
            raise CassetteFormatError(reason=msg, path=label)
        self._leave_out(f"{label or 'the source'}: {reason}")

    def _leave_out(self, what: str) -> None:
        self.warnings.append(f"{what}; left out")
        self._refused.append(what)

    def _why_nothing(self) -> str:
        if self._unusable:
            reason = f"holds {self._unusable} spans, none with a valid trace id and span id"
        elif self._signals:
            reason = f"holds {' and '.join(sorted(self._signals))} only; give the file with the spans as well"
        elif self._refused:
            reason = "; ".join(self._refused[:_LISTED])
        elif self.warnings:
            reason = "; ".join(self.warnings[:_LISTED])
        else:
            reason = "is an export without spans (was the exporter flushed, and the run sampled?)"
        return f"no span to read: {reason}. Accepted: {ACCEPTED}"


def _label(pieces: list[Piece]) -> str | None:
    """Return the one file, or the folder all files are in."""
    paths = [piece.path for piece in pieces if isinstance(piece, FilePiece)]
    if len(paths) > 1:
        return os.path.commonpath([Path(path).absolute() for path in paths])
    if paths:
        return paths[0]
    return next((p.label for p in pieces if isinstance(p, BytesPiece)), None)
