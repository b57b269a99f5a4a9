"""Which of several equal entries a call gets, and how sure that choice is.

Lives here: `Item`, one recorded call of a lane; `Callers`, which recorded caller each live one has
turned out to be; `Bucket`, equal items and the choice among them. Not here: how equal items are
found (`lanes.py`).

Equal requests are told apart by who makes them: the span in which the call is made, its trace, its
place in the span tree, and the caller's own order. A choice that none of these settles is a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_cassette.engine.calls import Comparer, LiveCall
from otel_cassette.keys import CanonicalRequest, Comparison
from otel_cassette.keys.text import plain_text, text_as_typed
from otel_cassette.model.entry import CassetteEntry, CassetteFailure, EntrySource

if TYPE_CHECKING:
    from typing import TypeGuard

_TIE_LOOKAHEAD = 64
_ANOTHERS = 2  # the claim on an item that certainly is another caller's


class Item:
    """One recorded call of a lane."""

    __slots__ = (
        "_canonical",
        "claimed_by",
        "consumed",
        "entry",
        "failed_place",
        "failure",
        "place",
        "reserved",
    )

    def __init__(self, place: int, record: CassetteEntry | CassetteFailure) -> None:
        self.place: int = place
        self.entry: CassetteEntry | None = record if isinstance(record, CassetteEntry) else None
        self.failure: CassetteFailure | None = (
            record if isinstance(record, CassetteFailure) else None
        )
        self.failed_place: int = 0
        self.consumed: bool = False
        self.reserved: object | None = None
        self.claimed_by: object | None = None
        self._canonical: CanonicalRequest | None = None

    @property
    def record(self) -> CassetteEntry | CassetteFailure:
        """The entry or the failure."""
        return self.entry or self.failure  # type: ignore[return-value]  # one of the two is always set

    @property
    def source(self) -> EntrySource:
        """Where it was recorded."""
        return self.record.source or _NO_SOURCE

    def canonical(self, comparer: Comparer) -> CanonicalRequest:
        """Return the request in canonical form; made once."""
        if self._canonical is None:
            self._canonical = comparer.recorded(self.record)
        return self._canonical

    def text(self, *, typed: bool) -> bytes | None:
        """Return the request's text; None where equal texts would prove nothing.

        Args:
            typed: As that of a typed request, else as that of a plain one.
        """
        record = self.record
        if record.scope is not None:
            return None
        return text_as_typed(record.request) if typed else plain_text(record.name, record.request)

    def forget(self) -> None:
        """Let go of what was made to compare the item: it is consumed."""
        self._canonical = None


_NO_SOURCE = EntrySource()


@dataclass(slots=True)
class Found:
    """An equal item, and how sure the choice among equal ones was."""

    item: Item
    comparison: Comparison
    tie: bool = False
    bucket: Bucket | None = None


@dataclass(slots=True)
class Queue:
    """Items in recording order; what is consumed is passed over once."""

    items: list[Item] = field(default_factory=list)
    head: int = 0
    guessed: bool = False
    """An item of it was given away by a guess: whose the others are is not sure any more."""

    def open(self) -> Iterator[Item]:
        """Yield the items that are not consumed."""
        while self.head < len(self.items) and self.items[self.head].consumed:
            self.head += 1
        for at in range(self.head, len(self.items)):
            if not self.items[at].consumed:
                yield self.items[at]


class _Pairing:
    """Live ids and the recorded ids that they have turned out to be, one to one."""

    def __init__(self) -> None:
        self._recorded: dict[Hashable, tuple[Hashable, bool]] = {}
        self._live: dict[Hashable, Hashable] = {}

    def get(self, live: Hashable) -> tuple[Hashable, bool] | None:
        """Return the recorded id and whether it is certain."""
        return self._recorded.get(live)

    def claim_of_another(self, recorded: Hashable, live: Hashable) -> int:
        """Return whether *recorded* is another live id than *live*: 0 no, 1 by a guess, 2 certainly."""
        owner = self._live.get(recorded)
        if owner is None or owner == live:
            return 0
        return 2 if self._recorded[owner][1] else 1

    def bind(self, live: Hashable, recorded: Hashable, *, certain: bool) -> None:
        """Pair two ids; what is certain is never undone, a guess is by what is certain."""
        known = self._recorded.get(live)
        holder = self._live.get(recorded)
        if known is not None and (known[1] or not certain):
            return
        if holder is not None and holder != live:
            if not certain or self._recorded[holder][1]:
                return
            del self._recorded[holder]
        if known is not None:
            del self._live[known[0]]
        self._recorded[live] = (recorded, certain)
        self._live[recorded] = live


class Callers:
    """Which recorded callers the live ones have turned out to be, by the calls they made.

    A caller is a span, and in it the task that makes the call. Of a trace file the task is not
    known: calls of one span are one caller's only where they did not overlap.
    """

    def __init__(self) -> None:
        self._spans = _Pairing()
        self._strands = _Pairing()
        self._traces = _Pairing()

    def of(self, call: LiveCall, lane: Strands) -> tuple[Hashable, bool] | None:
        """Return the recorded caller that makes *call*, and whether that is certain."""
        span = self._spans.get(call.caller) if call.caller is not None else None
        if span is not None and lane.is_one(str(span[0])):
            return span
        if call.caller is None or call.task is None:
            return None
        return self._strands.get((call.caller, call.task))

    def trace_of(self, call: LiveCall) -> tuple[Hashable, bool] | None:
        """Return the recorded trace that the live one is, and whether that is certain."""
        return self._traces.get(call.trace_id) if call.trace_id is not None else None

    def claim_of_another(self, item: Item, call: LiveCall, lane: Strands) -> int:
        """Return whether *item* belongs to another live caller: 0 no, 1 by a guess, 2 certainly."""
        source = item.source
        if source.caller is None:
            return 0
        claim = self._spans.claim_of_another(source.caller, call.caller)
        if claim == 2 or lane.is_one(source.caller) or source.strand <= 0:
            return claim
        strand = (source.caller, source.strand)
        return max(claim, self._strands.claim_of_another(strand, (call.caller, call.task)))

    def bind(self, call: LiveCall, item: Item, *, certain: bool) -> None:
        """Take note that *call* was answered with *item*."""
        source = item.source
        if call.trace_id is not None and source.trace_id is not None:
            self._traces.bind(call.trace_id, source.trace_id, certain=certain)
        if call.caller is None or source.caller is None:
            return
        self._spans.bind(call.caller, source.caller, certain=certain)
        if call.task is not None and source.strand > 0:
            self._strands.bind(
                (call.caller, call.task), (source.caller, source.strand), certain=certain
            )


class Strands:
    """Of a lane: which spans made their calls one after the other, by one task."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._one: dict[str, bool] | None = None

    def is_one(self, caller: str) -> bool:
        """Return whether the calls of this recorded span came one after the other."""
        if self._one is None:
            self._one = self._find()
        return self._one.get(caller, False)

    def token(self, item: Item) -> Hashable:
        """Return who made the recorded call: items of one caller share it."""
        source = item.source
        if source.caller is None:
            return item.place
        if self.is_one(source.caller):
            return source.caller
        return (source.caller, source.strand) if source.strand > 0 else item.place

    def _find(self) -> dict[str, bool]:
        one: dict[str, bool] = {}
        first: dict[str, int] = {}
        ends: dict[str, float] = {}
        for item in self._items:
            source = item.source
            caller = source.caller
            if caller is None:
                continue
            one.setdefault(caller, True)
            if source.dialect is None:
                one[caller] &= first.setdefault(caller, source.strand) == source.strand
                continue
            start, latency = source.start_ns, item.record.latency_ms
            if start is None or latency is None or start < ends.get(caller, start):
                one[caller] = False
                continue
            ends[caller] = start + latency * 1e6
        return one


class Bucket:
    """Items with one digest, and which of them a call gets.

    Args:
        strands: Of the lane the items belong to.
    """

    __slots__ = ("_asked", "_by", "_places", "_strands", "all", "left")

    def __init__(self, strands: Strands) -> None:
        self.all: Queue = Queue()
        self.left: int = 0
        self._places: set[int] = set()
        self._strands = strands
        self._by: dict[Hashable, Queue] | None = None
        self._asked: dict[Hashable, int] = {}

    def add(self, item: Item) -> None:
        """File an item that is not consumed; all are added before the first is chosen."""
        self.all.items.append(item)
        self._places.add(item.place)
        self.left += 1

    def consumed(self) -> None:
        """Take note that one of the items was consumed."""
        self.left -= 1

    def holds(self, item: Item | None) -> TypeGuard[Item]:
        """Return whether *item* is one of these, and open."""
        return item is not None and not item.consumed and item.place in self._places

    def choose(
        self, call: LiveCall, claim: Item | None, callers: Callers
    ) -> tuple[Item, bool] | None:
        """Return the item for a call, and whether it was a guess.

        In this order: its claim; its caller's next; its place in the caller's trace, in the tree;
        recording order.
        """
        if self.left == 0:
            return None
        if self.holds(claim):
            return claim, False
        if len(self.all.items) == 1:
            return self.all.items[0], False
        return self._pick(call, callers, lambda _item: True)

    def confirm(
        self,
        call: LiveCall,
        claim: Item | None,
        callers: Callers,
        is_equal: Callable[[Item], Comparison],
    ) -> Found | None:
        """Return the item for a call where equal digests are not proof: as `choose`, each compared."""
        if self.left == 0:
            return None
        made: dict[int, Comparison] = {}

        def equal(item: Item) -> bool:
            if item.place not in made:
                made[item.place] = is_equal(item)
            return made[item.place].equal

        if self.holds(claim) and equal(claim):
            return Found(claim, made[claim.place], bucket=self)
        picked = self._pick(call, callers, equal)
        if picked is None:
            return None
        return Found(picked[0], made[picked[0].place], tie=picked[1], bucket=self)

    def given(self, call: LiveCall, item: Item, *, guessed: bool) -> None:
        """Take note that *call* was answered with *item*."""
        if len(self.all.items) == 1:
            return
        keys: tuple[Hashable, ...] = (call.caller, (call.caller, call.task))
        for key in keys:
            self._asked[key] = self._asked.get(key, 0) + 1
        if guessed:
            by = self._index()
            self.all.guessed = True
            for key in self._keys(item):
                by[key].guessed = True

    def _pick(
        self, call: LiveCall, callers: Callers, may_take: Callable[[Item], bool]
    ) -> tuple[Item, bool] | None:
        caller = callers.of(call, self._strands)
        trace = callers.trace_of(call)
        by = self._index()
        if caller is not None:
            own = self._own(call, by.get(("caller", caller[0])), caller, may_take)
            if own is not None:
                return own
        narrowed: list[Queue | None] = []
        if trace is not None:
            narrowed.append(by.get(("trace", trace[0], call.path)))
        narrowed.append(self._same_path(call, by))
        if trace is not None:
            narrowed.append(by.get(("trace", trace[0])))
        for queue in (*narrowed, self.all):
            picked = self._first(queue, call, callers, may_take)
            if picked is not None:
                item, is_guess = picked
                return item, is_guess or self._is_foreign(item, call, caller)
        return None

    def _own(
        self,
        call: LiveCall,
        queue: Queue | None,
        caller: tuple[Hashable, bool],
        may_take: Callable[[Item], bool],
    ) -> tuple[Item, bool] | None:
        """Return what the recorded caller got the n-th time, for a caller that asks the n-th time."""
        if queue is None:
            return None
        key: Hashable = (call.caller, call.task) if isinstance(caller[0], tuple) else call.caller
        nth = self._asked.get(key, 0)
        if nth < len(queue.items):
            own = queue.items[nth]
            if not own.consumed and may_take(own):
                return own, not caller[1]
        # Its own was given to somebody else by a guess.
        other = next(filter(may_take, queue.open()), None)
        return None if other is None else (other, True)

    def _first(
        self,
        queue: Queue | None,
        call: LiveCall,
        callers: Callers,
        may_take: Callable[[Item], bool],
    ) -> tuple[Item, bool] | None:
        """Return the first item that nobody else has a right to, and whether others have one too."""
        best: Item | None = None
        best_claim = _ANOTHERS + 1
        tokens: set[Hashable] = set()
        looked = 0
        for item in queue.open() if queue is not None else ():
            if not may_take(item):
                continue
            looked += 1
            claim = callers.claim_of_another(item, call, self._strands)
            claim = _ANOTHERS if item.claimed_by is not None else claim
            if claim < best_claim:
                best, best_claim = item, claim
            if claim < _ANOTHERS:
                tokens.add(self._strands.token(item))
            if (len(tokens) > 1 and best_claim == 0) or looked > _TIE_LOOKAHEAD:
                break
        if queue is None or best is None:
            return None
        if best_claim == _ANOTHERS:
            return best, len(self.all.items) > 1
        return best, len(tokens) > 1 or queue.guessed or best_claim > 0

    def _is_foreign(self, item: Item, call: LiveCall, caller: tuple[Hashable, bool] | None) -> bool:
        """Return whether what is known of the caller speaks against *item*, one of several."""
        if len(self.all.items) == 1:
            return False
        if caller is not None and self._strands.token(item) != caller[0]:
            return True
        return not _is_same_path(item.source.path, call.path)

    def _same_path(self, call: LiveCall, by: dict[Hashable, Queue]) -> Queue | None:
        exact = by.get(("path", call.path))
        if exact is not None or not call.path:
            return exact
        near = [
            queue
            for key, queue in by.items()
            if isinstance(key, tuple) and key[0] == "path" and _is_same_path(key[1], call.path)
        ]
        return near[0] if len(near) == 1 else None

    def _index(self) -> dict[Hashable, Queue]:
        if self._by is None:
            self._by = {}
            for item in self.all.items:
                for key in self._keys(item):
                    self._by.setdefault(key, Queue()).items.append(item)
        return self._by

    def _keys(self, item: Item) -> Iterator[Hashable]:
        source = item.source
        yield ("caller", self._strands.token(item))
        yield ("path", source.path)
        if source.trace_id is not None:
            yield ("trace", source.trace_id)
            yield ("trace", source.trace_id, source.path)


def _is_same_path(recorded: tuple[str, ...], live: tuple[str, ...]) -> bool:
    """Return whether two paths may be one: of either, the names nearest to the root may be unknown."""
    count = min(len(recorded), len(live))
    if count == 0:
        return not recorded and not live
    return recorded[-count:] == live[-count:]
