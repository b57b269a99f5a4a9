"""The demo's agent: a refund desk that looks an order up, pays it back, and answers.

Lives here: what would be a user's own program, and stand-ins for what it calls. Not here: recording
and replaying it (`story.py`). The agent knows nothing of cassettes; model and tools are handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import trace

from otel_cassette.model.llm import LLMRequest, LLMResponse

QUESTION = "The atlas in order A-1042 came with torn pages. I would like my money back."
INSTRUCTIONS = """\
You are the refund desk of a small bookshop.
Look the order up before you decide anything.
Refund up to 50 EUR yourself; leave more to a colleague.
Answer in one friendly sentence."""
TOOLS: list[dict[str, Any]] = [
    {
        "name": "lookup_order",
        "description": "What the shop knows of an order.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
    },
    {
        "name": "refund",
        "description": "Pay an order back.",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
        },
    },
]
MAX_TURNS = 6

Tool = Callable[..., Any]


def refund_agent(
    question: str, llm: Any, tools: Mapping[str, Tool], *, instructions: str = INSTRUCTIONS
) -> str:
    """Answer one customer.

    Args:
        question: What the customer wrote.
        llm: A client with `complete(request)`.
        tools: `lookup_order` and `refund` by name.
        instructions: The system prompt.
    """
    with trace.get_tracer("refund-desk").start_as_current_span("refund_agent"):
        messages: list[Any] = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": question},
        ]
        for _ in range(MAX_TURNS):
            request = LLMRequest.model_validate(
                {"model": llm.model, "messages": messages, "tools": TOOLS}
            )
            answer: LLMResponse = llm.complete(request)
            if not answer.tool_calls:
                return answer.text
            messages.append(answer.choices[0].message)
            for call in answer.tool_calls:
                result = tools[call.name](**call.arguments)
                messages.append(
                    {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
                )
    return "I could not finish this; a colleague will write to you."


class StandInModel:
    """Decides as a model would on this one task; without a key, without a network."""

    model = "stand-in-1"
    provider = "stand-in"

    def complete(self, request: LLMRequest) -> LLMResponse:
        """Return the next step, by how many tools have answered so far."""
        turn = sum(message.role == "tool" for message in request.messages)
        if turn == 0:
            return _calls("call_1", "lookup_order", {"order_id": "A-1042"})
        if turn == 1:
            return _calls("call_2", "refund", {"order_id": "A-1042", "amount": 34.5})
        return _says(
            "I am sorry about the torn atlas: the 34.50 EUR for order A-1042 are on their way back to you."
        )


def lookup_order(order_id: str) -> dict[str, Any]:
    """Return what the shop knows of an order."""
    return {"order_id": order_id, "title": "World Atlas", "total": 34.5, "status": "delivered"}


def refund(order_id: str, amount: float) -> dict[str, Any]:
    """Pay an order back: the call that nobody wants to happen twice."""
    return {"order_id": order_id, "refunded": amount}


def _calls(call_id: str, name: str, arguments: dict[str, Any]) -> LLMResponse:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
    return _answer({"role": "assistant", "parts": [part]}, "tool_calls")


def _says(text: str) -> LLMResponse:
    return _answer({"role": "assistant", "content": text}, "stop")


def _answer(message: dict[str, Any], finish_reason: str) -> LLMResponse:
    return LLMResponse.model_validate(
        {"choices": [{"message": message, "finish_reason": finish_reason}]}
    )
