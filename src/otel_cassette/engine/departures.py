"""The divergences of one playback while it runs: they may still change their reason.

Lives here: what departed, from what, and what merely follows from an earlier departure. Not here:
when a call counts as a departure (`policy.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine.calls import Comparer, LiveCall
from otel_cassette.engine.choice import Item
from otel_cassette.keys import Comparison, canonical_json
from otel_cassette.keys.messages import canonical_messages, canonical_result
from otel_cassette.model.entry import MODEL_KINDS, CassetteEntry

JSON = Any
_ABSENT = "absent"
_MAX_CHANGES = 10_000


class Departure:
    """One live call that departed; `item` is None once it is known to be an extra call."""

    __slots__ = ("_made", "call", "cascade_of", "comparison", "index", "item", "mode", "note")

    def __init__(
        self,
        call: LiveCall,
        index: int,
        mode: str,
        item: Item | None,
        comparison: Comparison | None,
    ) -> None:
        self.call: LiveCall = call
        self.index: int = index
        self.mode: str = mode
        self.item: Item | None = item
        self.comparison: Comparison | None = comparison
        self.cascade_of: str | None = None
        self.note: str | None = None
        self._made: tuple[Item | None, ReplayDivergence] | None = None

    def describe(self, comparer: Comparer) -> ReplayDivergence:
        """Return the divergence as it stands now; made again only when its item changed."""
        if self._made is None or self._made[0] is not self.item:
            self._made = (self.item, self._describe(comparer))
        return self._made[1]

    def _describe(self, comparer: Comparer) -> ReplayDivergence:
        call = self.call
        live = call.canonical(comparer)
        facts: dict[str, Any] = {"cascade_of": self.cascade_of, "note": self.note}
        if self.item is None:
            return ReplayDivergence.create(
                call.kind,
                self.index,
                actual_request=comparer.masked(call.plain),
                actual_key=live.key,
                actual_name=call.name,
                actual=live,
                mode=self.mode,
                span_id=call.span_id,
                **facts,
            )
        record = self.item.record
        recorded = self.item.canonical(comparer)
        if self.comparison is not None:
            facts["fields"] = self.comparison.pointers
            facts["scope"] = tuple(sorted(self.comparison.scope))
        return ReplayDivergence.create(
            call.kind,
            self.index,
            expected_request=record.request,
            actual_request=comparer.masked(call.plain),
            expected_key=recorded.key,
            actual_key=live.key,
            expected_name=record.name,
            actual_name=call.name,
            expected=recorded,
            actual=live,
            mode=self.mode,
            span_id=call.span_id,
            **facts,
        )


def missing(entry: CassetteEntry, mode: str, comparer: Comparer) -> ReplayDivergence:
    """Return the divergence of a recorded call that never came."""
    recorded = comparer.recorded(entry)
    return ReplayDivergence.create(
        entry.kind,
        entry.index,
        expected_request=entry.request,
        expected_key=recorded.key,
        expected_name=entry.name,
        expected=recorded,
        mode=mode,
    )


class Changes:
    """Which recorded values are known to have become which live ones, and through which call.

    A prompt that differs from its recording only in such values follows from that call; it is no
    cause of its own.
    """

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], str] = {}

    def explain(self, pairs: list[tuple[str, str]]) -> str | None:
        """Return the call that all *pairs* follow from (the latest of them), or None."""
        origins = [self._by_pair.get(pair) for pair in pairs]
        if not origins or any(origin is None for origin in origins):
            return None
        return origins[-1]

    def forget(self, origin: str) -> None:
        """Take back what was learned of *origin*: it was compared with another call's request."""
        self._by_pair = {pair: who for pair, who in self._by_pair.items() if who != origin}

    def learn(self, pairs: list[tuple[str, str]], origin: str) -> None:
        """Note that *pairs* were changed by the call *origin*."""
        if len(self._by_pair) < _MAX_CHANGES:
            for pair in pairs:
                self._by_pair.setdefault(pair, origin)


def request_pairs(departure: Departure, comparer: Comparer) -> list[tuple[str, str]]:
    """Return what changed in a request: the recorded and the live text of each differing leaf."""
    if departure.item is None or departure.comparison is None:
        return []
    before = departure.item.canonical(comparer).fields
    after = departure.call.canonical(comparer).fields
    return list(_pairs(before, after))


def response_pairs(kind: str, recorded: JSON, live: JSON) -> list[tuple[str, str]]:
    """Return what changed in an answer, as it would stand in later prompts."""
    if kind in MODEL_KINDS:
        recorded, live = _said(recorded), _said(live)
    else:
        recorded, live = canonical_result(recorded), canonical_result(live)
    return list(_pairs(recorded, live))


def _said(response: JSON) -> JSON:
    choices = (response or {}).get("choices") or [{}]
    message = choices[0].get("message")
    return canonical_messages(None, [message] if message else [])[1]


def _pairs(a: JSON, b: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            if a.get(key) is not b.get(key):
                yield from _pairs(a.get(key), b.get(key))
    elif isinstance(a, list) and isinstance(b, list):
        for i in range(max(len(a), len(b))):
            yield from _pairs(a[i] if i < len(a) else None, b[i] if i < len(b) else None)
    else:
        texts = _text(a), _text(b)
        if texts[0] != texts[1]:
            yield texts


def _text(value: JSON) -> str:
    return _ABSENT if value is None else canonical_json(value)
