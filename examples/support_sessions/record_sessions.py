"""Record the two sessions of this folder again.

The model is a stand-in, so that this runs without a key: put your client's function in its place.

    python examples/support_sessions/record_sessions.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support_agent import support_agent

from otel_cassette.harness import Recorder

FIXTURES = Path(__file__).parent / "fixtures"
ORDERS = {
    "A-1003": {"order_id": "A-1003", "total": 20.5, "status": "delivered"},
    "A-2040": {
        "order_id": "A-2040",
        "total": 12.0,
        "status": "in transit",
        "expected_on": "2026-12-02",
    },
}
SESSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "refund-delivered": (
        "Please refund order A-1003, the book is damaged.",
        {"facts": ["A-1003", "20.50"]},
    ),
    "late-parcel": ("Where is A-2040? I want my money back.", {"facts": ["A-2040", "2026-12-02"]}),
}


def lookup_order(order_id: str) -> dict[str, Any]:
    """Return what the shop knows of an order."""
    return ORDERS[order_id]


def refund(order_id: str, amount: float) -> dict[str, Any]:
    """Pay back; here only in words."""
    return {"order_id": order_id, "refunded": amount}


def stand_in_model(model: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Decide as a model would: look the order up, refund it if it was delivered, answer."""
    results = [json.loads(m["content"]) for m in messages if m["role"] == "tool"]
    question = messages[1]["content"]
    order_id = next(order_id for order_id in ORDERS if order_id in question)
    if not results:
        return _calls(model, "lookup_order", {"order_id": order_id}, len(messages))
    order = results[0]
    if order["status"] != "delivered":
        return _says(
            model,
            f"{order_id} is still on its way and should arrive on {order['expected_on']}. "
            "Once it is there I can refund it.",
        )
    if len(results) == 1:
        return _calls(
            model, "refund", {"order_id": order_id, "amount": order["total"]}, len(messages)
        )
    return _says(model, f"I have refunded {order['total']:.2f} for order {order_id}.")


def _calls(model: str, name: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"model": model, "choices": [{"message": message, "finish_reason": "tool_calls"}]}


def _says(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"model": model, "choices": [{"message": message, "finish_reason": "stop"}]}


def record(session_id: str, folder: Path) -> None:
    """Run the agent on one session with everything it calls recorded."""
    query, expected = SESSIONS[session_id]
    recorder = Recorder(session_id, query)
    agent = support_agent(
        recorder.llm("decide", stand_in_model),
        {
            "lookup_order": recorder.tool("lookup_order", lookup_order),
            "refund": recorder.tool("refund", refund),
        },
    )
    recorder.fixture.final_output = agent(query)
    recorder.fixture.expected = expected
    recorder.save(folder / f"{session_id}.json")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES
    for name in SESSIONS:
        record(name, target)
        print(f"recorded {target / name}.json")
