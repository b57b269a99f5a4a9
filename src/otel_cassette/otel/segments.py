"""The spool of a directory: one file for all runs a process has open.

Lives here: which trace stands in which spool file, and when a file may go. Not here: the file
itself (`spool.py`).

A file is removed once every trace in it was written. Until then it grows; a new one is begun when
it is large, so that one run that never ends does not keep all others on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from otel_cassette.document.lines import header_json
from otel_cassette.model.entry import CassetteHeader
from otel_cassette.otel.spool import DIRECTORY_TARGET, Spool
from otel_cassette.otel.take import SpanTake
from otel_cassette.redaction import Redactor

MAX_SEGMENT_BYTES = 64 * 1024 * 1024


class Segments:
    """The spool files of one directory and process; used under the directory's lock."""

    def __init__(self, directory: Path, redactor: Redactor | None) -> None:
        self._directory = directory
        self._redactor = redactor
        self._current: Spool | None = None
        self._unwritten: dict[int, set[int]] = {}
        self._spools: dict[int, Spool] = {}

    def begin(self, take: SpanTake) -> None:
        """Have *take* written to the current file from now on, first what it holds already.

        Raises:
            OSError: It could not be written.
        """
        spool = self._current
        if spool is None or spool.bytes_written > MAX_SEGMENT_BYTES:
            header = CassetteHeader(
                redact=() if self._redactor is None else tuple(self._redactor.to_header())
            )
            spool = Spool(self._directory / DIRECTORY_TARGET, header_json(header))
            self._current = spool
            self._spools[id(spool)] = spool
        self._unwritten.setdefault(id(spool), set()).add(id(take))
        take.write_all(spool)

    def written(self, takes: Iterable[SpanTake]) -> None:
        """Note that the file of *takes* holds all of them; remove spools that no other needs."""
        for take in takes:
            spool, take.spool = take.spool, None
            if spool is None:
                continue
            open_takes = self._unwritten.get(id(spool), set())
            open_takes.discard(id(take))
            if open_takes:
                self._mark(spool, take)
            else:
                self._remove(spool)

    def close(self) -> None:
        """Close all files; those that hold something unwritten stay on disk."""
        for spool in list(self._spools.values()):
            if self._unwritten.get(id(spool)):
                spool.close(remove=False)
            else:
                self._remove(spool)
        self._spools.clear()
        self._unwritten.clear()
        self._current = None

    def forget(self) -> None:
        """Let go of the parent's files in a forked process."""
        for spool in self._spools.values():
            spool.forget()
        self._spools.clear()
        self._unwritten.clear()
        self._current = None

    def _mark(self, spool: Spool, take: SpanTake) -> None:
        """Say in the file that a trace needs no recovery; a full disk costs a second copy only."""
        trace_id = getattr(take, "trace_id", 0)
        line = json.dumps({"written": [f"{trace_id:032x}"]}).encode() + b"\n"
        try:
            spool.write(line)
        except OSError:
            self._unwritten[id(spool)].add(id(take))

    def _remove(self, spool: Spool) -> None:
        self._spools.pop(id(spool), None)
        self._unwritten.pop(id(spool), None)
        if spool is self._current:
            self._current = None
        spool.close(remove=True)
