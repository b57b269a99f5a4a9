"""From files and bytes to plain content: gzip, zstd and the Collector's framings taken off.

Told by content, never by name. What comes out is a `Blob`: a stretch of a file with JSON text,
length-prefixed protobuf messages, or one protobuf message. How those are cut is in `stream.py`.
"""

from __future__ import annotations

import codecs
import re
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.limits import (
    IN_MEMORY_BYTES,
    MAX_RATIO,
    MAX_UNPACKED_BYTES,
    MAX_VALUE_BYTES,
    RATIO_FREE_BYTES,
)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 1 << 20
_LAYER_BYTES = 4 << 20
_MAX_LAYERS = 3
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"PAR1", "a Parquet file; export the trace as OTLP JSON instead"),
    (b"SQLite format 3", "a SQLite database; export the trace as OTLP JSON instead"),
    (b"LOGFIRE BACKUP FILE", "a Logfire backup file; export the trace as OTLP JSON instead"),
    (b"BZh", "bzip2; unpack it first"),
    (b"\xfd7zXZ\x00", "xz; unpack it first"),
)

Kind = Literal["json", "frames", "proto"]


@dataclass(slots=True)
class Blob:
    """Plain content between two offsets of a file that is reached by path or held open."""

    kind: Kind
    start: int
    end: int
    label: str | None
    path: str | None = None
    handle: IO[bytes] | None = None

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.end - self.start

    def open(self) -> IO[bytes]:
        """Return the file, to be closed by the caller only if `path` is set."""
        if self.handle is not None:
            return self.handle
        if self.path is None:
            msg = "a blob without a file"
            raise CassetteFormatError(reason=msg, path=self.label)
        return Path(self.path).open("rb", buffering=_PIECE_BYTES)


class _OwnFile(tempfile.SpooledTemporaryFile[bytes]):
    """Closed with the last span that could be read from it, so that nobody has to close it."""

    def __del__(self) -> None:
        self.close()


class Spool:
    """One temporary file for everything that had to be unpacked, in memory while it is small."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self.file: IO[bytes] = _OwnFile(max_size=in_memory_bytes)

    def add(
        self, pieces: Iterable[bytes], *, packed_bytes: int | None, label: str | None
    ) -> tuple[int, int]:
        """Append *pieces* and return where they lie.

        Raises:
            CassetteFormatError: They grow beyond what an honest source unpacks to.
        """
        start = self.file.seek(0, 2)
        written = 0
        for piece in pieces:
            written += len(piece)
            if (
                packed_bytes is not None
                and written > RATIO_FREE_BYTES
                and written > MAX_RATIO * packed_bytes
            ):
                msg = f"unpacks to more than {MAX_RATIO} times its size, as no trace does; not read further"
                raise CassetteFormatError(
                    reason=msg,
                    path=label,
                )
            if written > MAX_UNPACKED_BYTES:
                msg = f"unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB; split it first"
                raise CassetteFormatError(
                    reason=msg,
                    path=label,
                )
            self.file.write(piece)
        return start, start + written


def unpack(
    handle: IO[bytes], *, path: str | None, label: str | None, spool: Spool, warnings: list[str]
) -> Blob | None:
    """Return the plain content of *handle* (at its start), or None if there is none at all.

    Raises:
        CassetteFormatError: It is packed in a way that cannot be undone here, or is no text and no
            protobuf either.
    """
    with ExitStack() as layers:
        return _unpack(handle, path, label, spool, warnings, layers)


def _unpack(
    handle: IO[bytes],
    path: str | None,
    label: str | None,
    spool: Spool,
    warnings: list[str],
    layers: ExitStack,
) -> Blob | None:
    end = handle.seek(0, 2)
    packed_in = 0
    while packed_in <= _MAX_LAYERS:
        handle.seek(0)
        head = handle.read(min(512, end))
        if not head:
            return None
        pieces = _unpacked(handle, head, end, label, warnings)
        if pieces is None:
            kind = _kind_of(head, label)
            if not packed_in:
                return Blob(kind, 0, end, label, path, handle if path is None else None)
            start, end = spool.add(_pieces(handle, end), packed_bytes=None, label=label)
            return Blob(kind, start, end, label, None, spool.file)
        # A file of its own while there may be another layer: a pass reads while it writes.
        layer = Spool(_LAYER_BYTES)
        layers.callback(layer.file.close)
        _, end = layer.add(pieces, packed_bytes=end, label=label)
        handle = layer.file
        packed_in += 1
    reason = f"is packed more than {_MAX_LAYERS} times over"
    raise CassetteFormatError(reason=reason, path=label)


def _unpacked(
    handle: IO[bytes], head: bytes, end: int, label: str | None, warnings: list[str]
) -> Iterator[bytes] | None:
    """Return what is inside the outermost packing, or None if there is none."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _from_utf16(handle, end)
    if head.startswith(GZIP_MAGIC):
        return _gunzip(handle, end, label, warnings)
    if head.startswith(ZSTD_MAGIC):
        return _unzstd(handle, end, label, warnings)
    if head[4:8] == ZSTD_MAGIC:
        return _unframe_zstd(handle, end, label, warnings)
    return None


def _kind_of(head: bytes, label: str | None) -> Kind:
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            msg = f"is {what}"
            raise CassetteFormatError(reason=msg, path=label)
    if not _CONTROL.search(head):
        return "json"
    if head[0] == 0x0A:
        return "proto"
    if len(head) > 4 and head[4] == 0x0A and 0 < int.from_bytes(head[:4], "big") <= MAX_VALUE_BYTES:
        return "frames"
    msg = (
        "is neither JSON nor OTLP protobuf (plain, length-prefixed, gzip or zstd); "
        f"it starts with the bytes {head[:8].hex(' ')}"
    )
    raise CassetteFormatError(
        reason=msg,
        path=label,
    )


def _gunzip(handle: IO[bytes], end: int, label: str | None, warnings: list[str]) -> Iterator[bytes]:
    handle.seek(0)
    unpacker = zlib.decompressobj(31)
    packed = b""
    finished = False
    while True:
        if not packed:
            packed = handle.read(min(_PIECE_BYTES, end - handle.tell()))
            if not packed:
                break
        try:
            piece = unpacker.decompress(packed, _PIECE_BYTES)
        except zlib.error as error:
            warnings.append(
                f"{label or 'source'}: gzip is damaged ({error}); what comes before is kept"
            )
            return
        packed = unpacker.unconsumed_tail
        if piece:
            yield piece
        finished = unpacker.eof
        if finished:
            packed = unpacker.unused_data.lstrip(b"\0")
            unpacker = zlib.decompressobj(31)
    if not finished:
        rest = unpacker.flush()
        if rest:
            yield rest
        warnings.append(f"{label or 'source'}: gzip ends in the middle; what comes before is kept")


def _zstandard(label: str | None) -> Any:
    try:
        import zstandard  # noqa: PLC0415 - optional extra
    except ImportError:
        msg = "is compressed with zstd; install the extra that reads it: pip install 'otel-cassette[zstd]'"
        raise CassetteFormatError(
            reason=msg,
            path=label,
        ) from None
    return zstandard


def _unzstd(handle: IO[bytes], end: int, label: str | None, warnings: list[str]) -> Iterator[bytes]:
    del end
    zstandard = _zstandard(label)
    handle.seek(0)
    reader = zstandard.ZstdDecompressor().stream_reader(
        handle, read_across_frames=True, closefd=False
    )
    try:
        while piece := reader.read(_PIECE_BYTES):
            yield piece
    except zstandard.ZstdError as error:
        warnings.append(
            f"{label or 'source'}: zstd is damaged ({error}); what comes before is kept"
        )


def _unframe_zstd(
    handle: IO[bytes], end: int, label: str | None, warnings: list[str]
) -> Iterator[bytes]:
    """Yield the messages of `[u32 big-endian length][zstd frame]...`, what the Collector writes.

    JSON messages come out as lines, protobuf ones behind their length.
    """
    zstandard = _zstandard(label)
    handle.seek(0)
    position = 0
    while position < end:
        prefix = handle.read(4)
        length = int.from_bytes(prefix, "big")
        if len(prefix) < 4 or length > end - position - 4:
            warnings.append(
                f"{label or 'source'}: the message at byte {position} is cut and left out"
            )
            return
        frame = handle.read(length)
        position += 4 + length
        message = bytearray()
        try:
            reader = zstandard.ZstdDecompressor().stream_reader(frame)
            while piece := reader.read(_PIECE_BYTES):
                message += piece
                if (
                    len(message) > MAX_VALUE_BYTES
                    or len(message) > RATIO_FREE_BYTES + MAX_RATIO * length
                ):
                    msg = f"the message at byte {position} unpacks beyond any honest size"
                    raise CassetteFormatError(reason=msg, path=label)
        except zstandard.ZstdError as error:
            warnings.append(
                f"{label or 'source'}: the message before byte {position} is damaged ({error}) and left out"
            )
            continue
        if message.startswith((b"{", b"[")):
            yield bytes(message) + b"\n"
        elif message:
            yield struct.pack(">I", len(message)) + bytes(message)


def _pieces(handle: IO[bytes], end: int) -> Iterator[bytes]:
    handle.seek(0)
    while piece := handle.read(min(_PIECE_BYTES, end - handle.tell())):
        yield piece


def _from_utf16(handle: IO[bytes], end: int) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for piece in _pieces(handle, end):
        yield decoder.decode(piece).encode("utf-8", "replace")
