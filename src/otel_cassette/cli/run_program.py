"""A program as a child of the command: its environment, its signals, its end.

Lives here: what `record` and `replay` have in common around the program they run. Not here: what
happens inside of it (`autostart/`), what is said of it afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_cassette.autostart import add_run
from otel_cassette.autostart.interpreters import hiding_flag
from otel_cassette.autostart.reports import ProcessReport, read_reports
from otel_cassette.autostart.runfile import RunFile
from otel_cassette.errors import CassetteError

if TYPE_CHECKING:
    from typing_extensions import Self

_LIMIT_VAR = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
_ATTRIBUTE_LIMIT = 10_000
_SIGNAL_EXIT = 128


@dataclass(frozen=True)
class ProgramEnd:
    """What is known of a program that has ended.

    Attributes:
        exit_code: Its own; 128 and the signal's number where a signal ended it, as shells say it.
        reports: Of its processes, in the order they started.
        foreign: Interpreters without the package that it used, with what went wrong.
        failed: Processes in which nothing could be started.
    """

    exit_code: int
    reports: list[ProcessReport] = field(default_factory=list)
    foreign: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def has_started(self) -> bool:
        """Whether anything of ours ran in the program itself, not only in what launched it."""
        return any(not self._was_launcher(place) for place in range(len(self.reports)))

    def _was_launcher(self, place: int) -> bool:
        report = self.reports[place]
        later = {each.pid for each in self.reports[place + 1 :]}
        did_nothing = not report.calls and not report.recorded
        return report.status == "replaced" and did_nothing and report.pid not in later


def run_program(command: Sequence[str], run: RunFile) -> ProgramEnd:
    """Run *command* to its end as part of *run*.

    Interrupts are the program's to handle: the command outlives it, to say how it went.

    Raises:
        CassetteError: When the program cannot be started, or would hide the start-up code.
    """
    refuse_hiding_flags(command)
    with _Signals() as signals:
        try:
            child = subprocess.Popen(list(command), env=environment(run))  # noqa: S603 - the user's own command
        except OSError as error:
            msg = (
                f"{command[0]}: cannot be run: {error.strerror or error}; give the program with its "
                "arguments after --, for instance -- python my_agent.py"
            )
            raise CassetteError(msg) from error
        signals.child = child
        code = child.wait()
    return ProgramEnd(
        exit_code=code if code >= 0 else _SIGNAL_EXIT - code,
        reports=read_reports(run),
        foreign=run.facts("foreign"),
        failed=run.facts("failed"),
    )


def environment(run: RunFile) -> dict[str, str]:
    """Return the program's environment: ours, the way to the start-up code, and room on spans."""
    env = dict(os.environ)
    add_run(env, run)
    # 128 attributes, the SDK's default, are too few for chats that are written message by message.
    with suppress(ValueError):  # not a number: the SDK refuses it in its own words
        if int(env.get(_LIMIT_VAR) or 0) < _ATTRIBUTE_LIMIT:
            env[_LIMIT_VAR] = str(_ATTRIBUTE_LIMIT)
    return env


def refuse_hiding_flags(command: Sequence[str]) -> None:
    """Refuse a Python that was told to run no start-up code, before it makes a call.

    Raises:
        CassetteError: For `python -I`, `-E` or `-S`.
    """
    flag = hiding_flag(command)
    if flag is not None:
        msg = (
            f"{' '.join(command[:3])}: this Python {flag}, so nothing of otel-cassette "
            f"can start in it; leave the flag out"
        )
        raise CassetteError(msg)


class _Signals:
    """While it is entered: interrupts are left to the program, other ends are passed on to it."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
            number = getattr(signal, name, None)
            if number is not None:
                with suppress(ValueError):  # called from a thread: signals are the caller's then
                    # A function, not SIG_IGN: that one would be inherited by the program.
                    self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, number: int, _frame: object) -> None:
        # The terminal sends SIGINT and SIGQUIT to the program too.
        if self.child is not None and number not in (
            signal.SIGINT,
            getattr(signal, "SIGQUIT", signal.SIGINT),
        ):
            with suppress(ProcessLookupError):
                self.child.send_signal(number)
