"""Cassette files on disk: read whole, written whole or not at all.

Lives here: reading, the atomic write, and the claim that keeps a second writer out. Not here: what
a line says (`lines.py`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from pydantic import ValidationError

from otel_cassette.document.legacy import LEGACY_FORMAT, LEGACY_VERSION, fixture_records, is_fixture
from otel_cassette.document.lines import LineReader, first_problem, parse_lines
from otel_cassette.errors import CassetteFormatError, CassetteWriteError
from otel_cassette.model.entry import (
    CASSETTE_FORMAT,
    CASSETTE_VERSION,
    CassetteEntry,
    CassetteFailure,
    CassetteHeader,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PathLike = str | os.PathLike[str]
MAX_FILE_BYTES = 4 * 1024**3


@dataclass(slots=True)
class Document:
    """A cassette file as it was read."""

    header: CassetteHeader
    records: list[CassetteEntry | CassetteFailure] = field(default_factory=list)


def read_document(path: PathLike) -> Document:
    """Read a cassette file of the current shape or one of the two older ones.

    Raises:
        FileNotFoundError: When there is no such file.
        CassetteFormatError: When it is no cassette; with path, line and reason.
    """
    data = Path(path).read_bytes()
    if not data.strip():
        reason = "the file is empty; an empty cassette has a header line. Record it again"
        raise CassetteFormatError(reason=reason, path=path)
    return parse_document(decode_utf8(data, path), path)


def decode_utf8(data: bytes, path: object | None) -> str:
    """Return *data* as text; a byte order mark is passed over."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; save the file as UTF-8"
        raise CassetteFormatError(reason=reason, path=path, line=line) from error


def parse_document(text: str, path: object | None = None) -> Document:
    """Return the document that *text* holds."""
    fixture = is_fixture(text)
    if fixture is not None:
        metadata, records = fixture_records(fixture, path)
        return Document(CassetteHeader(metadata=metadata), records)
    document = Document(CassetteHeader())
    reader = LineReader(path)
    for place, (number, value) in enumerate(parse_lines(text, path)):
        if place == 0 and isinstance(value, dict) and "format" in value and "kind" not in value:
            document.header = _header(value, path, number)
            continue
        document.records.append(reader.read(value, number))
    return document


def _header(value: dict[str, object], path: object | None, line: int) -> CassetteHeader:
    name, version = value.get("format"), value.get("version")
    if name == LEGACY_FORMAT and version == LEGACY_VERSION:
        rest = {k: v for k, v in value.items() if k not in ("format", "version", "normalisation")}
        return _checked_header(rest, path, line)
    if name != CASSETTE_FORMAT:
        reason = f"the header says format {name!r}; a cassette says {CASSETTE_FORMAT!r}"
        raise CassetteFormatError(reason=reason, path=path, line=line)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        reason = f"the header says version {version!r}; this package writes {CASSETTE_VERSION}"
        raise CassetteFormatError(reason=reason, path=path, line=line)
    if version > CASSETTE_VERSION:
        reason = (
            f"the file is of version {version}, this package reads up to {CASSETTE_VERSION}: "
            "install a newer one, pip install --upgrade otel-cassette"
        )
        raise CassetteFormatError(reason=reason, path=path, line=line)
    return _checked_header(value, path, line)


def _checked_header(value: dict[str, object], path: object | None, line: int) -> CassetteHeader:
    try:
        return CassetteHeader.model_validate(value)
    except ValidationError as error:
        reason = f"the header is damaged: {first_problem(error)}"
        raise CassetteFormatError(reason=reason, path=path, line=line) from error


class FileClaim:
    """Keeps other writers of the same cassette out while it is held.

    The lock stands in the temporary folder, not beside the cassette; it goes with the process.

    Raises:
        CassetteWriteError: On entering, when another process or thread holds the claim.
    """

    def __init__(self, path: PathLike) -> None:
        self._path = Path(path)
        name = hashlib.sha256(
            str(self._path.resolve()).encode("utf-8", "surrogateescape")
        ).hexdigest()
        user = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir()) / f"otel-cassette-{user}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CassetteWriteError(self._path, _no_claim(error, folder)) from error
        self._folder = folder
        self._lock = FileLock(folder / f"{name[:32]}.lock", timeout=0, thread_local=False)

    def __enter__(self) -> Self:
        try:
            self._lock.acquire()
        except Timeout as error:
            reason = (
                "another writer holds it (a second recording of the same cassette is under way); "
                "wait for it, or give each its own file"
            )
            raise CassetteWriteError(self._path, reason) from error
        except OSError as error:
            raise CassetteWriteError(self._path, _no_claim(error, self._folder)) from error
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


def _no_claim(error: OSError, folder: Path) -> str:
    text = error.strerror or str(error)
    return f"its claim cannot be held in {folder} ({text}); set TMPDIR to a folder of your own"


def write_atomically(path: PathLike, lines: Iterable[str]) -> None:
    """Write *lines* to *path*: to a temporary sibling first, renamed when it is whole and on disk.

    Raises:
        CassetteWriteError: When it cannot be written; the file that stood there is unchanged.
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    temporary: Path | None = None
    try:
        handle, temporary = _sibling(target)
        with os.fdopen(
            handle, "w", encoding="utf-8", newline="\n", errors="surrogatepass"
        ) as stream:
            for line in lines:
                stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode_of(target))
        temporary.replace(target)
    except OSError as error:
        _remove(temporary)
        raise CassetteWriteError(target, _why(error, target)) from error
    except ValueError as error:
        _remove(temporary)
        raise CassetteWriteError(target, f"an entry is no JSON: {error}") from error
    except BaseException:
        _remove(temporary)
        raise


def check_writable(path: PathLike) -> None:
    """See that `write_atomically` could write to *path*, before there is anything to write.

    Raises:
        CassetteWriteError: It could not.
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        handle, temporary = _sibling(target)
        os.close(handle)
        temporary.unlink()
    except OSError as error:
        raise CassetteWriteError(target, _why(error, target)) from error


def _sibling(target: Path) -> tuple[int, Path]:
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    return handle, Path(name)


def _mode_of(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _remove(temporary: Path | None) -> None:
    if temporary is not None:
        with suppress(OSError):  # the sibling is of no use to anybody; the first error counts
            temporary.unlink()


def _why(error: OSError, target: Path) -> str:
    text = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{text}; free some space, or save elsewhere"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{text}; the folder {target.parent} is not yours to write, choose another"
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST) or target.is_dir():
        return f"{text}; a folder or file stands in the way, choose another path"
    return text
