"""Shapes of trace files, and of files taken for one, that are known but cannot be read.

So that a refusal says what a file is and what to do. The keys are unambiguous enough to tell by
the top level of one value. A shape that gets a reader of its own (`registry.py`) leaves this list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_COLLECTOR = "export the run as OTLP JSON instead (the SDK's file exporter or the Collector's)"


@dataclass(frozen=True, slots=True)
class Shape:
    """A known shape: what it is, what to do instead, how it is told."""

    what: str
    advice: str
    test: Callable[[dict[str, Any]], bool]


def recognise(value: Any) -> Shape | None:
    """Return the shape of one JSON value, or None if it is nothing known."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return None
    return next((shape for shape in SHAPES if shape.test(value)), None)


def _has(*keys: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: all(key in value for key in keys)


def _items(key: str, *keys: str) -> Callable[[dict[str, Any]], bool]:
    def test(value: dict[str, Any]) -> bool:
        items = value.get(key)
        first = items[0] if isinstance(items, list) and items else None
        return isinstance(first, dict) and all(name in first for name in keys)

    return test


def _inside(key: str, *keys: str) -> Callable[[dict[str, Any]], bool]:
    def test(value: dict[str, Any]) -> bool:
        inner = value.get(key)
        return isinstance(inner, dict) and any(name in inner for name in keys)

    return test


def _search_answer(value: dict[str, Any]) -> bool:
    return _items("traces", "traceID")(value) or _has("summaries")(value)


SHAPES: tuple[Shape, ...] = (
    Shape("Tempo's trace JSON (`batches`)", _COLLECTOR, _has("batches")),
    Shape(
        "Tempo's trace JSON (`trace`)",
        _COLLECTOR,
        _inside("trace", "resourceSpans", "services", "batches"),
    ),
    Shape(
        "the answer of a trace search, which has no span contents",
        "fetch the trace itself, or " + _COLLECTOR,
        _search_answer,
    ),
    Shape(
        "an answer of Jaeger's API v3 (`result`)", _COLLECTOR, _inside("result", "resourceSpans")
    ),
    Shape("Jaeger JSON (`data` of traces)", _COLLECTOR, _items("data", "traceID", "spans")),
    Shape("Jaeger JSON (one trace)", _COLLECTOR, _has("traceID", "spans")),
    Shape("Jaeger JSON (spans)", _COLLECTOR, _has("traceID", "operationName")),
    Shape("Jaeger's model as JSON", _COLLECTOR, _has("traceId", "operationName")),
    Shape("Jaeger's model as JSON", _COLLECTOR, _items("spans", "traceId", "operationName")),
    Shape("Jaeger's model as JSON", _COLLECTOR, _items("spans", "trace_id", "operation_name")),
    Shape("Zipkin v2 JSON", _COLLECTOR, _has("traceId", "id")),
    Shape(
        "spans of Python's ConsoleSpanExporter",
        "use the OTLP JSON file exporter in its place",
        _has("context", "start_time"),
    ),
    Shape(
        "spans of Go's stdouttrace exporter",
        "use an OTLP exporter and the Collector's file exporter in its place",
        _has("SpanContext"),
    ),
    Shape("spans of the Phoenix API", _COLLECTOR, _items("data", "context", "span_kind")),
    Shape("spans of the Phoenix API (`otlpv1`)", _COLLECTOR, _items("data", "trace_id", "span_id")),
    Shape("a Phoenix data frame", _COLLECTOR, _has("context.span_id")),
    Shape("a Langfuse download", _COLLECTOR, _has("trace", "observations")),
    Shape("an answer of the Langfuse API", _COLLECTOR, _has("observations", "projectId")),
    Shape("LangSmith runs", _COLLECTOR, _has("run_type")),
    Shape("Logfire query rows", _COLLECTOR, _has("span_name", "trace_id", "span_id")),
    Shape("a Grafana data frame", _COLLECTOR, _has("schema", "data")),
    Shape("a Grafana data frame", _COLLECTOR, _has("schema", "fields")),
    Shape("a Grafana query answer", _COLLECTOR, _has("results")),
    Shape("X-Ray traces", _COLLECTOR, _items("Traces", "Segments")),
    Shape(
        "lines of the Lambda stdout exporter",
        "send the spans to the Collector's file exporter instead",
        _has("__otel_otlp_stdout"),
    ),
    Shape("an HTTP archive (HAR), no trace", _COLLECTOR, _inside("log", "entries")),
    Shape(
        "a cassette, no trace",
        "load it with Cassette.load, or look at it with otel-cassette show",
        lambda value: value.get("format") in ("otel-cassette", "agentlens-cassette"),
    ),
    Shape("a chat log, no trace", _COLLECTOR, _has("role", "content")),
    Shape("a chat log, no trace", _COLLECTOR, _items("messages", "role")),
)
