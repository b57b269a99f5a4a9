"""OpenTelemetry as the demo sets it up: a provider, a file of OTLP JSON, and a backend if one is named.

Lives here: what a user's program has in its start-up code, with the one line that makes it record.
Not here: recording and replaying (`story.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from otel_cassette.errors import CassetteError
from otel_cassette.otel.install import install
from otel_cassette.otel.otlp_json import OTLPJsonFileSpanExporter

SERVICE = "refund-desk"
_TIMEOUT_S = 5
_MAX_ATTRIBUTES = 10_000
_TRACES_PATH = "/v1/traces"


class Telemetry:
    """The provider of the demo's process.

    Args:
        folder: Where the files of spans go.
        otlp_url: A backend that takes OTLP over HTTP, for instance http://localhost:4318.
    """

    def __init__(self, folder: Path, otlp_url: str | None = None) -> None:
        self.provider: TracerProvider = TracerProvider(
            resource=Resource.create({"service.name": SERVICE}),
            # The default of 128 is too few for the messages that some instrumentations flatten.
            span_limits=SpanLimits(max_span_attributes=_MAX_ATTRIBUTES),
        )
        self._folder = folder
        self._file = OTLPJsonFileSpanExporter(folder / "spans.otlp.jsonl")
        self._backend = None if otlp_url is None else _Backend(otlp_url)
        trace.set_tracer_provider(self.provider)
        # The one line of ours: the processor records calls, and marks what departs in a replay.
        install(self.provider)
        self.provider.add_span_processor(SimpleSpanProcessor(self._file))
        if self._backend is not None:
            self.provider.add_span_processor(BatchSpanProcessor(self._backend))

    def export_to(self, name: str) -> Path:
        """Let the spans from now on go to the file *name*, and return its path."""
        self._file.path = self._folder / name
        self._file.path.unlink(missing_ok=True)
        return self._file.path

    def finish(self) -> int:
        """Send what is left; return how many spans the backend took.

        Raises:
            CassetteError: When it did not take them.
        """
        self.provider.shutdown()
        if self._backend is None:
            return 0
        if self._backend.failed:
            msg = (
                f"{self._backend.url}: the backend did not take {self._backend.failed} spans; is an OTLP/HTTP "
                "receiver listening there? A Collector or Jaeger has it on port 4318"
            )
            raise CassetteError(msg)
        return self._backend.sent


class _Backend(SpanExporter):
    """OTLP over HTTP, with a count of what was taken."""

    def __init__(self, url: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - 100 ms, for --otlp
            OTLPSpanExporter,
        )

        self.url = url if url.rstrip("/").endswith(_TRACES_PATH) else url.rstrip("/") + _TRACES_PATH
        self.sent = 0
        self.failed = 0
        # What went wrong is said once, at the end, in the command's own words.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(endpoint=self.url, timeout=_TIMEOUT_S)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except OSError:  # older exporters let a refused connection through
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
