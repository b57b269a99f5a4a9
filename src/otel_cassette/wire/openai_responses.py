"""OpenAI Responses.

Lives here: requests. Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_cassette.model.chat import block_parts, tool_call_part
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.shapes import (
    chat_message,
    message,
    text_or_blocks,
    tool_definitions,
    without_none,
)

_PATH = re.compile(r"(?:^|/)responses/?$")
_TAKEN = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "text", "previous_response_id"}
)
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


class OpenAIResponses:
    """Codec of `POST .../responses`."""

    name = "openai.responses"
    provider = "openai"
    kind: Literal["llm"] = "llm"

    def matches(self, method: str, host: str, path: str) -> bool:  # noqa: ARG002 - any host
        """Return whether the request creates a response, under any base URL."""
        return method.upper() == "POST" and _PATH.search(path.partition("?")[0]) is not None

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return whether the request asks for a stream."""
        return bool(body.get("stream"))

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


def input_messages(items: Any) -> list[dict[str, Any]]:
    """Return the `input` of a request, a text or items, as messages."""
    if isinstance(items, str):
        return [message("user", text_or_blocks(items))]
    if isinstance(items, Mapping):
        items = [items]
    return [item_message(item) for item in items or () if isinstance(item, Mapping)]


def item_message(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return one input or output item as a message."""
    kind = item.get("type")
    if kind in _CALLS:
        arguments = item.get("arguments", item.get("input"))
        call = tool_call_part({**item, "id": None})  # the item's own id links nothing
        return message("assistant", [{**call, "arguments": arguments}])
    if kind in _OUTPUTS:
        part = {
            "type": "tool_call_response",
            "id": item.get("call_id"),
            "response": item.get("output"),
        }
        return message("tool", [part])
    if "role" in item:
        # `id` and `status` of an output item that is sent back say nothing to the model.
        sent = chat_message({k: v for k, v in item.items() if k not in ("type", "id", "status")})
        sent["parts"] = [_without_empty_lists(p) for p in sent["parts"]]
        return sent
    if kind == "reasoning":
        return message("assistant", block_parts(item))
    return message("assistant", [without_none(item)])


def _without_empty_lists(part: dict[str, Any]) -> dict[str, Any]:
    # `annotations` and `logprobs` of an output text that is sent back: there, and usually empty
    return {k: v for k, v in part.items() if v != []}


CODEC = OpenAIResponses()
