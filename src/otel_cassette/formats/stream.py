"""Cuts plain content into the values it consists of, and says what could not be read where.

JSON: lines, one document, pretty-printed documents one after the other, and mixtures. A line that
is no value by itself costs a look ahead for the end of the value that starts there; a value that is
cut or damaged is left out with its place, and what stands before and after it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.limits import MAX_LOOKAHEADS, MAX_VALUE_BYTES
from otel_cassette.formats.unpack import Blob

BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[\[{]|[\]}]|"', re.DOTALL)
_SPACE = b" \t\r\n\x1e"
_LONG_LINE_BYTES = 1 << 14
_BLOCK_BYTES = 1 << 16
_START = re.compile(rb"[ \t\r\n\x1e]*[{\[]")

Take = Callable[[bytes, int], bool]
"""Takes the bytes of a value and their offset; False if they are no JSON value."""


class Damage:
    """Places that could not be read, neighbouring lines as one."""

    def __init__(self, label: str | None, unit: str = "line") -> None:
        self.label = label
        self.unit = unit
        self.places: list[list[int]] = []
        self.last_line = 0

    def add(self, line: int, offset: int) -> None:
        """Note that what stands in *line*, at byte *offset*, cannot be read."""
        if self.places and line <= self.places[-1][1] + 1:
            self.places[-1][1] = line
        else:
            self.places.append([line, line, offset])

    def texts(self) -> Iterator[str]:
        """Yield one sentence a place."""
        for first, last, offset in self.places:
            span = f"{self.unit} {first}" if first == last else f"{self.unit}s {first} to {last}"
            what = "cut" if last >= self.last_line else "damaged"
            where = f"{self.label}: " if self.label else ""
            yield f"{where}{span} (from byte {offset}) cannot be read, {what}; left out"


def each_json(blob: Blob, take: Take, take_lines: Take) -> Damage:
    """Hand every JSON value of *blob* to *take*, or blocks of whole lines to *take_lines*.

    Lines that *take_lines* refuses are handed on one by one.

    Raises:
        CassetteFormatError: A single value is greater than `MAX_VALUE_BYTES`.
    """
    damage = Damage(blob.label)
    handle = blob.open()
    try:
        reader = _LineReader(handle, blob, take, damage)
        while reader.position < blob.end:
            block = reader.block()
            if take_lines(block, reader.position):
                reader.position += len(block)
            else:
                reader.one_by_one(reader.position + len(block))
        if damage.places:
            damage.last_line = reader.line_at(max(blob.end - 1, blob.start))
    finally:
        if blob.path is not None:
            handle.close()
    return damage


class _LineReader:
    """Reads lines from a position on; one that is no value by itself may begin a longer value."""

    def __init__(self, handle: IO[bytes], blob: Blob, take: Take, damage: Damage) -> None:
        self.handle = handle
        self.blob = blob
        self.take = take
        self.damage = damage
        self.lookaheads = 0
        self.position = blob.start
        self._counted = (blob.start, 1)
        handle.seek(blob.start)
        if handle.read(len(BOM)) == BOM:
            self.position += len(BOM)

    def block(self) -> bytes:
        """Return one long line or several short ones from the position on."""
        self.handle.seek(self.position)
        left = self.blob.end - self.position
        block = self.handle.readline(min(left, MAX_VALUE_BYTES + 1))
        if len(block) > MAX_VALUE_BYTES:
            raise _too_long(self.blob, self.line_at(self.position))
        if len(block) < _LONG_LINE_BYTES and len(block) + _BLOCK_BYTES < left:
            more = self.handle.read(_BLOCK_BYTES)
            block += more[: more.rfind(b"\n") + 1]
        return block

    def one_by_one(self, end: int) -> None:
        """Hand on the lines from the position to *end*, and beyond where a value goes on."""
        while self.position < end:
            self.handle.seek(self.position)
            text = self.handle.readline(self.blob.end - self.position)
            value = text.strip(_SPACE)
            if value and not self.take(value, self.position + text.index(value[:1])):
                taken = 0
                # An indented line is the inside of a longer value, which is cut or damaged.
                if text.startswith((b"{", b"[")) and self.lookaheads < MAX_LOOKAHEADS:
                    self.lookaheads += 1
                    taken = _look_ahead(self.handle, self.position, self.blob, self.take)
                if taken:
                    self.lookaheads = 0
                    self.position += taken
                    continue
                self.damage.add(self.line_at(self.position), self.position)
            self.position += max(len(text), 1)

    def line_at(self, position: int) -> int:
        """Return the number of the line that *position* is in; asked for rising positions."""
        start, line = self._counted
        self.handle.seek(start)
        while start < position:
            piece = self.handle.read(min(_BLOCK_BYTES, position - start))
            if not piece:
                break
            line += piece.count(b"\n")
            start += len(piece)
        self._counted = (position, line)
        return line


def _look_ahead(handle: IO[bytes], position: int, blob: Blob, take: Take) -> int:
    """Hand on the values that start at *position* over several lines; return their length in bytes."""
    handle.seek(position)
    rest = handle.read(min(blob.end - position, MAX_VALUE_BYTES))
    done = 0
    while True:
        found = _START.match(rest, done)
        if found is None:
            return done
        start = found.end() - 1
        end = value_end(rest, start)
        if end is None or not take(rest[start:end], position + start):
            return done
        newline = rest.find(b"\n", end)
        line_end = len(rest) if newline < 0 else newline + 1
        done = line_end if not rest[end:line_end].strip(_SPACE) else end


def value_end(text: bytes, start: int) -> int | None:
    """Return where the object or array that starts at *start* ends, or None if it does not.

    Only brackets and strings are looked at, so the value need not be JSON; a string never goes
    over a line break.
    """
    depth = 0
    for token in _TOKEN.finditer(text, start):
        first = text[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth <= 0:
                return token.end()
        elif token.end() - token.start() == 1:
            return None
    return None


def each_message(blob: Blob, take: Take) -> Damage:
    """Hand every message of `[u32 big-endian length][protobuf]...` to *take*; the last may be cut."""
    damage = Damage(blob.label, "message")
    handle = blob.open()
    try:
        position, number = blob.start, 0
        handle.seek(position)
        while position < blob.end:
            number += 1
            prefix = handle.read(4)
            length = int.from_bytes(prefix, "big")
            if len(prefix) < 4 or length > blob.end - position - 4:
                damage.add(number, position)
                break
            if length > MAX_VALUE_BYTES:
                raise _too_long(blob, None)
            message = handle.read(length)
            if message and not take(message, position + 4):
                damage.add(number, position)
            position += 4 + length
        damage.last_line = number
    finally:
        if blob.path is not None:
            handle.close()
    return damage


def _too_long(blob: Blob, line: int | None) -> CassetteFormatError:
    return CassetteFormatError(
        reason=f"holds one value of more than {MAX_VALUE_BYTES >> 20} MiB; export in smaller batches",
        path=blob.label,
        line=line,
    )
