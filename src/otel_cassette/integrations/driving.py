"""One call of a framework's tool: answered from the open session, recorded into it, or made.

Lives here: `ToolCall`, which every integration drives. Not here: where a framework calls its tools,
and how its values become JSON (one file for each framework), the decision (`engine/`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from otel_cassette.clients.binding import checked
from otel_cassette.clients.tools import Clock
from otel_cassette.errors import CassetteError, CassetteMissError
from otel_cassette.keys.text import plain_text
from otel_cassette.model.entry import CassetteFailure, RecordedFailure
from otel_cassette.model.plain import copy_plain
from otel_cassette.session import InsideBlock, Step, current_session, inside, open_sessions
from otel_cassette.session.failures import failure_of, rebuild_failure

JSON = Any
_JSON_TYPES = (str, int, float, bool, type(None))


class ToolCall:
    """One call of a tool. Frameworks hand errors of tools to the model, so a miss poisons the session.

    Args:
        name: The tool.
        arguments: Its arguments by name, as the model gave them; that is what instrumentations
            record.
        encode: Makes plain JSON of a real result.
        decode: Makes the framework's result of recorded JSON.
        decode_told: The same for what was read off a request: it is what the model was told.
        describe: Makes a recorded failure of an exception.
        rebuild: Makes the exception of a recorded failure.
        passing: Exceptions that are neither a result nor a failure: nothing is recorded.

    Attributes:
        missed: The miss this call ended in, if it did; for frameworks that swallow exceptions.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        encode: Callable[[Any], JSON],
        decode: Callable[[JSON], Any],
        decode_told: Callable[[JSON], Any] | None = None,
        describe: Callable[[BaseException], RecordedFailure] = failure_of,
        rebuild: Callable[[CassetteFailure], BaseException] = rebuild_failure,
        passing: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.name = name
        self.missed: CassetteMissError | None = None
        self._arguments = arguments
        self._encode = encode
        self._decode = decode
        self._decode_told = decode_told or decode
        self._describe = describe
        self._rebuild = rebuild
        self._passing = passing

    def run(self, real: Callable[[], Any]) -> Any:
        """Return the recorded result, or that of *real*.

        Raises:
            CassetteMissError: When the recording has no answer that may be served.
            BaseException: The recorded failure, or what *real* raises.
        """
        step = self._begin()
        if step is None:
            return real()
        if step.action == "play":
            return self._answer(step)
        clock = Clock()
        try:
            with InsideBlock(step):
                result = real()
        except Exception as error:
            self._note_failure(step, error, clock)
            raise
        self._note_result(step, result, clock)
        return result

    async def arun(self, real: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result, or that of the coroutine function *real*; else as `run`."""
        step = self._begin()
        if step is None:
            return await real()
        if step.action == "play":
            return self._answer(step)
        clock = Clock()
        try:
            with InsideBlock(step):
                result = await real()
        except Exception as error:
            self._note_failure(step, error, clock)
            raise
        self._note_result(step, result, clock)
        return result

    def _begin(self) -> Step | None:
        """Return what the call gets: to be played or really made; None without a session.

        Raises what it ends in otherwise.
        """
        session = current_session()
        if session is None:
            return None
        if session.poisoned is not None:
            self.missed = session.poisoned
            raise session.poisoned
        arguments = {
            key: checked(value, f"argument {key!r} of tool {self.name!r}")
            for key, value in self._arguments.items()
        }
        outer = inside()
        if outer is not None and self._is_the_same(outer, arguments):
            return None
        playback = session.playback
        raw = None if playback.mode == "record" else plain_text(self.name, arguments)
        step = playback.begin("tool", arguments, name=self.name, raw=raw, inside=outer)
        if step.action == "raise":
            decision = step.decision
            assert decision is not None  # noqa: S101 - only played steps raise
            assert decision.failure is not None  # noqa: S101 - that is what `raise` says
            raise self._rebuild(decision.failure)
        if step.action == "miss":
            self.missed = step.miss()
            session.poison(self.missed)
            raise self.missed
        return step

    def _is_the_same(self, outer: Step, arguments: JSON) -> bool:
        """Return whether the enclosing call is this one, seen by another integration before."""
        call = outer.call
        return call.kind == "tool" and call.name == self.name and call.plain == arguments

    def _answer(self, step: Step) -> Any:
        entry = step.entry
        value = entry.response if entry.yields is None else list(entry.yields)
        decode = self._decode_told if step.entry.inferred else self._decode
        return decode(copy_plain(value))

    def _note_result(self, step: Step, result: Any, clock: Clock) -> None:
        try:
            response = self._plain(result)
        except CassetteError:
            if step.ticket is not None:
                raise
            response = str(result)  # nothing is recorded: the call went well for its caller
        step.succeeded(
            {
                "request": step.call.plain,
                "response": response,
                "latency_ms": clock.elapsed_ms,
            }
        )

    def _plain(self, result: Any) -> JSON:
        what = f"the result of tool {self.name!r}"
        try:
            return checked(self._encode(result), what)
        except ValueError as error:  # a framework's own encoder refused it
            msg = f"{what} has no JSON form: {error}"
            raise CassetteError(msg) from error

    def _note_failure(self, step: Step, error: Exception, clock: Clock) -> None:
        if isinstance(error, self._passing):
            return
        step.failed(
            {
                "request": step.call.plain,
                "error": self._describe(error),
                "latency_ms": clock.elapsed_ms,
            }
        )


def wanted() -> bool:
    """Return whether any session is open; the quick test before anything else is done."""
    return bool(open_sessions())


def is_json(value: Any) -> bool:
    """Return whether *value* is made of JSON's own types, so that reading it back changes nothing."""
    if type(value) in _JSON_TYPES:
        return True
    if type(value) is dict:
        return all(type(k) is str and is_json(v) for k, v in value.items())
    return type(value) is list and all(map(is_json, value))
