"""One process of a recorded or replayed program, from its start to its last words.

Lives here: the order of things at start, after `fork`, before `exec`, and at every sort of end. Not
here: the session (`replaying.py`, `recording.py`), tracer providers (`providers.py`).

Nothing here is raised into the program: what fails is logged, and noted in the report.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from otel_cassette.autostart import add_run, holds_run
from otel_cassette.autostart.interpreters import hiding_flag
from otel_cassette.autostart.providers import (
    now_ns,
    providers_covered,
    watch_providers,
    write_session_span,
)
from otel_cassette.autostart.recording import ProcessRecording
from otel_cassette.autostart.replaying import ProcessReplay
from otel_cassette.autostart.reports import ProcessReport, ReportFile
from otel_cassette.autostart.runfile import RunFile
from otel_cassette.clients.instrumentor import CassetteInstrumentor

_logger = logging.getLogger("otel_cassette")


class ProgramProcess:
    """This process, as part of a run.

    Args:
        run: The run.
        how: What started it.
    """

    def __init__(self, run: RunFile, how: str) -> None:
        self._run = run
        self._file = ReportFile(run, ProcessReport.of_this_process(how))
        self._start_ns = now_ns()
        self._lock = threading.RLock()
        self._has_span = False
        self._finished = False
        self._work: ProcessReplay | ProcessRecording
        if run.settings.action == "replay":
            self._work = ProcessReplay(run.settings, self._file.add_call)
        else:
            self._work = ProcessRecording(run.folder, self._file.report.token, self._file.add_call)

    @classmethod
    def begin(cls, run: RunFile, how: str) -> ProgramProcess:
        """Start: the session, the transports, the providers to come, and every sort of end."""
        process = cls(run, how)
        CassetteInstrumentor().instrument()
        watch_providers(process.providers_shut_down)
        # Registered before the program's own handlers, so that it runs after them.
        atexit.register(process.finish)
        process._catch_bare_exits()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=process.after_fork)
        sys.addaudithook(process._audit)
        return process

    def _catch_bare_exits(self) -> None:
        """Report before `os._exit`, by which forked workers end: exit handlers do not run there."""
        real = os._exit

        @functools.wraps(real)
        def leave(status: int) -> Any:
            self.finish()
            real(status)

        os._exit = leave

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in ("os.exec", "os.posix_spawn", "socket.getaddrinfo", "subprocess.Popen"):
            return
        try:
            self._heed(event, args)
        except Exception:  # what a hook raises would refuse the program what it is about to do
            _logger.exception("%s was not taken note of", event)

    def _heed(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "os.exec":
            self._note_child(*args, comes_first=False)
            self._report("replaced")
        elif event == "os.posix_spawn":
            self._note_child(*args, comes_first=False)
        elif event == "socket.getaddrinfo" and isinstance(self._work, ProcessRecording):
            self._work.note_lookup(str(args[0]))
        elif event == "subprocess.Popen":
            program, command, _, environment = args
            self._note_child(program, command, environment)

    def _note_child(
        self, program: Any, command: Any, environment: Any, *, comes_first: bool = True
    ) -> None:
        """Bring the run to a child with an environment of its own, or note that it is out of reach.

        Args:
            program: Its executable.
            command: Its arguments.
            environment: As given; None for this process's own.
            comes_first: The environment is read after it was told of, as `subprocess` does it on
                every Python from 3.10 on; `os.posix_spawn` and `os.execve` do not.
        """
        words = [command] if isinstance(command, str | bytes | os.PathLike) else command
        line = [os.fsdecode(word) for word in words or [program]]
        takes_part = hiding_flag(line) is None
        if takes_part and not holds_run(os.environ if environment is None else environment):
            is_ours = type(environment) is dict and all(type(k) is str for k in environment)
            takes_part = comes_first and is_ours
            if takes_part:
                add_run(environment, self._run)
        if not takes_part:
            name = os.fsdecode(program) if program else line[0]
            self._file.report.facts.setdefault("unreached", []).append(name)

    def providers_shut_down(self) -> None:
        """Write the session's span while there is a provider to take it."""
        with self._lock:
            if self._has_span or not isinstance(self._work, ProcessReplay):
                return
            self._has_span = True
            write_session_span(self._work.session, self._start_ns)

    def after_fork(self) -> None:
        """Be a process of one's own in a forked child."""
        self._lock = threading.RLock()
        self._has_span = self._finished = False
        self._start_ns = now_ns()
        try:
            self._file = ReportFile(self._run, ProcessReport.of_this_process("fork"))
            if isinstance(self._work, ProcessReplay):
                self._work.after_fork(self._file.add_call)
            else:
                self._work.after_fork(self._file.report.token, self._file.add_call)
        except Exception as error:  # noqa: BLE001 - the command may have ended, and its folder be gone
            _logger.warning("a forked process cannot report to otel-cassette: %s", error)

    def finish(self) -> None:
        """Write the report, and what was recorded; the first end counts."""
        with self._lock:
            if self._finished or self._file.report.pid != os.getpid():
                return
            self._finished = True
        if isinstance(self._work, ProcessRecording):
            self._guarded(self._work.close)
        if self._report("ended") and isinstance(self._work, ProcessRecording):
            self._guarded(self._work.drop_spool)

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception:
            _logger.exception("the end of process %d was not clean", os.getpid())

    def _report(self, status: str) -> bool:
        """Write the report as things stand; return whether it is on disk.

        Before `exec` this is no end yet: where the program is not found, the process goes on.
        """
        report = self._file.report
        unreached = report.facts.get("unreached")
        try:
            self._work.describe(report)
        except Exception as error:
            _logger.exception("the account of process %d is incomplete", report.pid)
            status = "failed"
            report.notes.append(f"process {report.pid}: {type(error).__name__}: {error}")
        if unreached:
            report.facts["unreached"] = unreached
        report.facts["providers"] = providers_covered()
        report.argv = list(getattr(sys, "argv", report.argv))
        report.status = status
        try:
            self._file.write()
        except OSError as error:
            _logger.warning("the report of process %d is lost: %s", report.pid, error)
            return False
        return status != "failed"
