"""The session in the OpenTelemetry context.

Lives here: `Session`, the block that opens and closes it, and how a call finds the session it
belongs to. Only the OpenTelemetry API is used. Not here: what a call gets (`playback.py`).
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Span, TraceState

from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import CallOutcome, Totals
from otel_cassette.errors import CassetteError, CassetteMissError
from otel_cassette.model.entry import CassetteEntry, EntryKind
from otel_cassette.session import replay_span
from otel_cassette.session.marks import content_capture_is_off
from otel_cassette.session.network import NetworkGuard
from otel_cassette.session.playback import Playback, Step
from otel_cassette.session.provider_keys import ProviderKeys

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
        is_recording: Whether calls are recorded; else they are replayed.
        summary: The totals; final once the block was left.
        span_content: Whether marks may carry text of requests; else pointers and digests only.
        faults: What failed in our own span callbacks, one line each; the user's calls were not
            affected.
        claims: Places of entries that live spans expect, with what holds them.
        bare_tracestate: Tracestate of spans that claim no entry; made by the sampler.
        source: What the recording is: its file, or its trace; None for one that was just made.
    """

    def __init__(self, owner: Any, playback: Playback) -> None:
        self.id: str = secrets.token_hex(4)
        self.owner = owner
        self.playback = playback
        self.poisoned: CassetteMissError | None = None
        self.is_open: bool = False
        self.is_recording: bool = playback.mode == "record"
        self.span_content: bool = not content_capture_is_off()
        self.faults: list[str] = []
        self.claims: dict[tuple[EntryKind, int], object] = {}
        self.bare_tracestate: TraceState | None = None
        self.source: str | None = None
        self._summary: Totals | None = None
        self._before_fork = Totals()
        self._tool_names: frozenset[str] | None = None
        self._unfinished: dict[Callable[[], None], None] = {}
        playback.session = self

    @property
    def summary(self) -> Totals:
        """Served, live, missed, unplayed and ties: so far, or at the end of the block.

        A forked child counts its own calls only.
        """
        if self._summary is not None:
            return self._summary
        return self.playback.totals().since(self._before_fork)

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the recorded tools: a span of such a name is a tool's."""
        if self._tool_names is None:
            entries = self.playback.journal.assembled().entries
            self._tool_names = frozenset(e.name for e in entries if e.kind == "tool" and e.name)
        return self._tool_names

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
        return next(
            (d for d in divergences if d.is_first_cause), divergences[0] if divergences else None
        )

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

    def add_unfinished(self, finish: Callable[[], None]) -> None:
        """Call *finish* at the end, unless it is dropped before: an answer that is still read."""
        self._unfinished[finish] = None

    def drop_unfinished(self, finish: Callable[[], None]) -> None:
        """Forget what `add_unfinished` was given."""
        self._unfinished.pop(finish, None)

    def close(self) -> None:
        """Enter what nobody reads on, and make the totals final."""
        for finish in list(self._unfinished):
            finish()
        self._summary = self.summary
        self.is_open = False

    def after_fork(self) -> None:
        """Count from zero in a forked child."""
        self.playback.renew_locks()
        self._before_fork = self.playback.totals()


class SessionBlock:
    """The `with` block of a session: a plain context manager on the OpenTelemetry context.

    Args:
        session: What the block carries.
        guard: Network guard that is up inside the block, if any.
        keys: Stand-ins for missing provider keys that are set inside the block, if any.
        span: Whether the block opens the span `cassette.replay`.
        on_exit: Called when the block is left without an exception, after the totals are final.
        source: What the recording is, for the spans.
        span_content: Whether marks may carry text of requests. None: unless content capture was
            switched off explicitly in the environment.
    """

    def __init__(
        self,
        session: Session,
        *,
        guard: NetworkGuard | None = None,
        keys: ProviderKeys | None = None,
        span: bool = False,
        on_exit: Callable[[Session], None] | None = None,
        source: str | None = None,
        span_content: bool | None = None,
    ) -> None:
        self.session = session
        if span_content is not None:
            session.span_content = span_content
        self._guard = guard
        self._keys = keys
        self._with_span = span
        self._on_exit = on_exit
        session.source = source
        self._token: Any = None
        self._span: Span | None = None

    def __enter__(self) -> Session:
        if self._token is not None:
            msg = "this block is open already; make a new one with recording() or replaying()"
            raise CassetteError(msg)
        session = self.session
        # The session goes into the context first, so that a sampler sees it when the span starts.
        context = otel_context.set_value(_SESSION_KEY, session)
        session.is_open = True
        _enter(session)
        if self._with_span:
            self._span, context = replay_span.start(session, context)
        self._token = otel_context.attach(context)
        if self._guard is not None:
            self._guard.up()
        if self._keys is not None:
            self._keys.up()
        return session

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session = self.session
        if self._guard is not None:
            self._guard.down()
        if self._keys is not None:
            self._keys.down()
        _leave(session)
        otel_context.detach(self._token)
        self._token = None
        session.close()
        replay_span.finish(self._span, session)
        if self._on_exit is not None and exc is None:
            self._on_exit(session)
        if session.poisoned is not None and exc is not session.poisoned:
            raise session.poisoned from exc


def _enter(session: Session) -> None:
    with _lock:
        _active.append(session)


def _leave(session: Session) -> None:
    with _lock:
        if session in _active:
            _active.remove(session)


def open_session(session_id: str) -> Session | None:
    """Return the open session with this id; None for one of another process."""
    return next((each for each in list(_active) if each.id == session_id), None)


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()
    for session in _active:
        session.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
