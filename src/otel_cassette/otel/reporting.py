"""What a recording through OpenTelemetry came to, and what was lost on the way.

Lives here: the record and how it prints. What became of each span is told by `AssemblyReport`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """The account of one processor or exporter, in one process.

    Attributes:
        calls: Finished spans that may be calls, kept.
        logs: Log records kept.
        runs: Cassette files written.
        problems: How often what went wrong, by `callback: problem`.
        lines: One sentence for each distinct problem.
        remedies: What to switch on where calls cannot be replayed as they were recorded; known of
            the runs that are written.
    """

    calls: int = 0
    logs: int = 0
    runs: int = 0
    problems: Mapping[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{self.calls} calls and {self.logs} log records kept, {self.runs} files written"
        todo = [f"some calls cannot be replayed: {remedy}" for remedy in self.remedies]
        return "\n".join([head, *(f"  {line}" for line in (*self.lines, *todo))])
