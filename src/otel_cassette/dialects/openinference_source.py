"""Which OpenInference instrumentation wrote a span, and what it is known to capture.

Lives here: the table of instrumentations, and a span's `input.value` and `output.value` decoded
once. Not here: what the values mean (`openinference_llm.py`, `openinference_calls.py`).

Source: the spans of each instrumentation beside what its provider and its tools really saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from otel_cassette.dialects import payload
from otel_cassette.dialects.payload import Payload
from otel_cassette.model.span import SpanRecord

_SCOPE_PREFIX = "openinference.instrumentation."


@dataclass(frozen=True, slots=True)
class Instrumentation:
    """What one instrumentation captures beside the messages.

    Attributes:
        requested_model: `llm.model_name` is the requested model, not the answering one.
        params: Parameters in `llm.invocation_parameters`: all of them; those it names, which are
            not all; or none (they are settings of something else).
        tools: Tools are captured whenever there are any, so that none is evidence.
        choice: `tool_choice` and `response_format` stand among the parameters.
        reprs: A tool's result is its Python `str()`.
    """

    requested_model: bool = False
    params: Literal["all", "named", "none"] = "named"
    tools: bool = False
    choice: bool = False
    reprs: bool = False


_OTHER = Instrumentation()
_SDK = Instrumentation(params="all", tools=True, choice=True)
_KNOWN: Mapping[str, Instrumentation] = {
    "openai": _SDK,
    "anthropic": _SDK,
    "langchain": _SDK,
    "litellm": _SDK,
    "llama_index": Instrumentation(requested_model=True, params="none", tools=True),
    "agno": Instrumentation(requested_model=True, tools=True, reprs=True),
    "openai_agents": Instrumentation(params="none"),
    "crewai": Instrumentation(requested_model=True, params="none", reprs=True),
    "smolagents": Instrumentation(requested_model=True, reprs=True),
    "dspy": Instrumentation(requested_model=True),
    "autogen_agentchat": Instrumentation(params="none", reprs=True),
}


@dataclass(slots=True)
class Source:
    """A span with its two payloads decoded.

    Attributes:
        span: The span.
        library: Name of the instrumented library (`openai`, `langchain`, ...); empty for spans
            that were made by hand.
        known: What that instrumentation captures.
        input, output: `input.value` and `output.value`.
        cut_lengths: Lengths at which values of the span were cut: those of its broken JSON.
    """

    span: SpanRecord
    library: str = ""
    known: Instrumentation = _OTHER
    input: Payload = payload.ABSENT
    output: Payload = payload.ABSENT
    cut_lengths: frozenset[int] = field(default_factory=frozenset)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the span."""
        return self.span.attributes


def read_source(span: SpanRecord) -> Source:
    """Return *span* with its payloads decoded."""
    attributes = span.attributes
    library = ""
    if span.scope.name.startswith(_SCOPE_PREFIX):
        library = span.scope.name.removeprefix(_SCOPE_PREFIX).partition(".")[0]
    source = Source(span, library, _KNOWN.get(library, _OTHER))
    is_model = str(attributes.get("openinference.span.kind")).upper() in ("LLM", "EMBEDDING")
    source.input = read_value(attributes, "input", guess=is_model)
    source.output = read_value(attributes, "output", guess=is_model)
    cuts: set[int] = set()
    for key in ("input.value", "output.value", "llm.invocation_parameters"):
        value = attributes.get(key)
        if isinstance(value, str) and value[:1] in ("{", "["):
            read = {"input.value": source.input, "output.value": source.output}.get(key)
            read = read or payload.decode_json(value)
            if read.integrity == "truncated":
                cuts.update((len(value), len(value.encode("utf-8", "surrogatepass"))))
    source.cut_lengths = frozenset(cuts)
    return source


def read_value(
    attributes: Mapping[str, Any], side: Literal["input", "output"], *, guess: bool = False
) -> Payload:
    """Return `input.value` or `output.value` by its mime type; text stays text.

    Without a mime type the value is text, since instrumentations write none for a bare text, unless
    *guess* allows what looks like JSON. `None` as plain text is how they write a Python None.
    """
    value = attributes.get(f"{side}.value")
    mime = attributes.get(f"{side}.mime_type")
    if not isinstance(value, str):
        return payload.decode_json(value)
    if mime == "application/json" or (guess and mime is None and value[:1] in ("{", "[")):
        return payload.decode_json(value)
    if not value:
        return Payload(value, "whole")
    if mime == "text/plain" and value == "None":
        return Payload(None, "whole")
    return Payload(value, payload.text_integrity(value))
