"""`recording(path)`: what is recorded is on disk beside the file until the file itself is.

Lives here: a cassette's journal written to a spool, calls of wrappers and spans alike. Not here: the
spool's lines (`spool.py`), and what becomes of one that was left behind (`recover.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from otel_cassette.document.lines import header_json
from otel_cassette.model.entry import CassetteHeader, ParentRef, parent_json
from otel_cassette.otel.forking import after_fork
from otel_cassette.otel.guard import Troubles
from otel_cassette.otel.joining import TicketFacts
from otel_cassette.otel.masking import has_path_rules
from otel_cassette.otel.source import CassetteSource
from otel_cassette.otel.spool import Claimed, Spool, spools_of
from otel_cassette.redaction import Redactor
from otel_cassette.store import Journal, Ticket

_logger = logging.getLogger("otel_cassette")


class SpooledRecording:
    """Writes every call that a journal enters, and every span of its source, as it finishes.

    Args:
        journal: The cassette's.
        redactor: Rules in force. Spans have no place a path rule could name, so with such rules
            only calls of wrappers, which are masked already, are written.
        path: The cassette file to be; its folder is made.
        header: What the cassette's header will say.
    """

    def __init__(
        self,
        journal: Journal,
        redactor: Redactor | None,
        path: str | os.PathLike[str],
        header: CassetteHeader,
    ) -> None:
        self._journal = journal
        self._redactor = redactor
        self._path = Path(path)
        self._troubles = Troubles("recording")
        self._source = CassetteSource.of(journal, redactor)
        self._earlier = spools_of(self._path)
        self._spool = Spool(self._path, header_json(header))
        self._stop: Callable[[], None] | None = None

    def start(self) -> None:
        """Write from now on; a folder that cannot be written is said when the cassette is saved."""
        if not has_path_rules(self._redactor):
            self._source.spool = self._spool
        self._stop = self._journal.listen(self._write)
        after_fork(self._spool.forget)

    def finish(self, *, saved: bool) -> None:
        """Close the spool: it goes where the cassette was saved, with those it replaces."""
        if self._stop is not None:
            self._stop()
        self._source.spool = None
        self._spool.close(remove=saved)
        if saved:
            # Those of a living process (a forked child of an earlier recording) stay.
            Claimed(self._earlier).release(remove=True)
        self._say_what_is_left(saved=saved)

    def leave(self) -> None:
        """Write no more, and leave the files alone: in a forked process, which has another recording."""
        if self._stop is not None:
            self._stop()
        self._source.spool = None

    def _say_what_is_left(self, *, saved: bool) -> None:
        left = spools_of(self._path)
        if not left:
            return
        why = "forked processes recorded calls of their own" if saved else "it was not saved"
        _logger.warning(
            "recording %s: %s; finished calls are kept in %s: otel_cassette.recover(%r) makes a "
            "cassette of them",
            self._path,
            why,
            ", ".join(map(str, left)),
            str(self._path),
        )

    def _write(self, ticket: Ticket) -> None:
        try:
            self._spool.write_call(self._call(ticket))
        except Exception as error:  # noqa: BLE001 - the program's own call must not fail by this
            self._troubles.raised("spooling a call", error, lost="it is in memory only")

    def _call(self, ticket: Ticket) -> dict[str, Any]:
        parent: Any = ticket.parent
        if isinstance(parent, Ticket):
            parent = parent.number
        elif isinstance(parent, ParentRef):
            parent = parent_json(parent)
        facts = self._source.facts.get(ticket.number, TicketFacts())
        return {
            "number": ticket.number,
            "kind": ticket.kind,
            "parent": parent,
            "facts": asdict(facts),
            "record": to_jsonable_python(ticket.record, exclude_none=False),
        }
