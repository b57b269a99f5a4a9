"""What a dialect is, and what it says of one span.

Lives here: `Dialect`, `Reading` and the words for a span's role. Not here: any attribute name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from otel_cassette.model.entry import EntryKind, Integrity, RecordedFailure
from otel_cassette.model.span import LogRecord, SpanRecord

Role = Literal["call", "wrapper", "lookalike"]
"""`call`: an LLM, tool, retrieval or embedding invocation. `wrapper`: agent, chain, workflow, step.
`lookalike`: looks like a call and is none (a merged tool span, a handoff, a helper)."""


@dataclass(slots=True)
class Reading:
    """What one span says, in the words of the package.

    Attributes:
        dialect: Name of the dialect that read it.
        role: Whether the span is a call.
        kind: For calls: `llm`, `tool`, `retrieval`, `embedding`.
        name: For tools and retrievals: its name.
        request: Plain JSON. llm and embedding: an `LLMRequest` without defaults, messages as
            parts. Tools: the arguments by parameter name. Retrieval: `{"query": ...}`.
        response: Plain JSON. llm: an `LLMResponse` without defaults. Else the returned value.
        has_request: The span holds (some of) the request's content: messages, arguments, input.
        has_response: The span holds an answer; for tools None is one.
        scope: Tokens of docs/scopes.md: what was captured of the request; None is all of it.
        request_integrity, response_integrity: As found in this span.
        error: For failed spans.
        partial: The answer is a stream's that ended early.
        yields: For generators: the values they gave, in order.
        response_id: The provider's id of the answer.
        call_id: For tools: the id of the model's tool call.
        conversation_id: Conversation, session or thread id, when the span carries one.
        remedy: Which switch to set where content is missing; one sentence.
        notes: What else a report should say, one sentence each.
        history_text_lost: Assistant messages of the request that ask for tools may have lost their
            text (assemble completes them from the answers of the run).
        results_wrapped: Tool results of the request are wrapped as `{"result": ...}` unless they are
            objects.
        arguments_known: False where the arguments are a bare value that only the model's call
            names (assemble fills in the parameter's name).
    """

    dialect: str
    role: Role
    kind: EntryKind | None = None
    name: str | None = None
    request: Any = None
    response: Any = None
    has_request: bool = False
    has_response: bool = False
    scope: tuple[str, ...] | None = None
    request_integrity: Integrity = "absent"
    response_integrity: Integrity = "absent"
    error: RecordedFailure | None = None
    partial: bool = False
    yields: tuple[Any, ...] | None = None
    response_id: str | None = None
    call_id: str | None = None
    conversation_id: str | None = None
    remedy: str | None = None
    notes: list[str] = field(default_factory=list)
    arguments_known: bool = True
    history_text_lost: bool = False
    results_wrapped: bool = False


class Dialect(Protocol):
    """One vocabulary of span attributes.

    Attributes:
        name: Short name, as reports show it.
        priority: Lower is asked first; the first dialect that claims a span reads it.
        markers: Byte strings of which at least one stands in every span of the dialect (in an
            attribute key or value, or in the span's name); spans without any are not looked at.
    """

    name: str
    priority: int
    markers: tuple[bytes, ...]

    def claims(self, span: SpanRecord) -> bool:
        """Return whether the span is written in this vocabulary."""
        ...

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> Reading:
        """Return what the span says; *logs* are the records joined to it by trace and span id."""
        ...


Attributes = Mapping[str, Any]
