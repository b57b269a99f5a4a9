"""The cost of an assembly grows with the run, whatever the run looks like.

Times are compared with each other in one process: eight times the spans may cost at most twenty
times the time, where a step that looks at every pair would cost sixty-four times.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
from spans import asks, call, chat, gives, span, text, tool

from otel_cassette.assemble import assemble
from otel_cassette.model.span import SpanRecord

ASK = [text("user", "go")]
ANSWER = [text("assistant", "ok")]
SMALL, GREAT = 250, 2000


def loops(count: int) -> list[SpanRecord]:
    """Short agent loops with tools that have no spans."""
    spans = []
    for i in range(count):
        asking = asks(call(f"c{i}", "t", {"i": i}))
        start = i * 100
        spans.append(chat(f"a{i}", start, start + 5, input=ASK, output=[asking]))
        history = [*ASK, asking, gives(f"c{i}", "r")]
        spans.append(chat(f"b{i}", start + 10, start + 15, input=history, output=ANSWER))
    return spans


def repeated_ids(count: int) -> list[SpanRecord]:
    """Providers that count call ids per answer."""
    spans = []
    asking = asks(call("fc-1", "t", {}))
    for i in range(count):
        spans.append(chat(f"a{i}", i * 100, i * 100 + 5, input=ASK, output=[asking]))
        history = [*ASK, asking, gives("fc-1", f"r{i}")]
        spans.append(chat(f"b{i}", i * 100 + 10, i * 100 + 15, input=history, output=ANSWER))
    return spans


def unmatched_tools(count: int) -> list[SpanRecord]:
    """Tool spans whose arguments the model never wrote."""
    spans = []
    for i in range(count):
        spans.append(
            chat(f"a{i}", i * 100, i * 100 + 5, output=[asks(call(None, "other", {"i": i}))])
        )
        spans.append(tool(f"t{i}", "t", i * 100 + 10, i * 100 + 20, arguments={"i": -i}, result=i))
    return spans


def deep(count: int) -> list[SpanRecord]:
    """Tools inside tools, as a runaway recursion makes them."""
    return [
        tool(
            f"t{i}",
            f"t{i}",
            i,
            10_000 - i,
            parent=f"t{i - 1}" if i else None,
            arguments={},
            result=i,
        )
        for i in range(count)
    ]


def deep_steps(count: int) -> list[SpanRecord]:
    """One call below a long chain of spans that are no calls, and one beside each of them."""
    steps = [
        span(f"s{i}", "step", i, 10_000 - i, parent=f"s{i - 1}" if i else None)
        for i in range(count)
    ]
    return steps + [chat(f"c{i}", i, i + 1, parent=f"s{i}", output=ANSWER) for i in range(count)]


def two_scopes(count: int) -> list[SpanRecord]:
    """A framework's spans and the SDK's in other traces, many at once."""
    spans = []
    for i in range(count):
        start = i * 10
        spans.append(chat(f"a{i}", start, start + 60, output=ANSWER, scope="framework"))
        spans.append(
            chat(
                f"b{i}", start + 1, start + 59, trace=f"{i:032x}", scope="sdk", response_id=f"r{i}"
            )
        )
    return spans


SHAPES = [loops, repeated_ids, unmatched_tools, deep, deep_steps, two_scopes]


def seconds(spans: list[SpanRecord]) -> float:
    best = float("inf")
    for _ in range(3):
        gc.collect()
        gc.disable()
        try:
            began = time.process_time()
            assemble(spans)
            best = min(best, time.process_time() - began)
        finally:
            gc.enable()
    return best


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_eight_times_the_spans_cost_about_eight_times(
    shape: Callable[[int], list[SpanRecord]],
) -> None:
    small, great = seconds(shape(SMALL)), seconds(shape(GREAT))
    assert great / small < 20


def test_a_very_deep_tree_ends_in_a_bounded_path() -> None:
    result = assemble(deep(1500))
    assert len(result.entries) == 1
    assert len(result.nested) == 1499
    innermost = result.nested[-1]
    assert innermost.source is not None
    assert len(innermost.source.path) == 64
    assert innermost.source.path[-1] == "execute_tool t1498"
