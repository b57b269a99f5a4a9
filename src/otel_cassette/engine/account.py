"""The account of one playback: what every call got, what departed, what is left.

Lives here: `Settings` and `Account`, the state that the engine writes and everybody reads. Not
here: any decision (`policy.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import departures
from otel_cassette.engine.calls import CallOutcome, Comparer, Decision, Totals
from otel_cassette.engine.choice import Callers, Item
from otel_cassette.engine.departures import Changes, Departure
from otel_cassette.engine.lanes import Lane
from otel_cassette.model.entry import (
    CassetteEntry,
    CassetteFailure,
    CassetteMode,
    EntryKind,
    MatchRule,
    ParentRef,
)
from otel_cassette.redaction import holds_mask

LaneKey = tuple[ParentRef | None, EntryKind]


@dataclass(slots=True)
class Settings:
    """What governs a playback.

    Attributes:
        mode: `strict`, `lenient` or `fallthrough`; `record` never reaches the engine.
        match: `index` or `content`.
        kinds: Kinds that are played; None is all. Others run live and are only compared.
        allow_unverified: Serve by place what cannot be compared.
        allow_partial: Serve answers that are cut, redacted or dropped, flagged.
        play_failures: Raise recorded failures at their place.
    """

    mode: CassetteMode = "strict"
    match: MatchRule = "index"
    kinds: frozenset[str] | None = None
    allow_unverified: bool = False
    allow_partial: bool = False
    play_failures: bool = False


class Account:
    """The recorded calls of one playback, and what became of the live ones.

    Args:
        records: Entries, nested entries and failed calls, in any order.
        settings: What governs the playback; `mode` may be changed while it runs.
        comparer: Brings requests into canonical form.
    """

    def __init__(
        self,
        records: Iterable[CassetteEntry | CassetteFailure],
        settings: Settings,
        comparer: Comparer,
    ) -> None:
        self.settings = settings
        self.comparer = comparer
        self._lock = threading.RLock()
        self._lanes: dict[LaneKey, Lane] = {}
        self._callers = Callers()
        self._entries: list[CassetteEntry] = []
        grouped: dict[LaneKey, list[CassetteEntry | CassetteFailure]] = {}
        for record in records:
            if isinstance(record, CassetteEntry):
                if record.parent is None:
                    self._entries.append(record)
            elif not settings.play_failures:
                continue
            grouped.setdefault((record.parent, record.kind), []).append(record)
        for key, lane in grouped.items():
            self._lanes[key] = Lane(lane, comparer, self._callers)
        self._decisions: list[Decision] = []
        self._departures: list[Departure] = []
        self._changes = Changes()
        self._asked_tools = False
        self._masked: dict[tuple[ParentRef | None, EntryKind, int], bool] = {}

    def renew_lock(self) -> None:
        """Have a free lock in a forked process: a thread that is gone may have held the old one."""
        self._lock = threading.RLock()

    @property
    def calls(self) -> list[CallOutcome]:
        """One outcome for each call so far, in call order."""
        with self._lock:
            late = self._reordered()
            return [self._outcome(d, reordered=id(d) in late) for d in self._decisions]

    @property
    def divergences(self) -> list[ReplayDivergence]:
        """The divergences so far, in call order, as they stand now."""
        with self._lock:
            return [departure.describe(self.comparer) for departure in self._departures]

    def describe(self, decision: Decision) -> ReplayDivergence | None:
        """Return the divergence of one decision, if it is one."""
        with self._lock:
            departure = decision.departure
            return departure.describe(self.comparer) if isinstance(departure, Departure) else None

    @property
    def unplayed(self) -> list[CassetteEntry]:
        """Entries of the kinds in play that were neither served nor diverged from."""
        with self._lock:
            return [e for e in self._entries if self._is_unplayed(e)]

    @property
    def missing(self) -> list[ReplayDivergence]:
        """A `missing_call` for every unplayed entry; only meaningful once the replay is over."""
        with self._lock:
            return [departures.missing(e, self.settings.mode, self.comparer) for e in self.unplayed]

    def totals(self) -> Totals:
        """Return how the playback went so far."""
        with self._lock:
            actions = [decision.action for decision in self._decisions]
            return Totals(
                served=sum(a in ("play", "raise") for a in actions),
                live=actions.count("live"),
                missed=actions.count("miss"),
                unplayed=len(self.unplayed),
                ties=sum("tie" in decision.flags for decision in self._decisions),
                diverged=len(self._departures),
                masked=sum(self._is_masked(d.entry) for d in self._decisions if d.action == "play"),
            )

    def _is_masked(self, entry: CassetteEntry | None) -> bool:
        """Return whether the answer of *entry* lost a secret when it was recorded; told once."""
        if entry is None:
            return False
        place = (entry.parent, entry.kind, entry.index)
        known = self._masked.get(place)
        if known is None:
            known = self._masked[place] = holds_mask((entry.response, entry.yields))
        return known

    def _item(self, key: LaneKey, index: int | None) -> Item | None:
        lane = self._lanes.get(key)
        return None if lane is None or index is None else lane.by_index.get(index)

    def _is_played(self, kind: str) -> bool:
        return self.settings.kinds is None or kind in self.settings.kinds

    def _is_unplayed(self, entry: CassetteEntry) -> bool:
        if not entry.is_playable or not self._is_played(entry.kind):
            return False
        if entry.inferred and entry.kind == "tool" and not self._asked_tools:
            return False
        item = self._item((entry.parent, entry.kind), entry.index)
        return item is not None and not item.consumed and item.reserved is None

    def _reordered(self) -> set[int]:
        """Return the decisions that took an entry before a later call took one recorded earlier."""
        if self.settings.match == "index":
            return set()
        lowest: dict[LaneKey, int] = {}
        found: set[int] = set()
        for decision in reversed(self._decisions):
            if decision.verdict != "identical" or decision.entry is None:
                continue
            lane: LaneKey = (decision.call.parent, decision.call.kind)
            index = decision.entry.index
            if index > lowest.get(lane, index):
                found.add(id(decision))
            lowest[lane] = min(index, lowest.get(lane, index))
        return found

    def _outcome(self, decision: Decision, *, reordered: bool = False) -> CallOutcome:
        comparison = decision.comparison
        return CallOutcome(
            kind=decision.call.kind,
            index=decision.index,
            entry=decision.entry or decision.failure,
            verdict=decision.verdict,
            flags=(*decision.flags, "reordered") if reordered else tuple(decision.flags),
            scope=None if comparison is None else tuple(sorted(comparison.scope)),
            span_id=decision.call.span_id,
            divergence=self.describe(decision),
        )

    def played(self) -> dict[LaneKey, int]:
        """Return how many calls of each lane have come."""
        with self._lock:
            return {key: lane.arrivals for key, lane in self._lanes.items() if lane.arrivals}
