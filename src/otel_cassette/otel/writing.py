"""A run as a cassette file in a directory.

Lives here: assembling, masking, the file's name, and that no other recording is overwritten. Not
here: when a run is written (`runs.py`), and how a file is (`document/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from otel_cassette.assemble import Assembly, assemble
from otel_cassette.document import FileClaim, write_atomically, write_lines
from otel_cassette.model.entry import CassetteHeader
from otel_cassette.model.span import LogRecord, SpanRecord
from otel_cassette.otel.source import mask_assembly
from otel_cassette.otel.take import SpanTake
from otel_cassette.redaction import Redactor
from otel_cassette.store import in_file_order

SUFFIX = ".jsonl"
_MAX_NAMES = 1000


def write_run(
    takes: Sequence[SpanTake], directory: Path, redactor: Redactor | None, known: Sequence[Path]
) -> tuple[Path | None, tuple[str, ...]]:
    """Write the cassette of one run.

    Args:
        takes: What its traces told.
        directory: Where the file goes.
        redactor: Rules in force; None for none.
        known: Files that hold earlier states of these traces: the first is replaced, the others go.

    Returns:
        Its path, None when it has no call; and what to do about calls that cannot be replayed.

    Raises:
        CassetteWriteError: It could not be written.
    """
    spans: list[SpanRecord] = []
    logs: list[LogRecord] = []
    for take in takes:
        spans += take.records()
        logs += take.logs
    assembly = assemble(spans, logs)
    path = write_assembly(assembly, directory, redactor, known[0] if known else None)
    for old in known[1:]:
        if old != path:
            old.unlink(missing_ok=True)
    lost = assembly.report.of("not_replayable")
    return path, tuple(line.remedy for line in lost if line.remedy)


def write_assembly(
    assembly: Assembly, directory: Path, redactor: Redactor | None, known: Path | None = None
) -> Path | None:
    """Write a cassette named by its trace id, or over *known*; None when there is no call."""
    if not assembly.entries and not assembly.nested and not assembly.failures:
        return None
    mask_assembly(assembly, redactor)
    metadata = assembly.metadata if redactor is None else redactor.json(assembly.metadata)
    header = CassetteHeader(
        metadata=metadata,
        redact=() if redactor is None else tuple(redactor.to_header()),
    )
    records = in_file_order(assembly.entries, assembly.nested, assembly.failures)
    path = known or free_path(directory, str(assembly.metadata.get("trace_id") or "run"))
    with FileClaim(path):
        write_atomically(path, write_lines(header, records, provenance=True))
    return path


def free_path(directory: Path, stem: str) -> Path:
    """Return a name that no file has: another process may have recorded its part of the trace."""
    for path in _names(directory, stem):
        if not path.exists():
            return path
    msg = f"{directory} has {_MAX_NAMES} files named {stem}-*{SUFFIX}; remove some"
    raise FileExistsError(msg)


def _names(directory: Path, stem: str) -> Iterable[Path]:
    yield directory / f"{stem}{SUFFIX}"
    for number in range(2, _MAX_NAMES):
        yield directory / f"{stem}-{number}{SUFFIX}"
