"""`cassette.wrap_tool` and `cassette.wrap_retriever`: tools behind a cassette.

Lives here: the four flavours of callables, and what each does with a step. Not here: binding
(`binding.py`), tracing (`tracing.py`), the decision (`engine/`).
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from otel_cassette.clients.binding import ToolSignature, flavour_of, name_of
from otel_cassette.clients.generators import AsyncRun, drive
from otel_cassette.clients.resolve import playback_for
from otel_cassette.keys.text import plain_text
from otel_cassette.model.entry import CassetteEntry, CassetteFailure, EntryKind
from otel_cassette.model.plain import copy_plain
from otel_cassette.session import InsideBlock, Playback, Step, inside
from otel_cassette.session.failures import failure_of, rebuild_failure

JSON = Any


class ToolWrapping:
    """One tool behind a cassette.

    Args:
        fn: The tool.
        kind: `tool` or `retrieval`.
        own: The playback of the cassette's own wrappers; a session in the context goes first.
        name: Name of the tool; the function's by default.
        restore: Rebuild the annotated type in playback.
        ignore_args: Parameters that are no arguments.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        kind: EntryKind,
        own: Callable[[], Playback],
        *,
        name: str | None = None,
        restore: bool = False,
        ignore_args: tuple[str, ...] = (),
    ) -> None:
        self.fn = fn
        self.kind: EntryKind = kind
        self.name: str = name or name_of(fn)
        self._own = own
        self._signature = ToolSignature(fn, self.name, ignore_args)
        self._restore = self._signature.restorer() if restore else None

    def wrapper(self) -> Callable[..., Any]:
        """Return the callable that stands in for the tool, of the same flavour."""
        make = {
            "sync": self._sync,
            "async": self._async,
            "generator": self._generator,
            "async_generator": self._async_generator,
        }[flavour_of(self.fn)]
        wrapper = make()
        wrapper.__name__ = self.name
        return wrapper

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        arguments = self._signature.arguments(args, kwargs)
        playback = playback_for(self._own)
        raw = None if playback.mode == "record" else plain_text(self.name, arguments)
        return playback.begin(self.kind, arguments, name=self.name, raw=raw, inside=inside())

    def _answer(self, entry: CassetteEntry) -> Any:
        value = copy_plain(entry.response)
        return value if self._restore is None else self._restore(value)

    def _item(self, value: JSON) -> Any:
        value = copy_plain(value)
        return value if self._restore is None else self._restore(value)

    def _sync(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            step = self._begin(args, kwargs)
            if step.action == "play":
                return (
                    self._replay(step)
                    if step.entry.yields is not None
                    else self._answer(step.entry)
                )
            raise_if_final(step)
            clock = Clock()
            try:
                with InsideBlock(step):
                    result = self.fn(*args, **kwargs)
            except Exception as error:
                step.failed(self._failure(step, error, clock))
                raise
            if inspect.isgenerator(result):
                return drive(result, functools.partial(InsideBlock, step), Yields(self, step))
            step.succeeded(self._record(step, result, clock))
            return result

        return call

    def _async(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        async def call(*args: Any, **kwargs: Any) -> Any:
            step = self._begin(args, kwargs)
            if step.action == "play":
                return self._answer(step.entry)
            raise_if_final(step)
            clock = Clock()
            try:
                with InsideBlock(step):
                    result = await self.fn(*args, **kwargs)
            except Exception as error:
                step.failed(self._failure(step, error, clock))
                raise
            step.succeeded(self._record(step, result, clock))
            return result

        return call

    def _generator(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            step = self._begin(args, kwargs)
            if step.action == "play":
                return (yield from self._replay(step))
            raise_if_final(step)
            around = functools.partial(InsideBlock, step)
            return (yield from drive(self.fn(*args, **kwargs), around, Yields(self, step)))

        return call

    def _async_generator(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            step = self._begin(args, kwargs)
            if step.action == "play":
                for item in recorded_yields(step.entry):
                    yield self._item(item)
                end_of_yields(step)
                return
            raise_if_final(step)
            around = functools.partial(InsideBlock, step)
            run = AsyncRun(self.fn(*args, **kwargs), around, Yields(self, step))
            while await run.advance():
                try:
                    run.sent((yield run.item))
                except GeneratorExit:  # noqa: PERF203 - each step may end in it
                    await run.leave()
                    raise
                except BaseException as error:  # noqa: BLE001 - all that is thrown in goes on
                    run.thrown(error)

        return call

    def _replay(self, step: Step) -> Generator[Any, Any, Any]:
        """Yield the recorded values and return the recorded result."""
        yield from map(self._item, recorded_yields(step.entry))
        end_of_yields(step)
        return copy_plain(step.entry.response)

    def _record(self, step: Step, result: Any, clock: Clock) -> dict[str, Any]:
        return {
            "request": step.call.plain,
            "response": self._signature.result(result),
            "latency_ms": clock.elapsed_ms,
        }

    def _failure(self, step: Step, error: Exception, clock: Clock) -> dict[str, Any]:
        return {
            "request": step.call.plain,
            "error": failure_of(error),
            "latency_ms": clock.elapsed_ms,
        }

    def plain_item(self, item: Any) -> JSON:
        """Return a yielded value as plain JSON."""
        return self._signature.result(item)


class Clock:
    """How long a call takes."""

    __slots__ = ("_start",)

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the clock was made."""
        return (time.perf_counter() - self._start) * 1000


class Yields:
    """The values of a generator as they come, and how it ended."""

    def __init__(self, wrapping: ToolWrapping, step: Step) -> None:
        self._wrapping = wrapping
        self._step = step
        self._items: list[JSON] = []
        self._clock = Clock()

    def add(self, item: Any) -> None:
        """Take note of one value."""
        self._items.append(self._wrapping.plain_item(item))

    def ended(self, value: Any) -> None:
        """The generator came to its end and returned *value*."""
        self._enter(response=self._wrapping.plain_item(value))

    def left_early(self) -> None:
        """The consumer left; before the first value there is nothing to record."""
        if self._items:
            self._enter(response=None, response_integrity="partial")

    def broke(self, error: Exception) -> None:
        """The generator raised: with values a partial answer, without any a failed call."""
        if self._items:
            self._enter(response=None, response_integrity="partial", error=failure_of(error))
        else:
            self._step.failed(
                {
                    "request": self._step.call.plain,
                    "error": failure_of(error),
                    "latency_ms": self._clock.elapsed_ms,
                }
            )

    def _enter(self, **fields: Any) -> None:
        self._step.succeeded(
            {
                "request": self._step.call.plain,
                "yields": tuple(self._items),
                "latency_ms": self._clock.elapsed_ms,
                **fields,
            }
        )


def raise_if_final(step: Step) -> None:
    """Raise what a step ends in, where it does not go on to the real call."""
    if step.action == "raise":
        raise step.failure()
    if step.action == "miss":
        raise step.miss()


def recorded_yields(entry: CassetteEntry) -> tuple[JSON, ...]:
    """Return the values a recorded generator yielded.

    A tool that was recorded as a plain function, or from a trace, has a result and no yields: a
    list is taken as the values, anything else as the only one.
    """
    if entry.yields is not None:
        return entry.yields
    return tuple(entry.response) if isinstance(entry.response, list) else (entry.response,)


def end_of_yields(step: Step) -> None:
    """Say what reading past the end of a partial generator gives: its failure, or a miss."""
    entry = step.entry
    if entry.yields is None or entry.response_integrity != "partial":
        return
    if entry.error is not None:
        raise rebuild_failure(CassetteFailure(kind=entry.kind, error=entry.error))
    reason = (
        f"the recorded generator {entry.name!r} was left after {len(entry.yields)} values; "
        "what would have come next was never recorded"
    )
    raise step.ran_out(reason)
