"""A refund agent, as a program of yours might be.

It knows nothing of cassettes: its model and its tools are handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from otel_cassette import LLMRequest, LLMResponse

INSTRUCTIONS = """\
You are the refund desk of a small bookshop.
Look the order up before you decide anything.
Refund up to 50 EUR yourself; leave more to a colleague.
Answer in one friendly sentence."""
QUESTION = "The atlas in order A-1042 came with torn pages. I would like my money back."
MAX_TURNS = 6


def refund_agent(
    question: str,
    llm: Any,
    tools: Mapping[str, Callable[..., Any]],
    *,
    instructions: str = INSTRUCTIONS,
) -> str:
    """Let the model decide, run the tools it asks for, and return its answer."""
    messages: list[Any] = [
        {"role": "system", "content": instructions},
        {"role": "user", "content": question},
    ]
    for _ in range(MAX_TURNS):
        answer = llm.complete(LLMRequest(model="stand-in-1", messages=messages))
        if not answer.tool_calls:
            return str(answer.text)
        messages.append(answer.choices[0].message)
        for call in answer.tool_calls:
            result = tools[call.name](**call.arguments)
            messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
            )
    return "I could not finish this; a colleague will write to you."


def lookup_order(order_id: str) -> dict[str, Any]:
    """Return what the shop knows of an order."""
    return {"order_id": order_id, "title": "World Atlas", "total": 34.5, "status": "delivered"}


def refund(order_id: str, amount: float) -> dict[str, Any]:
    """Pay an order back: the call that nobody wants to happen in a test."""
    return {"order_id": order_id, "refunded": amount}


class StandInModel:
    """Where your model's client goes: any object with `complete(request)`. This one needs no key."""

    model = "stand-in-1"
    provider = "stand-in"

    def complete(self, request: LLMRequest) -> LLMResponse:
        """Return the next step, by how many tools have answered so far."""
        turn = sum(message.role == "tool" for message in request.messages)
        if turn < 2:
            name = ("lookup_order", "refund")[turn]
            arguments = ({"order_id": "A-1042"}, {"order_id": "A-1042", "amount": 34.5})[turn]
            call = {"type": "tool_call", "id": f"call_{turn}", "name": name, "arguments": arguments}
            message: dict[str, Any] = {"role": "assistant", "parts": [call]}
        else:
            text = "I am sorry about the torn atlas: 34.50 EUR are on their way back to you."
            message = {"role": "assistant", "content": text}
        return LLMResponse(choices=[{"message": message}])
