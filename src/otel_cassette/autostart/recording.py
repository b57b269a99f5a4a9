"""The recording of one process: its session, its file, and what was seen beside it.

Lives here: what one process records, on disk as its calls finish. Not here: when it begins and
ends (`process.py`), how the files of several processes become one (`cli/recorded.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.cassette import Cassette
from otel_cassette.clients.http_exchange import UNREAD
from otel_cassette.clients.providers import is_provider
from otel_cassette.model.entry import CassetteHeader
from otel_cassette.otel.journaling import SpooledRecording
from otel_cassette.otel.source import CassetteSource
from otel_cassette.session import Session, SessionBlock
from otel_cassette.store import Ticket

PREFIX = "recorded-"
CallLine = dict[str, Any]


class ProcessRecording:
    """The recording in this process.

    Args:
        folder: The run's.
        token: Names this process's file.
        tell: Takes the line of a call.
    """

    def __init__(self, folder: Path, token: str, tell: Callable[[CallLine], None]) -> None:
        self.cassette: Cassette = Cassette()
        # The journal under the block is written to disk by a spool of our own, which a forked
        # process exchanges for its own; the block knows of no file.
        self._block: SessionBlock = self.cassette.recording()
        self.session: Session = self._block.session
        self._folder = folder
        self._spool: SpooledRecording | None = None
        self.hosts: Counter[str] = Counter()
        self._block.__enter__()
        self.session.playback.journal.listen(self._entered)
        self._begin(token, tell)

    def _begin(self, token: str, tell: Callable[[CallLine], None]) -> None:
        self._tell = tell
        self._seen: set[Ticket] = set()
        self.path: Path = self._folder / f"{PREFIX}{token}.jsonl"
        playback = self.session.playback
        redactor = playback.redactor
        header = CassetteHeader(redact=() if redactor is None else tuple(redactor.to_header()))
        self._spool = SpooledRecording(playback.journal, redactor, self.path, header)
        self._spool.start()

    def after_fork(self, token: str, tell: Callable[[CallLine], None]) -> None:
        """Start empty: what was recorded before the fork is the parent's."""
        if self._spool is not None:
            self._spool.leave()
        self.session.playback.journal.replace(())
        self.hosts.clear()
        UNREAD.clear()
        self._begin(token, tell)

    def _entered(self, ticket: Ticket) -> None:
        if ticket in self._seen:
            return  # another try of the same call
        self._seen.add(ticket)
        self._tell({"kind": ticket.kind, "failed": bool((ticket.record or {}).get("failed"))})

    def note_lookup(self, host: str) -> None:
        """Note that a model provider's name was looked up, whoever did."""
        if is_provider(host):
            self.hosts[host] += 1

    def describe(self, report: ProcessReport) -> None:
        """Save what was recorded so far, and put into *report* how it went."""
        made = self.session.playback.journal.assembled()
        found = len(made.entries) + len(made.nested) + len(made.failures)
        report.facts = {
            "entries": len(made.entries),
            "nested": len(made.nested),
            "failures": [f"{each.error.type}: {each.error.message}" for each in made.failures],
            "at_the_wire": len(self._seen),
            "hosts": dict(self.hosts),
            "unread": dict(UNREAD),
            "spans": self._spans(),
            "without_answer": sum(not entry.is_playable for entry in made.entries),
        }
        report.notes = list(self.session.faults)
        if found and self._folder.is_dir():  # a process may outlive the command and its folder
            self.cassette.save(self.path)
            report.recorded = str(self.path)

    def _spans(self) -> int:
        source = self.session.playback.journal.source
        return source.report.spans if isinstance(source, CassetteSource) else 0

    def close(self) -> None:
        """End the recording: streams that nobody reads on are entered as they are.

        The context stays: it may be another thread that ends the process.
        """
        self.session.close()

    def drop_spool(self) -> None:
        """Remove what was on disk meanwhile: the file is whole."""
        if self._spool is not None:
            self._spool.finish(saved=True)
            self._spool = None
