"""Tool spans and the model's own tool calls: which belongs to which.

Lives here: the list of tool calls the model asked for, their join with tool spans, and what the
one lends the other (id, arguments, order). Not here: tools without a span (`inferring.py`).

Most instrumentations leave the call id off the tool span; then name and arguments join them, and
where those are missing too, the name alone. A call is taken once, the latest answer first, since a
tool runs after the answer that asked for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_cassette.assemble.calls import Call
from otel_cassette.keys.canonical import canonical_json
from otel_cassette.keys.messages import canonical_arguments

_LOOK_BACK = 64
"""How many open calls of one name are looked at when neither id nor arguments join."""


@dataclass(slots=True, eq=False)
class AskedCall:
    """A tool call in a recorded answer.

    Attributes:
        model_call: The call whose answer asks for it.
        rank: Place of the answer, and of the call in it.
        call_id, name, arguments: As the model wrote them; arguments as a value.
        signature: Name and arguments as one text.
        span_call: The tool span that ran it.
        answered: A later request of the run holds its result.
        result: That result, as the tool message has it.
        answered_by: The model call whose request holds it.
    """

    model_call: Call
    rank: tuple[int, int]
    call_id: str | None
    name: str
    arguments: Any
    signature: str
    span_call: Call | None = None
    answered: bool = False
    result: Any = None
    answered_by: Call | None = None


def signature_of(name: str, arguments: Any) -> str:
    """Return name and arguments of a tool call as one text, equal for equal calls."""
    try:
        return f"{name}\x00{canonical_json(arguments)}"
    except (ValueError, RecursionError):
        return f"{name}\x00{arguments!r}"


@dataclass(slots=True)
class AskedCalls:
    """All tool calls the run's answers ask for, found by id, by name and arguments, by name."""

    everything: list[AskedCall] = field(default_factory=list)
    by_id: defaultdict[str, list[AskedCall]] = field(default_factory=lambda: defaultdict(list))
    by_signature: defaultdict[str, list[AskedCall]] = field(
        default_factory=lambda: defaultdict(list)
    )
    by_name: defaultdict[str, list[AskedCall]] = field(default_factory=lambda: defaultdict(list))

    def add(self, asked: AskedCall) -> None:
        """Add a call; calls come in the order of their answers."""
        self.everything.append(asked)
        if asked.call_id is not None:
            self.by_id[asked.call_id].append(asked)
        self.by_signature[asked.signature].append(asked)
        self.by_name[asked.name].append(asked)


def asked_calls(models: Iterable[Call]) -> list[list[AskedCall]]:
    """Return the tool calls of each answer, answers in the order given."""
    answers: list[list[AskedCall]] = []
    for number, model in enumerate(models):
        answer: list[AskedCall] = []
        for place, part in enumerate(model.answer_parts()):
            if part.get("type") != "tool_call":
                continue
            name = str(part.get("name") or "")
            arguments = canonical_arguments(part.get("arguments"))
            call_id = part.get("id")
            answer.append(
                AskedCall(
                    model,
                    (number, place),
                    call_id if isinstance(call_id, str) else None,
                    name,
                    arguments,
                    signature_of(name, arguments),
                )
            )
        answers.append(answer)
    return answers


def match_tools(models: Sequence[Call], tools: Sequence[Call]) -> AskedCalls:
    """Join tool spans with the calls the model asked for, and complete each by the other.

    Args:
        models: Model calls with an answer, by start.
        tools: Tool spans, failed ones too, by start.
    """
    known = AskedCalls()
    answers = asked_calls(models)
    following = 0
    for tool in tools:
        while following < len(models) and models[following].start_ns <= tool.start_ns:
            for asked in answers[following]:
                known.add(asked)
            following += 1
        found = _find(known, tool)
        if found is not None:
            found.span_call = tool
            _complete(tool, found)
    for answer in answers[following:]:
        for asked in answer:
            known.add(asked)
    return known


def _find(known: AskedCalls, tool: Call) -> AskedCall | None:
    reading = tool.reading
    name = reading.name or ""
    if reading.call_id is not None and reading.call_id in known.by_id:
        return _latest(known.by_id[reading.call_id])
    if reading.has_request and reading.arguments_known:
        signature = signature_of(name, canonical_arguments(reading.request))
        found = _latest(known.by_signature.get(signature, []))
        if found is not None:
            return found
    return _by_name(known.by_name.get(name, []), tool)


def _latest(candidates: list[AskedCall]) -> AskedCall | None:
    """The first open call of the latest answer that has one; calls that are taken are let go."""
    while candidates and candidates[-1].span_call is not None:
        candidates.pop()
    if not candidates:
        return None
    answer = candidates[-1].rank[0]
    found = candidates[-1]
    for asked in reversed(candidates):
        if asked.rank[0] != answer:
            break
        if asked.span_call is None:
            found = asked
    return found


def _by_name(candidates: list[AskedCall], tool: Call) -> AskedCall | None:
    while candidates and candidates[-1].span_call is not None:
        candidates.pop()
    if not candidates:
        return None
    if not tool.reading.has_request:
        return _latest(candidates)
    if tool.reading.arguments_known:
        # The span's arguments differ from the model's: defaults filled in, values converted.
        return _latest(candidates)
    bare = tool.reading.request
    for asked in reversed(candidates[-_LOOK_BACK:]):
        values = list(asked.arguments.values()) if isinstance(asked.arguments, dict) else []
        if asked.span_call is None and len(values) == 1 and str(values[0]) == str(bare):
            return asked
    return None


def _complete(tool: Call, asked: AskedCall) -> None:
    reading = tool.reading
    tool.rank = asked.rank
    reading.call_id = reading.call_id or asked.call_id
    if reading.has_request and reading.arguments_known:
        return
    if isinstance(asked.arguments, dict) and asked.model_call.reading.response_integrity in (
        "whole",
        "partial",
        "suspect",
    ):
        reading.request = asked.arguments
        reading.has_request = True
        reading.arguments_known = True
        reading.scope = ("arguments",)
        reading.request_integrity = "whole"
        reading.notes.append("Arguments taken from the model's call.")
