"""The engine: what each live call of a playback gets.

Lives here: the decision table of docs/verdicts.md, over lanes of recorded calls. Pure: no I/O, no
clock, no OpenTelemetry; safe for threads and tasks. Not here: how equal entries are found
(`lanes.py`), what a playback's calls add up to (`account.py`), how a call is really made
(`clients/`).
"""

from __future__ import annotations

from typing import Any, Literal

from otel_cassette.engine import departures
from otel_cassette.engine.account import Account, LaneKey
from otel_cassette.engine.calls import Decision, LiveCall
from otel_cassette.engine.choice import Found, Item
from otel_cassette.engine.departures import Departure
from otel_cassette.engine.lanes import SAME_TEXT, Lane
from otel_cassette.keys import Comparison, compare
from otel_cassette.model.entry import CassetteEntry, CassetteFailure, EntryKind, ParentRef

JSON = Any
Peek = Literal["equal", "none", "cannot_tell"]

_REMEDIES: dict[str, str] = {
    "truncated": "its recorded answer was cut on the way (raise the attribute length limit where it was recorded)",
    "redacted": "its recorded answer was redacted on the way (record before the redaction)",
    "dropped": "its recorded answer lost attributes to a limit (raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT)",
    "absent": "it was recorded without a response (switch on content capture in the instrumentation)",
}


class Engine(Account):
    """Decides what live calls get, and keeps the account of one playback.

    Args are those of `Account`.
    """

    # -- deciding -------------------------------------------------------------------------------

    def decide(self, call: LiveCall) -> Decision:
        """Return what *call* gets, and enter it into the account."""
        with self._lock:
            if call.kind == "tool":
                self._asked_tools = True
            lane = self._lane(call)
            decision = (
                self._by_index(call, lane)
                if self.settings.match == "index"
                else self._by_content(call, lane)
            )
            if not self._is_played(call.kind) and decision.action != "live":
                decision.action = "live"
                decision.reason = None
            if decision.action in ("live", "miss"):
                decision.flags.append("live" if decision.action == "live" else "missed")
            elif decision.departure is None and decision.is_final:
                call.forget()
                if decision.item is not None:
                    decision.item.forget()
            self._decisions.append(decision)
            return decision

    def peek(self, call: LiveCall, *, anywhere: bool = False) -> Peek:
        """Return whether an unplayed entry could equal *call*; changes nothing.

        Args:
            call: A call that may be made.
            anywhere: Ask all unplayed entries in `match="index"` too, not only the next one: calls
                that run at once are made in another order than their spans start.
        """
        with self._lock:
            lane = self._lane(call)
            if self.settings.match == "index" and not anywhere:
                item = lane.by_index.get(lane.arrivals)
                if item is None:
                    return "none"
                comparison = compare(item.canonical(self.comparer), call.canonical(self.comparer))
                return _peeked(comparison)
            if lane.find_equal(call, None) is not None:
                return "equal"
            open_items = (i for i in lane.items if not i.consumed)
            live = call.canonical(self.comparer)
            if any(compare(i.canonical(self.comparer), live).cannot_tell for i in open_items):
                return "cannot_tell"
            return "none"

    def claim(
        self, kind: EntryKind, owner: object, *, name: str | None = None
    ) -> CassetteEntry | None:
        """Return the entry a span may expect: the first that is neither played nor claimed."""
        with self._lock:
            lane = self._lanes.get((None, kind))
            first = lane.lowest() if lane is not None else None
            if lane is None or first is None:
                return None
            for place in range(first.place, len(lane.items)):
                item = lane.items[place]
                if item.entry is None or item.consumed or item.claimed_by is not None:
                    continue
                if name is None or item.entry.name == name:
                    item.claimed_by = owner
                    return item.entry
            return None

    def is_exhausted(self, kind: EntryKind) -> bool:
        """Return whether calls of the kind are recorded, and all of them are played."""
        with self._lock:
            lane = self._lanes.get((None, kind))
            return lane is not None and bool(lane.by_index) and lane.lowest() is None

    def expected(self, kind: EntryKind, index: int | None) -> CassetteEntry | None:
        """Return the unplayed entry at *index*, else the first unplayed one of the kind."""
        with self._lock:
            lane = self._lanes.get((None, kind))
            if lane is None:
                return None
            item = lane.by_index.get(index) if index is not None else None
            if item is None or item.consumed:
                item = lane.lowest()
            return None if item is None else item.entry

    def release(self, kind: EntryKind, index: int, owner: object) -> None:
        """Give a claim back."""
        with self._lock:
            item = self._item((None, kind), index)
            if item is not None and item.claimed_by is owner:
                item.claimed_by = None

    def live_result(self, decision: Decision, response: JSON) -> None:
        """Take note of what a live call answered, so that what follows from it can be told."""
        with self._lock:
            entry = decision.entry
            if entry is None or decision.verdict == "cannot_tell":
                return
            pairs = departures.response_pairs(decision.call.kind, entry.response, response)
            if pairs:
                cascade = decision.departure.cascade_of if decision.departure is not None else None
                self._changes.learn(pairs, cascade or _name(decision))

    def skip(self, played: dict[LaneKey, int]) -> None:
        """Take the first calls of some lanes as played, as after a change of mode."""
        with self._lock:
            for key, count in played.items():
                lane = self._lanes.setdefault(key, Lane((), self.comparer, self._callers))
                lane.arrivals = max(lane.arrivals, count)
                for index in range(count):
                    item = lane.by_index.get(index)
                    if item is not None:
                        lane.consume(item)

    # -- match="index" --------------------------------------------------------------------------

    def _by_index(self, call: LiveCall, lane: Lane) -> Decision:
        failure = self._failure_here(call, lane)
        if failure is not None:
            return failure
        index = lane.arrivals
        lane.arrivals += 1
        item = lane.by_index.get(index)
        if item is None or item.entry is None or item.consumed:
            return self._beyond(call, index)
        lane.consume(item)
        if _is_same_text(item, call):
            return self._serve(call, index, item, SAME_TEXT[call.kind])
        comparison = compare(item.canonical(self.comparer), call.canonical(self.comparer))
        if comparison.cannot_tell:
            return self._cannot_tell(call, index, item, comparison)
        if comparison.equal:
            return self._serve(call, index, item, comparison)
        return self._diverged(call, index, item, comparison)

    def _failure_here(self, call: LiveCall, lane: Lane) -> Decision | None:
        """Return the recorded failure that stands before the next entry, if *call* equals it."""
        if not self.settings.play_failures:
            return None
        after = lane.by_index.get(lane.arrivals - 1)
        at = after.place + 1 if after is not None else 0
        doubtful: Found | None = None
        while at < len(lane.items) and lane.items[at].failure is not None:
            item = lane.items[at]
            at += 1
            if item.consumed:
                continue
            comparison = compare(item.canonical(self.comparer), call.canonical(self.comparer))
            if comparison.equal:
                lane.consume(item)
                return self._raise(call, lane.arrivals, item, comparison)
            doubtful = doubtful or (Found(item, comparison) if comparison.cannot_tell else None)
        if doubtful is None or self._equals_next(call, lane):
            return None
        lane.consume(doubtful.item)
        return self._cannot_tell(call, lane.arrivals, doubtful.item, doubtful.comparison)

    def _equals_next(self, call: LiveCall, lane: Lane) -> bool:
        item = lane.by_index.get(lane.arrivals)
        if item is None:
            return False
        return compare(item.canonical(self.comparer), call.canonical(self.comparer)).equal

    # -- match="content" ------------------------------------------------------------------------

    def _by_content(self, call: LiveCall, lane: Lane) -> Decision:
        index = lane.arrivals
        claim = self._item((call.parent, call.kind), call.claim)
        found = lane.find_equal(call, claim)
        if found is not None:
            item = found.item
            if isinstance(item.reserved, Departure):
                self._taken_back(item.reserved)
                item.reserved = None
            lane.take(call, found)
            if item.failure is not None:
                decision = self._raise(call, index, item, found.comparison)
            else:
                lane.arrivals += 1
                decision = self._serve(call, index, item, found.comparison)
            if found.tie:
                decision.flags.append("tie")
            return decision
        target = claim if claim is not None and _is_open(claim) else lane.lowest_free(call.name)
        doubtful = lane.doubtful_failure(call, target)
        if doubtful is not None:
            lane.consume(doubtful.item)
            return self._cannot_tell(call, index, doubtful.item, doubtful.comparison)
        lane.arrivals += 1
        if target is None:
            return self._beyond(call, index)
        comparison = compare(target.canonical(self.comparer), call.canonical(self.comparer))
        if comparison.cannot_tell:
            lane.consume(target)
            return self._cannot_tell(call, index, target, comparison)
        decision = self._diverged(call, index, target, comparison)
        target.reserved = decision.departure
        return decision

    # -- rows of the table ----------------------------------------------------------------------

    def _serve(self, call: LiveCall, index: int, item: Item, comparison: Comparison) -> Decision:
        """An equal entry: its answer, as far as its integrity allows."""
        entry = item.entry
        assert entry is not None  # noqa: S101 - callers pass entries only
        decision = Decision("play", call, index, entry, comparison=comparison, item=item)
        if comparison.masked:
            decision.flags.append("masked")
        self._check_integrity(decision)
        return decision

    def _check_integrity(self, decision: Decision) -> None:
        entry = decision.entry
        assert entry is not None  # noqa: S101 - callers pass decisions about entries only
        integrity = entry.response_integrity
        if integrity == "whole":
            return
        decision.flags.append(integrity)
        if entry.is_playable or self.settings.allow_partial:
            return
        remedy = _REMEDIES.get(integrity, "its recorded answer is not whole")
        decision.reason = (
            f"{_call(entry)} is recorded, but {remedy}; allow_partial=True serves what there is"
        )
        decision.action = "live" if self.settings.mode == "fallthrough" else "miss"

    def _raise(self, call: LiveCall, index: int, item: Item, comparison: Comparison) -> Decision:
        decision = Decision(
            "raise", call, index, comparison=comparison, item=item, failure=item.failure
        )
        decision.failed_place = item.failed_place
        decision.flags.append("failure")
        if comparison.masked:
            decision.flags.append("masked")
        return decision

    def _cannot_tell(
        self, call: LiveCall, index: int, item: Item, comparison: Comparison
    ) -> Decision:
        """Nothing to compare by: served by place where that is allowed, flagged."""
        decision = Decision(
            "play", call, index, item.entry, comparison=comparison, verdict="cannot_tell", item=item
        )
        decision.flags.append("unverified")
        if item.failure is not None:
            decision.action, decision.failure = "raise", item.failure
            decision.failed_place = item.failed_place
            decision.flags.append("failure")
        if self.settings.mode == "strict" and not self.settings.allow_unverified:
            decision.action = "miss"
            decision.reason = (
                f"cannot tell whether the call equals {_call(item.record)}: the recording lacks its request "
                "(switch on content capture where it was recorded); allow_unverified=True serves it by place"
            )
        elif item.entry is not None:
            self._check_integrity(decision)
        return decision

    def _diverged(self, call: LiveCall, index: int, item: Item, comparison: Comparison) -> Decision:
        """No equal entry: by mode a miss, the entry's answer all the same, or the real thing."""
        mode = self.settings.mode
        departure = self._depart(call, index, item, comparison)
        decision = Decision(
            "miss", call, index, item.entry, comparison=comparison, verdict="diverged", item=item
        )
        decision.departure = departure
        if mode == "lenient":
            decision.action = "play"
            self._check_integrity(decision)
        elif mode == "fallthrough":
            decision.action = "live"
        return decision

    def _beyond(self, call: LiveCall, index: int) -> Decision:
        """The recording has no call left: a miss, or the real thing."""
        decision = Decision("miss", call, index, verdict="diverged")
        decision.departure = self._depart(call, index, None, None)
        if self.settings.mode == "fallthrough":
            decision.action = "live"
        return decision

    def _taken_back(self, departure: Departure) -> None:
        """The entry a call was compared with is another's: the call is an extra one."""
        departure.item = None
        departure.cascade_of = None
        self._changes.forget(f"{departure.call.kind}#{departure.index}")

    def _depart(
        self, call: LiveCall, index: int, item: Item | None, comparison: Comparison | None
    ) -> Departure:
        departure = Departure(call, index, self.settings.mode, item, comparison)
        pairs = departures.request_pairs(departure, self.comparer)
        departure.cascade_of = self._changes.explain(pairs)
        self._changes.learn(pairs, departure.cascade_of or f"{call.kind}#{index}")
        self._departures.append(departure)
        return departure

    # -- helpers --------------------------------------------------------------------------------

    def _lane(self, call: LiveCall) -> Lane:
        key: LaneKey = (call.parent, call.kind)
        if call.inside_unknown:
            key = (ParentRef(call.kind, -1, failed=True), call.kind)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane((), self.comparer, self._callers)
        return lane


def _is_open(item: Item) -> bool:
    return not item.consumed and item.reserved is None and item.entry is not None


def _is_same_text(item: Item, call: LiveCall) -> bool:
    """Return whether both requests are one text: then they are equal in any form."""
    if call.raw is None or call.scope is not None:
        return False
    return call.raw == item.text(typed=call.is_typed)


def _peeked(comparison: Comparison) -> Peek:
    if comparison.cannot_tell:
        return "cannot_tell"
    return "equal" if comparison.equal else "none"


def _call(record: CassetteEntry | CassetteFailure) -> str:
    name = f" ({record.name!r})" if record.name else ""
    if isinstance(record, CassetteFailure):
        return f"the recorded {record.kind} call{name} that failed after #{record.follows}"
    return f"recorded {record.kind} call #{record.index}{name}"


def _name(decision: Decision) -> str:
    return f"{decision.call.kind}#{decision.index}"
