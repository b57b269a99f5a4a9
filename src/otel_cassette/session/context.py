"""The session in the OpenTelemetry context.

Lives here: `Session`, the block that opens and closes it, and how a call finds the session it
belongs to. Only the OpenTelemetry API is used. Not here: what a call gets (`playback.py`).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import CallOutcome, Totals
from otel_cassette.errors import CassetteError, CassetteMissError
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.session import names
from otel_cassette.session.marks import bounded
from otel_cassette.session.network import NetworkGuard
from otel_cassette.session.playback import Playback, Step

_SESSION_KEY = otel_context.create_key("otel-cassette-session")
_lock = threading.Lock()
_active: list[Session] = []
_inside: ContextVar[Step | None] = ContextVar("otel_cassette_inside", default=None)


class Session:
    """One playback or recording of one cassette.

    Attributes:
        id: Random, 8 hex digits.
        owner: The cassette.
        playback: What wrappers and transports drive.
        poisoned: The miss that ended the replay at the wire, if any: later calls fail alike.
        is_open: False once the block was left.
        summary: The totals; final once the block was left.
    """

    def __init__(self, owner: Any, playback: Playback) -> None:
        self.id = secrets.token_hex(4)
        self.owner = owner
        self.playback = playback
        self.poisoned: CassetteMissError | None = None
        self.is_open = False
        self._summary: Totals | None = None

    @property
    def is_recording(self) -> bool:
        """Whether calls are recorded; else they are replayed."""
        return self.playback.mode == "record"

    @property
    def summary(self) -> Totals:
        """Served, live, missed, unplayed and ties: so far, or at the end of the block."""
        return self._summary if self._summary is not None else self.playback.totals()

    @property
    def calls(self) -> list[CallOutcome]:
        """One outcome for each call, in call order."""
        return self.playback.calls

    @property
    def divergences(self) -> list[ReplayDivergence]:
        """The divergences, in call order."""
        return self.playback.divergences

    @property
    def first_divergence(self) -> ReplayDivergence | None:
        """The first divergence that does not follow from another; None without any."""
        divergences = self.divergences
        return next((d for d in divergences if d.is_first_cause), divergences[0] if divergences else None)

    @property
    def unplayed(self) -> list[CassetteEntry]:
        """Entries of the kinds in play that no call asked for."""
        return self.playback.unplayed

    @property
    def missing(self) -> list[ReplayDivergence]:
        """A `missing_call` for every unplayed entry, at the end of a replay."""
        return self.playback.missing

    def poison(self, miss: CassetteMissError) -> None:
        """Let every later call at the wire fail as this one; the block raises it at its end."""
        if self.poisoned is None:
            self.poisoned = miss

    def close(self) -> None:
        """Make the totals final."""
        self._summary = self.playback.totals()
        self.is_open = False


class SessionBlock:
    """The `with` block of a session: a plain context manager on the OpenTelemetry context.

    Args:
        session: What the block carries.
        guard: Network guard that is up inside the block, if any.
        span: Whether the block opens the span `cassette.replay`.
        on_exit: Called when the block is left without an exception, after the totals are final.
        source: What the recording is, for the span.
    """

    def __init__(
        self,
        session: Session,
        *,
        guard: NetworkGuard | None = None,
        span: bool = False,
        on_exit: Callable[[Session], None] | None = None,
        source: str | None = None,
    ) -> None:
        self.session = session
        self._guard = guard
        self._with_span = span
        self._on_exit = on_exit
        self._source = source
        self._token: Any = None
        self._span: Span | None = None

    def __enter__(self) -> Session:
        if self._token is not None:
            msg = "this block is open already; make a new one with recording() or replaying()"
            raise CassetteError(msg)
        context = otel_context.get_current()
        if self._with_span:
            attributes = {names.ID_ATTR: self.session.id, names.MODE_ATTR: self.session.playback.mode}
            if self._source:
                attributes[names.SOURCE_ATTR] = bounded(self._source)
            tracer = trace.get_tracer("otel_cassette")
            self._span = tracer.start_span(names.REPLAY_SPAN, attributes=attributes)
            context = trace.set_span_in_context(self._span, context)
        self._token = otel_context.attach(otel_context.set_value(_SESSION_KEY, self.session, context))
        self.session.is_open = True
        with _lock:
            _active.append(self.session)
        if self._guard is not None:
            self._guard.up()
        return self.session

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session = self.session
        if self._guard is not None:
            self._guard.down()
        with _lock:
            if session in _active:
                _active.remove(session)
        otel_context.detach(self._token)
        self._token = None
        session.close()
        if self._span is not None:
            finish_span(self._span, session)
        if self._on_exit is not None and exc is None:
            self._on_exit(session)
        if session.poisoned is not None and exc is not session.poisoned:
            raise session.poisoned from exc


def finish_span(span: Span, session: Session) -> None:
    """Write the totals and the first divergence on the session span, and end it."""
    totals = session.summary
    span.set_attributes(
        {
            names.SERVED_ATTR: totals.served,
            names.LIVE_ATTR: totals.live,
            names.MISSED_ATTR: totals.missed,
            names.UNPLAYED_ATTR: totals.unplayed,
            names.TIES_ATTR: totals.ties,
            names.DIVERGED_COUNT_ATTR: totals.diverged,
        }
    )
    missing = [bounded(d.summary()) for d in session.missing[: names.MAX_DIFF_ITEMS]]
    if missing:
        span.set_attribute(names.MISSING_ATTR, missing)
    first = session.first_divergence or next(iter(session.missing), None)
    if first is not None:
        span.set_attribute(names.DIVERGED_ATTR, True)
        span.set_attribute(names.DIVERGENCE_ATTR, bounded(first.summary()))
    span.end()


def session_in(context: Context | None = None) -> Session | None:
    """Return the open session that *context* carries (the current one by default), or None."""
    session = otel_context.get_value(_SESSION_KEY, context)
    return session if isinstance(session, Session) and session.is_open else None


def current_session(context: Context | None = None) -> Session | None:
    """Return the session a call belongs to.

    The context's own; where the context was lost (a plain thread pool), the one that is open.

    Raises:
        CassetteError: When the context was lost and several sessions are open.
    """
    session = session_in(context)
    if session is not None or not _active:
        return session
    with _lock:
        candidates = list(_active)
    if len(candidates) > 1:
        msg = (
            f"{len(candidates)} cassette sessions are open and this call was made outside the context "
            "of all of them: carry the context into the thread (contextvars.copy_context().run, or "
            "opentelemetry-instrumentation-threading)"
        )
        raise CassetteError(msg)
    return candidates[0] if candidates else None


def open_sessions() -> Sequence[Session]:
    """Return the sessions that are open, in the order they were opened.

    One and the same list for the life of the process, kept up to date: a span processor looks at
    it on every span. It is for reading only.
    """
    return _active


def inside() -> Step | None:
    """Return the tool or retrieval call inside which the caller runs, or None."""
    return _inside.get()


class InsideBlock:
    """Marks what runs in the block as made inside *step*; not held over a `yield`."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._token: Any = None

    def __enter__(self) -> None:
        self._token = _inside.set(self._step)

    def __exit__(self, *_: object) -> None:
        _inside.reset(self._token)
