"""Record, replay and compare the calls of LLM agents, through OpenTelemetry or without it.

The names below are imported when they are first used (PEP 562): entry points of the package run in
every program that has it installed, and must cost nothing there. Adding a name takes a line in each
of the three lists; a test holds them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_cassette.cassette import Cassette
    from otel_cassette.clients.instrumentor import CassetteInstrumentor
    from otel_cassette.clients.llm import CassetteLLM, LLMClient
    from otel_cassette.clients.tracing import wrap_llm, wrap_tool
    from otel_cassette.diff import (
        DIFF_MAX_LINE_CHARS,
        DIFF_MAX_LINES,
        DivergenceReason,
        ReplayDivergence,
        request_diff,
    )
    from otel_cassette.engine import CallOutcome
    from otel_cassette.errors import (
        CassetteError,
        CassetteFormatError,
        CassetteMissError,
        CassetteWriteError,
        NetworkBlockedError,
        RecordedCallError,
    )
    from otel_cassette.formats import load_trace, read_traces
    from otel_cassette.keys import llm_key, tool_key
    from otel_cassette.model.entry import (
        CASSETTE_FORMAT,
        CASSETTE_VERSION,
        CassetteEntry,
        CassetteFailure,
        CassetteHeader,
        CassetteMode,
        EntryKind,
    )
    from otel_cassette.model.llm import LLMRequest, LLMResponse, StreamChunk, ToolDefinition
    from otel_cassette.model.messages import Message, TextPart, ToolCallPart, ToolCallResponsePart
    from otel_cassette.model.span import Trace
    from otel_cassette.otel.claims import Claim, current_claim
    from otel_cassette.otel.exporter import CassetteSpanExporter
    from otel_cassette.otel.install import Installation, install
    from otel_cassette.otel.late import MarkingSpanExporter
    from otel_cassette.otel.logs import CassetteLogRecordProcessor
    from otel_cassette.otel.processor import CassetteSpanProcessor
    from otel_cassette.otel.recover import recover
    from otel_cassette.otel.reporting import RecordingReport
    from otel_cassette.otel.sampler import ReplaySampler
    from otel_cassette.redaction import RedactionRule
    from otel_cassette.session import Session
    from otel_cassette.session.names import DIVERGED_ATTR, DIVERGENCE_ATTR
    from otel_cassette.traces import Comparison, compare, find_divergence, find_divergences

__all__ = [
    "CASSETTE_FORMAT",
    "CASSETTE_VERSION",
    "DIFF_MAX_LINES",
    "DIFF_MAX_LINE_CHARS",
    "DIVERGED_ATTR",
    "DIVERGENCE_ATTR",
    "CallOutcome",
    "Cassette",
    "CassetteEntry",
    "CassetteError",
    "CassetteFailure",
    "CassetteFormatError",
    "CassetteHeader",
    "CassetteInstrumentor",
    "CassetteLLM",
    "CassetteLogRecordProcessor",
    "CassetteMissError",
    "CassetteMode",
    "CassetteSpanExporter",
    "CassetteSpanProcessor",
    "CassetteWriteError",
    "Claim",
    "Comparison",
    "DivergenceReason",
    "EntryKind",
    "Installation",
    "LLMClient",
    "LLMRequest",
    "LLMResponse",
    "MarkingSpanExporter",
    "Message",
    "NetworkBlockedError",
    "RecordedCallError",
    "RecordingReport",
    "RedactionRule",
    "ReplayDivergence",
    "ReplaySampler",
    "Session",
    "StreamChunk",
    "TextPart",
    "ToolCallPart",
    "ToolCallResponsePart",
    "ToolDefinition",
    "Trace",
    "compare",
    "current_claim",
    "find_divergence",
    "find_divergences",
    "install",
    "llm_key",
    "load_trace",
    "read_traces",
    "recover",
    "request_diff",
    "tool_key",
    "wrap_llm",
    "wrap_tool",
]

_EXPORTS = {
    "cassette": ("Cassette",),
    "clients.instrumentor": ("CassetteInstrumentor",),
    "clients.llm": (
        "CassetteLLM",
        "LLMClient",
    ),
    "clients.tracing": (
        "wrap_llm",
        "wrap_tool",
    ),
    "diff": (
        "DIFF_MAX_LINES",
        "DIFF_MAX_LINE_CHARS",
        "DivergenceReason",
        "ReplayDivergence",
        "request_diff",
    ),
    "engine": ("CallOutcome",),
    "errors": (
        "CassetteError",
        "CassetteFormatError",
        "CassetteMissError",
        "CassetteWriteError",
        "NetworkBlockedError",
        "RecordedCallError",
    ),
    "formats": (
        "load_trace",
        "read_traces",
    ),
    "keys": (
        "llm_key",
        "tool_key",
    ),
    "model.entry": (
        "CASSETTE_FORMAT",
        "CASSETTE_VERSION",
        "CassetteEntry",
        "CassetteFailure",
        "CassetteHeader",
        "CassetteMode",
        "EntryKind",
    ),
    "model.llm": (
        "LLMRequest",
        "LLMResponse",
        "StreamChunk",
        "ToolDefinition",
    ),
    "model.messages": (
        "Message",
        "TextPart",
        "ToolCallPart",
        "ToolCallResponsePart",
    ),
    "model.span": ("Trace",),
    "otel.claims": (
        "Claim",
        "current_claim",
    ),
    "otel.exporter": ("CassetteSpanExporter",),
    "otel.install": (
        "Installation",
        "install",
    ),
    "otel.late": ("MarkingSpanExporter",),
    "otel.logs": ("CassetteLogRecordProcessor",),
    "otel.processor": ("CassetteSpanProcessor",),
    "otel.recover": ("recover",),
    "otel.reporting": ("RecordingReport",),
    "otel.sampler": ("ReplaySampler",),
    "redaction": ("RedactionRule",),
    "session": ("Session",),
    "session.names": (
        "DIVERGED_ATTR",
        "DIVERGENCE_ATTR",
    ),
    "traces": (
        "Comparison",
        "compare",
        "find_divergence",
        "find_divergences",
    ),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imports in a function, and late ones: that is what this function is for.
    import importlib  # noqa: PLC0415

    if name == "__version__":
        import importlib.metadata  # noqa: PLC0415

        return importlib.metadata.version("otel-cassette")
    module = _MODULE_OF.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
