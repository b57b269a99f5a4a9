"""The recorded calls of one kind under one parent, and how an equal one is found among them.

Lives here: order, consumption, and the index over digests. Not here: what is done with what is
found (`policy.py`). Finding costs the same among 100 and 100,000 entries: buckets of equal digests
are asked, never the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_cassette.engine.calls import Comparer, LiveCall
from otel_cassette.keys import (
    CanonicalRequest,
    Comparison,
    Scope,
    compare,
    full_scope,
    intersect,
    is_empty,
)
from otel_cassette.keys.text import digest_text, request_text
from otel_cassette.model.entry import KINDS, CassetteEntry, CassetteFailure

if TYPE_CHECKING:
    from typing import TypeGuard

_TIE_LOOKAHEAD = 64
SAME_TEXT = {kind: Comparison(full_scope(kind)) for kind in KINDS}
_LOOSE = frozenset({"model/family", "messages/tail"})


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
        self.place = place
        self.entry = record if isinstance(record, CassetteEntry) else None
        self.failure = record if isinstance(record, CassetteFailure) else None
        self.failed_place = 0
        self.consumed = False
        self.reserved: object | None = None
        self.claimed_by: object | None = None
        self._canonical: CanonicalRequest | None = None

    @property
    def record(self) -> CassetteEntry | CassetteFailure:
        """The entry or the failure."""
        return self.entry or self.failure  # type: ignore[return-value]  # one of the two is always set

    @property
    def path(self) -> tuple[str, ...]:
        """Where it stood in the span tree, as far as that is known."""
        source = self.record.source
        return source.path if source is not None else ()

    def canonical(self, comparer: Comparer) -> CanonicalRequest:
        """Return the request in canonical form; made once."""
        if self._canonical is None:
            self._canonical = comparer.recorded(self.record)
        return self._canonical

    def text_digest(self) -> bytes | None:
        """Return the digest of the request's text; None where equal texts would prove nothing."""
        record = self.record
        if record.scope is not None:
            return None
        return digest_text(request_text(record.kind, record.name, record.request))

    def forget(self) -> None:
        """Let go of what was made to compare the item: it is consumed."""
        self._canonical = None


@dataclass(slots=True)
class Found:
    """An equal item, and how sure the choice among equal ones was."""

    item: Item
    comparison: Comparison
    tie: bool = False


@dataclass(slots=True)
class _Queue:
    """Items in recording order; what is consumed is passed over once."""

    items: list[Item] = field(default_factory=list)
    head: int = 0
    left: int = 0

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.left += 1

    def open(self) -> Iterator[Item]:
        while self.head < len(self.items) and self.items[self.head].consumed:
            self.head += 1
        for at in range(self.head, len(self.items)):
            if not self.items[at].consumed:
                yield self.items[at]

    def first(self) -> Item | None:
        """Return the first open item that nobody claimed, else the first open one."""
        first: Item | None = None
        for item in self.open():
            if item.claimed_by is None:
                return item
            first = first or item
        return first


class _Bucket:
    """Items with one digest: in recording order, and by their place in the span tree."""

    __slots__ = ("all", "by_path", "places")

    def __init__(self) -> None:
        self.all = _Queue()
        self.by_path: dict[tuple[str, ...], _Queue] = {}
        self.places: set[int] = set()

    def add(self, item: Item) -> None:
        self.all.add(item)
        self.places.add(item.place)
        self.by_path.setdefault(item.path, _Queue()).add(item)

    def consumed(self, item: Item) -> None:
        self.all.left -= 1
        self.by_path[item.path].left -= 1

    def choose(self, call: LiveCall, claim: Item | None) -> tuple[Item, bool] | None:
        """Return the item for a call: its claim, its place in the tree, recording order."""
        if self.all.left == 0:
            return None
        if self.holds(claim):
            return claim, False
        queue = self._same_path(call)
        if queue is not None and queue.left:
            item = queue.first()
            if item is not None:
                return item, queue.left > 1
        item = self.all.first()
        return None if item is None else (item, self.all.left > 1)

    def confirm(
        self, call: LiveCall, claim: Item | None, is_equal: Callable[[Item], Comparison]
    ) -> Found | None:
        """Return the item for a call where equal digests are not proof: the same order, each compared."""
        if self.holds(claim):
            comparison = is_equal(claim)
            if comparison.equal:
                return Found(claim, comparison)
        for queue in (self._same_path(call), self.all):
            found: Found | None = None
            looked = 0
            for item in queue.open() if queue is not None else ():
                comparison = is_equal(item)
                if comparison.equal and found is not None:
                    found.tie = True
                    return found
                if comparison.equal:
                    found = Found(item, comparison)
                looked += found is not None
                if looked > _TIE_LOOKAHEAD:
                    break
            if found is not None:
                return found
        return None

    def holds(self, item: Item | None) -> TypeGuard[Item]:
        return item is not None and not item.consumed and item.place in self.places

    def _same_path(self, call: LiveCall) -> _Queue | None:
        return self.by_path.get(call.path) if call.path and len(self.by_path) > 1 else None


class _Group:
    """Items of one scope; an index for each scope they are compared on."""

    def __init__(self, scope: Scope, *, masked: bool) -> None:
        self.scope = scope
        self.masked = masked
        self.items: list[Item] = []
        self._indexes: dict[Scope, dict[str, _Bucket]] = {}
        self._homes: dict[int, list[_Bucket]] = {}

    def digest(self, request: CanonicalRequest, scope: Scope) -> str:
        return request.shape_on(scope) if self.masked else request.digest_on(scope)

    def bucket(self, live: CanonicalRequest, scope: Scope, comparer: Comparer) -> _Bucket | None:
        index = self._indexes.get(scope)
        if index is None:
            index = self._indexes[scope] = {}
            for item in self.items:
                if not item.consumed:
                    self._file(item, self.digest(item.canonical(comparer), scope), index)
        return index.get(self.digest(live, scope))

    def _file(self, item: Item, digest: str, index: dict[str, _Bucket]) -> None:
        bucket = index.setdefault(digest, _Bucket())
        bucket.add(item)
        self._homes.setdefault(item.place, []).append(bucket)

    def consumed(self, item: Item) -> None:
        for bucket in self._homes.get(item.place, ()):
            bucket.consumed(item)


class Lane:
    """The recorded calls of one kind under one parent.

    Args:
        records: Entries and failed calls of the lane, in any order.
        comparer: Brings requests into canonical form.
    """

    def __init__(
        self, records: Sequence[CassetteEntry | CassetteFailure], comparer: Comparer
    ) -> None:
        self._comparer = comparer
        ordered = sorted(records, key=_order)
        self.items = [Item(place, record) for place, record in enumerate(ordered)]
        self._failures = [item for item in self.items if item.failure is not None]
        for failed_place, item in enumerate(self._failures):
            item.failed_place = failed_place
        self.by_index = {i.entry.index: i for i in self.items if i.entry is not None}
        self.arrivals = 0
        self._groups: list[_Group] | None = None
        self._home: dict[int, _Group] = {}
        self._texts: dict[bytes, Item | _Bucket] | None = None
        self._text_home: dict[int, _Bucket] = {}
        self._free = 0
        self._low = 0
        self._by_name: dict[str | None, _Queue] | None = None

    def consume(self, item: Item) -> None:
        """Mark an item as played."""
        if item.consumed:
            return
        item.consumed = True
        if item.place in self._home:
            self._home[item.place].consumed(item)
        if item.place in self._text_home:
            self._text_home[item.place].consumed(item)

    def lowest(self) -> Item | None:
        """Return the first entry that no call consumed, reserved ones included."""
        while self._low < len(self.items) and (
            self.items[self._low].consumed or self.items[self._low].entry is None
        ):
            self._low += 1
        return self.items[self._low] if self._low < len(self.items) else None

    def lowest_free(self, name: str | None) -> Item | None:
        """Return the first entry that is neither consumed nor reserved, of *name* if there is one."""
        if name is not None:
            if self._by_name is None:
                self._by_name = {}
                for item in self.items:
                    if item.entry is not None:
                        self._by_name.setdefault(item.entry.name, _Queue()).items.append(item)
            queue = self._by_name.get(name)
            if queue is not None:
                while queue.head < len(queue.items) and not _is_free(queue.items[queue.head]):
                    queue.head += 1
                if queue.head < len(queue.items):
                    return queue.items[queue.head]
        while self._free < len(self.items) and not _is_free(self.items[self._free]):
            self._free += 1
        return self.items[self._free] if self._free < len(self.items) else None

    def doubtful_failure(self, call: LiveCall, before: Item | None) -> Found | None:
        """Return the first failure before *before* whose request cannot be compared with the call's.

        Many instrumentations keep no input of a call that failed: it may well be this one.
        """
        live = call.canonical(self._comparer)
        for item in self._failures:
            if before is not None and item.place > before.place:
                return None
            if item.consumed:
                continue
            comparison = compare(item.canonical(self._comparer), live)
            if comparison.cannot_tell:
                return Found(item, comparison)
        return None

    def find_equal(self, call: LiveCall, claim: Item | None) -> Found | None:
        """Return the item equal to a call: the same text first, then equal in canonical form.

        Among equal ones: the widest scope, the claim, the same place in the tree, recording order.
        """
        same = self._find_text(call, claim)
        if same is not None:
            return same
        live = call.canonical(self._comparer)
        scopes = [(group, intersect(group.scope, live.scope)) for group in self._all_groups()]
        scopes.sort(key=lambda row: (row[0].masked, -len(row[1])))
        for group, scope in scopes:
            if is_empty(scope):
                continue
            bucket = group.bucket(live, scope, self._comparer)
            if bucket is None:
                continue
            if group.masked or scope & _LOOSE:
                found = bucket.confirm(
                    call, claim, lambda item: compare(item.canonical(self._comparer), live)
                )
            else:
                chosen = bucket.choose(call, claim)
                found = None if chosen is None else Found(chosen[0], Comparison(scope), chosen[1])
            if found is not None:
                return found
        return None

    def _find_text(self, call: LiveCall, claim: Item | None) -> Found | None:
        """Return an item whose request is the very text of the call's; nothing is normalised."""
        if call.raw is None or call.scope is not None:
            return None
        if self._texts is None:
            self._texts = self._index_texts()
        known = self._texts.get(digest_text(call.raw))
        if known is None:
            return None
        if isinstance(known, Item):
            return None if known.consumed else Found(known, SAME_TEXT[call.kind])
        chosen = known.choose(call, claim)
        return None if chosen is None else Found(chosen[0], SAME_TEXT[call.kind], tie=chosen[1])

    def _index_texts(self) -> dict[bytes, Item | _Bucket]:
        """Return the open items by the digest of their text: most stand alone under theirs."""
        index: dict[bytes, Item | _Bucket] = {}
        for item in self.items:
            digest = None if item.consumed else item.text_digest()
            if digest is None:
                continue
            known = index.setdefault(digest, item)
            if known is item:
                continue
            if isinstance(known, Item):
                bucket = index[digest] = _Bucket()
                bucket.add(known)
                self._text_home[known.place] = bucket
                known = bucket
            known.add(item)
            self._text_home[item.place] = known
        return index

    def _all_groups(self) -> list[_Group]:
        if self._groups is None:
            groups: dict[tuple[Scope, bool], _Group] = {}
            for item in self.items:
                if item.consumed:
                    continue
                request = item.canonical(self._comparer)
                masked = request.is_masked
                group = groups.setdefault(
                    (request.scope, masked), _Group(request.scope, masked=masked)
                )
                group.items.append(item)
                self._home[item.place] = group
            self._groups = list(groups.values())
        return self._groups


def _is_free(item: Item) -> bool:
    return item.entry is not None and not item.consumed and item.reserved is None


def _order(record: CassetteEntry | CassetteFailure) -> tuple[int, int]:
    if isinstance(record, CassetteEntry):
        return record.index, 0
    return record.follows, 1
