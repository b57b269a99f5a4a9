"""Spans that are created after their call: marked when they are exported.

Lives here: `MarkingSpanExporter`, which joins such spans by the response id that the replay served,
and marks those that were known by their time only when they had ended. Not here: late spans that
say what they are at their start; those are marked while they are open (`live.py`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext

from otel_cassette.otel.troubles import note
from otel_cassette.session.names import DIVERGED_ATTR

_MAX_EXPECTED: Final = 10_000
_RESPONSE_ID_KEYS: Final = ("gen_ai.response.id", "llm.response.id")


class LateMarks:
    """Marks that wait for the export of a span; the oldest go first when there are too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: OrderedDict[str | tuple[int, int], Mapping[str, Any]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._marks)

    def expect_answer(self, response_id: str, attributes: Mapping[str, Any]) -> None:
        """Let the spans of the answer with this id carry *attributes* when they are exported."""
        self._expect(response_id, attributes)

    def expect_span(self, context: SpanContext, attributes: Mapping[str, Any]) -> None:
        """Let this span, which has ended, carry *attributes* when it is exported."""
        self._expect((context.trace_id, context.span_id), attributes)

    def _expect(self, key: str | tuple[int, int], attributes: Mapping[str, Any]) -> None:
        with self._lock:
            self._marks[key] = attributes
            if len(self._marks) > _MAX_EXPECTED:
                self._marks.popitem(last=False)

    def for_span(self, span: ReadableSpan) -> Mapping[str, Any] | None:
        """Return what *span* should carry; None where it needs nothing."""
        attributes = span.attributes or {}
        if DIVERGED_ATTR in attributes:
            return None
        context = span.get_span_context()
        if context is not None:
            found = self._marks.get((context.trace_id, context.span_id))
            if found is not None:
                return found
        for key in _RESPONSE_ID_KEYS:
            value = attributes.get(key)
            if isinstance(value, str) and value in self._marks:
                return self._marks[value]
        return None


LATE: Final = LateMarks()
"""The marks of this process."""


class MarkingSpanExporter(SpanExporter):
    """An exporter around another one that marks diverged spans created after their call.

    LangSmith, for one, makes its spans in the background when a call is over: nothing can be marked
    while the call is made. Their response id tells which call they stand for.

    Args:
        exporter: The exporter in use.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans, marked copies in place of late ones."""
        if LATE:
            try:
                spans = [_marked(span) for span in spans]
            except Exception as error:  # noqa: BLE001 - an exporter must not lose the user's spans
                note("MarkingSpanExporter.export", error, lost="late spans are not marked")
        return self._exporter.export(spans)

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter; returns whether that was done in time."""
        return self._exporter.force_flush(timeout_millis)


def _marked(span: ReadableSpan) -> ReadableSpan:
    extra = LATE.for_span(span)
    if extra is None:
        return span
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes={**(span.attributes or {}), **extra},
        events=span.events,
        links=span.links,
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
    )
