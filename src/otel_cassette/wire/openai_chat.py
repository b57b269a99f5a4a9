"""OpenAI Chat Completions, and every server that speaks it.

Lives here: requests, answers and streams. Not here: Responses, whose items and events are others.
Losses of a synthesised answer: log probabilities, annotations, audio.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from otel_cassette.wire import answers
from otel_cassette.wire.base import BaseCodec, checked
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.protocol import StreamEvent
from otel_cassette.wire.shapes import chat_message, tool_definitions

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")  # Azure: the model may stand in the path alone
_TAKEN = frozenset(
    {
        "model",
        "messages",
        "tools",
        "functions",
        "tool_choice",
        "function_call",
        "response_format",
    }
)
_TEXT = (str, type(None))
_FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "function_call",
}


class OpenAIChat(BaseCodec):
    """Codec of `POST .../chat/completions`."""

    name = "openai.chat"
    provider = "openai"
    kind: Literal["llm"] = "llm"
    _paths = (re.compile(r"(?:^|/)chat/completions/?$"),)
    _content_fields = ("messages",)

    @checked
    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON; the deprecated `functions` count as tools."""
        body = merged_body(body)
        params, extra = split_params(body, _TAKEN)
        deployment = _DEPLOYMENT.search(path or "")
        return request_json(
            operation="chat",
            provider=self.provider,
            model=body.get("model") or (deployment.group(1) if deployment else None),
            messages=[chat_message(m) for m in body.get("messages") or ()],
            tools=tool_definitions([*(body.get("tools") or ()), *(body.get("functions") or ())]),
            tool_choice=body.get("tool_choice", body.get("function_call")),
            response_format=body.get("response_format"),
            params=params,
            extra=extra,
        )

    @checked
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as `LLMResponse` JSON, itself under `raw`."""
        choices = [
            answers.choice_json(
                chat_message({"role": "assistant", **(c.get("message") or {})}),
                c.get("finish_reason"),
            )
            for c in body.get("choices") or ()
        ]
        return answers.response_json(
            id=body.get("id"),
            model=body.get("model"),
            choices=choices,
            usage=_usage_counts(body.get("usage")),
            raw=dict(body),
        )

    @checked
    def decode_stream(self, events: Iterable[Any]) -> dict[str, Any]:
        """Return the chunks as `LLMResponse` JSON; without a finish reason it ended early."""
        messages: dict[int, dict[str, Any]] = {}
        chunks: list[dict[str, Any]] = []
        head: dict[str, Any] = {}
        usage = None
        for payload in answers.payloads(events):
            head = head or payload
            usage = payload.get("usage") or usage
            chunks.append(_chunk(payload))
            for choice in payload.get("choices") or ():
                index = choice.get("index") or 0
                _add_delta(messages.setdefault(index, _new_message()), choice)
        finished = [m.pop("finish_reason") for _, m in sorted(messages.items())]
        choices = [
            answers.choice_json(chat_message(_whole(m)), reason)
            for (_, m), reason in zip(sorted(messages.items()), finished, strict=True)
        ]
        return answers.response_json(
            id=head.get("id"),
            model=head.get("model"),
            choices=choices,
            usage=_usage_counts(usage),
            chunks=chunks,
            ended_early=not finished or not all(finished),
        )

    def _own_body(
        self, response: Mapping[str, Any], is_body: Callable[[Mapping[str, Any]], bool]
    ) -> dict[str, Any] | None:
        raw = response.get("raw")
        if isinstance(raw, dict) and is_body(raw) and _is_same_text(raw, response):
            return raw  # the commonest answer, told without decoding it
        return super()._own_body(response, is_body)

    def encode_response(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> dict[str, Any]:
        """Return the body that answers the request: `raw` where it is one, else made of the parts."""
        raw = self._own_body(response, _is_body)
        if raw is not None and _is_complete(raw):
            return raw
        made = {
            "id": response.get("id") or answers.make_id("chatcmpl-", seed),
            "object": "chat.completion",
            "created": answers.CREATED,
            "model": response.get("model") or request_body.get("model") or "",
        }
        if raw is not None:
            return _completed(raw, made, response)
        made["choices"] = [
            _choice(index, parts, reason, seed)
            for index, (parts, reason) in enumerate(answers.choice_parts(response))
        ]
        if response.get("usage"):
            made["usage"] = _usage_body(response["usage"])
        return made

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the chunks; usage comes only where `stream_options.include_usage` asks for it."""
        options = request_body.get("stream_options")
        wants_usage = bool(isinstance(options, Mapping) and options.get("include_usage"))
        early = bool(response.get("ended_early"))
        recorded = answers.recorded_events(response, _is_chunk)
        if recorded is not None:
            chunks = [c for c in recorded if c.get("choices") or wants_usage or not c.get("usage")]
            usage_sent = any(c.get("usage") for c in recorded)
            head = recorded[0]
        else:
            body = self.encode_response(response, request_body=request_body, seed=seed)
            head = {**{k: v for k, v in body.items() if k not in ("choices", "usage")}}
            head["object"] = "chat.completion.chunk"
            choices = list(_deltas(body, response))
            while early and len(choices) > 1 and choices[-1]["finish_reason"]:
                choices.pop()
            chunks = [_with_usage({**head, "choices": [c]}, wanted=wants_usage) for c in choices]
            usage_sent = False
        for chunk in chunks:
            yield StreamEvent(chunk)
        if early:
            return
        if wants_usage and not usage_sent and response.get("usage"):
            kept = {k: v for k, v in head.items() if k not in ("choices", "usage")}
            yield StreamEvent({**kept, "choices": [], "usage": _usage_body(response["usage"])})
        yield StreamEvent("[DONE]")


def _usage_counts(usage: Any) -> dict[str, int] | None:
    if not isinstance(usage, Mapping):
        return None
    read = usage.get("prompt_tokens_details") or {}
    written = usage.get("completion_tokens_details") or {}
    return answers.token_counts(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cache_read__input_tokens=read.get("cached_tokens"),
        reasoning__output_tokens=written.get("reasoning_tokens"),
    )


def _usage_body(usage: Any) -> dict[str, Any]:
    read, written = answers.tokens(usage, "input_tokens"), answers.tokens(usage, "output_tokens")
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {
            "cached_tokens": answers.tokens(usage, "cache_read.input_tokens")
        },
        "completion_tokens_details": {
            "reasoning_tokens": answers.tokens(usage, "reasoning.output_tokens")
        },
    }


def _is_body(raw: Mapping[str, Any]) -> bool:
    choices = raw.get("choices")
    return (
        raw.get("object", "chat.completion") == "chat.completion"
        and isinstance(choices, list)
        and bool(choices)
        and all(map(_is_choice, choices))
    )


def _is_same_text(raw: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Return whether payload and parts are one choice each, of the same single text and no call."""
    ours = response.get("choices")
    if not isinstance(ours, list) or len(ours) != 1 or len(raw["choices"]) != 1:
        return False
    message = raw["choices"][0]["message"]
    parts: list[Any] = (ours[0].get("message") or {}).get("parts") or []
    return bool(
        len(parts) == 1
        and parts[0].get("type") == "text"
        and parts[0].get("content") == message.get("content")
        and not (message.get("tool_calls") or message.get("function_call"))
    )


def _is_choice(choice: Any) -> bool:
    """One with a chat message: rebuilt ones have calls without `function`, or another API's blocks."""
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        return False
    calls = message.get("tool_calls") or []
    return (
        isinstance(message.get("content"), _TEXT)
        and isinstance(message.get("refusal"), _TEXT)
        and isinstance(message.get("reasoning_content"), _TEXT)
        and isinstance(calls, list)
        and all(map(_is_call, calls))
    )


def _is_call(call: Any) -> bool:
    if not isinstance(call, Mapping) or not call.get("id"):
        return False
    function, custom = call.get("function"), call.get("custom")
    return (isinstance(function, Mapping) and isinstance(function.get("arguments"), str)) or (
        isinstance(custom, Mapping) and isinstance(custom.get("input"), str)
    )


def _is_chunk(raw: Mapping[str, Any]) -> bool:
    # Azure's first chunk has the results of the content filter, and no object.
    named = raw.get("object") in ("chat.completion.chunk", "", None)
    return named and isinstance(raw.get("choices"), list)


def _is_complete(raw: Mapping[str, Any]) -> bool:
    """Return whether a payload has all that `_completed` would add."""
    usage = raw.get("usage")
    if not isinstance(usage, Mapping) or "prompt_tokens" not in usage:
        return False
    if None in (raw.get("id"), raw.get("object"), raw.get("created"), raw.get("model")):
        return False
    for choice in raw["choices"]:
        message = choice["message"]
        if not ("role" in message and "content" in message and "index" in choice):
            return False
        if not choice.get("finish_reason"):
            return False
    return True


def _completed(
    raw: dict[str, Any], made: dict[str, Any], response: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `raw`, with what is missing taken from the model; a whole one is left as it is."""
    body = {**made, **{k: v for k, v in raw.items() if v is not None or k not in made}}
    choices = []
    for index, choice in enumerate(raw["choices"]):
        message = choice["message"]
        reason = answers.finish_reason(
            choice.get("finish_reason"), _FINISH, has_calls=bool(message.get("tool_calls"))
        )
        choices.append(
            {
                "index": index,
                **choice,
                "message": {"role": "assistant", "content": None, **message},
                "finish_reason": choice.get("finish_reason") or reason,
            }
        )
    body["choices"] = choices
    usage = raw.get("usage")
    if not (isinstance(usage, Mapping) and "prompt_tokens" in usage):
        body.pop("usage", None)
        if response.get("usage"):
            body["usage"] = _usage_body(response["usage"])
    return body


def _choice(index: int, parts: list[dict[str, Any]], reason: Any, seed: str) -> dict[str, Any]:
    calls = [
        {
            "id": call.get("id") or answers.make_id("call_", seed, index, number),
            "type": "function",
            "function": {
                "name": call.get("name") or "",
                "arguments": answers.arguments_text(call.get("arguments")),
            },
        }
        for number, call in enumerate(answers.of_type(parts, "tool_call"))
    ]
    refusal = answers.joined(parts, "refusal")
    text = answers.joined(parts, "text")
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "" if text is None and not calls and refusal is None else text,
        "refusal": refusal,
    }
    reasoning = answers.joined(parts, "reasoning")
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    finish = answers.finish_reason(reason, _FINISH, has_calls=bool(calls))
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}


def _deltas(body: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the choices of the chunks that a body is streamed in."""
    for number, choice in enumerate(body["choices"]):
        message = choice["message"]

        def delta(
            value: dict[str, Any], reason: Any = None, index: Any = choice["index"]
        ) -> dict[str, Any]:
            return {"index": index, "delta": value, "logprobs": None, "finish_reason": reason}

        calls = message.get("tool_calls") or ()
        text = message.get("content")
        yield delta(
            {"role": "assistant", "content": "" if text is not None else None, "refusal": None}
        )
        for field, source in (
            ("reasoning_content", "reasoning"),
            ("content", "text"),
            ("refusal", ""),
        ):
            recorded = answers.recorded_pieces(response, source, number) if source else ()
            for piece in answers.pieces(message.get(field) or "", recorded):
                yield delta({field: piece})
        for index, call in enumerate(calls):
            inner = "custom" if "custom" in call else "function"
            field = "input" if inner == "custom" else "arguments"
            yield delta(
                {"tool_calls": [{**call, "index": index, inner: {**call[inner], field: ""}}]}
            )
            recorded = answers.recorded_arguments(response, index, number)
            for piece in answers.pieces(call[inner].get(field) or "", recorded):
                yield delta({"tool_calls": [{"index": index, inner: {field: piece}}]})
        yield delta({}, choice.get("finish_reason"))


def _with_usage(chunk: dict[str, Any], *, wanted: bool) -> dict[str, Any]:
    return {**chunk, "usage": None} if wanted else chunk


def _chunk(payload: dict[str, Any]) -> dict[str, Any]:
    """Return one recorded chunk: what it adds, and the payload under `raw`."""
    chunk: dict[str, Any] = {}
    for choice in (payload.get("choices") or ())[:1]:
        delta = choice.get("delta") or {}
        chunk["index"] = choice.get("index") or None
        chunk["text"] = delta.get("content")
        chunk["reasoning"] = delta.get("reasoning_content")
        chunk["finish_reason"] = choice.get("finish_reason")
        chunk["tool_calls"] = [
            {k: v for k, v in _call_piece(c).items() if v} | {"index": c.get("index") or 0}
            for c in delta.get("tool_calls") or ()
        ]
    chunk["usage"] = _usage_counts(payload.get("usage"))
    return {**{k: v for k, v in chunk.items() if v}, "raw": payload}


def _call_piece(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {
        "id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _new_message() -> dict[str, Any]:
    return {
        "content": "",
        "reasoning_content": "",
        "refusal": "",
        "calls": {},
        "finish_reason": None,
    }


def _add_delta(message: dict[str, Any], choice: Mapping[str, Any]) -> None:
    delta = choice.get("delta") or {}
    for field in ("content", "reasoning_content", "refusal"):
        message[field] += delta.get(field) or ""
    for call in delta.get("tool_calls") or ():
        piece = _call_piece(call)
        whole = _call_of(message["calls"], call.get("index") or 0, piece)
        whole["id"] = whole["id"] or piece["id"]
        whole["name"] += piece["name"] or ""
        whole["arguments"] += piece["arguments"] or ""
    message["finish_reason"] = choice.get("finish_reason") or message["finish_reason"]


def _call_of(
    calls: dict[tuple[int, int], Any], index: int, piece: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the call that a piece goes on with.

    Some servers give every call the index 0, others every piece an id of its own: a new call has a
    new id and a name.
    """
    call_id = piece["id"]
    held = [key for key in calls if key[0] == index]
    key = held[-1] if held else (index, 0)
    if held and call_id and piece["name"] and calls[key]["id"] not in (None, call_id):
        key = (index, len(held))
    whole: dict[str, Any] = calls.setdefault(key, {"id": None, "name": "", "arguments": ""})
    return whole


def _whole(message: dict[str, Any]) -> dict[str, Any]:
    calls = [call for _, call in sorted(message.pop("calls").items())]
    return {"role": "assistant", **message, "tool_calls": calls}


CODEC = OpenAIChat()
