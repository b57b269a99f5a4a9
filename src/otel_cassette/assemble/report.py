"""What became of each span of a run: replayable, or why not and what to do about it.

Lives here: the report's records and how they print. Not here: who writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from otel_cassette.model.entry import EntryKind, Integrity

SpanStatus = Literal[
    "replayable",
    "flagged",
    "not_replayable",
    "failed",
    "unfinished",
    "duplicate",
    "wrapper",
    "lookalike",
    "collapsed",
    "missing",
    "unreadable",
]
"""`flagged`: served, and said to be doubtful. `missing`: a tool call the model asked for of which
the run holds no result. `unreadable`: the dialect raised on the span."""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """What became of one span, or of one tool call without a span.

    Attributes:
        status: See `SpanStatus`.
        kind: Kind of call, when it is one.
        name: Tool or retriever, or the model.
        index: Index of the entry; None for what is none.
        nested: The call was made inside a tool or retrieval.
        inferred: Read off the next model request.
        span_name, trace_id, span_id: The span.
        dialect: Which vocabulary read it.
        request_integrity, response_integrity: As in the entry.
        reason: Why it is not (or not safely) replayable; one sentence.
        remedy: What to set or do; one sentence.
        notes: What else there is to know.
    """

    status: SpanStatus
    kind: EntryKind | None = None
    name: str | None = None
    index: int | None = None
    nested: bool = False
    inferred: bool = False
    span_name: str = ""
    trace_id: str = ""
    span_id: str = ""
    dialect: str = ""
    request_integrity: Integrity | None = None
    response_integrity: Integrity | None = None
    reason: str | None = None
    remedy: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = " ".join(
            str(part)
            for part in (
                self.kind or "",
                "" if self.index is None else f"#{self.index}",
                self.name or "",
            )
            if part
        )
        text = f"{self.status}: {what or self.span_name}"
        if self.span_name and what:
            text += f" (span {self.span_name!r}, {self.dialect})"
        for more in (self.reason, self.remedy, *self.notes):
            if more:
                text += f" {more}"
        return text


@dataclass(slots=True)
class AssemblyReport:
    """All lines of a run, calls first in recording order, then the other spans.

    Attributes:
        lines: One a span that a dialect claimed, and one a tool call that is missing.
        spans: How many spans the run has, calls or not.
        suspected_limit: Length in characters at which values of call spans appear to be cut.
        warnings: What reading the source had to leave out, with its place; empty for live spans.
    """

    lines: list[ReportLine] = field(default_factory=list)
    spans: int = 0
    suspected_limit: int | None = None
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[ReportLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def counts(self) -> dict[str, int]:
        """How many lines there are of each status."""
        return dict(Counter(line.status for line in self.lines))

    @property
    def remedies(self) -> tuple[str, ...]:
        """The distinct remedies, in order of appearance."""
        return tuple(dict.fromkeys(line.remedy for line in self.lines if line.remedy))

    def of(self, *statuses: SpanStatus) -> list[ReportLine]:
        """Return the lines with one of *statuses*."""
        return [line for line in self.lines if line.status in statuses]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON without empty fields."""
        lines = [
            {
                name: list(value) if isinstance(value, tuple) else value
                for name in ReportLine.__slots__
                if (value := getattr(line, name)) not in (None, "", (), False)
            }
            for line in self.lines
        ]
        report: dict[str, Any] = {"spans": self.spans, "counts": self.counts, "lines": lines}
        if self.suspected_limit is not None:
            report["suspected_limit"] = self.suspected_limit
        if self.warnings:
            report["warnings"] = list(self.warnings)
        return report

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {status}" for status, n in self.counts.items())
        head = f"{self.spans} spans: {counts or 'no call among them'}"
        if self.suspected_limit is not None:
            head += f"; values appear cut at {self.suspected_limit} characters"
        return "\n".join([head, *(f"  {line}" for line in (*self.warnings, *self.lines))])
