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
    if isinstance(source, Trace):
        yield source
    elif isinstance(source, SpanRecord):
        yield Batch(spans=[source])
    elif isinstance(source, LogRecord):
        yield Batch(logs=[source])
    elif isinstance(source, Mapping):
        yield JsonValue(plain=dict(source))
    elif isinstance(source, bytes | bytearray | memoryview):
        yield BytesPiece(io.BytesIO(bytes(source)), None)
    elif isinstance(source, str | os.PathLike):
        yield from _files(os.fspath(source))
    elif hasattr(source, "read"):
        yield _copied(source)
    elif hasattr(source, "SerializeToString"):
        yield _message(source, context)
    elif is_sdk_span(source):
        span = span_of(source)
        yield Batch(spans=[span]) if span is not None else Batch(unusable=1)
    elif is_sdk_log(source):
        yield Batch(logs=[log_of(source)])
    elif isinstance(source, Iterable):
        for item in source:
            if isinstance(item, list | tuple | set):
                raise TypeError(f"cannot read traces from a list of {type(item).__name__}: give {_WHAT}")
            yield from pieces_of(item, context)
    else:
        raise TypeError(f"cannot read traces from {type(source).__name__}: give {_WHAT}")


def _files(name: str | bytes) -> Iterator[FilePiece]:
    path = os.fsdecode(name)
    if os.path.isdir(path):
        found = sorted(
            str(entry) for entry in Path(path).iterdir() if entry.is_file() and not entry.name.startswith(".")
        )
        if not found:
            raise CassetteFormatError("is a directory without files", path=path)
    elif os.path.exists(path):
        yield FilePiece(path, chosen=True)
        return
    else:
        found = sorted(one for one in glob.glob(path, recursive=True) if os.path.isfile(one))
        if not found:
            what = "no file matches" if glob.has_magic(path) else "no such file or directory"
            raise FileNotFoundError(f"{what}: {path!r}")
    if len(found) > MAX_FILES:
        raise CassetteFormatError(f"names more than {MAX_FILES} files", path=path)
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
        raise CassetteFormatError(
            f"a {type(message).__name__} message is no OTLP export with spans: give TracesData or "
            "ExportTraceServiceRequest"
        )
    return batch
