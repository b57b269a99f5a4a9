"""From what a caller gives to what can be read: files, bytes, objects, spans, whole runs.

A string or a path is a file, a directory or a glob, never content. Lists may mix everything.
"""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.base import Batch, JsonValue, ReadContext
from otel_cassette.formats.limits import MAX_FILES
from otel_cassette.formats.otlp_proto import read_object
from otel_cassette.formats.sdk import is_sdk_log, is_sdk_span, log_of, span_of
from otel_cassette.formats.unpack import Spool
from otel_cassette.model.span import LogRecord, SpanRecord, Trace

_PIECE_BYTES = 1 << 20
_WHAT = (
    "a path, a glob, a directory, a file object, bytes, a dict, an OTLP protobuf message, "
    "SDK spans, a Trace, or a list of these"
)


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A file by path; *chosen* is False if a directory or a glob brought it in."""

    path: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class BytesPiece:
    """Content that is at hand: a seekable file at its start."""

    handle: IO[bytes]
    label: str | None


Piece = FilePiece | BytesPiece | JsonValue | Batch | Trace


def pieces_of(source: Any, context: ReadContext) -> Iterator[Piece]:
    """Yield what *source* consists of.

    Raises:
        TypeError: It is nothing that can be read.
        FileNotFoundError: A path or a glob names nothing.
        CassetteFormatError: A protobuf message is no OTLP.
    """
    if isinstance(source, str | os.PathLike):
        yield from _files(os.fspath(source))
        return
    piece = _single(source, context)
    if piece is not None:
        yield piece
    elif isinstance(source, Iterable):
        for item in source:
            if isinstance(item, list | tuple | set):
                inner = f"cannot read traces from a list of {type(item).__name__}s: give {_WHAT}"
                raise TypeError(inner)
            yield from pieces_of(item, context)
    else:
        wrong = f"cannot read traces from {type(source).__name__}: give {_WHAT}"
        raise TypeError(wrong)


def _single(source: Any, context: ReadContext) -> Piece | None:
    """Return what *source* is by itself, or None if it is a list of things, or nothing."""
    if isinstance(source, Trace):
        return source
    if isinstance(source, SpanRecord):
        return Batch(spans=[source])
    if isinstance(source, LogRecord):
        return Batch(logs=[source])
    if isinstance(source, Mapping):
        return JsonValue(plain=dict(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return BytesPiece(io.BytesIO(bytes(source)), None)
    return _by_its_look(source, context)


def _by_its_look(source: Any, context: ReadContext) -> Piece | None:
    if hasattr(source, "read"):
        return _copied(source)
    if hasattr(source, "SerializeToString"):
        return _message(source, context)
    if is_sdk_span(source):
        span = span_of(source)
        return Batch(spans=[span]) if span is not None else Batch(unusable=1)
    if is_sdk_log(source):
        return Batch(logs=[log_of(source)])
    return None


def _files(name: str | bytes) -> Iterator[FilePiece]:
    path = os.fsdecode(name)
    place = Path(path)
    if place.is_dir():
        found = sorted(
            str(entry)
            for entry in place.iterdir()
            if entry.is_file() and not entry.name.startswith(".")
        )
        if not found:
            reason = "is a directory without files"
            raise CassetteFormatError(reason=reason, path=path)
    elif place.exists():
        yield FilePiece(path, chosen=True)
        return
    else:
        # Not Path.glob: a pattern may be absolute or start above the working directory.
        matches = glob.iglob(path, recursive=True)  # noqa: PTH207
        found = sorted(one for one in matches if Path(one).is_file())
        if not found:
            what = "no file matches" if glob.has_magic(path) else "no such file or directory"
            missing = f"{what}: {path!r}"
            raise FileNotFoundError(missing)
    if len(found) > MAX_FILES:
        reason = f"names more than {MAX_FILES} files"
        raise CassetteFormatError(reason=reason, path=path)
    for one in found:
        yield FilePiece(one, chosen=False)


def _copied(source: Any) -> BytesPiece:
    """Copy a file object, which its owner may close while spans are still looked at."""
    copy = Spool().file
    while piece := source.read(_PIECE_BYTES):
        copy.write(piece.encode("utf-8", "replace") if isinstance(piece, str) else piece)
    name = getattr(source, "name", None)
    return BytesPiece(copy, name if isinstance(name, str) else None)


def _message(message: Any, context: ReadContext) -> Batch:
    batch = read_object(message, context)
    if batch is None:
        msg = (
            f"a {type(message).__name__} message is no OTLP export with spans: give TracesData or "
            "ExportTraceServiceRequest"
        )
        raise CassetteFormatError(reason=msg)
    return batch
