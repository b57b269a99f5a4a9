"""Recording a session: an agent's functions, wrapped, write its steps.

Lives here: `Recorder`. Not here: recording from spans or into cassettes (`cassette/`).
"""

from __future__ import annotations

import bisect
import functools
import inspect
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

from otel_cassette.clients.binding import flavour_of
from otel_cassette.document.file import write_atomically
from otel_cassette.harness.fixture import Fixture, Step, StepType
from otel_cassette.harness.values import bind_to_signature, jsonable
from otel_cassette.redaction import DEFAULT_RULES, Redactor, RuleLike


class Recorder:
    """Records the calls of one session into a fixture; safe for threads and tasks.

    Args:
        session_id: Id of the session.
        query: What the agent is asked.
        redact: Redaction rules; what they find is masked before it enters the fixture. `()` for none.

    Attributes:
        fixture: The session so far. Set `final_output` and `expected` on it.
    """

    def __init__(
        self, session_id: str, query: str, *, redact: Iterable[RuleLike] = DEFAULT_RULES
    ) -> None:
        self._redactor = Redactor(redact)
        self._rules_are_default = self._redactor.rules == DEFAULT_RULES
        self._lock = threading.Lock()
        self._begun = 0  # calls so far
        self._order: list[int] = []  # numbers of the calls whose steps stand in the fixture
        self.fixture: Fixture = Fixture(session_id, query)
        self.fixture.query = self._mask(query)

    def tool(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return *fn* wrapped: each call that succeeds is a `tool_call` step.

        Args:
            name: Name of the steps and of the wrapper.
            fn: A function, a coroutine function or a generator function; of a generator the list of
                the values it gave is recorded.

        Returns:
            A function of the same kind. Its value and its exceptions are those of *fn*; a call that
            fails leaves no step.

        Raises:
            TypeError: *fn* is an async generator function, which a session cannot hold.
        """
        return self._wrap(StepType.TOOL_CALL, name, fn)

    def llm(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return *fn* wrapped as `tool` does; its calls are `llm` steps."""
        return self._wrap(StepType.LLM, name, fn)

    def retrieval(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return *fn* wrapped as `tool` does; its calls are `retrieval` steps."""
        return self._wrap(StepType.RETRIEVAL, name, fn)

    def save(self, path: str | Path) -> None:
        """Write the fixture to *path*, with missing folders; an existing file is replaced at once.

        Raises:
            CassetteWriteError: The file cannot be written; an existing one is as it was.
            TypeError: `final_output` or `expected` holds what is not JSON.
        """
        self.fixture.final_output = self._mask(jsonable(self.fixture.final_output))
        self.fixture.expected = self._mask(self.fixture.expected)
        write_atomically(path, [self.fixture.to_json()])

    def _wrap(self, kind: StepType, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        flavour = flavour_of(fn)
        if flavour == "async_generator":
            msg = f"{name!r} is an async generator, which a session cannot record; let it return a list of its values"
            raise TypeError(msg)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
            # The arguments now, not afterwards: the function may change what it is given.
            return _Call(
                kind,
                name,
                jsonable(bind_to_signature(fn, args, kwargs)),
                self._number(),
                self._enter,
            )

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            call = begin(args, kwargs)
            return call.finish(await fn(*args, **kwargs), is_async=True)

        def call_sync(*args: Any, **kwargs: Any) -> Any:
            call = begin(args, kwargs)
            result = fn(*args, **kwargs)
            if inspect.isawaitable(result):
                return call.finish_later(result)
            return (
                call.finish_yields(result) if inspect.isgenerator(result) else call.finish(result)
            )

        wrapper: Callable[..., Any] = call_async if flavour == "async" else call_sync
        functools.update_wrapper(wrapper, fn)
        wrapper.__name__ = name
        return wrapper

    def _number(self) -> int:
        with self._lock:
            self._begun += 1
            return self._begun

    def _enter(self, number: int, fields: dict[str, Any]) -> None:
        with self._lock:
            step = Step(
                **{
                    **fields,
                    "args": self._mask(fields["args"]),
                    "output": self._mask(fields["output"]),
                }
            )
            # By the beginning of the calls: of two in parallel the first to end may be the second.
            place = bisect.bisect(self._order, number)
            self._order.insert(place, number)
            self.fixture.steps.insert(place, step)

    def _mask(self, value: Any) -> Any:
        masked, hits = self._redactor.json_counted(value)
        if (hits or not self._rules_are_default) and not hasattr(self.fixture, "redact"):
            # A replay masks the live arguments by the rules of the recording, not by later ones.
            self.fixture.redact = self._redactor.to_header()  # type: ignore[attr-defined]  # an extra key
        return masked


class _Call:
    """One call between its beginning and its step."""

    def __init__(
        self,
        kind: StepType,
        name: str,
        arguments: Any,
        number: int,
        enter: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._fields = {"type": kind, "name": name, "args": arguments}
        self._number = number
        self._enter = enter
        self._start_s = time.perf_counter()

    def finish(self, result: Any, *, is_async: bool = False) -> Any:
        latency_ms = round((time.perf_counter() - self._start_s) * 1000, 3)
        fields = {**self._fields, "output": jsonable(result), "latency_ms": latency_ms}
        self._enter(self._number, {**fields, "is_async": True} if is_async else fields)
        return result

    async def finish_later(self, awaitable: Any) -> Any:
        return self.finish(await awaitable, is_async=True)

    def finish_yields(self, values: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Give the values on; the step is made at the end, or where the agent leaves."""
        seen: list[Any] = []
        try:
            for value in values:
                seen.append(jsonable(value))
                yield value
        except GeneratorExit:
            values.close()
        self.finish(seen)
