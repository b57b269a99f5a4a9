"""The run file: how the command tells the program's processes what to do.

Lives here: its fields, how it is written, and when it is trusted. Standard library only, since it
is read in every auto-instrumented program. Not here: what the processes do (`process.py`).

An environment variable alone starts nothing: it may have been inherited, or set by somebody else.
The file it names has to exist, to be ours in a folder that is ours alone, and to name a command
that still runs.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

ENV_VAR = "OTEL_CASSETTE_RUN_FILE"
_NAME = "run.json"
_OTHERS = 0o077

Action = Literal["record", "replay"]


@dataclass(frozen=True)
class RunSettings:
    """What a run does; the words are those of the command line.

    Attributes:
        action: `record` or `replay`.
        parent_pid: The command's process.
        parent_started: When that was started, in the system's own words; empty where it does not say.
        cassette: File to replay; empty when recording.
        source: What that was made of: a trace id, or a file's name.
        tools: Tools of known frameworks are answered too.
    """

    action: Action
    parent_pid: int
    parent_started: str = ""
    cassette: str = ""
    source: str = ""
    mode: str = "strict"
    match: str = "content"
    kinds: list[str] | None = None
    allow_unverified: bool = False
    allow_partial: bool = False
    block_network: bool = False
    allow_hosts: list[str] = field(default_factory=list)
    tools: bool = False


@dataclass(frozen=True)
class RunFile:
    """A run file on disk; what its processes have to say stands beside it."""

    path: Path
    settings: RunSettings

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.path.parent

    def write_fact(self, kind: str, fact: dict[str, Any], token: str | None = None) -> Path:
        """Write one fact as JSON, whole or not at all, and return its file.

        Args:
            kind: What it is: the start of the file's name.
            fact: Plain JSON.
            token: Tells facts of one kind apart; a later one of the same token replaces it.
        """
        name = f"{kind}-{token or secrets.token_hex(6)}.json"
        target = self.folder / name
        temporary = self.folder / f".{name}.{os.getpid()}"
        temporary.write_text(json.dumps(fact), encoding="utf-8", errors="surrogatepass")
        temporary.replace(target)
        return target

    def facts(self, kind: str) -> list[dict[str, Any]]:
        """Return the facts of one kind, oldest first."""
        found = sorted(self.folder.glob(f"{kind}-*.json"), key=lambda path: path.stat().st_mtime_ns)
        return [
            json.loads(path.read_text(encoding="utf-8", errors="surrogatepass")) for path in found
        ]


def new_folder() -> Path:
    """Make a folder for one run, which nobody else may enter (`mkdtemp`: 0700)."""
    return Path(tempfile.mkdtemp(prefix="otel-cassette-run-"))


def write_run_file(settings: RunSettings, folder: Path) -> RunFile:
    """Write the run file into its folder, readable by us alone."""
    path = folder / _NAME
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(asdict(settings), stream)
    return RunFile(path, settings)


def load_trusted() -> RunFile | None:
    """Return the run file that the environment names, if it may be acted upon; else None."""
    name = os.environ.get(ENV_VAR)
    if not name:
        return None
    path = Path(name)
    try:
        if not (_is_ours(path, stat.S_ISREG) and _is_ours(path.parent, stat.S_ISDIR)):
            return None
        settings = RunSettings(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # gone, or written by another version: not our run
        return None
    if not is_alive(settings.parent_pid, settings.parent_started):
        return None
    return RunFile(path, settings)


def _is_ours(path: Path, is_kind: Any) -> bool:
    """Return whether *path* is of the kind, no link, and nobody else's to read or write."""
    facts = path.lstat()
    if not is_kind(facts.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # Windows: the temporary folder is the user's own
        return True
    return facts.st_uid == os.geteuid() and not facts.st_mode & _OTHERS


def started_at(pid: int) -> str:
    """Return when a process was started, as the system counts; empty where it does not say.

    Process ids are used again: with this, a later process is not taken for the command.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # proc(5): the second field is the name in brackets, which may hold blanks; `starttime` is the 22nd.
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def is_alive(pid: int, started: str = "") -> bool:
    """Return whether the process *pid* runs, and is the one that was started at *started*."""
    if pid <= 0:
        return False
    if sys.platform == "win32":
        return _is_alive_on_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # somebody else's: not the command that wrote our file
    return not started or started_at(pid) == started


def _is_alive_on_windows(pid: int) -> bool:
    import ctypes  # noqa: PLC0415 - only there

    # `os.kill(pid, 0)` ends a process on Windows. 0x1000: PROCESS_QUERY_LIMITED_INFORMATION; 259: STILL_ACTIVE.
    kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel.OpenProcess(0x1000, False, pid)  # noqa: FBT003 - a C function
    if not handle:
        return False
    code = ctypes.c_ulong()
    kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return code.value == 259
