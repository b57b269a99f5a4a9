"""Order, parents and indices of the calls, and the entries made of them.

Lives here: what a cassette's `entries`, `nested` and `failures` are. Not here: which spans are
calls, and what they say.

Order is span start. What starts together is ordered outer before inner, then by the model's order
of its tool calls: JavaScript rounds starts to milliseconds, so that parallel tools often tie.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from otel_cassette.assemble.calls import Call
from otel_cassette.assemble.tree import SpanTree
from otel_cassette.model.entry import (
    CassetteEntry,
    CassetteFailure,
    EntryKind,
    EntrySource,
    ParentRef,
    RecordedFailure,
)

_PARENT_KINDS = frozenset({"tool", "retrieval"})


def settle(calls: Sequence[Call]) -> list[Call]:
    """Return the calls in recording order, each with its parent and index set."""
    ordered = sorted(calls, key=_order)
    counts: defaultdict[tuple[Call | None, EntryKind, bool], int] = defaultdict(int)
    for call in ordered:
        call.parent = _parent(call)
        key = (call.parent, call.kind, call.failed)
        call.index = counts[key]
        counts[key] += 1
        # A parent starts before what it holds, so that its own reference is settled by now.
        outer = None if call.parent is None else call.parent.reference
        call.reference = ParentRef(call.kind, call.index, failed=call.failed, parent=outer)
    return ordered


def _order(call: Call) -> tuple[int, int, tuple[int, int], int]:
    return (call.start_ns, call.depth, call.rank, call.position)


def _parent(call: Call) -> Call | None:
    """The nearest tool or retrieval around the call that was running when it started."""
    outer = call.enclosing
    while outer is not None:
        kept = outer.kept
        end_ns = max(kept.end_ns, outer.end_ns)
        running = kept.start_ns <= call.start_ns <= end_ns
        if running and kept.kind in _PARENT_KINDS and kept is not call:
            return kept
        outer = outer.enclosing
    return None


def entry_of(call: Call, tree: SpanTree) -> CassetteEntry:
    """Return the entry of a call that has an answer, or whose answer was not captured.

    Built without validation: the dialects' requests and responses are plain JSON without defaults
    already, and a test holds that validation changes none of them.
    """
    reading = call.reading
    error = reading.error if reading.kind != "tool" else None
    fields = _common(call, tree)
    fields["index"] = call.index
    fields["response"] = reading.response
    fields["response_integrity"] = reading.response_integrity
    fields["error"] = error
    fields["yields"] = reading.yields
    return CassetteEntry.trusted(fields)


def failure_of(call: Call, tree: SpanTree, follows: int) -> CassetteFailure:
    """Return the record of a failed call."""
    error = call.reading.error or RecordedFailure()
    return CassetteFailure.trusted({**_common(call, tree), "follows": follows, "error": error})


def _common(call: Call, tree: SpanTree) -> dict[str, Any]:
    reading = call.reading
    span = call.span
    is_model_call = reading.kind in ("llm", "embedding")
    own_span = not (call.inferred and call.start_ns == call.end_ns)
    return {
        "kind": call.kind,
        "name": None if is_model_call else reading.name,
        "request": reading.request,
        "scope": reading.scope,
        "request_integrity": reading.request_integrity,
        "parent": None if call.parent is None else call.parent.reference,
        "inferred": call.inferred,
        "latency_ms": (call.end_ns - call.start_ns) / 1e6 if own_span else None,
        "source": EntrySource.trusted(
            {
                "trace_id": span.trace_id,
                "span_id": span.span_id if own_span else None,
                "path": tree.path(span),
                "caller": span.parent_span_id,
                "start_ns": call.start_ns,
                "dialect": reading.dialect,
            }
        ),
    }
