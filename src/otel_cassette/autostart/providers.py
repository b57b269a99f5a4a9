"""Tracer providers that a program makes itself: ours are the processor, the sampler and one span.

Lives here: the wrapped constructors, and the session's span. Not here: how processor and sampler
are put in (`otel/install.py`).

`TracerProvider` and `LoggerProvider` are wrapped where they are defined, so it does not matter who
makes one: the program, `opentelemetry-instrument`, Logfire.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_cassette.otel.install import install
from otel_cassette.otel.logs import CassetteLogRecordProcessor
from otel_cassette.session import Session, marks, names, replay_span

_logger = logging.getLogger("otel_cassette")
_covering = threading.local()
_covered = 0
_has_global = False


def providers_covered() -> int:
    """Return how many tracer providers of this process have our processor."""
    return _covered


def watch_providers(on_shutdown: Callable[[], None]) -> None:
    """Cover every provider that is made from now on.

    Args:
        on_shutdown: Called before one of them shuts down.
    """
    _after(TracerProvider, "__init__", cover)
    for cls in (TracerProvider, MeterProvider):  # the totals go out as metrics too
        _before(cls, "shutdown", lambda _provider: on_shutdown())
    _watch_global()
    try:
        # The SDK's logs are in a module with an underscore until they are declared stable.
        from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415 - see above
    except ImportError:
        return
    _after(LoggerProvider, "__init__", _cover_logs)


def cover(provider: Any) -> None:
    """Put processor and sampler into *provider*.

    Asking for the global provider may make one (OTEL_PYTHON_TRACER_PROVIDER), which ends up here
    again: it has its turn afterwards.
    """
    global _covered  # noqa: PLW0603 - a count for the report
    waiting: list[Any] | None = getattr(_covering, "waiting", None)
    if waiting is not None:
        waiting.append(provider)
        return
    _covering.waiting = waiting = [provider]
    try:
        while waiting:
            done = install(waiting.pop(0))
            _covered += done.processor is not None
            if _has_global:  # `install` takes one that is not global yet for the one to use
                marks.use_provider(None)
            for note in done.notes:
                _logger.warning("%s", note)
    finally:
        _covering.waiting = None


def cover_global() -> None:
    """Cover the provider that stood before `watch_providers`; one that is covered stays as it is."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        cover(provider)


def _watch_global() -> None:
    """Let spans of our own go where the program's go, once it has said where that is."""
    original = trace.set_tracer_provider

    @functools.wraps(original)
    def wrapped(tracer_provider: Any) -> None:
        global _has_global  # noqa: PLW0603 - a process has one global provider
        original(tracer_provider)
        _has_global = True
        marks.use_provider(None)

    trace.set_tracer_provider = wrapped


def _cover_logs(provider: Any) -> None:
    provider.add_log_record_processor(CassetteLogRecordProcessor())


def write_session_span(session: Session, start_ns: int) -> None:
    """Write the span `cassette.replay` of a whole process: a trace of its own.

    It is written late, with an early start: when the process began there was no provider. The
    program's own traces stay as they are.

    Args:
        session: With the totals.
        start_ns: When the process began, nanoseconds since the epoch.
    """
    attributes = {names.ID_ATTR: session.id, names.MODE_ATTR: session.playback.mode}
    if session.source:
        attributes[names.SOURCE_ATTR] = marks.bounded(session.source)
    span = marks.tracer().start_span(
        names.REPLAY_SPAN, Context(), attributes=attributes, start_time=start_ns
    )
    replay_span.warn_of_attribute_limit(span)
    replay_span.finish(span, session)


def now_ns() -> int:
    """Return the time as spans have it."""
    return time.time_ns()


def _after(cls: Any, name: str, then: Callable[[Any], None]) -> None:
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _guarded(then, self)
        return result

    setattr(cls, name, wrapped)


def _before(cls: Any, name: str, first: Callable[[Any], None]) -> None:
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        _guarded(first, self)
        return original(self, *args, **kwargs)

    setattr(cls, name, wrapped)


def _guarded(call: Callable[[Any], None], provider: Any) -> None:
    try:
        call(provider)
    except Exception:
        _logger.exception("a %s could not be covered", type(provider).__name__)
