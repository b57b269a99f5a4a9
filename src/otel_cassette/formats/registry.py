"""The file shapes that can be read. A new one is added here, and leaves `shapes.py`."""

from __future__ import annotations

from otel_cassette.formats.base import TraceFormat
from otel_cassette.formats.otlp_json import OtlpJson

FORMATS: tuple[TraceFormat, ...] = (OtlpJson(),)
"""In the order they are tried; the first that takes a value wins."""

ACCEPTED = "; ".join(
    (
        *(shape.name for shape in FORMATS),
        "OTLP protobuf (ExportTraceServiceRequest, plain or behind u32 lengths)",
        "any of these in gzip or zstd",
    )
)
"""What can be read, as an error lists it."""
