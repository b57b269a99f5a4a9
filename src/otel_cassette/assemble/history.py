"""Histories that an instrumentation wrote without the assistant's text, made whole.

Lives here: the text of assistant messages that ask for tools, taken from the answers of the run.
Some instrumentations (opentelemetry-instrumentation-openai-v2 with one event per message) write
such a message with its tool calls alone; the answer itself they write whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_cassette.assemble.calls import Call

_MESSAGES = frozenset({"messages", "messages/tail", "call_ids"})


def complete_histories(models: Sequence[Call]) -> None:
    """Complete the requests in place; where an answer is unknown, messages leave the scope.

    Args:
        models: Model calls by start.
    """
    answers: dict[str, Mapping[str, Any]] = {}
    for model in models:
        if model.reading.history_text_lost:
            _complete(model, answers)
        for choice in _choices(model):
            for part in choice["message"].get("parts") or ():
                if part.get("type") == "tool_call" and isinstance(part.get("id"), str):
                    answers[part["id"]] = choice["message"]


def _choices(model: Call) -> Sequence[Mapping[str, Any]]:
    reading = model.reading
    if reading.response_integrity != "whole" or not isinstance(reading.response, dict):
        return ()
    return reading.response.get("choices") or ()


def _complete(model: Call, answers: Mapping[str, Mapping[str, Any]]) -> None:
    messages = model.request_messages()
    completed: list[dict[str, Any]] = []
    for message in messages:
        ids = _ids_without_text(message)
        if ids is None:
            completed.append(message)
            continue
        answer = answers.get(ids[0]) if ids else None
        if answer is None or _call_ids(answer["parts"]) != ids:
            _narrow(model)
            return
        completed.append({**message, "parts": list(answer["parts"])})
    model.reading.request = {**model.reading.request, "messages": completed}


def _ids_without_text(message: Mapping[str, Any]) -> list[Any] | None:
    """The call ids of an assistant message that has calls and nothing else; None for any other."""
    parts = message.get("parts") or ()
    if message.get("role") != "assistant" or not parts:
        return None
    if any(part.get("type") != "tool_call" for part in parts):
        return None
    return _call_ids(parts)


def _call_ids(parts: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [part.get("id") for part in parts if part.get("type") == "tool_call"]


def _narrow(model: Call) -> None:
    reading = model.reading
    if reading.scope is not None:
        reading.scope = tuple(token for token in reading.scope if token not in _MESSAGES)
    reading.request_integrity = "partial"
    reading.notes.append("Texts beside tool calls are missing in the history of the request.")
