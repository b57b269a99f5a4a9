"""What the processes of a run tell the command: call by call, and at their end.

Lives here: the shape of a process's report and its two files. Standard library only. Not here: what
is put in (`replaying.py`, `recording.py`), what the command makes of it (`cli/run_report.py`).

Every call is appended to a file as it is decided, so that a killed process has told of all it did;
a process that ends replaces that by its report.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from otel_cassette.autostart.runfile import RunFile

_REPORT = "process"
_CALLS = "calls"


@dataclass
class ProcessReport:
    """One process of a run.

    Attributes:
        token: Names its files; a forked or exec'ed process gets its own.
        pid: Its id.
        parent_pid: Its parent's.
        argv: Its arguments, as far as they were known at its start.
        python: Its interpreter.
        how: What started it: `sitecustomize`, an entry point, or `fork`.
        started_ns: When it did, in nanoseconds since the Unix epoch.
        status: `running`, `ended`, `replaced` by another program (exec), or `failed`: it could not
            give account.
        totals: Served, live, missed and the rest; empty while it runs.
        calls: Its calls; see `call_line`.
        divergences: As `ReplayDivergence` dumps.
        unplayed: Places of entries in play that it did not ask for.
        poisoned: The miss that ended its replay at the wire.
        recorded: File with what it recorded; empty for none.
        facts: What else it saw, by name.
        notes: Sentences for the user.
    """

    token: str
    pid: int
    parent_pid: int = 0
    argv: list[str] = field(default_factory=list)
    python: str = ""
    how: str = ""
    started_ns: int = 0
    status: str = "running"
    totals: dict[str, int] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    divergences: list[dict[str, Any]] = field(default_factory=list)
    unplayed: list[str] = field(default_factory=list)
    poisoned: str | None = None
    recorded: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of_this_process(cls, how: str) -> ProcessReport:
        """Return the report of the process that calls this, which starts now."""
        return cls(
            token=f"{os.getpid()}-{secrets.token_hex(4)}",
            pid=os.getpid(),
            parent_pid=os.getppid(),
            argv=list(getattr(sys, "argv", [])),
            python=sys.executable or "",
            how=how,
            started_ns=time.time_ns(),
        )

    @property
    def has_ended(self) -> bool:
        """Whether it told all that it had to tell."""
        return self.status != "running"


class ReportFile:
    """The files of one process's report.

    Args:
        run: The run.
        report: What is known of the process at its start; written at once.
    """

    def __init__(self, run: RunFile, report: ProcessReport) -> None:
        self._run = run
        self.report = report
        self._calls = run.folder / f"{_CALLS}-{report.token}.jsonl"
        self._append(b"")
        self.write()

    def add_call(self, line: dict[str, Any]) -> None:
        """Append one call; it is the system's when this returns."""
        self._append(json.dumps(line).encode("utf-8", "surrogatepass") + b"\n")

    def _append(self, data: bytes) -> None:
        # Opened each time: programs that become daemons close every descriptor, and the number
        # would then be that of a file of theirs.
        fd = os.open(self._calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def write(self) -> None:
        """Write the report as it stands."""
        self._run.write_fact(_REPORT, asdict(self.report), self.report.token)


def read_reports(run: RunFile) -> list[ProcessReport]:
    """Return the reports of all processes that started, in the order they did.

    One that was killed has the calls that it had told of by then, and no totals.
    """
    known = {each.name for each in fields(ProcessReport)}
    reports = []
    for fact in run.facts(_REPORT):
        report = ProcessReport(**{name: value for name, value in fact.items() if name in known})
        if not report.has_ended:
            report.calls = _calls_of(run, report.token)
        reports.append(report)
    reports.sort(key=lambda report: report.started_ns)
    return reports


def _calls_of(run: RunFile, token: str) -> list[dict[str, Any]]:
    path = run.folder / f"{_CALLS}-{token}.jsonl"
    text = path.read_bytes().decode("utf-8", "surrogatepass") if path.exists() else ""
    # A last line without its end was being written when the process was killed.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
