"""The spans of a recording as part of a cassette's journal.

Lives here: `CassetteSource`, which the journal asks for calls when somebody looks at the cassette.
Not here: how spans get in (`processor.py`), and how they are joined with wrappers' calls
(`joining.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from opentelemetry import trace

from otel_cassette.assemble import Assembly, AssemblyReport, assemble
from otel_cassette.otel.forking import after_fork
from otel_cassette.otel.joining import Accounts, Record, TicketFacts, join
from otel_cassette.otel.take import DEFAULT_MAX_ENTRY_BYTES, SpanTake
from otel_cassette.redaction import Redactor
from otel_cassette.redaction.records import mask_call
from otel_cassette.store import Journal, LaneKey, Ticket, index_take


class CassetteSource(SpanTake):
    """What spans tell of one cassette's recording; the `source` of its journal.

    Attributes:
        inside: For spans that began inside a wrapped tool: the tool's ticket, by span id.
        facts: When and where wrappers' calls were made, by ticket number.
    """

    def __init__(
        self, redactor: Redactor | None, *, max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES
    ) -> None:
        super().__init__(redactor, max_entry_bytes=max_entry_bytes)
        self.inside: dict[str, Ticket] = {}
        self.facts: dict[int, TicketFacts] = {}
        self._assembly = Assembly()
        self._assembled_version = 0
        self._completed: frozenset[str] = frozenset()
        after_fork(self.renew_lock)

    @classmethod
    def of(
        cls,
        journal: Journal,
        redactor: Redactor | None,
        *,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
    ) -> CassetteSource:
        """Return the source of *journal*, which gets one if it has none."""
        source = journal.source
        if not isinstance(source, CassetteSource):
            fresh = cls(redactor, max_entry_bytes=max_entry_bytes)
            source = journal.attach(fresh)
            if source is fresh:
                journal.listen(fresh.ended)
        if not isinstance(source, CassetteSource):
            msg = f"the journal has another source already: {type(source).__name__}"
            raise TypeError(msg)
        return source

    def began(self, ticket: Ticket) -> None:
        """Note when and where a wrapper's call is made; see `store.CallSource`."""
        context = trace.get_current_span().get_span_context()
        span_id = f"{context.span_id:016x}" if context.is_valid else None
        self.facts[ticket.number] = TicketFacts(time.time_ns(), 0, span_id)

    def ended(self, ticket: Ticket) -> None:
        """Note when a wrapper's call has ended; a listener of the journal."""
        began = self.facts.get(ticket.number, TicketFacts())
        self.facts[ticket.number] = replace(began, end_ns=time.time_ns())

    @property
    def report(self) -> AssemblyReport:
        """What became of each span so far; a call that was recorded itself lacks nothing."""
        report = self.assembly().report
        completed = self._completed
        if not completed:
            return report
        lines = [
            replace(
                line,
                status="replayable",
                response_integrity="whole",
                reason="Its content was recorded with the call itself.",
                remedy=None,
            )
            if line.span_id in completed and line.status == "not_replayable"
            else line
            for line in report.lines
        ]
        return replace(report, lines=lines)

    def assembly(self) -> Assembly:
        """Return what the spans tell; made again only when there is more."""
        version = self.version
        if version != self._assembled_version:
            made = assemble(self.records(), list(self.logs))
            mask_assembly(made, self.redactor)
            self._assembly, self._assembled_version = made, version
        return self._assembly

    def join(self, take: Sequence[Ticket], offsets: dict[LaneKey, int]) -> list[Record]:
        """Return the calls of *take* and of the spans, each once; see `store.CallSource`."""
        if not self.spans:
            return index_take(take, offsets)
        accounts = Accounts(take, self.facts, self.assembly(), self.records(), self.inside)
        records = join(accounts, offsets)
        self._completed = frozenset(accounts.completed)
        return records

    def clear(self) -> None:
        """Forget what was told so far; see `store.CallSource`."""
        super().clear()
        self.inside.clear()
        self.facts.clear()


def mask_assembly(assembly: Assembly, redactor: Redactor | None) -> None:
    """Mask the secrets of all records of *assembly*."""
    if redactor is None:
        return
    for records in (assembly.entries, assembly.nested, assembly.failures):
        _mask(records, redactor)  # type: ignore[arg-type]  # lists of one of the two


def _mask(records: list[Record], redactor: Redactor) -> None:
    for place, record in enumerate(records):
        parts = {
            name: getattr(record, name, None) for name in ("request", "response", "yields", "error")
        }
        changed, _ = mask_call(redactor, parts)
        source = record.source
        if source is not None and redactor.may_match("\n".join(source.path)):
            path = tuple(map(redactor.text, source.path))
            changed["source"] = source.model_copy(update={"path": path})
        if changed:
            records[place] = record.model_copy(update=changed)
