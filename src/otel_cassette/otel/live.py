"""The spans that are open right now, and which of them a call belongs to.

Lives here: `LiveSpans`, which a span processor feeds (`LIVE.started(span, parent_context)` in its
`on_start`, `LIVE.ended(span)` in its `on_end`), and the order in which a span is found for a call.
Not here: what is written on the span (`spans.py`), what a span stands for (`kinds.py`).

Spans are held weakly: a stream that is abandoned never ends its span. While no replay is open only
local roots are noted, so that an idle processor costs next to nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref

# Public within asyncio's own terms: it is in `asyncio.events.__all__`, for code that must ask at
# every step whether a loop runs; `current_task()` raises where none does, which costs ten times as much.
from asyncio import _get_running_loop
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, TraceState, get_current_span

from otel_cassette.model.entry import EntryKind
from otel_cassette.otel.claims import Hint, give_back
from otel_cassette.otel.kinds import kind_of, tool_name_of
from otel_cassette.otel.troubles import note
from otel_cassette.session import open_sessions

_SESSIONS: Final = open_sessions()
_MAX_LATE: Final = 1000
_LATE_FOR_NS: Final = 60_000_000_000
"""How long the span of a call is waited for: those made in the background come within seconds."""
_PURGE_FROM: Final = 1000
_MAX_DEPTH: Final = 1000
SpanKey = tuple[int, int]
_Open = tuple["weakref.ref[Any]", int, "int | None"]
"""An open span, the thread it was started in, and the asyncio task (an id; None outside of one)."""


@dataclass(slots=True)
class Located:
    """The live spans of one call.

    Attributes:
        spans: The spans that stand for the call, the one to name in a divergence first; empty
            where no live span does.
        ancestors: What encloses it, the nearest first.
        is_of_kind: Whether the first span says that it is a call of the kind.
    """

    spans: list[Any] = field(default_factory=list)
    ancestors: list[Any] = field(default_factory=list)
    is_of_kind: bool = False


@dataclass(slots=True)
class _Late:
    """A call whose span may be created after it, with an explicit start before it.

    `mark` gets the span: open, where it is known at start, else ended.
    """

    kind: EntryKind
    name: str | None
    called_ns: int
    tools: Container[str]
    mark: Callable[[Any], None]


class LiveSpans:
    """The open spans of one process, of all its providers.

    Every span of a replay passes here: what is kept of it is one tuple, in the order of start.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: dict[SpanKey, _Open] = {}
        self._bound: set[SpanKey] = set()
        self._claims: dict[SpanKey, Hint] = {}
        self._just_claimed: dict[int, tuple[TraceState, Hint]] = {}
        self._roots: dict[int, weakref.ref[Any]] = {}
        self._late: list[_Late] = []
        self._purge_at = _PURGE_FROM
        self.is_fed = False
        """Whether a processor reports spans here."""

    # -- fed by the processor -------------------------------------------------------------------

    def started(self, span: Any, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the signature of on_start
        """Take note of a span that was started (call it in `on_start`); raises nothing."""
        try:
            context = span.context
            parent = span.parent
            if parent is None or parent.is_remote:
                self._roots[context.trace_id] = weakref.ref(span)
                if len(self._roots) > self._purge_at:
                    self._purge()
            if not _SESSIONS:
                return
            thread = threading.get_ident()
            key = (context.trace_id, context.span_id)
            task = None if _get_running_loop() is None else current_task_id()
            self._spans[key] = (weakref.ref(span), thread, task)
            if self._just_claimed:
                self._note_claim(key, thread, context.trace_state)
            if self._late:
                self._match_late(span)
            if len(self._spans) > self._purge_at:
                self._purge()
        except Exception as error:  # noqa: BLE001 - the SDK would raise it into the program
            note("LiveSpans.started", error, lost="a span is not marked if its call departs")

    def ended(self, span: Any) -> None:
        """Forget a span that has ended (call it in `on_end`); raises nothing."""
        try:
            if self._late:
                self._match_late(span)
            context = span.context
            key = (context.trace_id, context.span_id)
            if self._spans.pop(key, None) is None:
                return
            if self._bound:
                self._bound.discard(key)
            if self._claims:
                self._give_back(key)
        except Exception as error:  # noqa: BLE001 - as above
            note("LiveSpans.ended", error, lost="a claim may not be given back")

    def claimed(self, state: TraceState, hint: Hint) -> None:
        """Let the span that is about to start with this tracestate hold the claim (a sampler)."""
        self._just_claimed[threading.get_ident()] = (state, hint)

    def _note_claim(self, key: SpanKey, thread: int, state: TraceState) -> None:
        found = self._just_claimed.pop(thread, None)
        if found is None:
            return
        if found[0] is state:
            self._claims[key] = found[1]
        else:  # the span it was for never came
            give_back(found[1])

    def _give_back(self, key: SpanKey) -> None:
        hint = self._claims.pop(key, None)
        if hint is not None:
            give_back(hint)

    def _purge(self) -> None:
        """Let go of spans that nobody holds any more, and of their claims."""
        for key, (ref, _, _) in list(self._spans.items()):
            if ref() is None:
                self._spans.pop(key, None)
                self._bound.discard(key)
                self._give_back(key)
        for trace_id, root in list(self._roots.items()):
            found = root()
            if found is None or not found.is_recording():
                self._roots.pop(trace_id, None)
        self._purge_at = max(_PURGE_FROM, 2 * max(len(self._spans), len(self._roots)))

    @property
    def is_empty(self) -> bool:
        """Whether no open span is known."""
        return not self._spans

    @property
    def open_count(self) -> int:
        """How many spans of replays are open and held by somebody."""
        self._purge()
        return len(self._spans)

    def after_fork(self) -> None:
        """Make the registry usable in a forked child."""
        self._lock = threading.Lock()

    # -- asked when a call is made --------------------------------------------------------------

    def locate(
        self, kind: EntryKind, name: str | None = None, tools: Container[str] = ()
    ) -> Located:
        """Return the live spans of a call that is made here and now, and bind them to it.

        Args:
            kind: Kind of the call.
            name: Tool or retriever.
            tools: Names of the recorded tools: a span of such a name is a tool's.
        """
        current = get_current_span()
        lineage = [current, *self.ancestors(current)] if _is_recording(current) else []
        place = self._enclosing(lineage, kind, tools)
        if place is not None:
            found, ancestors = lineage[place], lineage[place + 1 :]
        else:
            found = self._unbound(kind, name, tools)
            if found is None:
                return Located(lineage[:1], lineage[1:], is_of_kind=False)
            ancestors = self.ancestors(found)
        spans = [found]
        twin = self._twin(found, kind, name, tools)
        if twin is not None:
            spans.append(twin)
        self._bound.update(map(_key, spans))
        return Located(spans, ancestors, is_of_kind=True)

    def ancestors(self, span: Any) -> list[Any]:
        """Return the open local spans around *span*, the nearest first."""
        result: list[Any] = []
        trace_id = span.get_span_context().trace_id
        parent = getattr(span, "parent", None)
        while parent is not None and not parent.is_remote and len(result) < _MAX_DEPTH:
            known = self._spans.get((trace_id, parent.span_id))
            found = None if known is None else known[0]()
            if found is None:
                break
            result.append(found)
            parent = found.parent
        root = self.local_root(span)
        if root is not None and root is not span and not any(root is each for each in result):
            result.append(root)
        return result

    def local_root(self, span: Any) -> Any | None:
        """Return the open span of this process at the root of the span's trace, if it is known."""
        ref = self._roots.get(span.get_span_context().trace_id)
        root = None if ref is None else ref()
        return root if root is not None and root.is_recording() else None

    def expect_late(
        self,
        kind: EntryKind,
        name: str | None,
        tools: Container[str],
        mark: Callable[[Any], None],
    ) -> None:
        """Call *mark* with the span of a call that is created after it and starts before it.

        The span is open if its start tells what it is, else it has ended.
        """
        if not self.is_fed:
            return
        with self._lock:
            if len(self._late) >= _MAX_LATE:
                del self._late[0]
            self._late.append(_Late(kind, name, time.time_ns(), tools, mark))

    # -- how a span is found --------------------------------------------------------------------

    def _enclosing(self, lineage: list[Any], kind: EntryKind, tools: Container[str]) -> int | None:
        """Return the place of the outermost span of the kind, up to a call of another kind."""
        same: list[int] = []
        for place, span in enumerate(lineage):
            its_kind = _kind(span, tools)
            if its_kind == kind:
                same.append(place)
            elif its_kind is not None:
                break
        for place in reversed(same):
            if _key(lineage[place]) not in self._bound:
                return place
        return same[-1] if same else None

    def _unbound(self, kind: EntryKind, name: str | None, tools: Container[str]) -> Any | None:
        """Return an open span of the kind that no call has taken, the most likely one."""
        candidates = [each for each in self._open(kind, tools) if _fits(each.span, kind, name)]
        if not candidates:
            return None
        thread, task = threading.get_ident(), current_task_id()
        current = get_current_span().get_span_context()
        orders: tuple[Callable[[_Candidate], bool], ...] = (
            lambda each: each.is_here(thread, task),
            lambda each: current.is_valid and each.key[0] == current.trace_id,
            lambda each: each.thread == thread,
            lambda _each: len(candidates) == 1,
        )
        for is_near in orders:
            for each in candidates:
                if is_near(each):
                    return each.span
        return None

    def _twin(
        self, found: Any, kind: EntryKind, name: str | None, tools: Container[str]
    ) -> Any | None:
        """Return the second span of the same call: open here, of the kind, in another trace."""
        trace_id = found.get_span_context().trace_id
        thread, task = threading.get_ident(), current_task_id()
        for each in self._open(kind, tools, other_than=trace_id):
            if each.is_here(thread, task) and _fits(each.span, kind, name):
                return each.span
        return None

    def _open(
        self, kind: EntryKind, tools: Container[str], *, other_than: int | None = None
    ) -> Iterator[_Candidate]:
        """Yield the open spans of the kind that no call has taken, the youngest first."""
        for key, (ref, thread, task) in reversed(list(self._spans.items())):
            if key in self._bound or key[0] == other_than:
                continue
            span = ref()
            if span is not None and span.is_recording() and _kind(span, tools) == kind:
                yield _Candidate(key, span, thread, task)

    def _match_late(self, span: Any) -> None:
        start_ns = getattr(span, "start_time", None)
        if start_ns is None:
            return
        key = _key(span)
        oldest_ns = time.time_ns() - _LATE_FOR_NS
        with self._lock:
            if self._late and self._late[0].called_ns < oldest_ns:
                self._late = [late for late in self._late if late.called_ns >= oldest_ns]
            for place, late in enumerate(self._late):
                if start_ns > late.called_ns or key in self._bound:
                    continue
                if _kind(span, late.tools) == late.kind and _fits(span, late.kind, late.name):
                    del self._late[place]
                    break
            else:
                return
        self._bound.add(key)
        late.mark(span)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An open span that may be a call's, and where it was started."""

    key: SpanKey
    span: Any
    thread: int
    task: int | None

    def is_here(self, thread: int, task: int | None) -> bool:
        """Return whether it was started in this task; in this thread where there is no task."""
        return self.task == task if task is not None else self.thread == thread


def _key(span: Any) -> SpanKey:
    context = span.get_span_context()
    return (context.trace_id, context.span_id)


def _is_recording(span: Span) -> bool:
    return span.get_span_context().is_valid and span.is_recording()


def _kind(span: Any, tools: Container[str]) -> EntryKind | None:
    scope = getattr(span, "instrumentation_scope", None)
    return kind_of(
        getattr(span, "name", "") or "",
        getattr(span, "attributes", None) or {},
        scope="" if scope is None else scope.name,
        tools=tools,
    )


def _fits(span: Any, kind: EntryKind, name: str | None) -> bool:
    """Return whether a tool's span is that tool's, as far as it says."""
    if kind != "tool" or name is None:
        return True
    said = tool_name_of(span.name, getattr(span, "attributes", None) or {})
    return said is None or said == name


def current_task_id() -> int | None:
    """Return an id of the asyncio task that runs; None outside of one."""
    if _get_running_loop() is None:
        return None
    task = asyncio.current_task()
    return None if task is None else id(task)


LIVE: Final = LiveSpans()
"""The registry of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LIVE.after_fork)
