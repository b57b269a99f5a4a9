"""Google generateContent, of the Gemini API and of Vertex AI.

Lives here: requests, answers and streams as a whole; fields are accepted in camelCase (the wire)
and in snake_case (the SDK's own models, as instrumentations write them). Not here: contents and
their parts (`google_parts.py`). Losses of a synthesised answer: safety ratings, grounding, log
probabilities, token counts by modality.

Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from otel_cassette.wire import answers, sse
from otel_cassette.wire.base import BaseCodec, checked
from otel_cassette.wire.google_parts import (
    content_message,
    content_messages,
    google_error,
    instruction_parts,
    snake_keys,
    wire_part,
)
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.protocol import StreamEvent
from otel_cassette.wire.shapes import message, tool_definitions, without_none

_PATH = re.compile(r"(?:^|/)([^/:]+):(generateContent|streamGenerateContent)$")
_FORMAT_FIELDS = ("response_mime_type", "response_schema", "response_json_schema")
_TAKEN = frozenset(
    {
        "model",
        "contents",
        "system_instruction",
        "tools",
        "tool_config",
        "generation_config",
        "config",
        *_FORMAT_FIELDS,
    }
)
_FINISH = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    **{
        name: name
        for name in (
            "RECITATION",
            "LANGUAGE",
            "OTHER",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MALFORMED_FUNCTION_CALL",
            "IMAGE_SAFETY",
            "UNEXPECTED_TOOL_CALL",
            "FINISH_REASON_UNSPECIFIED",
        )
    },
}


class GoogleGenerate(BaseCodec):
    """Codec of `POST .../models/MODEL:generateContent` and `:streamGenerateContent`."""

    name = "google.generate"
    provider = "gcp.gemini"
    kind: Literal["llm"] = "llm"
    _paths = (_PATH,)
    _content_fields = ("contents",)

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return whether the path asks for a stream: the body says nothing of it."""
        return (path or "").partition("?")[0].endswith(":streamGenerateContent")

    def stream_media_type(self, path: str) -> str:
        """Return `application/json` unless the query asks for server-sent events."""
        return "text/event-stream" if _wants_sse(path) else "application/json"

    def write_stream(self, events: Iterable[StreamEvent], *, path: str) -> Iterator[bytes]:
        """Yield the bytes of server-sent events (`alt=sse`) or of a JSON array."""
        return sse.write_sse(events) if _wants_sse(path) else sse.write_array(events)

    def read_stream(self, data: bytes, *, path: str) -> list[StreamEvent]:
        """Return the complete events of a streamed body, which may have been cut off."""
        return sse.read_sse(data, open_end=True) if _wants_sse(path) else sse.read_array(data)

    @checked
    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON; the model is read from the path."""
        body = snake_keys(merged_body(body))
        fields = dict(body)
        for group in ("generation_config", "config"):
            if isinstance(body.get(group), Mapping):
                fields.update(snake_keys(body[group]))
        params, extra = split_params(fields, _TAKEN)
        in_path = _PATH.search((path or "").partition("?")[0])
        model = in_path.group(1) if in_path else fields.get("model")
        return request_json(
            operation="generate_content",
            provider="gcp.vertex_ai" if "/publishers/" in (path or "") else self.provider,
            model=model.removeprefix("models/") if isinstance(model, str) else None,
            system_instructions=instruction_parts(fields.get("system_instruction")),
            messages=content_messages(fields.get("contents")),
            tools=_tools(fields.get("tools")),
            tool_choice=_tool_choice(fields.get("tool_config")),
            response_format=without_none({k: fields.get(k) for k in _FORMAT_FIELDS}),
            params=params,
            extra=extra,
        )

    @checked
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as `LLMResponse` JSON, itself under `raw`."""
        fields = snake_keys(body)
        choices = []
        for candidate in fields.get("candidates") or ():
            value = snake_keys(candidate)
            answer = content_message({"role": "model", **(value.get("content") or {})})
            choices.append(answers.choice_json(answer, value.get("finish_reason")))
        return answers.response_json(
            id=fields.get("response_id"),
            model=fields.get("model_version"),
            choices=choices,
            usage=_usage_counts(fields.get("usage_metadata")),
            raw=dict(body),
        )

    @checked
    def decode_stream(self, events: Iterable[Any]) -> dict[str, Any]:
        """Return the chunks as `LLMResponse` JSON; without a finish reason it ended early."""
        merged: dict[int, dict[str, Any]] = {}
        chunks: list[dict[str, Any]] = []
        whole: dict[str, Any] = {}
        for payload in answers.payloads(events):
            piece = self.decode_response(payload)
            whole.update({k: piece[k] for k in ("id", "model", "usage") if k in piece})
            chunks.append(_chunk(piece, payload))
            for position, choice in enumerate(piece.get("choices") or ()):
                candidate = (payload.get("candidates") or [{}])[position]
                index = candidate.get("index") or position
                found = merged.setdefault(index, {"parts": [], "reason": None})
                _append_parts(found["parts"], choice["message"]["parts"])
                found["reason"] = choice.get("finish_reason") or found["reason"]
        choices = [
            answers.choice_json(message("assistant", m["parts"]), m["reason"])
            for _, m in sorted(merged.items())
        ]
        early = not merged or not all(m["reason"] for m in merged.values())
        return answers.response_json(**whole, choices=choices, chunks=chunks, ended_early=early)

    def encode_response(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> dict[str, Any]:
        """Return the body that answers the request: `raw` where it is one, else made of the parts."""
        candidates = []
        for index, (parts, reason) in enumerate(answers.choice_parts(response)):
            content = {"role": "model", "parts": [w for p in parts if (w := wire_part(p))]}
            finish = answers.finish_reason(reason, _FINISH, has_calls=False)
            candidates.append({"content": content, "finishReason": finish, "index": index})
        usage = response.get("usage")
        told = {"usageMetadata": _usage_body(usage)} if usage else {}
        raw = self._own_body(response, _is_body)
        if raw is not None:
            return {**told, **raw}  # the API requires none of the rest
        return {
            "candidates": candidates,
            **told,
            "modelVersion": response.get("model") or request_body.get("model") or "",
            "responseId": response.get("id") or answers.make_id("", seed),
        }

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the chunks: each a body with a piece of the answer, the last with the end."""
        recorded = answers.recorded_events(response, _is_chunk)
        if recorded is not None:
            yield from (StreamEvent(e) for e in recorded)
            return
        body = self.encode_response(response, request_body=request_body, seed=seed)
        early = bool(response.get("ended_early"))
        head = {k: body[k] for k in ("modelVersion", "responseId") if k in body}
        usage = body.get("usageMetadata")
        for number, candidate in enumerate(body["candidates"]):
            pieces = list(_pieces(candidate, response, number))
            final = number == len(body["candidates"]) - 1
            for position, parts in enumerate(pieces):
                chunk = {"content": {"role": "model", "parts": parts}, "index": number}
                end: dict[str, Any] = {}
                if position == len(pieces) - 1 and not early:
                    rest = {k: v for k, v in candidate.items() if k not in ("content", "index")}
                    chunk.update(rest)
                    end = {"usageMetadata": usage} if final and usage else {}
                yield StreamEvent({"candidates": [chunk], **end, **head})

    def _error_body(self, status: int, message: str) -> dict[str, Any]:
        return google_error(status, message)


def _wants_sse(path: str) -> bool:
    return "alt=sse" in path.partition("?")[2].split("&")


def _tools(tools: Any) -> list[dict[str, Any]]:
    flat: list[Any] = []
    for tool in tools or ():
        for key, value in snake_keys(tool).items():
            if key == "function_declarations":
                # Only the declaration's own keys: those in its schema are the user's names.
                flat += [snake_keys(d) for d in value or ()]
            elif value is not None:
                settings = value if isinstance(value, Mapping) else {"value": value}
                flat.append({**settings, "type": key, "name": key})
    return tool_definitions(flat)


def _tool_choice(config: Any) -> Any:
    if not isinstance(config, Mapping):
        return None
    config = without_none(snake_keys(config))
    calling = config.get("function_calling_config")
    if not isinstance(calling, Mapping) or len(config) > 1:
        return config or None
    calling = without_none(snake_keys(calling))
    mode = str(calling.get("mode", "auto")).lower()
    names = calling.get("allowed_function_names") or []
    if mode == "any" and len(names) == 1:
        return {"type": "function", "name": names[0]}
    return mode if not names else {"type": mode, "allowed_function_names": names}


def _usage_counts(usage: Any) -> dict[str, int] | None:
    """The API counts thoughts apart from candidates; the GenAI attribute includes them."""
    if not isinstance(usage, Mapping):
        return None
    usage = snake_keys(usage)
    thoughts = usage.get("thoughts_token_count") or 0
    return answers.token_counts(
        input_tokens=usage.get("prompt_token_count"),
        output_tokens=(usage.get("candidates_token_count") or 0) + thoughts,
        cache_read__input_tokens=usage.get("cached_content_token_count"),
        reasoning__output_tokens=thoughts,
    )


def _usage_body(usage: Any) -> dict[str, Any]:
    read, written = answers.tokens(usage, "input_tokens"), answers.tokens(usage, "output_tokens")
    thoughts = answers.tokens(usage, "reasoning.output_tokens")
    cached = answers.tokens(usage, "cache_read.input_tokens")
    return {
        "promptTokenCount": read,
        "candidatesTokenCount": max(written - thoughts, 0),
        "totalTokenCount": read + written,
        **({"thoughtsTokenCount": thoughts} if thoughts else {}),
        **({"cachedContentTokenCount": cached} if cached else {}),
    }


def _is_body(raw: Mapping[str, Any]) -> bool:
    """A body as the wire has it: instrumentations write down the SDK's models, in snake_case."""
    candidates = raw.get("candidates")
    return (
        isinstance(candidates, list)
        and not any("_" in key for key in raw)
        and all(
            isinstance(c, Mapping)
            and not any("_" in key for key in c)
            and isinstance(c.get("content") or {}, Mapping)
            for c in candidates
        )
    )


def _is_chunk(raw: Mapping[str, Any]) -> bool:
    return "usageMetadata" in raw or "promptFeedback" in raw or _is_body(raw)


def _pieces(
    candidate: Mapping[str, Any], response: Mapping[str, Any], number: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the parts of each chunk of a candidate; at least one chunk, maybe of no parts."""
    parts = (candidate.get("content") or {}).get("parts") or []
    texts = [p for p in parts if set(p) == {"text"}]
    sent = False
    for part in parts:
        if "text" not in part:
            yield [part]
        else:
            alone = len(texts) == 1 and part in texts
            recorded = answers.recorded_pieces(response, "text", number) if alone else ()
            for piece in answers.pieces(part["text"], recorded) or [""]:
                yield [{**part, "text": piece}]
        sent = True
    if not sent:
        yield []


def _chunk(piece: Mapping[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """Return one recorded chunk: what it adds, and the payload under `raw`."""
    chunk: dict[str, Any] = {"raw": payload}
    parts, reason = answers.choice_parts(piece)[0]
    text = "".join(str(p.get("content") or "") for p in answers.of_type(parts, "text"))
    thought = "".join(str(p.get("content") or "") for p in answers.of_type(parts, "reasoning"))
    calls = [
        {k: c[k] for k in ("id", "name", "arguments") if k in c}
        for c in answers.of_type(parts, "tool_call")
    ]
    found = {"text": text, "reasoning": thought, "tool_calls": calls, "finish_reason": reason}
    return {**{k: v for k, v in found.items() if v}, **chunk}


def _append_parts(parts: list[dict[str, Any]], added: list[dict[str, Any]]) -> None:
    """Add a chunk's parts: a text goes on in the text before it, an empty one says nothing."""
    for part in added:
        last = parts[-1] if parts else {}
        plain = part["type"] in ("text", "reasoning") and set(part) == {"type", "content"}
        if plain and last.get("type") == part["type"]:
            parts[-1] = {**last, "content": last["content"] + part["content"]}
        elif not plain or part["content"]:
            parts.append(part)


CODEC = GoogleGenerate()
