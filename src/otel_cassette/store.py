"""The recording side of a cassette in memory: calls as they finish, assembled on demand.

Lives here: `Journal`: what was loaded, what was recorded since, and how both become entries with
indexes. Not here: files (`document.py`), and any decision about a live call (`engine/`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from otel_cassette.assemble import AssemblyReport
from otel_cassette.model.entry import (
    CassetteEntry,
    CassetteFailure,
    EntryKind,
    ParentRef,
    RecordedCall,
)

LaneKey = tuple[ParentRef | None, EntryKind]


class Ticket:
    """One call under way; its number is its arrival."""

    __slots__ = ("kind", "number", "parent", "record", "take")

    def __init__(
        self, number: int, kind: EntryKind, parent: Ticket | ParentRef | None, take: int = 0
    ) -> None:
        self.number: int = number
        self.take: int = take
        self.kind: EntryKind = kind
        self.parent: Ticket | ParentRef | None = parent
        self.record: dict[str, Any] | None = None


@dataclass(slots=True)
class Assembled:
    """The recording as it stands: top-level entries in recording order, nested ones, failures."""

    entries: list[CassetteEntry] = field(default_factory=list)
    nested: list[CassetteEntry] = field(default_factory=list)
    failures: list[CassetteFailure] = field(default_factory=list)

    @property
    def records(self) -> list[CassetteEntry | CassetteFailure]:
        """Everything, entries first."""
        return [*self.entries, *self.nested, *self.failures]


class CallSource(Protocol):
    """Further calls of the same recording, told of by something else than wrappers: finished spans."""

    @property
    def version(self) -> int:
        """Changes whenever there is more to tell."""
        ...

    @property
    def report(self) -> AssemblyReport:
        """What became of each span so far."""
        ...

    def began(self, ticket: Ticket) -> None:
        """Take note of a call that starts here and now; called in its own context."""
        ...

    def join(
        self, take: Sequence[Ticket], offsets: dict[LaneKey, int]
    ) -> list[CassetteEntry | CassetteFailure]:
        """Return the calls of *take* and its own as records, each call once, with their indexes."""
        ...

    def clear(self) -> None:
        """Forget what was told so far: it has become the base of the recording."""
        ...


class Journal:
    """Entries that were loaded, and calls recorded since; safe for threads.

    Args:
        records: Entries and failures of a loaded or given recording.
    """

    def __init__(self, records: Iterable[CassetteEntry | CassetteFailure] = ()) -> None:
        self._lock = threading.RLock()
        self._base = list(records)
        self._take: list[Ticket] = []
        self._patches: list[tuple[Ticket, Any]] = []
        self._number = 0
        self._take_number = 0
        self._offsets: dict[LaneKey, int] = {}
        self._made: Assembled | None = None
        self._made_of = 0
        self._listeners: tuple[Callable[[Ticket], None], ...] = ()
        self.source: CallSource | None = None

    def attach(self, source: CallSource) -> CallSource:
        """Join *source* to the take, unless there is one already; return the one in force."""
        with self._lock:
            if self.source is None:
                self.source = source
                self._made = None
            return self.source

    def listen(self, listener: Callable[[Ticket], None]) -> Callable[[], None]:
        """Have *listener* told of every call that is entered; return what ends that."""
        with self._lock:
            self._listeners += (listener,)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(x for x in self._listeners if x is not listener)

        return stop

    def begin(self, kind: EntryKind, parent: Ticket | ParentRef | None) -> Ticket:
        """Return a ticket for a call that starts now."""
        with self._lock:
            self._number += 1
            ticket = Ticket(self._number, kind, parent, self._take_number)
        if self.source is not None:
            self.source.began(ticket)
        return ticket

    def succeed(self, ticket: Ticket, record: dict[str, Any]) -> None:
        """Enter a call that answered; *record* holds the fields of its entry but the index."""
        self._enter(ticket, record)

    def fail(self, ticket: Ticket, record: dict[str, Any]) -> None:
        """Enter a call that failed; *record* holds the fields of its failure."""
        self._enter(ticket, {**record, "failed": True})

    def _enter(self, ticket: Ticket, record: dict[str, Any]) -> None:
        with self._lock:
            is_new = ticket.record is None
            ticket.record = record  # a call that was tried again is what its last try gave
            if is_new and ticket.take == self._take_number:
                self._take.append(ticket)
            elif is_new:
                self._base += _late(ticket, self._base)
            self._made = None
        for listener in self._listeners:
            listener(ticket)

    def patch(self, ticket: Ticket, decision: Any, record: dict[str, Any]) -> None:
        """Enter the new recording of a played call: in place of its entry, or after the last.

        Which of the two is settled when the recording is read: the entry may be taken back by a
        later equal call (`engine/policy.py`).
        """
        with self._lock:
            ticket.record = record
            self._patches.append((ticket, decision))
            self._made = None

    def extend(self, records: Iterable[CassetteEntry | CassetteFailure]) -> None:
        """Add finished records as they are, with their indexes."""
        with self._lock:
            self._base += records
            self._made = None

    def renew_lock(self) -> None:
        """Have a free lock in a forked process: a thread that is gone may have held the old one."""
        self._lock = threading.RLock()

    def replace(self, records: Iterable[CassetteEntry | CassetteFailure]) -> None:
        """Hold *records* instead of what was held."""
        with self._lock:
            self._base = list(records)
            self._clear_take()

    def _clear_take(self) -> None:
        self._take, self._patches, self._made = [], [], None
        if self.source is not None:
            self.source.clear()

    def settle(self, offsets: dict[LaneKey, int] | None = None) -> None:
        """Make what was recorded so far the base; a further take replaces it by index.

        Args:
            offsets: Index at which the take starts, by lane; 0 by default.
        """
        with self._lock:
            self._base = self.assembled().records
            self._clear_take()
            self._take_number += 1
            self._offsets = dict(offsets or {})

    def taken(self) -> dict[LaneKey, int]:
        """Return how far the take has come: the next index of each lane it recorded in."""
        with self._lock:
            counts = dict(self._offsets)
            for record in self._indexed():
                if isinstance(record, CassetteEntry):
                    lane = (record.parent, record.kind)
                    counts[lane] = max(counts.get(lane, 0), record.index + 1)
            return counts

    def assembled(self) -> Assembled:
        """Return the recording as it stands; made again only after a change."""
        with self._lock:
            version = 0 if self.source is None else self.source.version
            if self._made is None or version != self._made_of:
                self._made, self._made_of = self._assemble(), version
            return self._made

    def _indexed(self) -> list[CassetteEntry | CassetteFailure]:
        if self.source is None:
            return index_take(self._take, self._offsets)
        return self.source.join(self._take, self._offsets)

    def _assemble(self) -> Assembled:
        taken = self._indexed()
        base = _overlay(self._base, taken) if taken else self._base
        # Patches come from playing what was taken, so they are laid over it.
        base = _apply_patches(base, self._patches)
        made = Assembled()
        for record in base:
            if isinstance(record, CassetteFailure):
                made.failures.append(record)
            elif record.parent is None:
                made.entries.append(record)
            else:
                made.nested.append(record)
        return made


def index_take(
    take: Sequence[Ticket], offsets: dict[LaneKey, int]
) -> list[CassetteEntry | CassetteFailure]:
    """Give the finished calls of a take their index: rank by arrival in their lane."""
    made: list[CassetteEntry | CassetteFailure] = []
    counts: dict[LaneKey, int] = dict(offsets)
    failed: dict[LaneKey, int] = {}
    refs: dict[int, ParentRef] = {}
    for ticket in sorted(take, key=lambda t: t.number):
        record = ticket.record or {}
        parent: ParentRef | None
        if isinstance(ticket.parent, Ticket):
            parent = refs.get(ticket.parent.number)
            if parent is None:
                continue  # the call around it has not finished; it appears once that has
        else:
            parent = ticket.parent
        lane: LaneKey = (parent, ticket.kind)
        count = counts.get(lane, 0)
        if record.get("failed"):
            place = failed.get(lane, 0)
            failed[lane] = place + 1
            refs[ticket.number] = ParentRef(ticket.kind, place, parent, failed=True)
            made.append(
                CassetteFailure.model_validate({**record, "parent": parent, "follows": count - 1})
            )
            continue
        counts[lane] = count + 1
        refs[ticket.number] = ParentRef(ticket.kind, count, parent)
        made.append(CassetteEntry.model_construct(**record, parent=parent, index=count))
    return made


def _overlay(
    base: list[CassetteEntry | CassetteFailure], taken: list[CassetteEntry | CassetteFailure]
) -> list[CassetteEntry | CassetteFailure]:
    """Return the base with a newer take laid over it, entry by entry by index."""
    lanes = {(r.parent, r.kind) for r in taken}
    fresh = {(e.parent, e.kind, e.index): e for e in taken if isinstance(e, CassetteEntry)}
    replaced = {ParentRef(kind, index, parent) for parent, kind, index in fresh}
    result: list[CassetteEntry | CassetteFailure] = []
    for record in base:
        if _is_inside(record, replaced):
            continue
        if isinstance(record, CassetteFailure):
            if (record.parent, record.kind) not in lanes:
                result.append(record)
            continue
        result.append(fresh.pop((record.parent, record.kind, record.index), record))
    left = {id(e) for e in fresh.values()}
    result += [r for r in taken if isinstance(r, CassetteFailure) or id(r) in left]
    return result


def _is_inside(record: RecordedCall, parents: set[ParentRef]) -> bool:
    parent = record.parent
    while parent is not None:
        if parent in parents:
            return True
        parent = parent.parent
    return False


def _late(
    ticket: Ticket, base: Sequence[CassetteEntry | CassetteFailure]
) -> list[CassetteEntry | CassetteFailure]:
    """Return a call that finished after its take was settled: it comes last in its lane."""
    parent = None if isinstance(ticket.parent, Ticket) else ticket.parent
    lane = [r for r in base if isinstance(r, CassetteEntry) and r.kind == ticket.kind]
    count = max((r.index for r in lane if r.parent == parent), default=-1) + 1
    alone = Ticket(ticket.number, ticket.kind, parent)
    alone.record = ticket.record
    return index_take([alone], {(parent, ticket.kind): count})


def _apply_patches(
    base: list[CassetteEntry | CassetteFailure], patches: list[tuple[Ticket, Any]]
) -> list[CassetteEntry | CassetteFailure]:
    """Return the base with new recordings in place of what they diverged from, or appended.

    In the order in which the calls began; those made inside a new recording go with it.
    """
    result = list(base)
    if not patches:
        return result
    places = {
        (r.parent, r.kind, r.index): i for i, r in enumerate(result) if isinstance(r, CassetteEntry)
    }
    last: dict[LaneKey, int] = {}
    for parent, kind, index in places:
        last[parent, kind] = max(last.get((parent, kind), -1), index)
    refs: dict[int, ParentRef] = {}
    for ticket, decision in sorted(patches, key=lambda patch: patch[0].number):
        around = ticket.parent
        if isinstance(around, Ticket):
            around = refs.get(around.number)
            if around is None:
                continue  # the call around it has not finished, or failed
        lane: LaneKey = (around, ticket.kind)
        departure = decision.departure
        item = departure.item if departure is not None else decision.item
        entry = item.entry if item is not None else None
        is_there = entry is not None and (*lane, entry.index) in places
        if entry is not None and is_there:
            index = entry.index
        else:
            index = last[lane] = last.get(lane, -1) + 1
        made = CassetteEntry.model_construct(**(ticket.record or {}), parent=around, index=index)
        refs[ticket.number] = ParentRef(ticket.kind, index, around)
        place = (*lane, index)
        if is_there:
            result[places[place]] = made
        else:
            places[place] = len(result)
            result.append(made)
    return result


def in_file_order(
    entries: list[CassetteEntry], nested: list[CassetteEntry], failures: list[CassetteFailure]
) -> list[CassetteEntry | CassetteFailure]:
    """Return records as they stand in a file: nested calls after their parent, failures at their place."""
    inside: dict[ParentRef | None, list[CassetteEntry]] = {}
    for entry in nested:
        inside.setdefault(entry.parent, []).append(entry)
    after: dict[tuple[ParentRef | None, str, int], list[CassetteFailure]] = {}
    for failure in failures:
        after.setdefault((failure.parent, failure.kind, failure.follows), []).append(failure)
    early = [f for (_, _, follows), group in after.items() if follows < 0 for f in group]
    result: list[CassetteEntry | CassetteFailure] = list(early)
    for entry in entries:
        result += _with_followers(entry, inside, after)
    placed = {id(record) for record in result}
    rest: list[CassetteEntry | CassetteFailure] = [*nested, *failures]
    return [*result, *(record for record in rest if id(record) not in placed)]


def _with_followers(
    entry: CassetteEntry,
    inside: Mapping[ParentRef | None, list[CassetteEntry]],
    after: Mapping[tuple[ParentRef | None, str, int], list[CassetteFailure]],
) -> list[CassetteEntry | CassetteFailure]:
    """Return an entry, the calls made inside it, and the failures that came right after it."""
    result: list[CassetteEntry | CassetteFailure] = [entry]
    for child in inside.get(_ref_key(entry), ()):
        result += _with_followers(child, inside, after)
    result += after.get((entry.parent, entry.kind, entry.index), ())
    return result


def _ref_key(entry: CassetteEntry) -> ParentRef:
    return ParentRef(entry.kind, entry.index, entry.parent)
