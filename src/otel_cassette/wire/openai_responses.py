"""OpenAI Responses.

Lives here: requests and answers. Not here: the events of a stream (`openai_responses_events.py`).
Losses of a synthesised answer: log probabilities, the kind of a custom tool's call, the split of
reasoning into summary parts.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from otel_cassette.model.chat import block_parts, content_parts, tool_call_part
from otel_cassette.wire import answers
from otel_cassette.wire.base import BaseCodec, checked
from otel_cassette.wire.openai_responses_events import Assembly, body_events, last_body
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.protocol import StreamEvent
from otel_cassette.wire.shapes import (
    chat_message,
    message,
    text_or_blocks,
    tool_definitions,
    without_none,
)

_TAKEN = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "text", "previous_response_id"}
)
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_FINISH = {k: k for k in ("stop", "length", "tool_calls", "content_filter")}
# Fields that an answer repeats from its request -> what it says where the request has none.
_ECHO: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}


class OpenAIResponses(BaseCodec):
    """Codec of `POST .../responses`."""

    name = "openai.responses"
    provider = "openai"
    kind: Literal["llm"] = "llm"
    _paths = (re.compile(r"(?:^|/)responses/?$"),)
    _content_fields = ("input", "prompt", "conversation", "previous_response_id")

    @checked
    def decode_request(
        self,
        body: Mapping[str, Any],
        *,
        path: str | None = None,  # noqa: ARG002 - nothing of a request stands in the path
    ) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON: each input item is one message."""
        body = merged_body(body)
        params, extra = split_params(body, _TAKEN)
        text = dict(body["text"]) if isinstance(body.get("text"), Mapping) else {}
        response_format = text.pop("format", None)
        # Other settings of `text` are parameters in the Chat API, by the same name (`verbosity`).
        more_params, more_extra = split_params(text)
        return request_json(
            operation="chat",
            provider=self.provider,
            model=body.get("model"),
            system_instructions=text_or_blocks(body.get("instructions")),
            messages=input_messages(body.get("input")),
            tools=tool_definitions(body.get("tools")),
            tool_choice=body.get("tool_choice"),
            response_format=response_format,
            previous_response_id=body.get("previous_response_id"),
            params={**params, **more_params},
            extra={**extra, **({"text": more_extra} if more_extra else {})},
        )

    @checked
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as `LLMResponse` JSON, itself under `raw`: all items are one choice."""
        parts = [p for item in body.get("output") or () for p in item_parts(item)]
        choice = answers.choice_json(message("assistant", parts), _finish_of(body, parts))
        return answers.response_json(
            id=body.get("id"),
            model=body.get("model"),
            choices=[choice] if "output" in body else [],
            usage=_usage_counts(body.get("usage")),
            raw=dict(body),
        )

    @checked
    def decode_stream(self, events: Iterable[Any]) -> dict[str, Any]:
        """Return the events as `LLMResponse` JSON; without a last event it ended early."""
        assembly = Assembly()
        for event in answers.payloads(events):
            assembly.add(event)
        whole = self.decode_response(assembly.body())
        del whole["raw"]  # the events hold it
        whole["chunks"] = assembly.chunks
        if not assembly.is_complete:
            whole["ended_early"] = True
            whole["choices"] = [{"message": c["message"]} for c in whole["choices"]]
        return answers.response_json(**whole)

    def encode_response(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> dict[str, Any]:
        """Return the body that answers the request: `raw` where it is one, else made of the parts.

        What is made repeats the live request's fields: instrumentations copy them from the answer.
        """
        streamed = self._own_body({**response, "raw": last_body(response)}, _is_body)
        if streamed is not None:
            return streamed
        parts, reason = answers.choice_parts(response)[0]
        calls = bool(answers.of_type(parts, "tool_call"))
        finish = answers.finish_reason(reason, _FINISH, has_calls=calls)
        cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
        echo = {
            k: default if request_body.get(k) is None else request_body[k]
            for k, default in _ECHO.items()
        }
        made = {
            "id": response.get("id") or answers.make_id("resp_", seed),
            "object": "response",
            "created_at": answers.CREATED,
            "status": "incomplete" if cut else "completed",
            "background": False,
            "error": None,
            "incomplete_details": {"reason": cut} if cut else None,
            "model": response.get("model") or request_body.get("model") or "",
            "output": output_items(parts, seed),
            **echo,
            "usage": _usage_body(response["usage"]) if response.get("usage") else None,
        }
        raw = self._own_body(response, _is_body)
        if raw is not None:
            usage = raw.get("usage")
            if made["usage"] and not (isinstance(usage, Mapping) and "input_tokens" in usage):
                return {**made, **raw, "usage": made["usage"]}  # it was moved elsewhere
            return {**made, **raw} if any(k not in raw for k in _REQUIRED) else raw
        return made

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the named events, from `response.created` to `response.completed`."""
        recorded = answers.recorded_events(response, _is_event)
        if recorded is not None:
            yield from (StreamEvent(e, e["type"]) for e in recorded)
            return
        body = self.encode_response(response, request_body=request_body, seed=seed)
        events: Iterable[StreamEvent] = body_events(body, response)
        if response.get("ended_early"):
            events = answers.cut_after_last(events, lambda e: str(e.event).endswith(".delta"))
        yield from events


# What the SDK's own type asks for: a body with less is completed.
_REQUIRED = (
    "id",
    "created_at",
    "model",
    "output",
    "parallel_tool_calls",
    "tool_choice",
    "tools",
    "status",
)


def input_messages(items: Any) -> list[dict[str, Any]]:
    """Return the `input` of a request, a text or items, as messages."""
    if isinstance(items, str):
        return [message("user", text_or_blocks(items))]
    if isinstance(items, Mapping):
        items = [items]
    return [
        _input_message(item) if isinstance(item, Mapping) else message("user", text_or_blocks(item))
        for item in items or ()
    ]


def _input_message(item: Mapping[str, Any]) -> dict[str, Any]:
    if item.get("type") in _OUTPUTS:
        part = {"id": item.get("call_id"), "response": item.get("output")}
        return message("tool", [{"type": "tool_call_response", **part}])
    if "role" in item and item.get("type") not in _CALLS:
        # `id` and `status` of an output item that is sent back say nothing to the model.
        sent = chat_message({k: v for k, v in item.items() if k not in ("type", "id", "status")})
        return {**sent, "parts": [_without_empty_lists(p) for p in sent["parts"]]}
    return message("assistant", item_parts(item))


def item_parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an output item as parts of the assistant's message; unknown items are kept whole."""
    kind = item.get("type")
    if kind in _CALLS:
        call = tool_call_part({**item, "id": None})  # the item's own id links nothing
        return [without_none({**call, "arguments": item.get("arguments", item.get("input"))})]
    if kind == "message":
        parts = content_parts(item.get("content"))
    elif kind == "reasoning":
        parts = block_parts(item)
    else:
        parts = [dict(item)]
    return [_without_empty_lists(without_none(p)) for p in parts]


def _without_empty_lists(part: dict[str, Any]) -> dict[str, Any]:
    # `annotations` and `logprobs` of an output text: there, and usually empty
    return {k: v for k, v in part.items() if v != []}


def output_items(parts: list[dict[str, Any]], seed: str) -> list[dict[str, Any]]:
    """Return the parts of an answer as output items; adjacent texts are one message."""
    items: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        kind = part.get("type")
        if kind in ("text", "refusal"):
            if not items or items[-1].get("type") != "message":
                head = {"id": answers.make_id("msg_", seed, number), "type": "message"}
                items.append({**head, "status": "completed", "role": "assistant", "content": []})
            items[-1]["content"].append(_content_block(part))
        elif kind == "tool_call":
            items.append(
                {
                    "type": "function_call",
                    "id": answers.make_id("fc_", seed, number),
                    "call_id": part.get("id") or answers.make_id("call_", seed, number),
                    "name": part.get("name") or "",
                    "arguments": answers.arguments_text(part.get("arguments")),
                    "status": "completed",
                }
            )
        elif kind == "reasoning":
            text = part.get("content")
            rest = without_none({"encrypted_content": part.get("encrypted_content")})
            items.append(
                {
                    "id": part.get("id") or answers.make_id("rs_", seed, number),
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": text}] if text else [],
                    **rest,
                }
            )
        elif str(kind).endswith("_call") and kind != "server_tool_call":
            items.append(dict(part))  # an item of this API that the model has no part for
    return items


def _content_block(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "refusal":
        return {"type": "refusal", "refusal": part.get("content") or ""}
    block = {"type": "output_text", "text": part.get("content") or ""}
    return {**block, "annotations": part.get("annotations") or [], "logprobs": []}


def _finish_of(body: Mapping[str, Any], parts: list[dict[str, Any]]) -> str | None:
    status = body.get("status")
    if status == "incomplete":
        why = (body.get("incomplete_details") or {}).get("reason")
        return "length" if why == "max_output_tokens" else why
    if status in (None, "completed"):
        return "tool_calls" if answers.of_type(parts, "tool_call") else "stop"
    return str(status)


def _usage_counts(usage: Any) -> dict[str, int] | None:
    if not isinstance(usage, Mapping):
        return None
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return answers.token_counts(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cache_read__input_tokens=read.get("cached_tokens"),
        reasoning__output_tokens=written.get("reasoning_tokens"),
    )


def _usage_body(usage: Any) -> dict[str, Any]:
    read, written = answers.tokens(usage, "input_tokens"), answers.tokens(usage, "output_tokens")
    cached = answers.tokens(usage, "cache_read.input_tokens")
    reasoning = answers.tokens(usage, "reasoning.output_tokens")
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": read + written,
    }


def _is_body(raw: Mapping[str, Any]) -> bool:
    output = raw.get("output")
    return (
        raw.get("object") == "response"
        and isinstance(output, list)
        and all(isinstance(i, Mapping) and _is_item(i) for i in output)
    )


def _is_item(item: Mapping[str, Any]) -> bool:
    texts = all(isinstance(item.get(k, ""), str) for k in ("type", "arguments", "input"))
    blocks = [*_list(item.get("content")), *_list(item.get("summary"))]
    return (
        texts
        and (item.get("type") != "message" or isinstance(item.get("content"), list))
        and isinstance(item.get("summary"), list | None)
        and all(
            isinstance(b, Mapping)
            and all(isinstance(b.get(k, ""), str) for k in ("text", "refusal"))
            for b in blocks
        )
    )


def _list(value: Any) -> list[Any]:
    """Return a list of blocks; for anything else that is there, one that no check passes."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_event(event: Mapping[str, Any]) -> bool:
    kind = event.get("type")
    return isinstance(kind, str) and (kind.startswith("response.") or kind == "error")


CODEC = OpenAIResponses()
