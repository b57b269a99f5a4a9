"""The spans that are open right now, and which of them a call belongs to.

Lives here: `LiveSpans`, which a span processor feeds (`LIVE.started(span, parent_context)` in its
`on_start`, `LIVE.ended(span)` in its `on_end`), and the order in which a span is found for a call.
Not here: what is written on the span (`spans.py`), what a span stands for (`kinds.py`).

Spans are held weakly: a stream that is abandoned never ends its span. While no replay is open only
local roots are noted, so that an idle processor costs next to nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, get_current_span

from otel_cassette.model.entry import EntryKind
from otel_cassette.otel.claims import Hint, give_back, owned_by
from otel_cassette.otel.kinds import kind_of, tool_name_of
from otel_cassette.otel.troubles import note
from otel_cassette.session.context import replay_is_open

_MAX_LATE: Final = 1000
SpanKey = tuple[int, int]


class _Live:
    """One open span, and where it was started."""

    __slots__ = ("bound", "claim", "key", "parent", "ref", "sequence", "task", "thread")

    def __init__(self, span: Any, sequence: int, forget: Callable[[Any], None]) -> None:
        context = span.get_span_context()
        parent = span.parent
        self.ref: weakref.ref[Any] = weakref.ref(span, forget)
        self.key: SpanKey = (context.trace_id, context.span_id)
        self.parent = None if parent is None or parent.is_remote else parent.span_id
        self.sequence = sequence
        self.thread = threading.get_ident()
        self.task = current_task_id()
        self.bound = False
        self.claim: Hint | None = owned_by(context, parent)


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
    """The open spans of one process, of all its providers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: dict[SpanKey, _Live] = {}
        self._roots: dict[int, weakref.ref[Any]] = {}
        self._late: list[_Late] = []
        self._sequence = itertools.count()
        self.is_fed = False
        """Whether a processor reports spans here."""

    # -- fed by the processor -------------------------------------------------------------------

    def started(self, span: Any, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the signature of on_start
        """Take note of a span that was started (call it in `on_start`); raises nothing."""
        self.is_fed = True
        try:
            parent = span.parent
            if parent is None or parent.is_remote:
                self._root_started(span)
            if replay_is_open():
                self._started(span)
        except Exception as error:  # noqa: BLE001 - the SDK would raise it into the program
            note("LiveSpans.started", error, lost="a span is not marked if its call departs")

    def ended(self, span: Any) -> None:
        """Forget a span that has ended (call it in `on_end`); raises nothing."""
        try:
            context = span.get_span_context()
            if self._late:
                self._match_late(span)
            if self._spans:
                _drop(self._spans, (context.trace_id, context.span_id))
            root = self._roots.get(context.trace_id)
            if root is not None:
                kept = root()
                if kept is None or kept.get_span_context().span_id == context.span_id:
                    self._roots.pop(context.trace_id, None)
        except Exception as error:  # noqa: BLE001 - as above
            note("LiveSpans.ended", error, lost="a claim may not be given back")

    def _root_started(self, span: Any) -> None:
        roots = self._roots
        trace_id = span.get_span_context().trace_id

        def forget(_ref: Any) -> None:
            roots.pop(trace_id, None)

        roots[trace_id] = weakref.ref(span, forget)

    def _started(self, span: Any) -> None:
        spans = self._spans
        context = span.get_span_context()
        key = (context.trace_id, context.span_id)

        def forget(_ref: Any) -> None:
            _drop(spans, key)

        spans[key] = _Live(span, next(self._sequence), forget)
        if self._late:
            self._match_late(span)

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
        found = self._enclosing(lineage, kind, tools)
        is_of_kind = found is not None
        if found is None:
            found = self._unbound(kind, name, tools)
            is_of_kind = found is not None
        if found is None:
            return Located(lineage[:1], lineage[1:], is_of_kind=False)
        spans = [found]
        twin = self._twin(found, kind, name, tools)
        if twin is not None:
            spans.append(twin)
        for span in spans:
            live = self._live(span)
            if live is not None:
                live.bound = True
        return Located(spans, self.ancestors(found), is_of_kind=is_of_kind)

    def ancestors(self, span: Any) -> list[Any]:
        """Return the open local spans around *span*, the nearest first."""
        parent = getattr(span, "parent", None)
        result: list[Any] = []
        seen: set[int] = set()
        trace_id = span.get_span_context().trace_id
        span_id = None if parent is None or parent.is_remote else parent.span_id
        while span_id is not None and span_id not in seen:
            seen.add(span_id)
            live = self._spans.get((trace_id, span_id))
            found = None if live is None else live.ref()
            if live is None or found is None:
                break
            result.append(found)
            span_id = live.parent
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

    def _enclosing(self, lineage: list[Any], kind: EntryKind, tools: Container[str]) -> Any | None:
        """Return the outermost span of the kind around the call, up to a call of another kind."""
        same: list[Any] = []
        for span in lineage:
            its_kind = _kind(span, tools)
            if its_kind == kind:
                same.append(span)
            elif its_kind is not None:
                break
        for span in reversed(same):
            live = self._live(span)
            if live is None or not live.bound:
                return span
        return same[-1] if same else None

    def _unbound(self, kind: EntryKind, name: str | None, tools: Container[str]) -> Any | None:
        """Return an open span of the kind that no call has taken, the most likely one."""
        candidates = [
            (live, span)
            for live, span in self._open()
            if not live.bound and _kind(span, tools) == kind and _fits(span, kind, name)
        ]
        if not candidates:
            return None
        candidates.sort(key=lambda pair: -pair[0].sequence)
        thread, task = threading.get_ident(), current_task_id()
        current = get_current_span().get_span_context()
        orders: tuple[Callable[[_Live], bool], ...] = (
            lambda live: live.task == task if task is not None else live.thread == thread,
            lambda live: current.is_valid and live.key[0] == current.trace_id,
            lambda live: live.thread == thread,
            lambda _live: len(candidates) == 1,
        )
        for is_near in orders:
            for live, span in candidates:
                if is_near(live):
                    return span
        return None

    def _twin(
        self, found: Any, kind: EntryKind, name: str | None, tools: Container[str]
    ) -> Any | None:
        """Return the second span of the same call: open here, of the kind, in another trace."""
        trace_id = found.get_span_context().trace_id
        thread, task = threading.get_ident(), current_task_id()
        for live, span in sorted(self._open(), key=lambda pair: -pair[0].sequence):
            if live.bound or live.key[0] == trace_id:
                continue
            is_here = live.task == task if task is not None else live.thread == thread
            if is_here and _kind(span, tools) == kind and _fits(span, kind, name):
                return span
        return None

    def _open(self) -> Iterator[tuple[_Live, Any]]:
        for live in list(self._spans.values()):
            span = live.ref()
            if span is not None and span.is_recording():
                yield live, span

    def _live(self, span: Any) -> _Live | None:
        context = span.get_span_context()
        return self._spans.get((context.trace_id, context.span_id))

    def _match_late(self, span: Any) -> None:
        start_ns = getattr(span, "start_time", None)
        if start_ns is None:
            return
        with self._lock:
            for place, late in enumerate(self._late):
                if start_ns > late.called_ns:
                    continue
                live = self._live(span)
                if live is not None and live.bound:
                    return
                if _kind(span, late.tools) == late.kind and _fits(span, late.kind, late.name):
                    del self._late[place]
                    break
            else:
                return
        if live is not None:
            live.bound = True
        late.mark(span)


def _drop(spans: dict[SpanKey, _Live], key: SpanKey) -> None:
    """Forget a span and give its claim back: it ended, or nobody holds it any more."""
    live = spans.pop(key, None)
    if live is not None and live.claim is not None:
        give_back(live.claim)


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
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else id(task)


LIVE: Final = LiveSpans()
"""The registry of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LIVE.after_fork)
