"""Record N calls, replay them in this fresh process, print the microseconds a replayed call took."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from otel_cassette import Cassette, CassetteEntry


def main(path: str, count: int) -> None:
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]
    }
    Cassette(
        CassetteEntry(
            kind="llm",
            index=index,
            request={"model": "m", "messages": [{"role": "user", "content": f"order {index}"}]},
            response=answer,
        )
        for index in range(count)
    ).save(path)
    cassette = Cassette.load(path, match="content")
    model = cassette.wrap_llm()
    rounds = max(1, 20_000 // count)
    started = time.perf_counter()
    for _ in range(rounds):
        cassette.rewind()
        for index in range(count):
            reply = model.complete(
                {"model": "m", "messages": [{"role": "user", "content": f"order {index}"}]}
            )
            assert reply.text == "done"
    took = time.perf_counter() - started
    assert not cassette.divergences
    print(took / (rounds * count) * 1e6)  # noqa: T201 - the result


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
