"""Record, replay and compare the calls of LLM agents, through OpenTelemetry or without it."""

from importlib.metadata import PackageNotFoundError, version

from otel_cassette.cassette import Cassette
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
from otel_cassette.redaction import RedactionRule
from otel_cassette.session import Session
from otel_cassette.model.span import Trace
from otel_cassette.session.names import DIVERGED_ATTR, DIVERGENCE_ATTR
from otel_cassette.traces import Comparison, compare, find_divergence, find_divergences

try:
    __version__ = version("otel-cassette")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"

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
    "CassetteLLM",
    "CassetteMissError",
    "CassetteMode",
    "CassetteWriteError",
    "Comparison",
    "DivergenceReason",
    "EntryKind",
    "LLMClient",
    "LLMRequest",
    "LLMResponse",
    "Message",
    "NetworkBlockedError",
    "RecordedCallError",
    "RedactionRule",
    "ReplayDivergence",
    "Session",
    "StreamChunk",
    "TextPart",
    "ToolCallPart",
    "ToolCallResponsePart",
    "ToolDefinition",
    "Trace",
    "compare",
    "find_divergence",
    "find_divergences",
    "llm_key",
    "load_trace",
    "read_traces",
    "request_diff",
    "tool_key",
    "wrap_llm",
    "wrap_tool",
]
