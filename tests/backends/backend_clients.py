"""What the tests ask the running backends: the Collector's files, Jaeger, Tempo, oteltap; and how they send.

What is here: typed answers and the waiting that an asynchronous pipeline needs. Not here: starting the
programs (backend_programs.py, conftest.py).
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend_programs import RunningProgram, http_get, wait_until
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

ARRIVAL_TIMEOUT_S = 30.0
Json = dict[str, Any]


def attribute_values(attributes: list[Json]) -> Json:
    """OTLP JSON attributes as a plain dict (values of the five scalar kinds and arrays of them)."""
    return {each["key"]: _any_value(each.get("value", {})) for each in attributes}


def _any_value(value: Json) -> Any:
    if "arrayValue" in value:
        return [_any_value(each) for each in value["arrayValue"].get("values", [])]
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


@dataclass(frozen=True)
class FileSpan:
    """A span as it stands in the Collector's traces.jsonl."""

    trace_id: str
    span_id: str
    name: str
    attributes: Json
    raw: Json


@dataclass(frozen=True)
class Collector:
    """A running Collector with collector-config/collector.yaml (and overlays) on free loopback ports."""

    program: RunningProgram
    grpc_endpoint: str
    """host:port for OTLP/gRPC"""
    http_endpoint: str
    """base URL for OTLP/HTTP"""
    metrics_url: str
    cassette_dir: Path
    undecided_wait_s: float
    """after this time (and a second's tick) a trace that no policy chose is gone"""

    @property
    def traces_file(self) -> Path:
        return self.cassette_dir / "traces.jsonl"

    @property
    def logs_file(self) -> Path:
        return self.cassette_dir / "logs.jsonl"

    def file_spans(self, trace_id: str | None = None) -> list[FileSpan]:
        """The spans in the file now; `trace_id` as 32 hex digits."""
        return [
            FileSpan(
                s["traceId"], s["spanId"], s["name"], attribute_values(s.get("attributes", [])), s
            )
            for line in _json_lines(self.traces_file)
            for resource in line["resourceSpans"]
            for scope in resource["scopeSpans"]
            for s in scope["spans"]
            if trace_id is None or s["traceId"] == trace_id
        ]

    def wait_for_file_spans(
        self, trace_id: str | None = None, *, count: int = 1, timeout_s: float = ARRIVAL_TIMEOUT_S
    ) -> list[FileSpan]:
        """Waits until at least `count` spans (of that trace) are in the file."""

        def poll() -> list[FileSpan] | None:
            spans = self.file_spans(trace_id)
            return spans if len(spans) >= count else None

        return wait_until(
            f"{count} spans of trace {trace_id} in {self.traces_file}", poll, timeout_s
        )

    def file_log_records(self) -> list[Json]:
        """The log records (OTLP JSON) in logs.jsonl now."""
        return [
            record
            for line in _json_lines(self.logs_file)
            for resource in line["resourceLogs"]
            for scope in resource["scopeLogs"]
            for record in scope["logRecords"]
        ]

    def wait_for_file_log(self, event_name: str, *, timeout_s: float = ARRIVAL_TIMEOUT_S) -> Json:
        """The first record of that event name, in whichever place the name stands."""

        def poll() -> Json | None:
            for record in self.file_log_records():
                named = attribute_values(record.get("attributes", [])).get("event.name")
                if event_name in (record.get("eventName"), named):
                    return record
            return None

        return wait_until(f"log record {event_name} in {self.logs_file}", poll, timeout_s)

    def wait_out_decisions(self) -> None:
        """Sleeps until everything sent before is decided: what has not come by then never will."""
        time.sleep(self.undecided_wait_s + 2.0)


@dataclass(frozen=True)
class JaegerEvent:
    name: str
    fields: Json


@dataclass(frozen=True)
class JaegerSpan:
    trace_id: str
    span_id: str
    name: str
    tags: Json
    references: list[tuple[str, str, str]]
    """(CHILD_OF or FOLLOWS_FROM, trace id, span id); a span link is a FOLLOWS_FROM"""
    events: list[JaegerEvent]


@dataclass(frozen=True)
class JaegerTrace:
    trace_id: str
    spans: list[JaegerSpan]

    def span(self, name: str) -> JaegerSpan:
        return next(span for span in self.spans if span.name == name)


@dataclass(frozen=True)
class Jaeger:
    """A running Jaeger v2 with collector-config/jaeger.yaml on free loopback ports."""

    program: RunningProgram
    grpc_endpoint: str
    http_endpoint: str
    query_url: str

    def find(
        self,
        service: str,
        tags: Mapping[str, str] | None = None,
        *,
        operation: str | None = None,
        limit: int = 1500,
    ) -> list[JaegerTrace]:
        """Tag search of the HTTP API. Values are strings; a boolean attribute matches "true" / "false"."""
        query = {"service": service, "limit": str(limit), "lookback": "custom"}
        # Microseconds; the whole life of any test run.
        query["start"] = str(int((time.time() - 86_400) * 1e6))
        query["end"] = str(int((time.time() + 86_400) * 1e6))
        if operation:
            query["operation"] = operation
        if tags:
            query["tags"] = json.dumps(dict(tags))
        url = f"{self.query_url}/api/traces?{urllib.parse.urlencode(query)}"
        return [_jaeger_trace(each) for each in json.loads(http_get(url))["data"]]

    def wait_for(
        self,
        service: str,
        tags: Mapping[str, str] | None = None,
        *,
        count: int = 1,
        timeout_s: float = ARRIVAL_TIMEOUT_S,
    ) -> list[JaegerTrace]:
        """As `find`, waiting until at least `count` traces are found."""

        def poll() -> list[JaegerTrace] | None:
            traces = self.find(service, tags)
            return traces if len(traces) >= count else None

        return wait_until(f"{count} traces of {service} with {tags} in Jaeger", poll, timeout_s)

    def trace(self, trace_id: str) -> JaegerTrace | None:
        """One whole trace by its id (32 hex digits), unadjusted; None if Jaeger does not have it."""
        try:
            data = json.loads(http_get(f"{self.query_url}/api/traces/{trace_id}?raw=true"))["data"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
        return _jaeger_trace(data[0])

    def wait_for_trace(
        self, trace_id: str, *, span_count: int = 1, timeout_s: float = ARRIVAL_TIMEOUT_S
    ) -> JaegerTrace:
        """As `trace`, waiting until it has at least `span_count` spans."""

        def poll() -> JaegerTrace | None:
            trace = self.trace(trace_id)
            return trace if trace and len(trace.spans) >= span_count else None

        return wait_until(f"{span_count} spans of {trace_id} in Jaeger", poll, timeout_s)


@dataclass(frozen=True)
class Tempo:
    """A running Tempo with collector-config/tempo.yaml on free loopback ports."""

    program: RunningProgram
    grpc_endpoint: str
    http_endpoint: str
    query_url: str

    def search(self, traceql: str, *, limit: int = 100) -> list[Json]:
        """What `/api/search` answers: one object a trace, with `traceID` and `spanSets`."""
        query = {"q": traceql, "limit": str(limit), "start": str(int(time.time()) - 3600)}
        query["end"] = str(int(time.time()) + 3600)
        url = f"{self.query_url}/api/search?{urllib.parse.urlencode(query)}"
        traces: list[Json] = json.loads(http_get(url)).get("traces", [])
        return traces

    def wait_for(self, traceql: str, *, count: int = 1, timeout_s: float = 120.0) -> list[Json]:
        """As `search`. Patient: a new span can be searched only after Tempo's flush, 10 to 40 s."""

        def poll() -> list[Json] | None:
            traces = self.search(traceql)
            return traces if len(traces) >= count else None

        return wait_until(f"{count} traces for {traceql} in Tempo", poll, timeout_s)


@dataclass(frozen=True)
class Tap:
    """oteltap: an OTLP/HTTP receiver that shares no code with the Collector or the Python SDK."""

    program: RunningProgram
    http_endpoint: str

    def spans(self, trace_id: str | None = None) -> list[Json]:
        """The spans received so far, in OTLP JSON."""
        return [
            line
            for line in _json_lines(self.program.log_file)
            if "spanId" in line and (trace_id is None or line["traceId"] == trace_id)
        ]

    def wait_for_spans(
        self, trace_id: str, *, count: int = 1, timeout_s: float = ARRIVAL_TIMEOUT_S
    ) -> list[Json]:
        def poll() -> list[Json] | None:
            spans = self.spans(trace_id)
            return spans if len(spans) >= count else None

        return wait_until(f"{count} spans of {trace_id} in oteltap", poll, timeout_s)


@dataclass(frozen=True)
class Telemetry:
    """Providers as a user sets them up: batches, OTLP, a service name of their own."""

    service: str
    tracer_provider: TracerProvider
    logger_provider: LoggerProvider

    def flush(self) -> None:
        """Sends what is queued now, as one batch or several."""
        assert self.tracer_provider.force_flush()
        assert self.logger_provider.force_flush()


@contextlib.contextmanager
def telemetry_to(
    http_endpoint: str, service: str, *, grpc_endpoint: str | None = None
) -> Iterator[Telemetry]:
    """Plain OTel SDK that exports to `http_endpoint` (protobuf); spans by gRPC if `grpc_endpoint` is given."""
    resource = Resource.create({"service.name": service})
    exporter = (
        GrpcExporter(endpoint=grpc_endpoint, insecure=True)
        if grpc_endpoint
        else HttpExporter(endpoint=f"{http_endpoint}/v1/traces")
    )
    tracer_provider = TracerProvider(
        resource=resource,
        span_limits=SpanLimits(max_span_attributes=10_000),
        shutdown_on_exit=False,
    )
    tracer_provider.add_span_processor(BatchSpanProcessor(exporter))
    logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    logger_provider.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{http_endpoint}/v1/logs"))
    )
    try:
        yield Telemetry(service, tracer_provider, logger_provider)
    finally:
        tracer_provider.shutdown()
        logger_provider.shutdown()


def _json_lines(path: Path) -> list[Json]:
    """Every whole JSON object line; a line being written, or one that is no JSON (a log), is left out."""
    if not path.exists():
        return []
    lines: list[Json] = []
    # Not splitlines(): it also cuts at U+2028 and U+0085, which stand raw in JSON strings.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        with contextlib.suppress(json.JSONDecodeError):
            value = json.loads(line)
            if isinstance(value, dict):
                lines.append(value)
    return lines


def _jaeger_trace(data: Json) -> JaegerTrace:
    return JaegerTrace(
        data["traceID"],
        [
            JaegerSpan(
                trace_id=span["traceID"],
                span_id=span["spanID"],
                name=span["operationName"],
                tags={tag["key"]: tag["value"] for tag in span["tags"]},
                references=[(r["refType"], r["traceID"], r["spanID"]) for r in span["references"]],
                events=[_jaeger_event(log["fields"]) for log in span["logs"] or []],
            )
            for span in data["spans"]
        ],
    )


def _jaeger_event(fields: list[Json]) -> JaegerEvent:
    values = {each["key"]: each["value"] for each in fields}
    return JaegerEvent(str(values.pop("event", "")), values)
