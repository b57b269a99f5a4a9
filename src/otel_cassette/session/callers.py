"""Who makes a call: the span it is made in, its place in the span tree, and the task.

Lives here: what is known of a caller through the OpenTelemetry API, and the spans seen so far, by
which the names of enclosing spans are known without a processor. Not here: which recorded caller
it is (`engine/choice.py`).

The span of the call itself (a tracing wrapper's, an instrumentation's) is no caller: it is told by
its attributes, and left out.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace

from otel_cassette.model.entry import EntrySource
from otel_cassette.session import names

_MAX_PATH: Final = 64
_MAX_SPANS: Final = 10_000
_OF_A_CALL: Final = (
    names.SPAN_TYPE_ATTR,
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
)
_CALL_VALUES: Final = frozenset(
    {
        "llm_call",
        "tool_call",
        "chat",
        "text_completion",
        "generate_content",
        "embeddings",
        "execute_tool",
        "LLM",
        "TOOL",
        "RETRIEVER",
        "EMBEDDING",
        "tool",
    }
)

_seen: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()
_strands: dict[str, dict[tuple[bool, int], int]] = {}
_tasks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call, as far as it is known.

    Attributes:
        trace_id: 32 hex digits.
        span_id: The current span, the call's own or the one it is made in; 16 hex digits.
        caller: The span it is made in, 16 hex digits.
        path: Names of the spans around the call, the root's first.
        task: A number of the asyncio task; None outside of one.
    """

    trace_id: str | None = None
    span_id: str | None = None
    caller: str | None = None
    path: tuple[str, ...] = ()
    task: int | None = None

    def source(self) -> EntrySource | None:
        """Return what a recording keeps of it; None without a span."""
        if self.trace_id is None:
            return None
        return EntrySource.model_construct(
            trace_id=self.trace_id,
            span_id=self.span_id,
            path=self.path,
            caller=self.caller,
            strand=0 if self.caller is None else _strand(self.caller, self.task),
            start_ns=time.time_ns(),
            dialect=None,
        )


NOBODY: Final = Caller()


def note_span(span: Any) -> None:
    """Keep a span in mind (weakly), so that the names around later calls are known."""
    context = span.get_span_context()
    if context.is_valid and getattr(span, "name", None) is not None:
        _seen[context.trace_id, context.span_id] = span


def current_caller() -> Caller:
    """Return who makes a call here and now; raises nothing."""
    span: Any = trace.get_current_span()
    context = span.get_span_context()
    if not context.is_valid:
        return NOBODY
    note_span(span)
    caller_id: int | None = context.span_id
    # A tracer that records nothing hands on the ids of the span around it, without its name.
    holder: Any = _seen.get((context.trace_id, context.span_id), span)
    if _is_of_a_call(span):
        parent = getattr(span, "parent", None)
        caller_id = None if parent is None else parent.span_id
        holder = _seen.get((context.trace_id, caller_id)) if caller_id is not None else None
    if getattr(holder, "name", None) == names.REPLAY_SPAN:
        caller_id = None
    return Caller(
        trace_id=format(context.trace_id, "032x"),
        span_id=format(context.span_id, "016x"),
        caller=None if caller_id is None else format(caller_id, "016x"),
        path=_path(holder),
        task=_task(),
    )


def _is_of_a_call(span: Any) -> bool:
    attributes = getattr(span, "attributes", None)
    if not attributes:
        return False
    return any(attributes.get(name) in _CALL_VALUES for name in _OF_A_CALL)


def _path(span: Any) -> tuple[str, ...]:
    path: list[str] = []
    while span is not None and len(path) < _MAX_PATH:
        name = getattr(span, "name", None)
        if not isinstance(name, str) or name == names.REPLAY_SPAN:
            break
        path.append(name)
        parent = getattr(span, "parent", None)
        span = None if parent is None else _seen.get((parent.trace_id, parent.span_id))
    return tuple(reversed(path))


def _task() -> int | None:
    """Return a number of the asyncio task that runs, its own for life; None outside of one."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    if task is None:
        return None
    with _lock:
        return _tasks.setdefault(task, next(_numbers))


def _strand(caller: str, task: int | None) -> int:
    """Return which of the tasks and threads that made calls in a span makes this one.

    Tasks count from 1. The first thread is 0, further ones -1, -2, ...: a thread of a pool does
    one piece of work after another, so that its calls need not be one caller's.
    """
    with _lock:
        known = _strands.get(caller)
        if known is None:
            if len(_strands) >= _MAX_SPANS:
                del _strands[next(iter(_strands))]
            known = _strands[caller] = {}
        key = (task is not None, threading.get_ident() if task is None else task)
        if key not in known:
            others = sum(is_task == key[0] for is_task, _ in known)
            known[key] = others + 1 if task is not None else -others
        return known[key]
