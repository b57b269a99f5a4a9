"""Generators behind a wrapper: driven step by step, with what is sent and thrown passed on.

Lives here: the loop that stands between a generator and its consumer. Not here: what is noted of the
values (`tools.py`, `tracing.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

Around = Callable[[], AbstractContextManager[Any]]


class Watch(Protocol):
    """Takes note of a generator's values, and of how it ended: one of the last three, once."""

    def add(self, item: Any) -> None:
        """A value came."""
        ...

    def ended(self, value: Any) -> None:
        """The generator came to its end and returned *value*."""
        ...

    def left_early(self) -> None:
        """The consumer left."""
        ...

    def broke(self, error: Exception) -> None:
        """The generator raised."""
        ...


def drive(
    source: Generator[Any, Any, Any], around: Around, watch: Watch
) -> Generator[Any, Any, Any]:
    """Yield what *source* yields, as `yield from` does.

    Args:
        source: The generator.
        around: Makes the context in which a step of it runs; never held over a `yield`.
        watch: Told of everything.
    """
    resume: Callable[[], Any] = partial(next, source)
    while True:
        has_ended = False
        try:
            with around():
                # The end is caught in here: it is no failure of what is around.
                try:
                    item = resume()
                except StopIteration as stop:
                    has_ended, item = True, stop.value
        except Exception as error:
            watch.broke(error)
            raise
        except BaseException:
            watch.left_early()
            raise
        if has_ended:
            watch.ended(item)
            return item
        try:
            watch.add(item)
        except Exception:
            source.close()
            raise
        try:
            sent = yield item
        except GeneratorExit:
            try:
                with around():
                    source.close()
            finally:
                watch.left_early()
            raise
        except BaseException as error:  # noqa: BLE001 - whatever is thrown in goes to the generator
            resume = partial(source.throw, error)
        else:
            resume = partial(source.send, sent)


class AsyncRun:
    """An async generator, step by step; as `drive`, which async generators cannot delegate to.

    The wrapper's own loop:

        while await run.advance():
            try:
                run.sent((yield run.item))
            except GeneratorExit:
                await run.leave()
                raise
            except BaseException as error:
                run.thrown(error)

    Attributes:
        item: The value that came last.
    """

    def __init__(self, source: AsyncGenerator[Any, Any], around: Around, watch: Watch) -> None:
        self.item: Any = None
        self._source = source
        self._around = around
        self._watch = watch
        self._resume: Callable[[], Any] = source.__anext__

    async def advance(self) -> bool:
        """Have the next value made; False at the end."""
        has_ended = False
        try:
            with self._around():
                try:
                    self.item = await self._resume()
                except StopAsyncIteration:
                    has_ended = True
        except Exception as error:
            self._watch.broke(error)
            raise
        except BaseException:  # the consumer's task was cancelled
            self._watch.left_early()
            raise
        if has_ended:
            self._watch.ended(None)
            return False
        try:
            self._watch.add(self.item)
        except Exception:
            await self._source.aclose()
            raise
        return True

    def sent(self, value: Any) -> None:
        """Pass on what the consumer sent, None for a plain step."""
        self._resume = partial(self._source.asend, value)

    def thrown(self, error: BaseException) -> None:
        """Pass on what the consumer threw in."""
        self._resume = partial(self._source.athrow, error)

    async def leave(self) -> None:
        """The consumer left."""
        try:
            with self._around():
                await self._source.aclose()
        finally:
            self._watch.left_early()
