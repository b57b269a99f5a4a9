"""The span tree of a run: who encloses whom, and the path of names to a span.

Lives here: look-ups by id, each remembered, so that a deep tree costs its size once. Not here:
what the spans mean. A parent that is missing, or a circle of parents, ends a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from otel_cassette.assemble.calls import Call
from otel_cassette.model.span import SpanRecord

SpanKey = tuple[str, str]
MAX_PATH = 64
"""Longest path; runaway recursion must not cost the square of its depth."""


def span_key(span: SpanRecord) -> SpanKey:
    """Return the key of a span: trace id and span id."""
    return (span.trace_id, span.span_id)


class SpanTree:
    """Spans by id, with the paths and enclosing calls of those asked for."""

    def __init__(self, spans: Mapping[SpanKey, SpanRecord]) -> None:
        self._spans = spans
        self._calls: dict[SpanKey, Call] = {}
        self._paths: dict[SpanKey, tuple[str, ...]] = {}
        self._enclosing: dict[SpanKey, Call | None] = {}

    def add_calls(self, calls: Iterable[Call]) -> None:
        """Make the calls known and set what each lies in."""
        calls = list(calls)
        self._calls = {span_key(call.span): call for call in calls}
        for call in calls:
            call.enclosing = self.enclosing(call.span)
        for call in calls:
            self._set_depth(call)

    def _set_depth(self, call: Call) -> None:
        """Count the calls around a call; circles of parents count each call once."""
        chain: list[Call] = []
        seen: set[Call] = set()
        outer: Call | None = call
        while outer is not None and outer.depth < 0 and outer not in seen:
            chain.append(outer)
            seen.add(outer)
            outer = outer.enclosing
        depth = -1 if outer is None else max(outer.depth, 0)
        for inner in reversed(chain):
            depth += 1
            inner.depth = depth

    def _parent_key(self, span: SpanRecord) -> SpanKey | None:
        if not span.parent_span_id:
            return None
        key = (span.trace_id, span.parent_span_id)
        return key if key in self._spans else None

    def _ancestors(self, span: SpanRecord) -> list[SpanKey]:
        """Keys from the parent upwards, up to the first one that has been walked before."""
        keys: list[SpanKey] = []
        seen = {span_key(span)}
        key = self._parent_key(span)
        while key is not None and key not in seen:
            keys.append(key)
            seen.add(key)
            if key in self._paths:
                break
            key = self._parent_key(self._spans[key])
        return keys

    def path(self, span: SpanRecord) -> tuple[str, ...]:
        """Return the span names from the root to the span, without it; the last `MAX_PATH`."""
        path: tuple[str, ...] = ()
        for key in reversed(self._ancestors(span)):
            known = self._paths.get(key)
            path = known if known is not None else (*path, self._spans[key].name)[-MAX_PATH:]
            self._paths[key] = path
        return path

    def enclosing(self, span: SpanRecord) -> Call | None:
        """Return the nearest call among the span's ancestors."""
        walked: list[SpanKey] = []
        seen = {span_key(span)}
        found: Call | None = None
        key = self._parent_key(span)
        while key is not None and key not in seen:
            if key in self._calls:
                found = self._calls[key]
                break
            if key in self._enclosing:
                found = self._enclosing[key]
                break
            walked.append(key)
            seen.add(key)
            key = self._parent_key(self._spans[key])
        for step in walked:
            self._enclosing[step] = found
        return found
