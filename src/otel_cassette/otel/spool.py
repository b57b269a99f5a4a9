"""A recording on disk while it is made: an append-only file that outlives its process.

Lives here: the file's name, its lines and the lock that tells a living writer from a dead one. Not
here: what becomes of a file that was left behind (`recover.py`).

The first line says what the recording is (`header`) and where it was to go (`target`). After it
comes one line a finished call or skeleton: OTLP JSON for spans and log records, `{"call": ...}` for
what a wrapper recorded. Lines are written whole and unbuffered, so that a killed process loses at
most the line it was writing.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: an open file cannot be renamed there, which tells as much
    fcntl = None  # type: ignore[assignment]

SPOOL_FORMAT = "otel-cassette-spool"
SPOOL_VERSION = 1
SUFFIX = ".spool"
_TRACE_ID = re.compile(rb'"traceId":"([0-9a-f]{32})"')
DIRECTORY_TARGET = "runs"
"""Target of a spool that stands for all runs in its directory, not for one file."""
_CLAIMED = ".recovering"


class Spool:
    """One spool file, made when the first line is written.

    Args:
        target: The cassette file it stands for; the spool lies beside it.
        header: Header of the cassette as JSON.

    Attributes:
        path: The file; None before the first line.
        bytes_written: How much was written, header included.
    """

    def __init__(self, target: Path, header: dict[str, Any]) -> None:
        self.target = target
        self.path: Path | None = None
        self.bytes_written: int = 0
        self._header = header
        self._fd = -1
        self._closed = False
        self._lock = threading.Lock()

    def write(self, lines: bytes) -> None:
        """Append whole lines; they are the system's when this returns.

        Raises:
            OSError: The file could not be made or written, or the spool is closed.
        """
        with self._lock:
            if self._fd < 0:
                self._open()
            self._append(lines)

    def _open(self) -> None:
        if self._closed:
            msg = f"the spool of {self.target} is closed"
            raise OSError(msg)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        name = f".{self.target.name}.{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        path = self.target.parent / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._fd = os.open(path, flags, 0o600)
        self.path = path
        if fcntl is not None:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        head = {
            "format": SPOOL_FORMAT,
            "version": SPOOL_VERSION,
            "target": self.target.name,
            "pid": os.getpid(),
            "header": self._header,
        }
        self._append(json.dumps(head, ensure_ascii=False).encode() + b"\n")

    def _append(self, lines: bytes) -> None:
        view = memoryview(lines)
        while view:
            view = view[os.write(self._fd, view) :]
        self.bytes_written += len(lines)

    def write_call(self, call: dict[str, Any]) -> None:
        """Append a call that a wrapper recorded.

        Raises:
            OSError: As `write`.
        """
        text = json.dumps({"call": call}, ensure_ascii=False, separators=(",", ":"))
        self.write(text.encode("utf-8", "surrogatepass") + b"\n")

    def close(self, *, remove: bool) -> None:
        """Close the file; *remove* it where its cassette was written."""
        with self._lock:
            fd, self._fd = self._fd, -1
            self._closed = True
        if fd >= 0:
            os.close(fd)
        if remove and self.path is not None:
            self.path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Let go of the file in a forked process, which gets one of its own with its first line."""
        self._lock = threading.Lock()
        fd, self._fd = self._fd, -1
        self.path, self.bytes_written = None, 0
        if fd >= 0:
            os.close(fd)


@dataclass(slots=True)
class SpoolContent:
    """What a spool file holds.

    Attributes:
        path: The file.
        target: The cassette file it stood for.
        header: Header of that cassette as JSON.
        otlp: Its lines of OTLP JSON: spans and log records, less those of traces whose cassette was
            written.
        calls: What wrappers recorded, in the order they finished.
        cut: Bytes of a last line that was not written whole.
    """

    path: Path
    target: Path
    header: dict[str, Any]
    otlp: list[bytes] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    cut: int = 0


def is_spool(path: Path) -> bool:
    """Return whether *path* is named like a spool file."""
    return path.name.startswith(".") and path.name.endswith((SUFFIX, SUFFIX + _CLAIMED))


def spools_in(directory: Path) -> list[Path]:
    """Return the spool files in *directory*, whoever writes them."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if is_spool(path) and path.is_file())


def target_of(path: Path) -> Path:
    """Return the file a spool stands for: `.NAME.PID-RANDOM.spool` stands for `NAME`."""
    return path.parent / path.name[1:].rsplit(SUFFIX, 1)[0].rpartition(".")[0]


def spools_of(target: Path) -> list[Path]:
    """Return the spool files that stand for the cassette *target*, whoever writes them."""
    return [path for path in spools_in(target.parent) if target_of(path).name == target.name]


class Claimed:
    """Spool files that were left behind, held against others that would recover them too."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths: list[Path] = []
        self.busy: list[Path] = []
        self._fds: list[int] = []
        for path in paths:
            (self.paths if self._claim(path) else self.busy).append(path)
        self.paths = [_claimed_name(path) for path in self.paths]

    def _claim(self, path: Path) -> bool:
        try:
            if fcntl is None:
                path.rename(_claimed_name(path))
                return True
            fd = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.rename(_claimed_name(path))
        except OSError:
            os.close(fd)
            return False
        self._fds.append(fd)
        return True

    def release(self, *, remove: bool) -> None:
        """Let go of the files; *remove* those whose cassettes were written."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        if remove:
            for path in self.paths:
                path.unlink(missing_ok=True)


def _claimed_name(path: Path) -> Path:
    return path if path.name.endswith(_CLAIMED) else path.with_name(path.name + _CLAIMED)


def read_spool(path: Path) -> SpoolContent | None:
    """Return what a spool file holds; None when not even its first line was written whole."""
    data = path.read_bytes()
    lines = data.split(b"\n")
    last = lines.pop()  # empty, unless the writer was killed in the middle of a line
    if not lines:
        return None
    head = json.loads(lines[0])
    if head.get("format") != SPOOL_FORMAT:
        return None
    target = path.parent / Path(str(head["target"])).name
    content = SpoolContent(path, target, head.get("header") or {}, cut=len(last))
    for line in lines[1:]:
        if line.startswith(b'{"call":'):
            content.calls.append(json.loads(line)["call"])
        elif line.startswith(b'{"written":'):
            done = {trace_id.encode() for trace_id in json.loads(line)["written"]}
            content.otlp = [one for one in content.otlp if _trace_id(one) not in done]
        elif line:
            content.otlp.append(line)
    return content


def _trace_id(line: bytes) -> bytes:
    # Quotes inside of JSON strings are escaped, so this is the span's or log record's own member.
    found = _TRACE_ID.search(line)
    return found.group(1) if found else b""
