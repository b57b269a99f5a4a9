"""The cassette file: one line a record, written whole or not at all."""

from otel_cassette.document.file import (
    Document,
    FileClaim,
    check_writable,
    parse_document,
    read_document,
    write_atomically,
)
from otel_cassette.document.legacy import entry_steps, fixture_records, step_entry
from otel_cassette.document.lines import LineReader, LineWriter, record_key, write_lines

__all__ = [
    "Document",
    "FileClaim",
    "LineReader",
    "LineWriter",
    "check_writable",
    "entry_steps",
    "fixture_records",
    "parse_document",
    "read_document",
    "record_key",
    "step_entry",
    "write_atomically",
    "write_lines",
]
