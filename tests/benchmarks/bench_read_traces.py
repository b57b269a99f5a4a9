"""Reading great trace files, against a plain JSON decoder on the same lines, and its memory.

60 MB of OTLP JSON Lines, one span in five an LLM span of about 5 kB, in batches of 512 spans (what the
SDK's batch processor sends); the same file once more with a span a line (what its simple processor
sends). `make bench` runs it; a missed budget fails, notes have none.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from figures import Figures

from otel_cassette.formats import read_traces

ROUNDS = 7
FILE_BYTES = 60_000_000
GREAT_BYTES = 1_000_000_000
TRACE_SPANS = 20
WORDS = [
    *(
        "order",
        "refund",
        "policy",
        "within",
        "thirty",
        "days",
        "of",
        "delivery",
        "unless",
        "the",
        "item",
    ),
    *(
        "was",
        "opened",
        "please",
        "look",
        "up",
        "status",
        "and",
        "tell",
        "customer",
        "what",
        "happens",
    ),
    *("next", "because", "they", "have", "been", "waiting", "since", "Monday", "café", "naïve"),
]

READ_ALL = """
import sys
from otel_cassette.formats import read_traces
calls = 0
for trace in read_traces(sys.argv[1], merge=sys.argv[2] == "merge"):
    for span in trace.spans:
        if span.may_hold(b"gen_ai.operation.name"):
            calls += bool(span.attributes["gen_ai.output.messages"])
# Not ru_maxrss: that starts from what the parent process had.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(calls, status["VmHWM"].split()[0])
"""


def pair(key: str, value: Any) -> dict[str, Any]:
    member = {str: "stringValue", float: "doubleValue"}.get(type(value), "intValue")
    return {"key": key, "value": {member: str(value) if member == "intValue" else value}}


def spans() -> Iterator[dict[str, Any]]:
    rng = random.Random(1)
    clock = 1_760_000_000_000_000_000

    def text(words: int) -> str:
        return " ".join(rng.choices(WORDS, k=words))

    while True:
        trace_id, root = f"0000{rng.getrandbits(112):028x}", f"{rng.getrandbits(64):016x}"
        for place in range(TRACE_SPANS):
            clock += 1_000_003
            span = {
                "traceId": trace_id,
                "spanId": f"{rng.getrandbits(64):016x}" if place else root,
                **({"parentSpanId": root} if place else {}),
                "flags": 256,
                "startTimeUnixNano": str(clock),
                "endTimeUnixNano": str(clock + 5_000_000),
                "status": {},
            }
            if place % 5 == 4:
                asked = [
                    {"role": "user", "parts": [{"type": "text", "content": text(200)}]}
                    for _ in range(3)
                ]
                said = [{"role": "assistant", "parts": [{"type": "text", "content": text(100)}]}]
                yield {
                    **span,
                    "name": "chat gpt-4o",
                    "kind": 3,
                    "attributes": [
                        pair("gen_ai.operation.name", "chat"),
                        pair("gen_ai.provider.name", "openai"),
                        pair("gen_ai.request.model", "gpt-4o"),
                        pair("gen_ai.request.temperature", 0.2),
                        pair("gen_ai.usage.input_tokens", 1200),
                        pair("gen_ai.input.messages", json.dumps(asked)),
                        pair("gen_ai.output.messages", json.dumps(said)),
                    ],
                }
            else:
                yield {
                    **span,
                    "name": rng.choice(("GET /orders", "POST", "SELECT orders")),
                    "kind": 1,
                    "attributes": [
                        pair("http.request.method", "GET"),
                        pair("url.full", f"https://shop.example/orders/{place}"),
                        pair("http.response.status_code", 200),
                        pair("server.address", "shop.example"),
                        pair("server.port", 443),
                        pair("user_agent.original", "python-requests/2.32"),
                    ],
                }


def write(path: Path, *, batch: int) -> None:
    resource = {
        "attributes": [pair("service.name", "agent"), pair("telemetry.sdk.language", "python")]
    }
    source = spans()
    with path.open("w") as file:
        while file.tell() < FILE_BYTES:
            part = [next(source) for _ in range(batch)]
            scopes = [{"scope": {"name": "demo", "version": "1"}, "spans": part}]
            export = {"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}
            file.write(json.dumps(export, separators=(",", ":")) + "\n")


@pytest.fixture(scope="module", params=[512, 1], ids=["batches", "single spans"])
def trace_file(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("traces") / "traces.jsonl"
    write(path, batch=request.param)
    return path, request.param


def best_ms(*works: Callable[[], object]) -> list[float]:
    """The best time of each, taking turns, so that a busy moment hits all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            gc.collect()
            start = time.perf_counter()
            result = work()
            times[place].append((time.perf_counter() - start) * 1e3)
            del result
    return [min(one) for one in times]


def test_reading_is_faster_than_decoding_every_line(
    trace_file: tuple[Path, int], figures: Figures
) -> None:
    path, batch = trace_file

    def decode_lines() -> None:
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)

    def decode_and_keep() -> list[Any]:
        with path.open("rb") as file:
            return [orjson.loads(line) for line in file]

    def read() -> list[Any]:
        return list(read_traces(path))

    def read_contents() -> list[Any]:
        return [span.attributes for trace in read_traces(path) for span in trace.spans]

    dropped, kept, ours, contents = best_ms(decode_lines, decode_and_keep, read, read_contents)
    name = f"60 MB, {batch} spans a line"
    # A span a line is all overhead of the line; the budget is for what batch processors write.
    figures.add(
        f"{name}: read_traces / orjson, dropped",
        ours,
        dropped,
        1.0 if batch > 1 else 2.0,
        unit="ms",
    )
    figures.add(f"{name}: read_traces / orjson, kept", ours, kept, 1.0, unit="ms")
    figures.add(f"{name}: every attribute decoded / orjson, kept", contents, kept, 1.0, unit="ms")


@pytest.mark.parametrize("runs", ["apart", "merge"])
def test_memory_of_a_great_file(runs: str, tmp_path: Path, figures: Figures) -> None:
    part, great = tmp_path / "part.jsonl", tmp_path / "great.jsonl"
    write(part, batch=512)
    content = part.read_bytes()
    with great.open("wb") as file:
        for copy in range(GREAT_BYTES // len(content) + 1):
            later = content.replace(
                b'"startTimeUnixNano":"1760', b'"startTimeUnixNano":"17%02d' % (60 + copy)
            )
            file.write(later.replace(b'"traceId":"0000', b'"traceId":"%04x' % copy))
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(great), runs],
        check=True,
        capture_output=True,
        text=True,
    )
    calls, peak_kib = map(int, done.stdout.split())
    assert calls == content.count(b'"chat gpt-4o"') * (GREAT_BYTES // len(content) + 1)
    name = f"1 GB, runs {runs}: peak memory"
    if runs == "apart":
        figures.add(f"{name} / budget", peak_kib / 1024, 300, 1.0, unit="MiB")
    else:
        # One run of 700,000 spans: what is kept of each (ids, times, name) is what counts here.
        figures.note(name, peak_kib / 1024, unit="MiB")
