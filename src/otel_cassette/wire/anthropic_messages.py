"""Anthropic Messages, also as Vertex AI and Azure serve it.

Lives here: requests, answers and streams. Losses of a synthesised answer: signatures of thinking
and citations that the source did not keep, cache lifetimes, service tier.

Source: https://docs.anthropic.com/en/api/messages and .../messages-streaming
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from otel_cassette.model.chat import content_parts
from otel_cassette.wire import answers
from otel_cassette.wire.base import BaseCodec, checked
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.protocol import StreamEvent
from otel_cassette.wire.shapes import chat_message, message, text_or_blocks, tool_definitions

# The SDK always appends /v1/messages; threads of other APIs have an id before /messages.
_PATH = re.compile(r"(?:^|/)v1/messages/?$")
_VERTEX = re.compile(r"/publishers/anthropic/models/([^/:]+):(?:rawPredict|streamRawPredict)$")
_TAKEN = frozenset({"model", "messages", "system", "tools", "tool_choice", "output_format"})
_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause_turn",
    "model_context_window_exceeded": "model_context_window_exceeded",
}
_REQUIRED = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage"})
# Delta type -> the field of the delta, and the field of the block that it adds to.
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}


class AnthropicMessages(BaseCodec):
    """Codec of `POST .../v1/messages`."""

    name = "anthropic.messages"
    provider = "anthropic"
    kind: Literal["llm"] = "llm"
    _paths = (_PATH, _VERTEX)
    _content_fields = ("messages",)
    _request_id_header = "request-id"

    @checked
    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON; `system` becomes the system instructions."""
        body = merged_body(body)
        params, extra = split_params(body, _TAKEN)
        in_path = _VERTEX.search((path or "").partition("?")[0])
        return request_json(
            operation="chat",
            provider=self.provider,
            model=body.get("model") or (in_path.group(1) if in_path else None),
            system_instructions=text_or_blocks(body.get("system")),
            messages=[chat_message(m) for m in body.get("messages") or ()],
            tools=tool_definitions(body.get("tools")),
            tool_choice=body.get("tool_choice"),
            response_format=body.get("output_format"),
            params=params,
            extra=extra,
        )

    @checked
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as `LLMResponse` JSON, itself under `raw`."""
        answer = message("assistant", content_parts(body.get("content")))
        choice = answers.choice_json(answer, body.get("stop_reason"))
        return answers.response_json(
            id=body.get("id"),
            model=body.get("model"),
            choices=[choice] if "content" in body else [],
            usage=_usage_counts(body.get("usage")),
            raw=dict(body),
        )

    @checked
    def decode_stream(self, events: Iterable[Any]) -> dict[str, Any]:
        """Return the events as `LLMResponse` JSON; without a stop reason it ended early."""
        head: dict[str, Any] = {}
        blocks: dict[int, dict[str, Any]] = {}
        chunks: list[dict[str, Any]] = []
        usage: dict[str, Any] = {}
        reason = None
        for event in answers.payloads(events):
            kind = event.get("type")
            chunks.append(_chunk(event, blocks))
            if kind == "message_start":
                head = event.get("message") or {}
                usage.update(head.get("usage") or {})
            elif kind == "content_block_start":
                blocks[event["index"]] = dict(event.get("content_block") or {})
            elif kind == "content_block_delta":
                _add_delta(blocks.setdefault(event["index"], {}), event.get("delta") or {})
            elif kind == "message_delta":
                reason = (event.get("delta") or {}).get("stop_reason") or reason
                usage.update({k: v for k, v in (event.get("usage") or {}).items() if v is not None})
        content = [_whole(block) for _, block in sorted(blocks.items())]
        answer = message("assistant", content_parts(content))
        return answers.response_json(
            id=head.get("id"),
            model=head.get("model"),
            choices=[answers.choice_json(answer, reason)],
            usage=_usage_counts(usage),
            chunks=chunks,
            ended_early=reason is None,
        )

    def encode_response(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> dict[str, Any]:
        """Return the body that answers the request: `raw` where it is one, else made of the parts."""
        parts, reason = answers.choice_parts(response)[0]
        made: dict[str, Any] = {
            "id": response.get("id") or answers.make_id("msg_", seed),
            "type": "message",
            "role": "assistant",
            "model": response.get("model") or request_body.get("model") or "",
            "content": [b for n, p in enumerate(parts) for b in _blocks(p, seed, n)],
            "stop_reason": _stop_reason(reason, parts),
            "stop_sequence": None,
            "usage": _usage_body(response.get("usage")),
        }
        raw = self._own_body(response, _is_body)
        if raw is not None:
            return raw if raw.keys() >= _REQUIRED else {**made, **raw}
        return made

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the named events, from `message_start` to `message_stop`."""
        recorded = answers.recorded_events(response, _is_event)
        if recorded is not None:
            yield from (StreamEvent(e, e["type"]) for e in recorded)
            return
        body = self.encode_response(response, request_body=request_body, seed=seed)
        events = [StreamEvent(e, e["type"]) for e in _events(body, response)]
        if response.get("ended_early"):
            events = answers.cut_after_last(events, lambda e: e.event == "content_block_delta")
        yield from events

    def _error_body(self, status: int, message: str) -> dict[str, Any]:
        kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        error = {"type": kind, "message": message}
        return {"type": "error", "error": error, "request_id": "req_replayed"}


_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _usage_counts(usage: Any) -> dict[str, int] | None:
    """The API counts cached tokens apart from `input_tokens`; the GenAI attribute includes them."""
    if not isinstance(usage, Mapping) or not usage:
        return None
    cached = usage.get("cache_read_input_tokens") or 0
    created = usage.get("cache_creation_input_tokens") or 0
    return answers.token_counts(
        input_tokens=(usage.get("input_tokens") or 0) + cached + created,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read__input_tokens=cached,
        cache_creation__input_tokens=created,
    )


def _usage_body(usage: Any) -> dict[str, Any]:
    cached = answers.tokens(usage, "cache_read.input_tokens")
    created = answers.tokens(usage, "cache_creation.input_tokens")
    return {
        "input_tokens": max(answers.tokens(usage, "input_tokens") - cached - created, 0),
        "output_tokens": answers.tokens(usage, "output_tokens"),
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": cached,
    }


def _is_event(event: Mapping[str, Any]) -> bool:
    """An event of this API, known or not; those of OpenAI's Responses say whose they are."""
    kind = event.get("type")
    return isinstance(kind, str) and not kind.startswith("response.")


def _is_body(raw: Mapping[str, Any]) -> bool:
    content = raw.get("content")
    return (
        raw.get("type") == "message"
        and raw.get("role") == "assistant"
        and isinstance(content, list)
        and all(isinstance(b, Mapping) and _is_block(b) for b in content)
        and _is_usage(raw.get("usage"))
    )


def _is_usage(usage: Any) -> bool:
    return usage is None or (isinstance(usage, Mapping) and "input_tokens" in usage)


def _is_block(block: Mapping[str, Any]) -> bool:
    return isinstance(block.get("citations", []), list | None) and all(
        isinstance(block.get(field, ""), str) for field in ("type", "text", "thinking", "signature")
    )


def _stop_reason(reason: Any, parts: list[dict[str, Any]]) -> str:
    calls = bool(answers.of_type(parts, "tool_call"))
    found = answers.finish_reason(reason, _FINISH, has_calls=calls)
    # This API never ends a turn by itself while it waits for results.
    return "tool_use" if calls and found == "end_turn" else found


def _blocks(part: Mapping[str, Any], seed: str, number: int) -> list[dict[str, Any]]:
    """Return a part of an answer as content blocks: one, or none for what the API has none for."""
    kind = part.get("type")
    if kind == "text":
        extra = {k: v for k, v in part.items() if k not in ("type", "content")}
        return [{"type": "text", "text": part.get("content") or "", "citations": None, **extra}]
    if kind == "reasoning":
        if part.get("redacted"):
            return [{"type": "redacted_thinking", "data": part["redacted"]}]
        thinking = part.get("content") or ""
        return [
            {"type": "thinking", "thinking": thinking, "signature": part.get("signature") or ""}
        ]
    if kind == "tool_call":
        return [
            {
                "type": "tool_use",
                "id": part.get("id") or answers.make_id("toolu_", seed, number),
                "name": part.get("name") or "",
                "input": answers.arguments_value(part.get("arguments")),
            }
        ]
    if kind == "server_tool_call":
        call_id = part.get("id") or answers.make_id("srvtoolu_", seed, number)
        call = {"id": call_id, "name": part.get("name"), "input": part.get("server_tool_call")}
        return [{"type": "server_tool_use", **call}]
    if kind == "server_tool_call_response":
        name = str(part.get("name") or "")
        block_type = name if name.endswith("_tool_result") else "web_search_tool_result"
        content = part.get("server_tool_call_response")
        return [{"type": block_type, "tool_use_id": part.get("id"), "content": content}]
    if kind == "refusal":
        return [{"type": "text", "text": part.get("content") or "", "citations": None}]
    return []


def _events(body: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events that a body is streamed in."""
    usage = body.get("usage") or {}
    start = {
        **body,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": start}
    calls = 0
    for index, block in enumerate(body["content"]):
        opened, deltas = _block_deltas(block, response, calls, body["content"])
        calls += block.get("type") == "tool_use"
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": body["stop_reason"], "stop_sequence": body.get("stop_sequence")}
    counts = {"output_tokens": usage.get("output_tokens", 0)}
    yield {"type": "message_delta", "delta": delta, "usage": counts}
    yield {"type": "message_stop"}


def _block_deltas(
    block: Mapping[str, Any], response: Mapping[str, Any], call: int, blocks: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a block as it is opened, and what then adds to it."""
    kind = block.get("type")

    def cut(field: str, source: str, delta: str) -> list[dict[str, Any]]:
        # Recorded boundaries run through all blocks of a kind: known only where there is one.
        alone = sum(b.get("type") == kind for b in blocks) == 1
        recorded = answers.recorded_pieces(response, source) if alone else ()
        key = _DELTAS[delta][0]
        return [{"type": delta, key: p} for p in answers.pieces(block.get(field) or "", recorded)]

    if kind == "text":
        deltas = cut("text", "text", "text_delta")
        deltas += [{"type": "citations_delta", "citation": c} for c in block.get("citations") or ()]
        return {**block, "text": "", "citations": None}, deltas
    if kind == "thinking":
        deltas = cut("thinking", "reasoning", "thinking_delta")
        deltas.append({"type": "signature_delta", "signature": block.get("signature") or ""})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use"):
        text = answers.arguments_text(block.get("input"))
        recorded = answers.recorded_arguments(response, call) if kind == "tool_use" else ()
        found = answers.pieces(text, recorded)
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": p} for p in found
        ]
    return dict(block), []


def _chunk(event: dict[str, Any], blocks: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return one recorded event: what it adds, and the payload under `raw`."""
    chunk: dict[str, Any] = {"raw": event}
    delta = event.get("delta") or {}
    kind = delta.get("type")
    index = event.get("index")
    started = event.get("content_block") or {}
    calls = [i for i, b in sorted(blocks.items()) if b.get("type") == "tool_use"]
    if kind == "text_delta" and delta.get("text"):
        chunk["text"] = delta["text"]
    elif kind == "thinking_delta" and delta.get("thinking"):
        chunk["reasoning"] = delta["thinking"]
    elif kind == "input_json_delta" and delta.get("partial_json") and index in calls:
        piece = {"index": calls.index(index), "arguments": delta["partial_json"]}
        chunk["tool_calls"] = [piece]
    elif event.get("type") == "content_block_start" and started.get("type") == "tool_use":
        chunk["tool_calls"] = [
            {"index": len(calls), "id": started.get("id"), "name": started.get("name")}
        ]
    elif event.get("type") == "message_delta" and delta.get("stop_reason"):
        chunk["finish_reason"] = delta["stop_reason"]
    return chunk


def _add_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    kind = str(delta.get("type"))
    if kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
    elif kind == "input_json_delta":
        # The open block holds {}: the text of the arguments is kept apart until it is whole.
        block["_json"] = block.get("_json", "") + (delta.get("partial_json") or "")
    elif kind in _DELTAS:
        source, target = _DELTAS[kind]
        block[target] = (block.get(target) or "") + (delta.get(source) or "")


def _whole(block: dict[str, Any]) -> dict[str, Any]:
    text = block.pop("_json", "")
    if text:
        try:
            block["input"] = json.loads(text)
        except ValueError:
            block["input"] = text  # the stream broke off within the arguments
    return block


CODEC = AnthropicMessages()
