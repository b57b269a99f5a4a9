"""`recover`: cassettes out of what a killed process left behind.

Lives here: which spool files are nobody's any more, and what they become. Not here: their lines
(`spool.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_cassette.assemble import assemble
from otel_cassette.document import FileClaim, read_document, write_atomically, write_lines
from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats import read_traces
from otel_cassette.model.entry import (
    CassetteHeader,
    EntrySource,
    RecordedFailure,
    parent_ref,
)
from otel_cassette.model.span import Trace
from otel_cassette.otel.joining import TicketFacts
from otel_cassette.otel.source import CassetteSource
from otel_cassette.otel.spool import (
    DIRECTORY_TARGET,
    Claimed,
    SpoolContent,
    is_spool,
    read_spool,
    spools_in,
    spools_of,
    target_of,
)
from otel_cassette.otel.writing import free_path, write_assembly
from otel_cassette.redaction import Redactor
from otel_cassette.store import Journal, Ticket, in_file_order

_logger = logging.getLogger("otel_cassette")


def recover(source: str | os.PathLike[str]) -> list[Path]:
    """Make cassettes of recordings whose process died, and return their paths.

    Every call that had finished is in them. A spool goes once its cassette is written; one that a
    living process writes is left alone. A cassette that stands in the place of a recovered one is
    not overwritten: the new file is named `NAME-2`.

    Args:
        source: A directory (its own files, not those below), the cassette file that was to be
            written, or a spool file.

    Raises:
        FileNotFoundError: There is no such directory or recording.
        CassetteFormatError: A spool is damaged; it stays.
        CassetteWriteError: A cassette could not be written; its spool stays.
    """
    path = Path(source)
    if is_spool(path):
        found = [path]
    elif path.is_dir():
        found = spools_in(path)
    else:
        found = spools_of(path)
        if not found and not path.exists():
            msg = f"{path}: neither a directory, nor a recording that was left behind"
            raise FileNotFoundError(msg)
    return _recover_all(found)


def recover_missing(path: str | os.PathLike[str]) -> bool:
    """Recover the cassette *path* if there is none but a recording that was left behind; say so."""
    target = Path(path)
    if target.exists() or not spools_of(target):
        return False
    found = recover(target)
    if found:
        _logger.warning(
            "%s was never saved: its process died. It was recovered from what had finished", target
        )
    return bool(found)


def _recover_all(found: Iterable[Path]) -> list[Path]:
    written: list[Path] = []
    by_target: dict[Path, list[Path]] = {}
    for path in found:
        by_target.setdefault(target_of(path), []).append(path)
    for target, paths in sorted(by_target.items()):
        claimed = Claimed(paths)
        for busy in claimed.busy:
            _logger.info("%s belongs to a living process and was left alone", busy)
        try:
            contents = [c for c in map(_read, claimed.paths) if c is not None]
            written += _write(target, contents)
        except BaseException:
            claimed.release(remove=False)
            raise
        claimed.release(remove=True)
    return written


def _read(path: Path) -> SpoolContent | None:
    try:
        return read_spool(path)
    except (ValueError, KeyError, TypeError) as error:
        reason = (
            f"the spool is damaged: {error}; its undamaged lines are JSON and can be saved by hand"
        )
        raise CassetteFormatError(path, reason=reason) from error


def _write(target: Path, contents: list[SpoolContent]) -> list[Path]:
    if target.name == DIRECTORY_TARGET:
        return _write_runs(target.parent, contents)
    written = [_write_cassette(target, content) for content in contents]
    return [path for path in written if path is not None]


def _write_runs(directory: Path, contents: list[SpoolContent]) -> list[Path]:
    lines = [line for content in contents for line in content.otlp]
    if not lines:
        return []
    redactor = _redactor(contents[0].header)
    written = []
    for trace in read_traces(b"\n".join(lines)):
        assembly = assemble(trace.spans, trace.logs)
        earlier = directory / f"{assembly.metadata.get('trace_id')}.jsonl"
        known = earlier if _holds_less(earlier, len(assembly.entries)) else None
        path = write_assembly(assembly, directory, redactor, known)
        if path is not None:
            written.append(path)
    return written


def _holds_less(path: Path, count: int) -> bool:
    """Return whether *path* is an earlier state of the same run: a late span had opened it again."""
    if not path.is_file():
        return False
    document = read_document(path)
    return sum(getattr(r, "index", None) is not None for r in document.records) <= count


def _write_cassette(target: Path, content: SpoolContent) -> Path | None:
    redactor = _redactor(content.header)
    journal = Journal()
    source = CassetteSource.of(journal, redactor)
    tickets = _tickets(content.calls)
    for call in content.calls:  # a call that was tried again has a line for each try
        record = _record(call["record"])
        failed = bool(record.pop("failed", False))
        (journal.fail if failed else journal.succeed)(tickets[call["number"]], record)
    if content.otlp:
        (trace,) = read_traces(b"\n".join(content.otlp), merge=True)
        _add(source, trace)
    for call in content.calls:
        source.facts[call["number"]] = TicketFacts(**call["facts"])
    made = journal.assembled()
    records = in_file_order(made.entries, made.nested, made.failures)
    if not records:
        return None
    header = CassetteHeader.model_validate(content.header)
    path = target if not target.exists() else free_path(target.parent, target.stem)
    with FileClaim(path):
        write_atomically(path, write_lines(header, records, provenance=True))
    return path


def _add(source: CassetteSource, trace: Trace) -> None:
    source.spans += trace.spans
    source.logs += trace.logs
    source.version += 1


def _tickets(calls: Sequence[Mapping[str, Any]]) -> dict[int, Ticket]:
    """Return the wrappers' tickets by number; a call inside one that never finished is at the top."""
    tickets = {call["number"]: Ticket(call["number"], call["kind"], None) for call in calls}
    for call in calls:
        ticket = tickets[call["number"]]
        parent = call["parent"]
        if isinstance(parent, int):
            ticket.parent = tickets.get(parent)
        elif parent is not None:
            ticket.parent = parent_ref(parent)
    return tickets


def _record(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry with the types they have in memory."""
    record = dict(plain)
    if record.get("error") is not None:
        record["error"] = RecordedFailure.model_validate(record["error"])
    if record.get("source") is not None:
        record["source"] = EntrySource.model_validate(record["source"])
    for name in ("yields", "scope"):
        if record.get(name) is not None:
            record[name] = tuple(record[name])
    return record


def _redactor(header: Mapping[str, Any]) -> Redactor | None:
    rules = header.get("redact") or ()
    return Redactor.from_header(rules) if rules else None
