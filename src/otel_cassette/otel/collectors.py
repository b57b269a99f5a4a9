"""The processors and exporters of this process that take log records.

Lives here: the list. It lets `CassetteLogRecordProcessor()` find what the span side records without
the two being given each other: declarative set-ups build them apart.
"""

from __future__ import annotations

import weakref
from typing import Protocol

from otel_cassette.model.span import LogRecord


class LogCollector(Protocol):
    """Takes the log records of spans it records."""

    def collect_log(self, log: LogRecord) -> bool:
        """Keep *log* if its span is recorded here; return whether it is."""
        ...


_collectors: weakref.WeakSet[LogCollector] = weakref.WeakSet()


def add(collector: LogCollector) -> None:
    """Have *collector* asked about log records, for as long as it lives."""
    _collectors.add(collector)


def remove(collector: LogCollector) -> None:
    """Ask *collector* no more."""
    _collectors.discard(collector)


def all_collectors() -> list[LogCollector]:
    """Return all there are."""
    return list(_collectors)
