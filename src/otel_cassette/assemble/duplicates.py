"""One call seen by several spans: a framework's, an SDK's, a client instrumentation's.

Lives here: which spans are the same call, and which of them stands for it. Not here: who is whose
parent among different calls (`settling.py`).

Two spans are the same call if one lies inside the other in time, they are of one kind, and their
response ids are equal or one has none: streams leave their context attached, so that a later,
different call can hang below an unfinished one. Callback instrumentations do not set the context:
their spans and the SDK's stand in different traces, and are joined by response id, or by lying
inside exactly one call of another instrumentation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from otel_cassette.assemble.calls import MODEL_CALL_KINDS, Call
from otel_cassette.dialects.protocol import Reading
from otel_cassette.keys.fields import canonical_model, same_family
from otel_cassette.model.entry import Integrity

_SLACK_NS = 2_000_000
"""Clocks of two tracers in one process, and JavaScript's whole milliseconds, differ by this much."""

_WORTH: dict[Integrity, int] = {"whole": 3, "partial": 2, "suspect": 2}


def mark_duplicates(calls: Sequence[Call]) -> None:
    """Set `same_as` on every span of a call but the one that stands for it."""
    inner: defaultdict[Call, list[Call]] = defaultdict(list)
    for call in calls:
        outer = _same_kind_outer(call)
        if outer is not None and _same_call(outer, call):
            inner[outer].append(call)
    groups = _Groups()
    for outer, found in inner.items():
        if _sequential(found):
            outer.composite = outer.kind == "llm"
        if not outer.composite:
            for call in found:
                groups.join(outer, call)
    _join_across(calls, groups)
    _join_tools_by_id(calls, groups)
    for members in groups.members():
        _keep_best(members)


def _same_kind_outer(call: Call) -> Call | None:
    """The nearest call of the same kind around it, with no call of the user's code between."""
    outer = call.enclosing
    while outer is not None and outer.kind != call.kind:
        if outer.kind not in MODEL_CALL_KINDS or call.kind not in MODEL_CALL_KINDS:
            return None
        outer = outer.enclosing
    return outer


def _same_call(outer: Call, inner: Call) -> bool:
    if not inner.lies_in(outer, slack_ns=_SLACK_NS):
        return False
    a, b = outer.reading, inner.reading
    if inner.kind == "tool":
        return a.name == b.name and _agree(a.call_id, b.call_id) and _same_arguments(a, b)
    return _agree(a.response_id, b.response_id)


def _agree(a: str | None, b: str | None) -> bool:
    return a is None or b is None or a == b


def _same_arguments(a: Reading, b: Reading) -> bool:
    return not (a.has_request and b.has_request) or a.request == b.request


def _sequential(calls: Sequence[Call]) -> bool:
    """Whether a span holds several calls in turn: it is then none of them."""
    ended = sorted((c for c in calls if not c.failed), key=lambda c: c.start_ns)
    return any(b.start_ns >= a.end_ns for a, b in pairwise(ended))


def _join_across(calls: Sequence[Call], groups: _Groups) -> None:
    """Join model calls that are not nested: by response id, or as the only one that fits."""
    models = [c for c in calls if c.kind == "llm" and not c.composite]
    if len({c.span.scope.name for c in models}) < 2:
        return
    by_id: defaultdict[str, list[Call]] = defaultdict(list)
    for call in models:
        if call.reading.response_id is not None:
            by_id[call.reading.response_id].append(call)
    for same in by_id.values():
        for a, b in pairwise(same):
            if a.span.scope.name != b.span.scope.name and a.overlaps(b):
                groups.join(a, b)
    _join_contained(models, groups)


def _join_contained(models: Sequence[Call], groups: _Groups) -> None:
    held: defaultdict[Call, list[Call]] = defaultdict(list)
    running: list[Call] = []
    for call in sorted(models, key=lambda c: (c.start_ns, -c.end_ns)):
        running = [c for c in running if c.end_ns >= call.start_ns]
        fitting = [c for c in running if _could_hold(c, call)]
        if len(fitting) == 1 and not groups.has(call):
            held[fitting[0]].append(call)
        running.append(call)
    for outer, found in held.items():
        answered = [c for c in found if not c.failed]
        if len(answered) <= 1 and not groups.has(outer):
            for call in found:
                groups.join(outer, call)


def _could_hold(outer: Call, inner: Call) -> bool:
    a, b = outer.reading, inner.reading
    return (
        outer.span.trace_id != inner.span.trace_id
        and outer.span.scope.name != inner.span.scope.name
        and inner.lies_in(outer, slack_ns=_SLACK_NS)
        and _agree(a.response_id, b.response_id)
        and (a.response_id is None or b.response_id is None)
        and _same_model(a, b)
    )


def _same_model(a: Reading, b: Reading) -> bool:
    names = [r.request.get("model") if isinstance(r.request, dict) else None for r in (a, b)]
    if None in names:
        return True
    return same_family(canonical_model(names[0]), canonical_model(names[1]))


def _join_tools_by_id(calls: Sequence[Call], groups: _Groups) -> None:
    """Two instrumentations of one tool call: the same call id at the same time."""
    by_id: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.kind == "tool" and call.reading.call_id is not None:
            by_id[call.reading.call_id].append(call)
    for same in by_id.values():
        for a, b in pairwise(same):
            if a.span.scope.name != b.span.scope.name and a.overlaps(b):
                groups.join(a, b)


class _Groups:
    """Sets of spans of one call, joined pair by pair."""

    def __init__(self) -> None:
        self._head: dict[Call, Call] = {}

    def _find(self, call: Call) -> Call:
        head = call
        while (above := self._head.setdefault(head, head)) is not head:
            head = above
        while call is not head:
            self._head[call], call = head, self._head[call]
        return head

    def has(self, call: Call) -> bool:
        return call in self._head

    def join(self, a: Call, b: Call) -> None:
        self._head[self._find(b)] = self._find(a)

    def members(self) -> Iterable[list[Call]]:
        groups: defaultdict[Call, list[Call]] = defaultdict(list)
        for call in self._head:
            groups[self._find(call)].append(call)
        return [group for group in groups.values() if len(group) > 1]


def _keep_best(members: list[Call]) -> None:
    best = max(members, key=_worth)
    for call in members:
        if call is not best:
            call.same_as = best
            _lend(best.reading, call.reading)
    best.start_ns = min(call.start_ns for call in members)


def _worth(call: Call) -> tuple[int, ...]:
    """What makes a span stand for its call: an answer, a request, how much of it, and its place.

    Of model calls that say the same the innermost is the SDK's own, the others repeat it; of
    retrievals and embeddings the outermost has the documents, of tools it has the arguments.
    """
    reading = call.reading
    scope = 1_000 if reading.scope is None else len(reading.scope)
    place = call.depth if call.kind == "llm" else -call.depth
    answered = _WORTH.get(reading.response_integrity, 0) if reading.has_response else 0
    asked = _WORTH.get(reading.request_integrity, 0) if reading.has_request else 0
    return (not call.failed, answered, asked, scope, place, -call.position)


def _lend(best: Reading, other: Reading) -> None:
    """Complete the reading that is kept by what only a duplicate has."""
    best.response_id = best.response_id or other.response_id
    best.call_id = best.call_id or other.call_id
    best.conversation_id = best.conversation_id or other.conversation_id
    if not best.has_request and other.has_request:
        best.request = other.request
        best.has_request = True
        best.scope = other.scope
        best.request_integrity = other.request_integrity
        best.arguments_known = other.arguments_known
    if not best.has_response and other.has_response and best.error is None:
        best.response = other.response
        best.has_response = True
        best.response_integrity = other.response_integrity
    if isinstance(best.response, dict) and isinstance(other.response, dict) and best.kind == "llm":
        for key in ("id", "model", "usage"):
            if key in other.response:
                best.response.setdefault(key, other.response[key])
    if best.error is not None and other.error is not None and best.error.status is None:
        best.error = best.error.model_copy(update={"status": other.error.status})
