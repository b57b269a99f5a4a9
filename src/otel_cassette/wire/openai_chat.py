"""OpenAI Chat Completions, and every server that speaks it.

Lives here: requests. Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.shapes import chat_message, tool_definitions

_PATH = re.compile(r"(?:^|/)chat/completions/?$")
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


class OpenAIChat:
    """Codec of `POST .../chat/completions`."""

    name = "openai.chat"
    provider = "openai"
    kind: Literal["llm"] = "llm"

    def matches(self, method: str, host: str, path: str) -> bool:  # noqa: ARG002 - any host
        """Return whether the request is a chat completion, under any base URL."""
        return method.upper() == "POST" and _PATH.search(path.partition("?")[0]) is not None

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return whether the request asks for a stream."""
        return bool(body.get("stream"))

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


CODEC = OpenAIChat()
