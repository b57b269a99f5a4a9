"""Anthropic Messages, also as Vertex AI and Azure serve it.

Lives here: requests. Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.shapes import chat_message, text_or_blocks, tool_definitions

# The SDK always appends /v1/messages; threads of other APIs have an id before /messages.
_PATH = re.compile(r"(?:^|/)v1/messages/?$")
_VERTEX = re.compile(r"/publishers/anthropic/models/([^/:]+):(?:rawPredict|streamRawPredict)$")
_TAKEN = frozenset({"model", "messages", "system", "tools", "tool_choice", "output_format"})


class AnthropicMessages:
    """Codec of `POST .../v1/messages`."""

    name = "anthropic.messages"
    provider = "anthropic"
    kind: Literal["llm"] = "llm"

    def matches(self, method: str, host: str, path: str) -> bool:  # noqa: ARG002 - any host
        """Return whether the request creates a message, under any base URL."""
        path = path.partition("?")[0]
        found = _PATH.search(path) or _VERTEX.search(path)
        return method.upper() == "POST" and found is not None

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return whether the request asks for a stream."""
        return bool(body.get("stream"))

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


CODEC = AnthropicMessages()
