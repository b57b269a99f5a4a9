"""The recorded calls of one kind under one parent, and how an equal one is found among them.

Lives here: order, consumption, and the index over digests. Not here: what is done with what is
found (`policy.py`). Finding costs the same among 100 and 100,000 entries: buckets of equal digests
are asked, never the list.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_cassette.engine.calls import Comparer, LiveCall
from otel_cassette.engine.choice import Bucket, Callers, Found, Item, Queue, Strands
from otel_cassette.keys import (
    CanonicalRequest,
    Comparison,
    Scope,
    compare,
    full_scope,
    intersect,
    is_empty,
)
from otel_cassette.keys.text import digest_text
from otel_cassette.model.entry import KINDS, CassetteEntry, CassetteFailure

SAME_TEXT = {kind: Comparison(full_scope(kind)) for kind in KINDS}
_LOOSE = frozenset({"model/family", "messages/tail"})


class _Group:
    """Items of one scope; an index for each scope they are compared on."""

    def __init__(self, scope: Scope, strands: Strands, *, masked: bool) -> None:
        self.scope = scope
        self._strands = strands
        self.masked = masked
        self.items: list[Item] = []
        self._indexes: dict[Scope, dict[str, Bucket]] = {}
        self._homes: dict[int, list[Bucket]] = {}

    def digest(self, request: CanonicalRequest, scope: Scope) -> str:
        return request.shape_on(scope) if self.masked else request.digest_on(scope)

    def bucket(self, live: CanonicalRequest, scope: Scope, comparer: Comparer) -> Bucket | None:
        index = self._indexes.get(scope)
        if index is None:
            index = self._indexes[scope] = {}
            for item in self.items:
                if not item.consumed:
                    self._file(item, self.digest(item.canonical(comparer), scope), index)
        return index.get(self.digest(live, scope))

    def _file(self, item: Item, digest: str, index: dict[str, Bucket]) -> None:
        bucket = index.setdefault(digest, Bucket(self._strands))
        bucket.add(item)
        self._homes.setdefault(item.place, []).append(bucket)

    def consumed(self, item: Item) -> None:
        for bucket in self._homes.get(item.place, ()):
            bucket.consumed()


class Lane:
    """The recorded calls of one kind under one parent.

    Args:
        records: Entries and failed calls of the lane, in any order.
        comparer: Brings requests into canonical form.
        callers: Of the playback.
    """

    def __init__(
        self,
        records: Sequence[CassetteEntry | CassetteFailure],
        comparer: Comparer,
        callers: Callers,
    ) -> None:
        self._comparer = comparer
        self._callers = callers
        ordered = sorted(records, key=_order)
        self.items: list[Item] = [Item(place, record) for place, record in enumerate(ordered)]
        self._strands = Strands(self.items)
        self._failures = [item for item in self.items if item.failure is not None]
        for failed_place, item in enumerate(self._failures):
            item.failed_place = failed_place
        self.by_index: dict[int, Item] = {
            i.entry.index: i for i in self.items if i.entry is not None
        }
        self.arrivals = 0
        self._groups: list[_Group] | None = None
        self._home: dict[int, _Group] = {}
        # By the form of the texts: those of typed requests, those of plain ones.
        self._texts: dict[bool, dict[bytes, Item | Bucket]] = {}
        self._text_homes: dict[int, list[Bucket]] = {}
        self._free = 0
        self._low = 0
        self._by_name: dict[str | None, Queue] | None = None

    def consume(self, item: Item) -> None:
        """Mark an item as played."""
        if item.consumed:
            return
        item.consumed = True
        if item.place in self._home:
            self._home[item.place].consumed(item)
        for bucket in self._text_homes.get(item.place, ()):
            bucket.consumed()

    def take(self, call: LiveCall, found: Found) -> None:
        """Mark what was found for a call as played by it."""
        if found.bucket is not None:
            found.bucket.given(call, found.item, guessed=found.tie)
        self._callers.bind(call, found.item, certain=not found.tie)
        self.consume(found.item)

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
                        self._by_name.setdefault(item.entry.name, Queue()).items.append(item)
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
                    call,
                    claim,
                    self._callers,
                    lambda item: compare(item.canonical(self._comparer), live),
                )
            else:
                found = self._chosen(bucket, call, claim, Comparison(scope))
            if found is not None:
                return found
        return None

    def _find_text(self, call: LiveCall, claim: Item | None) -> Found | None:
        """Return an item whose request is the very text of the call's; nothing is normalised."""
        if call.raw is None or call.scope is not None:
            return None
        index = self._texts.get(call.is_typed)
        if index is None:
            index = self._texts[call.is_typed] = self._index_texts(typed=call.is_typed)
        known = index.get(digest_text(call.raw))
        if known is None:
            return None
        if isinstance(known, Item):
            return None if known.consumed else Found(known, SAME_TEXT[call.kind])
        return self._chosen(known, call, claim, SAME_TEXT[call.kind])

    def _chosen(
        self, bucket: Bucket, call: LiveCall, claim: Item | None, comparison: Comparison
    ) -> Found | None:
        chosen = bucket.choose(call, claim, self._callers)
        if chosen is None:
            return None
        return Found(chosen[0], comparison, tie=chosen[1], bucket=bucket)

    def _index_texts(self, *, typed: bool) -> dict[bytes, Item | Bucket]:
        """Return the open items by the digest of their text: most stand alone under theirs."""
        index: dict[bytes, Item | Bucket] = {}
        for item in self.items:
            text = None if item.consumed else item.text(typed=typed)
            if text is None:
                continue
            digest = digest_text(text)
            known = index.setdefault(digest, item)
            if known is item:
                continue
            if isinstance(known, Item):
                bucket = index[digest] = Bucket(self._strands)
                bucket.add(known)
                self._text_homes.setdefault(known.place, []).append(bucket)
                known = bucket
            known.add(item)
            self._text_homes.setdefault(item.place, []).append(known)
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
                    (request.scope, masked), _Group(request.scope, self._strands, masked=masked)
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
