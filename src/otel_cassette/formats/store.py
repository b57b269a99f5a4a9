"""The chunks of a source (a JSON value or a protobuf message each), decoded once or again on demand.

Small sources are decoded once and kept. Of greater ones only the place of each chunk is kept;
spans of a run are made when the run is asked for, and their contents are read when looked at.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import msgspec

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.base import Batch, JsonValue, ReadContext
from otel_cassette.formats.limits import CACHE_BYTES
from otel_cassette.formats.otlp_proto import read_message
from otel_cassette.formats.registry import FORMATS
from otel_cassette.formats.shapes import Shape, recognise
from otel_cassette.formats.stream import Damage, each_json, each_message
from otel_cassette.formats.unpack import Blob, Spool
from otel_cassette.model.span import SpanEvent, SpanRecord

_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SAMPLE = 5
_GIVE_UP_AFTER = 100
_MAX_TEXTS = 10_000


class _ForeignError(Exception):
    """Enough values of a shape that cannot be read, and none that can."""


class Findings:
    """What a source turned out to hold besides spans, for warnings and for the error if there are none."""

    def __init__(self) -> None:
        self.read: int = 0
        self.spans: int = 0
        self.unusable: int = 0
        self.signals: frozenset[str] | set[str] = frozenset()
        self.shapes: dict[str, Shape] = {}
        self.shaped: int = 0
        self.unknown: list[str] = []
        self.unknowns: int = 0

    def take(self, batch: Batch) -> None:
        """Count in a batch of a shape that can be read."""
        self.read += 1
        self.spans += len(batch.spans)
        self.unusable += batch.unusable
        self.signals |= batch.signals

    def refuse(self, value: Any) -> None:
        """Count in a value that is of no shape that can be read."""
        shape = recognise(value)
        if shape is not None:
            self.shapes.setdefault(shape.what, shape)
            self.shaped += 1
            return
        self.unknowns += 1
        if len(self.unknown) < _SAMPLE:
            self.unknown.append(_described(value))

    def refusal(self) -> str | None:
        """Return what else than readable values there was, as a reason; None if there was nothing."""
        if self.shapes:
            shape = next(iter(self.shapes.values()))
            return f"looks like {shape.what}, which cannot be read; {shape.advice}"
        if self.unknowns:
            return f"{self.unknowns} JSON values of no known trace format ({'; '.join(dict.fromkeys(self.unknown))})"
        return None


class ChunkStore:
    """Chunks by number; `scan` finds them, `batch` decodes one again."""

    def __init__(self, context: ReadContext) -> None:
        self.context = context
        self.blobs: list[Blob] = []
        self.findings: Findings = Findings()
        self._blob: array[int] = array("L")
        self._offset: array[int] = array("Q")
        self._size: array[int] = array("Q")
        self._cache: OrderedDict[int, Batch] = OrderedDict()
        self._cached_bytes = 0
        self._open: tuple[Blob, IO[bytes]] | None = None
        self.spool: Spool = Spool()
        self.texts: dict[str, str] = {}

    def __del__(self) -> None:
        # Spans of a great source hold the store; when the last is gone, its files are.
        self.spool.file.close()
        if self._open is not None:
            self._open[1].close()
        for blob in self.blobs:
            if blob.handle is not None:
                blob.handle.close()

    def scan(self, blob: Blob, sink: Callable[[Batch, int], None]) -> Damage:
        """Read *blob* through, giving each batch with its chunk's number to *sink*."""
        number = len(self.blobs)
        self.blobs.append(blob)

        def take(raw: bytes, offset: int) -> bool:
            return keep(self._decode(raw, blob, self.findings), raw, offset)

        def take_lines(raw: bytes, offset: int) -> bool:
            return keep(read_lines(raw, self.context, self.findings), raw, offset)

        def keep(batch: Batch | None, raw: bytes, offset: int) -> bool:
            if batch is None:
                return False
            if not batch.spans and not batch.logs:
                if not self.findings.read and self.findings.shaped > _GIVE_UP_AFTER:
                    raise _ForeignError
                return True
            self._blob.append(number)
            self._offset.append(offset)
            self._size.append(len(raw))
            sink(batch, len(self._size) - 1)
            return True

        if blob.kind == "json":
            try:
                return each_json(blob, take, take_lines)
            except _ForeignError:
                return Damage(blob.label)
        if blob.kind == "frames":
            return each_message(blob, take)
        damage = Damage(blob.label, "message")
        if not take(self._bytes(blob, blob.start, blob.size), blob.start):
            damage.add(1, blob.start)
        return damage

    def batch(self, chunk: int) -> Batch:
        """Return chunk number *chunk*, decoded (again).

        Raises:
            CassetteFormatError: The file is not what it was when it was first read.
        """
        found = self._cache.get(chunk)
        if found is not None:
            self._cache.move_to_end(chunk)
            return found
        blob = self.blobs[self._blob[chunk]]
        size = self._size[chunk]
        raw = self._bytes(blob, self._offset[chunk], size)
        batch = self._decode(raw, blob, Findings(), again=True) if len(raw) == size else None
        if batch is None:
            raise _changed(blob)
        self._cache[chunk] = batch
        self._cached_bytes += size
        while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
            old, _ = self._cache.popitem(last=False)
            self._cached_bytes -= self._size[old]
        return batch

    def span(self, chunk: int, place: int, span_id: str) -> SpanRecord:
        """Return one span of a chunk.

        Raises:
            CassetteFormatError: The file is not what it was when it was first read.
        """
        spans = self.batch(chunk).spans
        if place >= len(spans) or spans[place].span_id != span_id:
            raise _changed(self.blobs[self._blob[chunk]])
        return spans[place]

    def _bytes(self, blob: Blob, offset: int, size: int) -> bytes:
        if self._open is None or self._open[0] is not blob:
            if self._open is not None and self._open[0].path is not None:
                self._open[1].close()
            self._open = (blob, blob.open())
        handle = self._open[1]
        handle.seek(offset)
        return handle.read(size)

    def _decode(
        self, raw: bytes, blob: Blob, findings: Findings, *, again: bool = False
    ) -> Batch | None:
        if blob.kind != "json":
            batch = read_message(raw, self.context)
            if batch is not None:
                findings.take(batch)
            return batch
        # In the first pass lines come in blocks first; here a block must be told from a value.
        lines = read_lines(raw, self.context, findings) if again else None
        if lines is not None:
            return lines
        try:
            return read_json(JsonValue(raw), self.context, findings)
        except (ValueError, RecursionError) as error:
            if isinstance(error, CassetteFormatError):
                raise
            return None


def read_lines(lines: bytes, context: ReadContext, findings: Findings) -> Batch | None:
    """Return what a block of lines holds, or None if no shape takes all of them at once."""
    for shape in FORMATS:
        batch = shape.read_lines(lines, context)
        if batch is not None:
            findings.take(batch)
            return batch
    return None


def read_json(value: JsonValue, context: ReadContext, findings: Findings) -> Batch:
    """Return what one JSON value holds; of an array, what its items hold.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is nested too deeply.
    """
    raw = value.raw
    if raw is not None and raw[:1] == b"[":
        try:
            items = [JsonValue(bytes(item)) for item in _decode_array(raw)]
        except msgspec.MsgspecError:
            items = [JsonValue(plain=item) for item in value.plain]
    elif raw is None and isinstance(value.plain, list):
        items = [JsonValue(plain=item) for item in value.plain]
    else:
        return _read_one(value, context, findings)
    whole = Batch(session_hint=False)
    for item in items:
        batch = _read_one(item, context, findings)
        whole.spans += batch.spans
        whole.logs += batch.logs
        whole.unusable += batch.unusable
        whole.signals |= batch.signals
        whole.session_hint |= batch.session_hint
    return whole


def _read_one(value: JsonValue, context: ReadContext, findings: Findings) -> Batch:
    for shape in FORMATS:
        batch = shape.read(value, context)
        if batch is not None:
            findings.take(batch)
            return batch
    findings.refuse(value.plain)
    return Batch(session_hint=False)


class StoredSpan(SpanRecord):
    """A span of a great source: what it holds is read from its chunk when it is looked at."""

    __slots__ = ("_chunk", "_place", "_store")

    def __init__(self, span: SpanRecord, store: ChunkStore, chunk: int, place: int) -> None:
        for name in _SKELETON:
            setattr(self, name, getattr(span, name))
        # Half of what a span takes are texts that others have too.
        same = store.texts
        self.trace_id: str = same.setdefault(span.trace_id, span.trace_id)
        self.name: str = same.setdefault(span.name, span.name)
        if span.parent_span_id is not None:
            self.parent_span_id: str = same.setdefault(span.parent_span_id, span.parent_span_id)
        if len(same) > _MAX_TEXTS:
            same.clear()
        self._store, self._chunk, self._place = store, chunk, place

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by key, read at each look that the store's cache does not know."""
        return self._store.span(self._chunk, self._place, self.span_id).attributes

    @property
    def events(self) -> Sequence[SpanEvent]:
        """Events in the order they were written."""
        return self._store.span(self._chunk, self._place, self.span_id).events

    def may_hold(self, *texts: bytes) -> bool:
        """Return False only if surely none of *texts* stands in an attribute key or value."""
        return self._store.span(self._chunk, self._place, self.span_id).may_hold(*texts)


_SKELETON = tuple(name for name in SpanRecord.__slots__ if not name.startswith("_"))
"""What of a span is kept: everything but its contents."""


def _described(value: Any) -> str:
    if isinstance(value, dict):
        keys = ", ".join(repr(str(key)[:40]) for key in list(value)[:6])
        return f"an object with {keys or 'no keys'}"
    return f"a {type(value).__name__}"


def _changed(blob: Blob) -> CassetteFormatError:
    return CassetteFormatError(
        reason="changed while it was being read; read a copy of it, or a file nobody writes to any more",
        path=blob.label,
    )
