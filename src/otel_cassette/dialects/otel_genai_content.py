"""Where OTel GenAI instrumentations put content, brought into one shape.

Lives here: messages, instructions, tools and answers from span attributes, from the
`gen_ai.client.inference.operation.details` event (a log record or a span event), from the older
event per message (log records, span events, or pydantic-ai's `events` attribute). Not here: what a
span is, its parameters and its verdicts (`otel_genai.py`).

Source: OTel GenAI semantic conventions 1.28 (an event per message) to 1.37 and later (messages as
attributes and as one event); what the instrumentations do beyond them is said where it is handled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from otel_cassette.dialects.payload import (
    ABSENT,
    Messages,
    Payload,
    decode_json,
    make_choice,
    messages_of,
    plain,
    read_messages,
    read_parts,
    read_tools,
)
from otel_cassette.model.entry import Integrity
from otel_cassette.model.span import LogRecord, SpanRecord

Attributes = Mapping[str, Any]

DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
SYSTEM: Final = "gen_ai.system_instructions"
TOOLS: Final = "gen_ai.tool.definitions"
_CHOICE: Final = "gen_ai.choice"
_ROLES: Final[Mapping[str, str]] = {
    f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool", "developer")
}


@dataclass(slots=True)
class Content:
    """What a span and its events say of a request and its answer.

    `choices` are messages with a finish reason, one for each answer. `attributes` are those of the
    span, completed by those of the operation-details event.
    """

    attributes: Attributes
    input: Messages = field(default_factory=lambda: Messages([], "absent"))
    choices: list[dict[str, Any]] = field(default_factory=list)
    output_integrity: Integrity = "absent"
    system: list[dict[str, Any]] = field(default_factory=list)
    system_integrity: Integrity = "absent"
    tools: Payload = ABSENT


def gather(span: SpanRecord, logs: Sequence[LogRecord]) -> Content:
    """Return the content of a model call from all places where it may stand.

    The first place that has a part whole wins; a cut attribute is replaced by a whole event.
    """
    attributes = span.attributes
    content = Content(attributes)
    _from_attributes(content, attributes)
    messages: list[tuple[str, Any]] = []
    for name, event, body in _events(span, logs):
        if name == DETAILS_EVENT:
            content.attributes = {**event, **content.attributes}
            _from_attributes(content, event if INPUT in event or OUTPUT in event else body)
        elif name == _CHOICE or name in _ROLES:
            messages.append((name, body))
    if not messages:
        messages = _pydantic_events(attributes.get("events"))
    if messages and "whole" not in (content.input.integrity, content.output_integrity):
        _from_message_events(content, messages)
    return content


def _from_attributes(content: Content, attributes: Attributes) -> None:
    if not isinstance(attributes, Mapping):
        return
    if content.input.integrity != "whole" and attributes.get(INPUT) is not None:
        content.input = read_messages(attributes[INPUT])
    if content.output_integrity != "whole" and attributes.get(OUTPUT) is not None:
        read = read_messages(attributes[OUTPUT], role="assistant")
        content.choices = read.items
        content.output_integrity = read.integrity
    if content.system_integrity != "whole" and attributes.get(SYSTEM) is not None:
        content.system, content.system_integrity = read_parts(attributes[SYSTEM])
    if content.tools.integrity != "whole" and attributes.get(TOOLS) is not None:
        content.tools = read_tools(attributes[TOOLS])


def _events(
    span: SpanRecord, logs: Sequence[LogRecord]
) -> Iterable[tuple[str, Attributes, Attributes]]:
    """Yield name, attributes and body of each GenAI event, log records first."""
    for log in logs:
        if log.event_name.startswith("gen_ai."):
            body = decode_json(log.body).value
            yield log.event_name, log.attributes, body if isinstance(body, Mapping) else {}
    for event in span.events:
        if event.name.startswith("gen_ai."):
            given = event.attributes
            text = given.get("gen_ai.event.content")
            body = decode_json(text).value if text is not None else plain(given)
            yield event.name, given, body if isinstance(body, Mapping) else {}


def _pydantic_events(value: Any) -> list[tuple[str, Any]]:
    """pydantic-ai's version 1 keeps the events in one attribute, each with its `event.name`."""
    payload = decode_json(value)
    if not isinstance(payload.value, list):
        return []
    events = [e for e in payload.value if isinstance(e, Mapping)]
    names = [str(e.get("event.name", "")) for e in events]
    return [
        (name, event)
        for name, event in zip(names, events, strict=True)
        if name == _CHOICE or name in _ROLES
    ]


def _from_message_events(content: Content, events: Sequence[tuple[str, Any]]) -> None:
    """Build messages from one event per message.

    Without content capture the bodies are empty; a message without content is an empty one only
    where another message of the call shows that content is captured.
    """
    captured = any(_shows_content(body) for _, body in events)
    inputs: list[dict[str, Any]] = []
    choices: list[tuple[int, dict[str, Any]]] = []
    for name, body in events:
        if name == _CHOICE:
            choices.append((_index(body, len(choices)), _choice_message(body, captured=captured)))
        else:
            inputs.append(_event_message(body, _ROLES[name], captured=captured))
    if content.input.integrity != "whole" and inputs:
        content.input = messages_of(inputs)
    if content.output_integrity != "whole" and choices:
        ordered = [message for _, message in sorted(choices, key=lambda pair: pair[0])]
        read = messages_of(ordered, role="assistant")
        content.choices = read.items
        content.output_integrity = read.integrity


def _shows_content(body: Any) -> bool:
    inner = body.get("message") if isinstance(body.get("message"), Mapping) else body
    return bool(inner.get("content"))


def _event_message(body: Attributes, role: str, *, captured: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": body.get("role") or role}
    for key in ("content", "tool_calls", "name"):
        if body.get(key) is not None:
            message[key] = body[key]
    if role == "tool":
        message["role"] = "tool"
        call_id = body.get("id") or body.get("tool_call_id")
        if call_id is not None:
            message["tool_call_id"] = call_id
        if captured:
            message.setdefault("content", "")
    elif not captured and "content" not in message and "tool_calls" not in message:
        message["parts"] = [{"type": "text"}]  # a part without content is hidden content
    return message


def _choice_message(body: Attributes, *, captured: bool) -> dict[str, Any]:
    given = body.get("message")
    if isinstance(given, str):
        given = {"content": given}
    elif not isinstance(given, Mapping):
        given = body  # agent frameworks write the message itself
    if body.get("tool_calls") and not given.get("tool_calls"):
        given = {**given, "tool_calls": body["tool_calls"]}  # OpenLLMetry: beside the message
    message = _event_message(given, "assistant", captured=captured)
    if isinstance(body.get("finish_reason"), str):
        message["finish_reason"] = body["finish_reason"]
    return message


def _index(body: Attributes, default: int) -> int:
    index = body.get("index", default)
    return index if isinstance(index, int) else default


def build_choices(
    messages: Sequence[Mapping[str, Any]], reasons: Sequence[str], count: Any
) -> list[dict[str, Any]]:
    """Return the choices of an answer from its messages and the span's finish reasons.

    The conventions make each output message a choice. The Responses API and agents give one answer
    as several messages, text and calls apart: unless a choice count asks for as many, or each has
    its own finish reason, the span has as many and none is a piece, they are one choice.
    """
    several = count == len(messages) or (
        count is None
        and len(reasons) == len(messages)
        and all(message.get("finish_reason") for message in messages)
        and not _are_pieces(messages)
    )
    if len(messages) > 1 and not several:
        parts = [part for message in messages for part in message.get("parts") or ()]
        reason = next(
            (m["finish_reason"] for m in reversed(messages) if "finish_reason" in m), None
        )
        merged = {"role": messages[0]["role"], "parts": parts}
        if reason is not None:
            merged["finish_reason"] = reason
        messages = [merged]
    if len(messages) == 1:
        return [make_choice(messages[0], _single_reason(messages[0], reasons))]
    if len(reasons) == len(messages):
        return [make_choice(m, r) for m, r in zip(messages, reasons, strict=True)]
    return [make_choice(message) for message in messages]


def _are_pieces(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some messages are nothing but tool calls and others have none."""
    kinds = [{part.get("type") == "tool_call" for part in m.get("parts") or ()} for m in messages]
    return {True} in kinds and {False} in kinds


def _single_reason(message: Mapping[str, Any], reasons: Sequence[str]) -> str | None:
    """The span's finish reason is the provider's own word, the message's a normalised one.

    For the Responses API the span has one for each output item; the message's is then better.
    """
    if len(set(reasons)) > 1 and message.get("finish_reason"):
        return None
    return reasons[-1] if reasons else None
