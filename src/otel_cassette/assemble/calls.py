"""The working record of one call while a run is assembled.

Lives here: `Call`, and nothing that decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otel_cassette.dialects.protocol import Reading
from otel_cassette.model.entry import EntryKind, ParentRef
from otel_cassette.model.span import SpanRecord

MODEL_CALL_KINDS = frozenset({"llm", "embedding"})


@dataclass(slots=True, eq=False)
class Call:
    """One call of the run; compared by identity.

    Attributes:
        reading: What its span says, completed by what other spans say.
        span: Its span; for an inferred call that of the model call that asked for it.
        position: Place among all calls by start, end and ids; breaks the last ties.
        start_ns, end_ns: Nanoseconds since the Unix epoch.
        depth: Number of calls around it; -1 until it is known.
        rank: Place among tool calls that start together: the model's order.
        inferred: It has no span of its own.
        same_as: For a duplicate: the call that stands for it.
        composite: A model-call span that holds several model calls.
        collapsed: A model-call span that ran tools its own answer does not ask for.
        enclosing: The nearest call around it, of any kind.
        parent: The tool or retrieval call inside which it was made.
        reference: What calls inside it carry as their parent.
        index: Place among the successes, or among the failures, of its (parent, kind).
    """

    reading: Reading
    span: SpanRecord
    position: int
    start_ns: int
    end_ns: int
    depth: int = -1
    rank: tuple[int, int] = (0, 0)
    inferred: bool = False
    same_as: Call | None = None
    composite: bool = False
    collapsed: bool = False
    enclosing: Call | None = None
    parent: Call | None = None
    reference: ParentRef | None = None
    index: int = -1

    @property
    def kind(self) -> EntryKind:
        """Kind of the call."""
        return self.reading.kind or "llm"

    @property
    def failed(self) -> bool:
        """Whether the call failed before an answer began; a tool that failed has none."""
        reading = self.reading
        if reading.error is None:
            return False
        return self.kind == "tool" or not (reading.has_response or reading.partial)

    @property
    def kept(self) -> Call:
        """The call that stands for this one: itself unless it is a duplicate."""
        call = self
        while call.same_as is not None:
            call = call.same_as
        return call

    def lies_in(self, outer: Call, *, slack_ns: int = 0) -> bool:
        """Return whether this call lies inside *outer* in time."""
        return outer.start_ns <= self.start_ns + slack_ns and self.end_ns <= outer.end_ns + slack_ns

    def overlaps(self, other: Call) -> bool:
        """Return whether the two ran at the same time."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns

    def answer_parts(self) -> list[dict[str, Any]]:
        """Parts of all choices of a model call's answer."""
        response = self.reading.response
        if self.kind != "llm" or not isinstance(response, dict):
            return []
        choices = response.get("choices") or ()
        return [p for c in choices for p in c.get("message", {}).get("parts") or ()]

    def request_messages(self) -> list[dict[str, Any]]:
        """Messages of a model call's request."""
        request = self.reading.request
        if self.kind != "llm" or not isinstance(request, dict):
            return []
        messages = request.get("messages")
        return messages if isinstance(messages, list) else []
