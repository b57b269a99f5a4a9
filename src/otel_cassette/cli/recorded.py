"""What the processes of a recorded program wrote, as one recording.

Lives here: joining their files. Not here: writing them (`autostart/recording.py`), what is said
about it (`record.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from otel_cassette.assemble.told import with_told_tools
from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.autostart.runfile import RunFile
from otel_cassette.document import Document, read_document
from otel_cassette.errors import CassetteFormatError
from otel_cassette.model.entry import CassetteEntry, CassetteFailure, CassetteHeader, ParentRef
from otel_cassette.otel.recover import recover
from otel_cassette.otel.spool import spools_of
from otel_cassette.store import in_file_order

Record = CassetteEntry | CassetteFailure


def read_recorded(run: RunFile, reports: Sequence[ProcessReport], prefix: str) -> list[Document]:
    """Return what each process recorded, in the order they started.

    Of one that was killed, the calls that had finished.

    Args:
        run: The run.
        reports: Of its processes.
        prefix: How their files are named, before the token.
    """
    documents = []
    for report in reports:
        path = run.folder / f"{prefix}{report.token}.jsonl"
        files = [path] if report.recorded and path.exists() else _recovered(path)
        documents += [read_document(file) for file in files]
    return documents


def _recovered(path: Path) -> list[Path]:
    if not spools_of(path):
        return []
    try:
        return recover(path)
    except CassetteFormatError:  # nothing but its head was written
        return []


def join_documents(documents: Sequence[Document]) -> tuple[CassetteHeader, list[Record]]:
    """Return one recording of several: each process's calls after those of the one before.

    Tools that only the requests after them tell of are added (`assemble/told.py`). Indexes go on
    counting, and references to a parent follow them.
    """
    header = documents[0].header if documents else CassetteHeader()
    entries: list[CassetteEntry] = []
    nested: list[CassetteEntry] = []
    failures: list[CassetteFailure] = []
    counts: Counter[tuple[str, bool]] = Counter()
    for document in documents:
        before = dict(counts)
        for record in with_told_tools(document.records):
            moved = _moved(record, before)
            if isinstance(moved, CassetteFailure):
                failures.append(moved)
                counts[moved.kind, True] += moved.parent is None
            elif moved.parent is None:
                entries.append(moved)
                counts[moved.kind, False] += 1
            else:
                nested.append(moved)
    return header, in_file_order(entries, nested, failures)


def _moved(record: Record, before: Mapping[tuple[str, bool], int]) -> Record:
    if not any(before.values()):
        return record
    changes: dict[str, object] = {}
    if record.parent is not None:
        changes["parent"] = _moved_ref(record.parent, before)
    elif isinstance(record, CassetteFailure):
        changes["follows"] = record.follows + before.get((record.kind, False), 0)
    else:
        changes["index"] = record.index + before.get((record.kind, False), 0)
    return record.model_copy(update=changes)


def _moved_ref(ref: ParentRef, before: Mapping[tuple[str, bool], int]) -> ParentRef:
    if ref.parent is not None:
        return ParentRef(ref.kind, ref.index, _moved_ref(ref.parent, before), failed=ref.failed)
    shift = before.get((ref.kind, ref.failed), 0)
    return ParentRef(ref.kind, ref.index + shift, None, failed=ref.failed)
