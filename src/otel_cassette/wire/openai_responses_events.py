"""The events of a streamed OpenAI response, made from a body and put together to one.

Lives here: the order and the fields of the events. Not here: what a body means
(`openai_responses.py`).

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_cassette.wire import answers
from otel_cassette.wire.protocol import StreamEvent

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
# Delta event -> field of the recorded chunk.
_TEXTS = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}


def last_body(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the body that the last event of a recorded stream holds: what no stream would have got."""
    chunks = response.get("chunks") or ()
    event = chunks[-1].get("raw") if chunks and isinstance(chunks[-1], Mapping) else None
    if not isinstance(event, Mapping) or event.get("type") not in _LAST:
        return None
    body = event.get("response")
    return dict(body) if isinstance(body, Mapping) and "output" in body else None


def body_events(body: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[StreamEvent]:
    """Yield the events that a body is streamed in; `response` may hold recorded boundaries."""
    opened = {
        **body,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "incomplete_details": None,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": opened},
        {"type": "response.in_progress", "response": opened},
    ]
    calls = 0
    alone = _single_text(body)
    for index, item in enumerate(body["output"]):
        kind = item.get("type")
        events.append(_event("output_item.added", output_index=index, item=_opened(item)))
        place = {"item_id": item.get("id"), "output_index": index}
        if kind == "message":
            recorded = answers.recorded_pieces(response, "text") if alone else []
            events += _message_events(item, place, recorded)
        elif kind == "reasoning":
            events += _reasoning_events(item, place)
        elif kind in ("function_call", "custom_tool_call"):
            events += _call_events(item, place, answers.recorded_arguments(response, calls))
            calls += 1
        events.append(_event("output_item.done", output_index=index, item=item))
    status = body.get("status")
    last = status if status in ("incomplete", "failed") else "completed"
    events.append({"type": f"response.{last}", "response": dict(body)})
    for number, event in enumerate(events):
        yield StreamEvent({"sequence_number": number, **event}, event["type"])


def _event(kind: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def _single_text(body: Mapping[str, Any]) -> bool:
    blocks = [b for i in body["output"] if i.get("type") == "message" for b in i["content"]]
    return len(blocks) == 1


def _opened(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as it is when it is announced: without its content."""
    kind = item.get("type")
    if kind == "message":
        return {**item, "status": "in_progress", "content": []}
    if kind == "reasoning":
        return {**item, "summary": []}
    if kind == "function_call":
        return {**item, "status": "in_progress", "arguments": ""}
    if kind == "custom_tool_call":
        return {**item, "input": ""}
    return dict(item)


def _message_events(
    item: Mapping[str, Any], place: dict[str, Any], recorded: list[str]
) -> list[dict[str, Any]]:
    events = []
    for index, block in enumerate(item["content"]):
        at = {**place, "content_index": index}
        refusal = block.get("type") == "refusal"
        field = "refusal" if refusal else "text"
        name = "refusal" if refusal else "output_text"
        extra: dict[str, Any] = {} if refusal else {"logprobs": []}
        empty = {**block, field: "", **({} if refusal else {"annotations": []})}
        text = block.get(field) or ""
        events.append(_event("content_part.added", **at, part=empty))
        pieces = answers.pieces(text, recorded)
        events += [_event(f"{name}.delta", **at, delta=p, **extra) for p in pieces]
        events.append(_event(f"{name}.done", **at, **{field: text}, **extra))
        events.append(_event("content_part.done", **at, part=block))
    return events


def _reasoning_events(item: Mapping[str, Any], place: dict[str, Any]) -> list[dict[str, Any]]:
    events = []
    for index, block in enumerate(item.get("summary") or ()):
        at = {**place, "summary_index": index}
        text = block.get("text") or ""
        part = {"type": "summary_text", "text": ""}
        events.append(_event("reasoning_summary_part.added", **at, part=part))
        pieces = answers.pieces(text)
        events += [_event("reasoning_summary_text.delta", **at, delta=p) for p in pieces]
        events.append(_event("reasoning_summary_text.done", **at, text=text))
        events.append(_event("reasoning_summary_part.done", **at, part=block))
    return events


def _call_events(
    item: Mapping[str, Any], place: dict[str, Any], recorded: list[str]
) -> list[dict[str, Any]]:
    custom = item["type"] == "custom_tool_call"
    name, field = (
        ("custom_tool_call_input", "input") if custom else ("function_call_arguments", "arguments")
    )
    text = item.get(field) or ""
    found = [
        _event(f"{name}.delta", **place, delta=piece) for piece in answers.pieces(text, recorded)
    ]
    return [*found, _event(f"{name}.done", **place, **{field: text, "name": item.get("name")})]


class Assembly:
    """Puts the events of a stream together: the body so far, and the recorded chunks.

    Attributes:
        chunks: What each event added, with the event under `raw`.
        is_complete: The last event came.
    """

    def __init__(self) -> None:
        self.chunks: list[dict[str, Any]] = []
        self.is_complete: bool = False
        self._head: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Take the next event."""
        kind = str(event.get("type"))
        self.chunks.append({**self._added(kind, event), "raw": event})
        if isinstance(event.get("response"), Mapping):
            self._head = dict(event["response"])
            self.is_complete = self.is_complete or kind in _LAST
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._items[event.get("output_index") or 0] = dict(event.get("item") or {})
        elif kind.endswith(".delta") and isinstance(event.get("delta"), str):
            self._add_delta(kind, event)

    def body(self) -> dict[str, Any]:
        """Return the body: the provider's own once it came, else what there is of it."""
        if self.is_complete:
            return self._head
        return {**self._head, "output": [item for _, item in sorted(self._items.items())]}

    def _calls(self) -> list[int]:
        return [i for i, item in sorted(self._items.items()) if item.get("type") == "function_call"]

    def _added(self, kind: str, event: Mapping[str, Any]) -> dict[str, Any]:
        if kind in _TEXTS:
            return {_TEXTS[kind]: event.get("delta")}
        index = event.get("output_index") or 0
        item = event.get("item") or {}
        if kind == "response.output_item.added" and item.get("type") == "function_call":
            call = {
                "index": len(self._calls()),
                "id": item.get("call_id"),
                "name": item.get("name"),
            }
            return {"tool_calls": [call]}
        if kind == "response.function_call_arguments.delta" and index in self._calls():
            piece = {"index": self._calls().index(index), "arguments": event.get("delta")}
            return {"tool_calls": [piece]}
        return {}

    def _add_delta(self, kind: str, event: Mapping[str, Any]) -> None:
        item = self._items.setdefault(event.get("output_index") or 0, {"type": "message"})
        delta = event["delta"]
        if kind.startswith("response.function_call_arguments"):
            item["arguments"] = (item.get("arguments") or "") + delta
        elif kind.startswith("response.custom_tool_call_input"):
            item["input"] = (item.get("input") or "") + delta
        elif kind.startswith("response.reasoning"):
            _extend(item, "summary", event.get("summary_index") or 0, "summary_text", delta)
        elif kind == "response.output_text.delta":
            _extend(item, "content", event.get("content_index") or 0, "output_text", delta)
        elif kind == "response.refusal.delta":
            _extend(item, "content", event.get("content_index") or 0, "refusal", delta)


def _extend(item: dict[str, Any], field: str, index: int, block_type: str, delta: str) -> None:
    """Add a piece to one block of an item, opening it (and those before it) where it is new."""
    blocks = [dict(b) for b in item.get(field) or ()]
    key = "refusal" if block_type == "refusal" else "text"
    while len(blocks) <= index:
        blocks.append({"type": block_type, key: ""})
    blocks[index][key] = (blocks[index].get(key) or "") + delta
    item[field] = blocks
