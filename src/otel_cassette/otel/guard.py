"""The boundary between the SDK, which guards nothing, and our own code.

Lives here: what happens when a callback of ours raises: the user's program goes on, and is told
once. Not here: any callback.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import Any

from opentelemetry import metrics

from otel_cassette.session import names

_logger = logging.getLogger("otel_cassette")
_LOG_EVERY_S = 60.0
_MAX_LINES = 100


class Troubles:
    """What went wrong while recording: counted, logged seldom, one line each for the report.

    Attributes:
        counts: How often what went wrong, by `callback: problem`.
        lines: One sentence a distinct trouble, at most 100.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._logged: dict[str, float] = {}
        self._counter: Any = None
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []

    @property
    def total(self) -> int:
        """How often anything went wrong."""
        return sum(self.counts.values())

    def raised(self, where: str, error: BaseException, *, lost: str) -> None:
        """Note that *where* raised *error*; *lost* says what is not recorded because of it."""
        label = f"{where}: {type(error).__name__}"
        line = f"{self._what}: {where} failed ({type(error).__name__}: {error}); {lost}"
        self.note(label, line, error)

    def note(self, label: str, line: str, error: BaseException | None = None) -> None:
        """Count *label*; log *line* unless that was done within a minute, and report it once."""
        with self._lock:
            self.counts[label] += 1
            known = label in self._logged
            now = time.monotonic()
            quiet = known and now - self._logged[label] < _LOG_EVERY_S
            if not quiet:
                self._logged[label] = now
            if not known and len(self.lines) < _MAX_LINES:
                self.lines.append(line)
        self._count(label)
        if not quiet:
            _logger.warning("%s", line, exc_info=error)

    def too_large(self, name: str) -> None:
        """Note that a span's content exceeds `max_entry_bytes`."""
        self.note(
            "content too large",
            f"{self._what}: span {name!r} has more content than max_entry_bytes: its values over 1,024 "
            "characters were not recorded; the call keeps its place",
        )

    def too_many(self) -> None:
        """Note that a span was dropped that only shows the place of calls in the tree."""
        self.note(
            "spans dropped",
            f"{self._what}: a recording has more spans than are kept; the paths of later calls may be "
            "incomplete",
        )

    def _count(self, label: str) -> None:
        # Made late: a program sets its MeterProvider when it likes, and most have none.
        if self._counter is None:
            meter = metrics.get_meter("otel_cassette")
            self._counter = meter.create_counter(
                names.PROBLEMS_METRIC,
                unit="{problem}",
                description="What failed in callbacks of otel-cassette, and why",
            )
        self._counter.add(1, {"problem": label})

    def clear(self) -> None:
        """Start over; for a forked process, which has an account of its own."""
        self._lock = threading.Lock()
        self._logged.clear()
        self.counts.clear()
        self.lines.clear()
