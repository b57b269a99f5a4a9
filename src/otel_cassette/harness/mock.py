"""Replaying a session: stand-ins for an agent's functions that answer from the steps.

Lives here: `MockLayer` and `ReplayError`. Not here: running an agent and scoring it (`replay.py`).

The comparison is the one of cassettes (`keys/`). The order is not the one of the engine: its
sequences are one a kind, while a session has one order over all kinds that the agent bound, and a
call that does not match leaves its place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

from pydantic import ValidationError

from otel_cassette.diff import ReplayDivergence
from otel_cassette.harness.fixture import Fixture, Step, StepType
from otel_cassette.harness.values import bind_to_recorded, jsonable
from otel_cassette.keys import CanonicalRequest, compare, llm_request, tool_request
from otel_cassette.model.entry import EntryKind
from otel_cassette.model.llm import LLMRequest
from otel_cassette.model.plain import copy_plain
from otel_cassette.redaction import MASK_START, Redactor

MockMode = Literal["strict", "lenient"]

_KINDS: dict[StepType, EntryKind] = {
    StepType.TOOL_CALL: "tool",
    StepType.LLM: "llm",
    StepType.RETRIEVAL: "retrieval",
}


class ReplayError(RuntimeError):
    """The agent made a call that the session does not have at this place.

    Attributes:
        divergence: Both calls, the fields that differ and the diff.
    """

    def __init__(self, message: str, divergence: ReplayDivergence) -> None:
        self.divergence = divergence
        super().__init__(f"{message}\n{divergence.diff}" if divergence.diff else message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_error, (self.args, self.divergence))


def _rebuild_error(args: tuple[Any, ...], divergence: ReplayDivergence) -> ReplayError:
    error = ReplayError("", divergence)
    error.args = args
    return error


class MockLayer:
    """Answers an agent's calls from the steps of a session; safe for threads and tasks.

    The steps that count are those of the kinds the agent bound, and those whose name it bound as a
    tool whatever their type (agents that bind everything as a tool). They are served in their
    order; a call of another name, or in `strict` with other arguments, is a `ReplayError` and
    leaves the place where it is.

    Args:
        fixture: The session.
        mode: `strict`, or `lenient`: arguments are not compared; what differs is noted in
            `divergences`.

    Attributes:
        fixture: The session.
        mode: As given.
        divergences: What departed, in the order of the calls, the calls that failed included.
        served: Steps that were answered, in the order of the calls.
        errors: The `ReplayError`s raised so far.

    Raises:
        ValueError: There is no such mode.
    """

    def __init__(self, fixture: Fixture, *, mode: MockMode = "strict") -> None:
        if mode not in ("strict", "lenient"):
            msg = f"mode {mode!r} does not exist; MockLayer has 'strict' and 'lenient'"
            raise ValueError(msg)
        self.fixture = fixture
        self.mode = mode
        self.divergences: list[ReplayDivergence] = []
        self.served: list[Step] = []
        self.errors: list[ReplayError] = []
        rules = getattr(fixture, "redact", None)
        self._redactor = Redactor() if rules is None else Redactor.from_header(rules)
        self._steps = list(fixture.steps)
        self._open = list(range(len(self._steps)))
        self._kinds: set[StepType] = set()
        self._names: set[str] = set()
        self._lock = threading.RLock()

    def tool(self, name: str, *, is_async: bool | None = None) -> Callable[..., Any]:
        """Return the stand-in of a tool.

        Args:
            name: The name it was recorded under.
            is_async: Whether its value is awaited; by default as it was recorded, and for sessions
                that do not say so, not.

        Returns:
            A function that takes the tool's arguments and returns the recorded output, a copy. It
            raises `ReplayError` when the next step is another call, or there is none.
        """
        return self._bind(StepType.TOOL_CALL, name, is_async=is_async)

    def llm(self, name: str, *, is_async: bool | None = None) -> Callable[..., Any]:
        """Return the stand-in of a model call, as `tool` does."""
        return self._bind(StepType.LLM, name, is_async=is_async)

    def retrieval(self, name: str, *, is_async: bool | None = None) -> Callable[..., Any]:
        """Return the stand-in of a retrieval, as `tool` does."""
        return self._bind(StepType.RETRIEVAL, name, is_async=is_async)

    @property
    def unplayed(self) -> list[Step]:
        """Steps that count and were not asked for."""
        with self._lock:
            return [self._steps[place] for place in self._open if self._counts(place)]

    @property
    def masked(self) -> list[Step]:
        """Steps served whose output holds a redaction mask: the agent saw the mask, not the secret."""
        return [step for step in self.served if MASK_START in repr(step.output)]

    def _bind(self, kind: StepType, name: str, *, is_async: bool | None) -> Callable[..., Any]:
        with self._lock:
            self._kinds.add(kind)
            if kind is StepType.TOOL_CALL:
                self._names.add(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            step = self._serve(kind, name, args, kwargs)
            output = copy_plain(step.output)
            awaited = bool(getattr(step, "is_async", False)) if is_async is None else is_async
            return _later(output) if awaited else output

        call.__name__ = call.__qualname__ = name
        return call

    def _counts(self, place: int) -> bool:
        step = self._steps[place]
        return step.type in self._kinds or step.name in self._names

    def _serve(
        self, kind: StepType, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Step:
        with self._lock:
            place = next((place for place in self._open if self._counts(place)), None)
            if place is None:
                self._fail(
                    f"No recorded step left for {'tool' if kind is StepType.TOOL_CALL else kind.value} {name!r}",
                    self._divergence(kind, name, None, self._one_way({}, args, kwargs)),
                )
            step = self._steps[place]
            if step.name != name or not (step.type is kind or kind is StepType.TOOL_CALL):
                same = " " if step.name != name else f" ({step.type.value}) "
                called = f"{name!r}" if step.name != name else f"{name!r} ({kind.value})"
                self._fail(
                    f"Expected {step.name!r}{same}but agent called {called}",
                    self._divergence(kind, name, place, self._one_way(step.args, args, kwargs)),
                )
            self._compare_arguments(kind, place, args, kwargs)
            self._open.remove(place)
            self.served.append(step)
            return step

    def _compare_arguments(
        self, kind: StepType, place: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        step = self._steps[place]
        ways = [self._plain(way) for way in bind_to_recorded(step.args, args, kwargs)]
        recorded = self._plain(step.args)
        if any(_sides(step, recorded, way)[2] == () for way in ways):
            return
        divergence = self._divergence(kind, step.name, place, ways[0])
        if self.mode == "lenient":
            self.divergences.append(divergence)
            return
        where = ", ".join(divergence.fields[:3])
        self._fail(
            f"{step.name!r} was called with other arguments than recorded ({where}); record the session again, "
            'or compare no arguments with MockLayer(..., mode="lenient")',
            divergence,
        )

    def _one_way(
        self, recorded: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        return self._plain(bind_to_recorded(recorded, args, kwargs)[0])

    def _plain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as JSON, masked: recorded ones too, of sessions that were not when made."""
        masked: dict[str, Any] = self._redactor.json(jsonable(arguments))
        return masked

    def _divergence(
        self, kind: StepType, name: str, place: int | None, live: dict[str, Any]
    ) -> ReplayDivergence:
        if place is None:
            index = sum(step.type is kind for step in self._steps)
            actual = tool_request(name, live, kind=_KINDS[kind])
            return ReplayDivergence.create(
                _KINDS[kind],
                index,
                actual_request=live,
                actual_key=actual.key,
                actual_name=name,
                actual=actual,
                mode=self.mode,
            )
        step = self._steps[place]
        recorded = self._plain(step.args)
        if step.name == name:
            expected, actual, fields = _sides(step, recorded, live)
        else:
            expected = tool_request(step.name, recorded, kind=_KINDS[step.type])
            actual = tool_request(name, live, kind=_KINDS[kind])
            fields = compare(expected, actual).pointers
        return ReplayDivergence.create(
            _KINDS[step.type],
            sum(other.type is step.type for other in self._steps[:place]),
            expected_request=recorded,
            actual_request=live,
            expected_key=expected.key,
            actual_key=actual.key,
            expected_name=step.name,
            actual_name=name,
            expected=expected,
            actual=actual,
            mode=self.mode,
            fields=fields,
        )

    def _fail(self, message: str, divergence: ReplayDivergence) -> NoReturn:
        error = ReplayError(message, divergence)
        self.divergences.append(divergence)
        self.errors.append(error)
        raise error


async def _later(output: Any) -> Any:
    return output


def _sides(
    step: Step, recorded: dict[str, Any], live: dict[str, Any]
) -> tuple[CanonicalRequest, CanonicalRequest, tuple[str, ...]]:
    """Return both calls in canonical form, as model requests where both are, and where they differ."""
    kind = _KINDS[step.type]
    pair = [_model_request(arguments) if kind == "llm" else None for arguments in (recorded, live)]
    if pair[0] is not None and pair[1] is not None:
        expected, actual = pair[0], pair[1]
    else:
        expected, actual = (tool_request(step.name, side, kind=kind) for side in (recorded, live))
    return expected, actual, compare(expected, actual).pointers


def _model_request(arguments: dict[str, Any]) -> CanonicalRequest | None:
    """Return the arguments of a model call as a request in canonical form.

    None when they hold a field that a request does not have: it would not be compared.
    """
    known = {key: value for key, value in arguments.items() if value is not None}
    if not known.get("messages") or not set(known) <= set(LLMRequest.model_fields):
        return None
    try:
        return llm_request(LLMRequest.model_validate(known).to_json())
    except ValidationError:
        return None
