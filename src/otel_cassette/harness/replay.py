"""Replaying sessions from a folder and scoring what the agent made of them.

Lives here: `ReplayHarness`. Not here: the stand-ins (`mock.py`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_cassette.harness.events import add_evaluation_event
from otel_cassette.harness.fixture import Fixture
from otel_cassette.harness.mock import MockLayer, MockMode

Evaluator = Callable[[Any, Fixture], Any]
"""`evaluator(output, fixture) -> value`; the value is the score, unchanged."""

AgentFactory = Callable[[MockLayer], Callable[[str], Any]]
Evaluators = Mapping[str, Evaluator] | Sequence[Evaluator]


class ReplayHarness:
    """Replays the sessions of a folder.

    Args:
        fixtures_dir: Folder with one `<session_id>.json` a session.
    """

    def __init__(self, fixtures_dir: str | Path = "fixtures") -> None:
        self.fixtures_dir: Path = Path(fixtures_dir)

    def load(self, session_id: str) -> Fixture:
        """Return the session `<fixtures_dir>/<session_id>.json`.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The id names a file outside of the folder.
            CassetteFormatError: The file is no session fixture.
        """
        path = self.fixtures_dir / f"{session_id}.json"
        if not path.resolve().is_relative_to(self.fixtures_dir.resolve()):
            msg = f"session id {session_id!r} names a file outside of {self.fixtures_dir}"
            raise ValueError(msg)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            msg = (
                f"no session {session_id!r}: {path} does not exist; record it with "
                f"Recorder({session_id!r}, query) and .save({str(path)!r})"
            )
            raise FileNotFoundError(error.errno, msg, str(path)) from error
        return Fixture.from_json(data, path=path)

    def replay(
        self,
        session_id: str | Fixture,
        agent_factory: AgentFactory,
        evaluators: Evaluators | None = None,
        *,
        mode: MockMode = "strict",
    ) -> dict[str, Any]:
        """Run an agent on a recorded session and score its output.

        Args:
            session_id: A session of the folder, or a fixture.
            agent_factory: Called with the `MockLayer`, returns `agent(query) -> output`; the agent
                may be async and is then run to its end.
            evaluators: Functions `(output, fixture) -> value` by name, or several of them, named by
                their `__name__`; they may be async.
            mode: `strict`, or `lenient`: arguments are not compared.

        Returns:
            `output`, `scores` (by evaluator, values unchanged), `session_id`, `divergences`,
            `served` (count), `unplayed` (steps not asked for) and `masked` (steps whose output holds
            a redaction mask).

        Raises:
            ReplayError: The agent departed from the session, even if it caught the error itself.
            RuntimeError: Agent or evaluator is async and an event loop runs here: use `areplay`.
        """
        run = _Run(self._fixture(session_id), agent_factory, evaluators, mode)
        run.take_output(_run_to_end(run.ask()))
        for name, evaluate in run.evaluators.items():
            run.take_score(name, _run_to_end(evaluate(run.output, run.mock.fixture)))
        return run.result()

    async def areplay(
        self,
        session_id: str | Fixture,
        agent_factory: AgentFactory,
        evaluators: Evaluators | None = None,
        *,
        mode: MockMode = "strict",
    ) -> dict[str, Any]:
        """Do what `replay` does inside a running event loop; agent and evaluators may be async."""
        run = _Run(self._fixture(session_id), agent_factory, evaluators, mode)
        run.take_output(await _settled(run.ask()))
        for name, evaluate in run.evaluators.items():
            run.take_score(name, await _settled(evaluate(run.output, run.mock.fixture)))
        return run.result()

    def _fixture(self, session: str | Fixture) -> Fixture:
        return session if isinstance(session, Fixture) else self.load(session)


class _Run:
    """One replay: what `replay` and `areplay` do alike."""

    def __init__(
        self,
        fixture: Fixture,
        agent_factory: AgentFactory,
        evaluators: Evaluators | None,
        mode: MockMode,
    ) -> None:
        self.mock = MockLayer(fixture, mode=mode)
        self.evaluators = _by_name(evaluators)
        self.output: Any = None
        self.scores: dict[str, Any] = {}
        self._agent_factory = agent_factory

    def ask(self) -> Any:
        return self._agent_factory(self.mock)(self.mock.fixture.query)

    def take_output(self, output: Any) -> None:
        self.output = output
        if self.mock.errors:
            # Agents catch what tools raise; a score of such a run would be one of another session.
            raise self.mock.errors[0]

    def take_score(self, name: str, value: Any) -> None:
        self.scores[name] = value
        add_evaluation_event(name, value)

    def result(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "scores": self.scores,
            "session_id": self.mock.fixture.session_id,
            "divergences": self.mock.divergences,
            "served": len(self.mock.served),
            "unplayed": self.mock.unplayed,
            "masked": self.mock.masked,
        }


def _by_name(evaluators: Evaluators | None) -> dict[str, Evaluator]:
    if evaluators is None:
        return {}
    if isinstance(evaluators, Mapping):
        return dict(evaluators)
    named: dict[str, Evaluator] = {}
    for evaluate in evaluators:
        name = getattr(evaluate, "__name__", None) or type(evaluate).__name__
        if name in named:
            msg = f"two evaluators are named {name!r}; give them as a dict of name and evaluator"
            raise ValueError(msg)
        named[name] = evaluate
    return named


def _run_to_end(value: Any) -> Any:
    if not inspect.isawaitable(value):
        return value
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_settled(value))
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that it was never awaited
    msg = "the agent or an evaluator is async and an event loop runs already; use `await harness.areplay(...)` here"
    raise RuntimeError(msg)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
