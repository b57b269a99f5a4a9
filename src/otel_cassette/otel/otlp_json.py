"""Finished SDK spans as OTLP JSON Lines: the shape of the Collector's file exporter.

Lives here: one exporter for programs without a Collector, and the text it writes. Not here: reading
such files (`formats/`).

The encoding is OpenTelemetry's own (`encode_spans`, then protobuf's JSON mapping); only the ids
differ, which OTLP JSON writes as hex digits where protobuf's mapping has base64.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_log = logging.getLogger(__name__)
_ID_FIELDS = ("traceId", "spanId", "parentSpanId")


def otlp_json_line(spans: Sequence[ReadableSpan]) -> str:
    """Return *spans* as one OTLP JSON document (`{"resourceSpans": [...]}`) on one line.

    64-bit integers are strings, enums numbers and ids hex digits, as the OTLP specification says
    (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
    """
    document: dict[str, Any] = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in document.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                _hex_ids(span)
                for link in span.get("links", ()):
                    _hex_ids(link)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _hex_ids(record: dict[str, Any]) -> None:
    for field in _ID_FIELDS:
        if field in record:
            record[field] = base64.b64decode(record[field]).hex()


class OTLPJsonFileSpanExporter(SpanExporter):
    """Appends every batch of spans to a file, one OTLP JSON document a line.

    Args:
        path: The file; its folder is made, an existing file is added to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write *spans*; a file that cannot be written is logged, never raised."""
        try:
            line = otlp_json_line(spans)
            with self._lock, self.path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(f"{line}\n")
        except (OSError, TypeError, ValueError) as error:
            _log.warning("cannot write %d spans to %s: %s", len(spans), self.path, error)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS
