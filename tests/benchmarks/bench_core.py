"""The core against its budgets: ratios measured in one run, peers on the same work.

`make bench` runs it. Each figure is the best of several rounds, with the garbage collector as it is.
A budget that is missed fails; the table is printed either way.
"""

from __future__ import annotations

import gc
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from figures import Figures

from otel_cassette import Cassette, LLMRequest

ROUNDS = 5
CALLS = 1_000


def request(number: int) -> LLMRequest:
    """A request of about 3 kB: instructions, a tool, a short conversation."""
    order = {"order": f"A-{number}", "items": [{"sku": "x", "qty": 2}] * 8}
    call = {
        "id": "c1",
        "function": {"name": "lookup", "arguments": f'{{"order_id": "A-{number}"}}'},
    }
    return LLMRequest.model_validate(
        {
            "model": "gpt-4o",
            "system_instructions": "You are a refund assistant. Be brief and polite. " * 18,
            "messages": [
                {"role": "user", "content": f"Please refund order A-{number}. " * 16},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": json.dumps(order)},
                {"role": "assistant", "content": "The order is found. " * 16},
                {"role": "user", "content": "Thank you, go on. " * 16},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "lookup",
                        "description": "Look an order up by its id.",
                        "parameters": {
                            "type": "object",
                            "properties": {"order_id": {"type": "string"}},
                            "required": ["order_id"],
                        },
                    },
                }
            ],
            "params": {"temperature": 0.2, "max_tokens": 256},
        }
    )


ANSWER = {
    "choices": [
        {
            "message": {"role": "assistant", "content": "Your order has been refunded. " * 3},
            "finish_reason": "stop",
        }
    ],
    "usage": {"input_tokens": 700, "output_tokens": 20},
}


class Model:
    """A model that answers at once."""

    model = "gpt-4o"
    provider = "none"

    def complete(self, _request: LLMRequest) -> dict[str, Any]:
        return ANSWER


def best_us(work: Callable[[], None], calls: int, rounds: int = ROUNDS) -> float:
    """The shortest of several rounds, in microseconds a call."""
    times = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) / calls * 1e6


def recorded(path: Path, requests: list[LLMRequest]) -> Path:
    cassette = Cassette()
    model = cassette.wrap_llm(Model())
    for each in requests:
        model.complete(each)
    cassette.save(path)
    return path


@pytest.fixture(scope="module")
def requests() -> list[LLMRequest]:
    return [request(number) for number in range(CALLS)]


def in_turns_us(*works: Callable[[], None], calls: int, rounds: int = 9) -> list[float]:
    """The best of each, taking turns, so that a busy moment hits all of them; microseconds a call."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for place, work in enumerate(works):
            times[place].append(best_us(work, calls, rounds=1))
    return [min(one) for one in times]


@pytest.mark.parametrize("match", ["index", "content"])
def test_replay_through_a_wrapper(
    tmp_path: Path, requests: list[LLMRequest], figures: Figures, match: Any
) -> None:
    """Against `json.dumps(sort_keys=True)` and sha256 of the same requests."""
    plain = [each.to_json() for each in requests]
    assert 2_700 < len(json.dumps(plain[0])) < 3_300
    path = recorded(tmp_path / "calls.jsonl", requests)
    cassette = Cassette.load(path, match=match)
    model = cassette.wrap_llm()

    def hash_all() -> None:
        for each in plain:
            hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()

    def replay_all() -> None:
        cassette.rewind()
        for each in requests:
            model.complete(each)

    hashed, replayed = in_turns_us(hash_all, replay_all, calls=CALLS)
    assert len(cassette.calls) == CALLS
    assert cassette.divergences == []
    figures.add(f"replay of a call, match={match!r}, redaction on", replayed, hashed, 2.0)


@pytest.mark.parametrize("action", ["record", "replay"])
def test_a_call_costs_the_same_from_100_to_100_000(
    tmp_path: Path, figures: Figures, action: str
) -> None:
    """In a fresh process each, so that neither warms the other."""
    took = {}
    for count in (100, 100_000):
        path = str(tmp_path / f"{count}.jsonl")
        if action == "replay":
            fresh_process_us("record", path, count)
        took[count] = fresh_process_us(action, path, count)
    # Nothing here grows with the count but the heap that Python's collector walks: that is the rest.
    figures.add(f"{action} a call, 100,000 calls against 100", took[100_000], took[100], 2.0)


def fresh_process_us(action: str, path: str, count: int) -> float:
    script = Path(__file__).with_name("replay_many.py")
    done = subprocess.run(
        [sys.executable, str(script), action, path, str(count)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def test_a_run_of_turns_is_a_file_linear_in_the_turns(tmp_path: Path, figures: Figures) -> None:
    sizes = {}
    for turns in (50, 100):
        cassette = Cassette()
        model = cassette.wrap_llm(Model())
        messages: list[dict[str, Any]] = []
        for turn in range(turns):
            messages.append({"role": "user", "content": f"Turn {turn}. " * 20})
            model.complete(list(messages))
            messages.append(ANSWER["choices"][0]["message"])
        path = tmp_path / f"{turns}.jsonl"
        cassette.save(path)
        sizes[turns] = path.stat().st_size
    figures.add("bytes of 100 turns against 50", sizes[100], sizes[50], 2.1, unit="bytes")


def test_import_time(figures: Figures) -> None:
    ours = import_ms("import otel_cassette")
    base = import_ms(
        "import pydantic; from pydantic import BaseModel; import opentelemetry.sdk.trace"
    )
    figures.add("import otel_cassette", ours, base, 1.3, unit="ms")


def import_ms(statement: str) -> float:
    program = (
        f"import time; t = time.perf_counter(); {statement}; print((time.perf_counter() - t) * 1e3)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        for _ in range(7)
    ]
    return min(float(run.stdout) for run in runs)
