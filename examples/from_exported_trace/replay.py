"""Replay an exported trace: `refund.otlp.jsonl`, written by OpenTelemetry's OpenAI instrumentation and a file exporter.

The trace has spans of the model's calls only, as most instrumentations of a client do. What the tools returned
is read off the next request.

    python examples/from_exported_trace/replay.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otel_cassette import Cassette, LLMRequest

TRACE = Path(__file__).parent / "refund.otlp.jsonl"
SYSTEM = "You are a refund assistant. Be brief."
QUESTION = "Please refund order A-17, it arrived broken."


def lookup_order(order_id: str) -> str:
    """Ask the shop; not reached in a replay."""
    raise ConnectionError(order_id)


def refund(order_id: str, amount: float, note: str = "", items: Any = ()) -> str:
    """Pay back; not reached in a replay."""
    raise ConnectionError(order_id, amount, note, items)


def agent(cassette: Cassette, system: str, settings: dict[str, Any]) -> str:
    """Run the loop that was traced, against the recording."""
    llm = cassette.wrap_llm()
    tools = {"lookup_order": cassette.wrap_tool(lookup_order), "refund": cassette.wrap_tool(refund)}
    messages: list[Any] = [
        {"role": "system", "content": system},
        {"role": "user", "content": QUESTION},
    ]
    while True:
        answer = llm.complete(LLMRequest(messages=messages, **settings))
        if not answer.tool_calls:
            return str(answer.text)
        messages.append(answer.choices[0].message)
        for call in answer.tool_calls:
            result = tools[call.name](**call.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def replay(system: str = SYSTEM) -> tuple[str, Any]:
    """Return the agent's answer and the session of its replay."""
    cassette = Cassette.from_trace(TRACE, mode="lenient")
    # Your program has its own tools and parameters; this one takes them from the recorded request.
    first = cassette.entries_of("llm")[0].request
    settings = {name: first[name] for name in ("model", "tools", "params")}
    with cassette.replaying() as session:
        return agent(cassette, system, settings), session


if __name__ == "__main__":
    for prompt in (SYSTEM, "You are a refund assistant. Be polite."):
        text, session = replay(prompt)
        print(f"{prompt!r}: {session.summary}")
        print(f"  {text}")
        if session.first_divergence is not None:
            print(f"  {session.first_divergence.summary()}")
