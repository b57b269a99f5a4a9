"""The truth files: what the provider and the tools of a recorded run really saw and answered.

Reads provider bodies in a few lines of its own, so that nothing expected comes from the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "traces"
EXPECTED: dict[str, dict[str, int]] = json.loads((DATA / "EXPECTED.json").read_text("utf-8"))

FINISH = {
    "tool_calls": "tool",
    "tool_call": "tool",
    "tool_use": "tool",
    "end_turn": "stop",
    "STOP": "stop",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
}
"""Finish reasons that say the same in different APIs."""


@dataclass(frozen=True)
class Answer:
    """One choice: its text, its tool calls as (name, arguments, id), why it ended."""

    text: str
    calls: tuple[tuple[str, Any, str | None], ...]
    finish_reason: str | None


def sources(run: str) -> list[Path]:
    """The files of a run: spans, and log records where there are any."""
    paths = [DATA / f"{run}.otlp.jsonl", DATA / f"{run}.logs.otlp.jsonl"]
    return [path for path in paths if path.exists()]


def calls(run: str) -> list[dict[str, Any]]:
    return list(json.loads((DATA / f"{run}.truth.json").read_text("utf-8"))["calls"])


def succeeded(call: Mapping[str, Any]) -> bool:
    return not call.get("error") and call.get("status") in (200, None)


def value(data: Any) -> Any:
    """A JSON text as its value, anything else as it is."""
    if isinstance(data, str):
        try:
            return json.loads(data)
        except ValueError:
            return data
    return data


def answers(call: Mapping[str, Any]) -> list[Answer]:
    """The choices of a provider's response body."""
    body = call["response"]
    if "choices" in body:
        return [_openai_choice(choice) for choice in body["choices"]]
    if "candidates" in body:
        candidate = body["candidates"][0]
        parts = [p for p in candidate["content"].get("parts", []) if not p.get("thought")]
        found = [p["functionCall"] for p in parts if "functionCall" in p]
        text = "".join(p.get("text", "") for p in parts)
        asked = tuple((c["name"], c.get("args") or {}, c.get("id")) for c in found)
        return [Answer(text, asked, candidate.get("finishReason"))]
    if "output" in body:
        texts = [b.get("text", "") for o in body["output"] for b in o.get("content") or ()]
        items = [o for o in body["output"] if o["type"] == "function_call"]
        asked = tuple((i["name"], value(i["arguments"]), i["call_id"]) for i in items)
        return [Answer("".join(texts), asked, None)]
    blocks = body["content"]
    text = "".join(b["text"] for b in blocks if b["type"] == "text")
    asked = tuple((b["name"], b["input"], b["id"]) for b in blocks if b["type"] == "tool_use")
    return [Answer(text, asked, body.get("stop_reason"))]


def _openai_choice(choice: Mapping[str, Any]) -> Answer:
    message = choice["message"]
    asked = tuple(
        (c["function"]["name"], value(c["function"]["arguments"]) or {}, c["id"])
        for c in message.get("tool_calls") or ()
    )
    return Answer(message.get("content") or "", asked, choice.get("finish_reason"))


def response_id(call: Mapping[str, Any]) -> str | None:
    body = call.get("response") or {}
    return body.get("id") or body.get("responseId")


_TEXT_KEYS = frozenset({"content", "text", "instructions", "input", "system", "output"})
_NO_TEXT = frozenset({"tools", "response_format", "metadata", "tool_choice"})


def texts(data: Any, key: str = "") -> Iterator[str]:
    """Every text of a wire request that the model reads."""
    if isinstance(data, Mapping):
        for name, inner in data.items():
            if name not in _NO_TEXT:
                yield from texts(inner, name)
    elif isinstance(data, list):
        for inner in data:
            yield from texts(inner, key)
    elif isinstance(data, str) and key in _TEXT_KEYS:
        yield data
