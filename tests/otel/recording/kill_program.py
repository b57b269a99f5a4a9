"""Records in forked children and kills each of them at a random moment; prints what came of it.

Run by `test_crash.py` as a program of its own, so that the forks start from a process without
threads. Prints one JSON line a child: which calls had finished, and which were recovered.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from otel_cassette import Cassette, CassetteSpanProcessor, recover

MAX_CALLS = 400


def chat(tracer: Tracer, number: int) -> None:
    """Make one finished model call span, as an instrumentation writes it."""
    question = [{"role": "user", "parts": [{"type": "text", "content": f"q{number} " + "x" * 500}]}]
    answer = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": f"a{number}"}],
            "finish_reason": "stop",
        }
    ]
    with tracer.start_as_current_span(
        "chat m", attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    ) as span:
        span.set_attribute("gen_ai.input.messages", json.dumps(question))
        span.set_attribute("gen_ai.output.messages", json.dumps(answer))


def work(tracer: Tracer, told: int) -> None:
    """Make calls until killed; say of each that it has finished."""
    with tracer.start_as_current_span("agent"):
        for number in range(MAX_CALLS):
            with tracer.start_as_current_span("step"), tracer.start_as_current_span("GET"):
                pass
            chat(tracer, number)
            os.write(told, b"%d\n" % number)
    time.sleep(60)


def record(how: str, folder: Path, told: int) -> None:
    """Record in the given way, for ever."""
    processor = CassetteSpanProcessor(directory=folder if how == "directory" else None)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("test")
    if how == "directory":
        work(tracer, told)
        return
    cassette = Cassette()
    with cassette.recording(folder / "run.jsonl"):
        if how == "wrapper":
            tool = cassette.wrap_tool(lambda n: {"answer": n}, name="count")
            for number in range(MAX_CALLS):
                tool(n=number)
                os.write(told, b"%d\n" % number)
            time.sleep(60)
        work(tracer, told)


def killed(how: str, folder: Path, delay_s: float) -> list[int]:
    """Return the calls that a child had finished when it was killed."""
    reading, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            record(how, folder, told)
        finally:
            os._exit(1)
    os.close(told)
    first = os.read(reading, 2)  # it is at work
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    data = first
    while piece := os.read(reading, 65536):
        data += piece
    os.close(reading)
    return [int(line) for line in data.split()]


def recovered(folder: Path, how: str) -> list[int]:
    """Return the numbers of the calls in the recovered cassettes."""
    found: list[int] = []
    for path in recover(folder):
        for entry in Cassette.load(path).entries:
            answer: Any = entry.response
            found.append(
                answer["answer"]
                if how == "wrapper"
                else int(answer["choices"][0]["message"]["parts"][0]["content"][1:])
            )
    return found


def main() -> None:
    """Kill as many children as asked for."""
    how, count, seed, root = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    chance = random.Random(seed)
    for number in range(count):
        folder = root / f"{how}-{number}"
        folder.mkdir()
        finished = killed(how, folder, chance.uniform(0, 0.03))
        found = recovered(folder, how)
        left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        row = {"finished": finished, "recovered": found, "left": left}
        sys.stdout.write(json.dumps(row) + "\n")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
