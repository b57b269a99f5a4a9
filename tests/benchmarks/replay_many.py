"""Record N calls, or replay them, in this fresh process; print the microseconds a call took."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from otel_cassette import Cassette


def request(index: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": f"order {index}"}]}


class Model:
    """A model that answers at once."""

    def complete(self, _request: object) -> dict[str, Any]:
        message = {"role": "assistant", "content": "done"}
        return {"choices": [{"message": message, "finish_reason": "stop"}]}


def record(path: str, count: int) -> float:
    """Record *count* calls as often as it takes; return the seconds of all rounds."""
    started = time.perf_counter()
    for _ in range(rounds_of(count)):
        cassette = Cassette()
        model = cassette.wrap_llm(Model())
        for index in range(count):
            model.complete(request(index))
    took = time.perf_counter() - started
    cassette.save(path)
    return took


def replay(path: str, count: int) -> float:
    """Replay them; return the seconds of all rounds."""
    cassette = Cassette.load(path, match="content")
    model = cassette.wrap_llm()
    started = time.perf_counter()
    for _ in range(rounds_of(count)):
        cassette.rewind()
        for index in range(count):
            reply = model.complete(request(index))
            assert reply.text == "done"
    took = time.perf_counter() - started
    assert not cassette.divergences
    return took


def rounds_of(count: int) -> int:
    return max(1, 20_000 // count)


if __name__ == "__main__":
    action, file, number = (
        {"record": record, "replay": replay}[sys.argv[1]],
        sys.argv[2],
        sys.argv[3],
    )
    seconds = action(file, int(number))
    print(seconds / (rounds_of(int(number)) * int(number)) * 1e6)  # noqa: T201 - the result
