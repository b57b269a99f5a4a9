"""Finding, starting and stopping the programs that the real-backend tests talk to.

What is here: where a binary is looked for, free ports, one running process with its log. Not here:
what one asks these programs (backend_clients.py), which tests run (conftest.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIG_DIR = REPOSITORY / "collector-config"
COLLECTOR = "otelcol-cassette"
JAEGER = "jaeger"
TEMPO = "tempo"

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.1

T = TypeVar("T")

# Everything here is on loopback: a proxy of the environment must not be asked.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class BackendError(AssertionError):
    """A program did not start, died, or did not show in time what was waited for."""


def find_program(name: str) -> Path | None:
    """Where `name` is: on PATH, in OTEL_CASSETTE_BACKENDS_DIR or in .cache/bin (scripts/build_backends.sh)."""
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    built = (
        Path(os.environ.get("OTEL_CASSETTE_BACKENDS_DIR") or REPOSITORY / ".cache" / "bin") / name
    )
    return built if os.access(built, os.X_OK) else None


def backends_required() -> bool:
    """True in CI (OTEL_CASSETTE_REQUIRE_BACKENDS=1): a test that cannot run is then a failure."""
    return os.environ.get("OTEL_CASSETTE_REQUIRE_BACKENDS", "") not in {"", "0"}


def free_ports(count: int) -> list[int]:
    """`count` different ports that were free on loopback a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def http_get(url: str, timeout_s: float = 10.0) -> bytes:
    """The body of a 2xx answer; anything else raises `urllib.error.URLError` or its subclasses."""
    with _opener.open(url, timeout=timeout_s) as response:
        body: bytes = response.read()
    return body


def wait_until(what: str, poll: Callable[[], T | None], timeout_s: float, hint: str = "") -> T:
    """The first value of `poll` that is not None, polled until `timeout_s` have passed."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = poll()
        if value is not None:
            return value
        if time.monotonic() > deadline_s:
            msg = f"waited {timeout_s:g} s for {what}, in vain{hint}"
            raise BackendError(msg)
        time.sleep(POLL_INTERVAL_S)


@dataclass(frozen=True)
class RunningProgram:
    """A process that we started. Its output is kept in `log_file`, next to the test's other files."""

    name: str
    process: subprocess.Popen[bytes]
    log_file: Path
    stop_grace_s: float = STOP_TIMEOUT_S
    """how long it may take to end by itself when asked to"""

    def log_tail(self, lines: int = 30) -> str:
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """Asks this one process to end (it flushes what it holds), kills it if it does not."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(self.stop_grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)


def start_program(
    name: str,
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    log_file: Path,
    is_ready: Callable[[], bool],
    stop_grace_s: float = STOP_TIMEOUT_S,
) -> RunningProgram:
    """Starts `command` and waits until `is_ready`.

    Raises:
        BackendError: It ended or was not ready within 30 s. The message holds the end of its log.
    """
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    program = RunningProgram(name, process, log_file, stop_grace_s)

    def ready() -> bool | None:
        if process.poll() is not None:
            msg = f"{name} ended with {process.returncode} while starting; {log_file}:\n{program.log_tail()}"
            raise BackendError(msg)
        return True if is_ready() else None

    try:
        wait_until(f"{name} to be ready", ready, START_TIMEOUT_S)
    except BaseException as error:
        program.stop()
        if isinstance(error, BackendError) and "while starting" not in str(error):
            msg = f"{error}; {log_file}:\n{program.log_tail()}"
            raise BackendError(msg) from error
        raise
    return program


def answers(url: str) -> Callable[[], bool]:
    """A readiness check: does `url` answer 2xx?"""

    def check() -> bool:
        try:
            http_get(url, timeout_s=1.0)
        except (OSError, urllib.error.URLError):
            return False
        return True

    return check


def retry_on_taken_port(start: Callable[[], T]) -> T:
    """Calls `start` once more when another process took one of its free ports in the meantime."""
    try:
        return start()
    except BackendError as error:
        if "address already in use" not in str(error):
            raise
    return start()
