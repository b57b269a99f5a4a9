"""A support agent: a model decides, tools act. What it calls is handed in, so that it can be recorded and replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

INSTRUCTIONS = "You help customers of a bookshop. Refund delivered orders only."
MAX_TURNS = 6


def support_agent(
    model: Callable[..., Any],
    tools: Mapping[str, Callable[..., Any]],
    *,
    instructions: str = INSTRUCTIONS,
) -> Callable[[str], str]:
    """Return `agent(query) -> answer` over a chat-completions-shaped model and named tools."""

    def agent(query: str) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": query},
        ]
        for _ in range(MAX_TURNS):
            message = model(model="gpt-4o-mini", messages=messages)["choices"][0]["message"]
            if not message.get("tool_calls"):
                return str(message["content"])
            messages.append(message)
            for call in message["tool_calls"]:
                arguments = json.loads(call["function"]["arguments"])
                result = tools[call["function"]["name"]](**arguments)
                messages.append(
                    {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}
                )
        return "I could not finish this; a colleague will write to you."

    return agent
