"""`CassetteLogRecordProcessor`: content that instrumentations write as log records.

Lives here: which log records count, and the guarded callback. Not here: where they go (the
processor or exporter that records their span), and what they say (`dialects/`).
"""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk._logs import LogRecordProcessor

from otel_cassette.formats.sdk import log_of
from otel_cassette.otel.collectors import LogCollector, all_collectors
from otel_cassette.otel.guard import Troubles

_PREFIX = "gen_ai."


class CassetteLogRecordProcessor(LogRecordProcessor):
    """Collects the GenAI events that belong to recorded spans, joined by trace and span id.

    Events come before their span ends, so they are part of the call when it is complete. Without a
    `LoggerProvider` an instrumentation emits none.

    Args:
        spans: The `CassetteSpanProcessor` or `CassetteSpanExporter` that records the spans; by
            default all of this process are asked.
    """

    def __init__(self, spans: LogCollector | None = None) -> None:
        self._spans = spans
        self.troubles: Troubles = Troubles("CassetteLogRecordProcessor")

    def on_emit(self, log_record: Any) -> None:
        """Keep a GenAI event of a span that is recorded."""
        try:
            record = log_record.log_record
            if not record.span_id or not _is_genai(record):
                return
            log = log_of(log_record)
            for collector in (self._spans,) if self._spans is not None else all_collectors():
                if collector.collect_log(log):
                    return
        except Exception as error:  # noqa: BLE001 - the SDK would raise it into the program
            self.troubles.raised("on_emit", error, lost="content in a log record is not recorded")

    def shutdown(self) -> None:
        """Do nothing: the span side holds what was collected."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Return True: nothing waits here."""
        return True


def _is_genai(record: Any) -> bool:
    name = getattr(record, "event_name", None)
    if not name and record.attributes:
        name = record.attributes.get("event.name")  # before event names were a field
    return isinstance(name, str) and name.startswith(_PREFIX)
