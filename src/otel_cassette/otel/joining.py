"""One recording out of two accounts of it: calls that were recorded themselves, and calls of spans.

Lives here: which span is the same call as a wrapper's or a transport's, whose word counts, and the
common order. Not here: what a span says (`assemble/`), and the index of calls that no span tells of
(`store.py`).

A wrapper and a transport have the request and the answer without loss, a span has the place in the
tree: where both saw a call, the entry is theirs with the span's source. A wrapper lies around the
span of its call, a transport's exchange inside it; a span that is not current during the exchange
(and one that was created after it) is known by the response id and the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_cassette.assemble import Assembly
from otel_cassette.document import record_key
from otel_cassette.model.entry import (
    MODEL_KINDS,
    CassetteEntry,
    CassetteFailure,
    EntryKind,
    EntrySource,
    ParentRef,
)
from otel_cassette.model.span import SpanRecord
from otel_cassette.store import LaneKey, Ticket

Record = CassetteEntry | CassetteFailure
_OWN_FIELDS = ("parent", "index", "follows", "key", "_keyed")


@dataclass(frozen=True, slots=True)
class TicketFacts:
    """When a wrapper's call was made (nanoseconds since the Unix epoch), and the span around it."""

    start_ns: int = 0
    end_ns: int = 0
    span_id: str | None = None


@dataclass(slots=True, eq=False)
class _Item:
    kind: EntryKind
    name: str | None
    start_ns: int
    end_ns: int
    fields: dict[str, Any]
    failed: bool
    parent: _Item | ParentRef | None = None
    span_id: str | None = None
    inferred: bool = False
    pending: bool = False
    ref: ParentRef | None = None

    @property
    def content(self) -> Any:
        return self.fields.get("request")


@dataclass(slots=True)
class Accounts:
    """What `join` works on.

    Attributes:
        take: Calls that wrappers recorded and that have finished.
        facts: When and where they were made, by ticket number.
        assembly: What the spans tell.
        spans: All spans of the recording.
        inside: For spans that began inside a wrapped tool: its ticket, by span id.
        completed: Filled by `join`: ids of spans whose call was recorded itself, content and all.
    """

    take: Sequence[Ticket]
    facts: Mapping[int, TicketFacts]
    assembly: Assembly
    spans: Iterable[SpanRecord]
    inside: Mapping[str, Ticket] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)


def join(accounts: Accounts, offsets: Mapping[LaneKey, int]) -> list[Record]:
    """Return every call once, in recording order, with its index."""
    told = _told(accounts.assembly)
    wrapped = _wrapped(accounts)
    parents = {span.span_id: span.parent_span_id for span in accounts.spans}
    absorbed: dict[int, _Item] = {}
    if wrapped:
        taken: set[int] = set()
        calls = list(wrapped.values())
        for item in told:
            same = _same_call(item, calls, parents, taken)
            if same is not None:
                taken.add(id(same))
                absorbed[id(item)] = same
        # Once all are found: where a call was made tells which span is its own, until then.
        for item in told:
            if id(item) in absorbed:
                same = absorbed[id(item)]
                same.span_id = item.span_id
                if not item.inferred:
                    same.fields["source"] = _place_of(item)
                    accounts.completed.add(item.span_id or "")
    for item in told:
        if isinstance(item.parent, _Item):
            item.parent = absorbed.get(id(item.parent), item.parent)
        elif item.parent is None and item.span_id is not None:
            item.parent = _around(item.span_id, accounts.inside, wrapped, parents)
    for item in wrapped.values():
        _place_in_tree(item, told, absorbed, parents)
    items = [*wrapped.values(), *(item for item in told if id(item) not in absorbed)]
    items.sort(key=lambda item: item.start_ns)
    return _indexed(items, offsets)


def _place_of(item: _Item) -> EntrySource | None:
    """Return a span's place for an entry whose content is not the span's: no dialect read it."""
    source = item.fields.get("source")
    return None if source is None else source.model_copy(update={"dialect": None})


def _told(assembly: Assembly) -> list[_Item]:
    """Return the calls of the spans, in recording order; parents are items too."""
    items: dict[ParentRef, _Item] = {}
    failed: dict[tuple[Any, EntryKind], int] = defaultdict(int)
    records: list[Record] = [*assembly.entries, *assembly.nested, *assembly.failures]
    for record in records:
        source = record.source
        start_ns = (source.start_ns if source is not None else None) or 0
        item = _Item(
            record.kind,
            record.name,
            start_ns,
            start_ns + int((record.latency_ms or 0) * 1e6),
            {k: v for k, v in record.__dict__.items() if k not in _OWN_FIELDS},
            isinstance(record, CassetteFailure),
            record.parent,
            source.span_id if source is not None else None,
            record.inferred,
        )
        if isinstance(record, CassetteFailure):
            place = failed[record.parent, record.kind]
            failed[record.parent, record.kind] += 1
            items[ParentRef(record.kind, place, record.parent, failed=True)] = item
        else:
            items[ParentRef(record.kind, record.index, record.parent)] = item
    for item in items.values():
        if isinstance(item.parent, ParentRef):
            item.parent = items.get(item.parent, item.parent)
    return sorted(items.values(), key=lambda item: item.start_ns)


def _wrapped(accounts: Accounts) -> dict[int, _Item]:
    """Return the calls of the wrappers, by ticket number."""
    items: dict[int, _Item] = {}
    for ticket in sorted(accounts.take, key=lambda t: t.number):
        record = dict(ticket.record or {})
        facts = accounts.facts.get(ticket.number, TicketFacts())
        failed = bool(record.pop("failed", False))
        # The source is of the start: a stream may end where another span is current.
        source = record.get("source")
        span_id = facts.span_id if source is None else source.span_id
        item = _Item(
            ticket.kind,
            record.get("name"),
            facts.start_ns,
            facts.end_ns,
            record,
            failed,
            span_id=span_id,
        )
        if isinstance(ticket.parent, Ticket):
            item.parent = items.get(ticket.parent.number)
            item.pending = item.parent is None
        else:
            item.parent = ticket.parent
        items[ticket.number] = item
    return items


def _same_call(
    item: _Item,
    wrapped: Sequence[_Item],
    parents: Mapping[str, str | None],
    taken: Container[int],
) -> _Item | None:
    """Return the recorded call that a span's call is, or None.

    Args:
        item: The span's call.
        wrapped: Calls that were recorded themselves.
        parents: The span around each span.
        taken: Those of *wrapped* (by `id`) that another span is already.
    """
    found: list[_Item] = []
    answer_id = _answer_id(item)
    for call in wrapped:
        if call.kind != item.kind or (call.kind == "tool" and call.name != item.name):
            continue
        if item.inferred:
            if record_key_of(call) == record_key_of(item):
                found.append(call)
            continue
        its_id = _answer_id(call)
        if answer_id is not None and its_id is not None and answer_id != its_id:
            continue
        is_related = _is_below(item.span_id, call.span_id, parents) or _is_below(
            call.span_id, item.span_id, parents
        )
        is_inside = _lies_in(item, call) or _starts_in(call, item)
        if (answer_id is not None and answer_id == its_id) or (is_related and is_inside):
            found.append(call)
    if len(found) > 1:
        # Concurrent calls of one place: the one with the same answer, the one in the span itself,
        # the equal one, that with the span's argument and result, else the shortest around it.
        key = record_key_of(item)
        found.sort(
            key=lambda c: (
                answer_id is None or _answer_id(c) != answer_id,
                id(c) in taken,
                c.span_id is None or c.span_id != item.span_id,
                record_key_of(c) != key,
                not _has_argument(c, item),
                c.fields.get("response") != item.fields.get("response"),
                c.end_ns - c.start_ns,
            )
        )
    return found[0] if found else None


def _has_argument(call: _Item, span: _Item) -> bool:
    """Return whether a span's bare value is an argument of the call: some spans hold no names."""
    arguments = call.content
    return isinstance(arguments, Mapping) and span.content in arguments.values()


def _answer_id(item: _Item) -> str | None:
    response = item.fields.get("response")
    found = response.get("id") if isinstance(response, Mapping) else None
    return found if isinstance(found, str) and item.kind in MODEL_KINDS else None


def record_key_of(item: _Item) -> str:
    """Return the key of an item's request."""
    return record_key(
        CassetteEntry.model_construct(kind=item.kind, name=item.name, request=item.content, index=0)
    )


def _lies_in(inner: _Item, outer: _Item) -> bool:
    return outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns


def _starts_in(inner: _Item, outer: _Item) -> bool:
    """Return whether an exchange is a span's: its body may be read on after the span's end."""
    return outer.start_ns <= inner.start_ns <= outer.end_ns


def _is_below(span_id: str | None, ancestor: str | None, parents: Mapping[str, str | None]) -> bool:
    """Return whether *ancestor* is around the span; a wrapper outside of all spans is around roots."""
    if ancestor is None or ancestor not in parents:
        return True
    seen: set[str] = set()
    current = span_id
    while current is not None and current not in seen:
        if current == ancestor:
            return True
        seen.add(current)
        current = parents.get(current)
    return False


def _around(
    span_id: str,
    inside: Mapping[str, Ticket],
    wrapped: Mapping[int, _Item],
    parents: Mapping[str, str | None],
) -> _Item | None:
    """Return the wrapped tool inside which a span, or one around it, began."""
    seen: set[str] = set()
    current: str | None = span_id
    while current is not None and current not in seen:
        ticket = inside.get(current)
        if ticket is not None:
            return wrapped.get(ticket.number)
        seen.add(current)
        current = parents.get(current)
    return None


def _place_in_tree(
    item: _Item,
    told: Sequence[_Item],
    absorbed: Mapping[int, _Item],
    parents: Mapping[str, str | None],
) -> None:
    """Give a wrapper's call the tool or retrieval span it was made in as its parent."""
    if item.parent is not None or item.pending or item.span_id is None:
        return
    by_span = {t.span_id: t for t in told if t.span_id and t.kind in ("tool", "retrieval")}
    seen: set[str] = set()
    current: str | None = item.span_id
    while current is not None and current not in seen:
        outer = by_span.get(current)
        if outer is not None:
            outer = absorbed.get(id(outer), outer)
            if outer is not item:
                item.parent = outer
                return
        seen.add(current)
        current = parents.get(current)


def _indexed(items: Sequence[_Item], offsets: Mapping[LaneKey, int]) -> list[Record]:
    """Return the items as records, each after the one it was made in."""
    counts: dict[LaneKey, int] = dict(offsets)
    failures: dict[LaneKey, int] = defaultdict(int)
    waiting = [item for item in items if not item.pending]
    result: list[Record] = []
    while waiting:
        later = []
        for item in waiting:
            if isinstance(item.parent, _Item) and item.parent.ref is None:
                later.append(item)
                continue
            parent = item.parent.ref if isinstance(item.parent, _Item) else item.parent
            result.append(_record(item, parent, counts, failures))
        if len(later) == len(waiting):
            break  # made inside a call that has not finished; they appear once it has
        waiting = later
    return result


def _record(
    item: _Item,
    parent: ParentRef | None,
    counts: dict[LaneKey, int],
    failures: dict[LaneKey, int],
) -> Record:
    lane: LaneKey = (parent, item.kind)
    count = counts.get(lane, 0)
    if item.failed:
        item.ref = ParentRef(item.kind, failures[lane], parent, failed=True)
        failures[lane] += 1
        fields = {**item.fields, "failed": True, "parent": parent, "follows": count - 1}
        return CassetteFailure.model_construct(**fields)
    counts[lane] = count + 1
    item.ref = ParentRef(item.kind, count, parent)
    return CassetteEntry.model_construct(**item.fields, parent=parent, index=count)
