"""Replay through the real OpenAI SDK against its budgets, with other HTTP recorders beside it.

`make bench` runs it. Base of the first ratio is the same SDK on a transport that answers from
memory; of the others, the playback of a cassette of 250 exchanges, loading included, by vcrpy and by
cassetter. All compare requests by their bodies, as a replay of model calls has to. Beside cassetter,
whose core is in Rust, the SDK's own work is most of the time for both: what each adds to it is noted.
"""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cassetter
import httpx2
import openai
import pytest
import vcr
from figures import Figures

from otel_cassette import Cassette
from otel_cassette.clients import CassetteInstrumentor, CassetteTransport

CALLS = 250
ROUNDS = 9
MATCH_ON = ["method", "scheme", "host", "port", "path", "body"]
TOOL = {
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
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "gpt-4o-2024-08-06",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Your order has been refunded. " * 3,
                "refusal": None,
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 700, "completion_tokens": 20, "total_tokens": 720},
}
BODY = json.dumps(ANSWER).encode()


def messages(number: int) -> list[dict[str, Any]]:
    """A conversation that makes a request of about 3 kB."""
    arguments = json.dumps({"order_id": f"A-{number}"})
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": arguments}}
    order = {"order": f"A-{number}", "items": [{"sku": "x", "qty": 2}] * 8}
    return [
        {"role": "system", "content": "You are a refund assistant. Be brief and polite. " * 18},
        {"role": "user", "content": f"Please refund order A-{number}. " * 16},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps(order)},
        {"role": "assistant", "content": "The order is found. " * 16},
        {"role": "user", "content": "Thank you, go on. " * 16},
    ]


CONVERSATIONS = [messages(number) for number in range(CALLS)]


def ask_all(client: openai.OpenAI) -> None:
    for conversation in CONVERSATIONS:
        answer = client.chat.completions.create(
            model="gpt-4o",
            messages=conversation,  # type: ignore[arg-type]  # plain dicts
            tools=[TOOL],  # type: ignore[list-item]  # as above
            temperature=0.2,
            max_tokens=256,
        )
        assert answer.choices[0].finish_reason == "stop"


def timed_us(work: Callable[[], None]) -> float:
    """CPU time a call: nothing here waits, and the load of other processes must not count."""
    gc.collect()
    start = time.process_time()
    work()
    return (time.process_time() - start) / CALLS * 1e6


@pytest.fixture
def server() -> Iterator[str]:
    """A provider on loopback, for the recorders that sit on the real transport."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/v1"
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def memory() -> httpx2.MockTransport:
    """A transport that answers from memory."""
    headers = {"content-type": "application/json"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, content=BODY, headers=headers))


def test_replay_through_the_sdk(
    tmp_path: Path, memory: httpx2.MockTransport, figures: Figures
) -> None:
    """Against the same SDK on an in-memory transport; the cassette is loaded outside the time."""
    plain = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=memory))
    ours = openai.OpenAI(
        api_key="k", http_client=httpx2.Client(transport=CassetteTransport(memory))
    )
    path = tmp_path / "calls.jsonl"
    with Cassette().recording(path):
        ask_all(ours)

    base, replay = [], []
    for _ in range(ROUNDS):
        base.append(timed_us(lambda: ask_all(plain)))
        with Cassette.load(path).replaying() as session:
            replay.append(timed_us(lambda: ask_all(ours)))
        assert session.summary.served == CALLS
    plain.close()
    ours.close()
    figures.add("replay of a call through the OpenAI SDK, over a mock", min(replay), min(base), 1.1)


def test_playback_beside_other_recorders(
    tmp_path: Path, server: str, memory: httpx2.MockTransport, figures: Figures
) -> None:
    """One playback of 250 exchanges by each, loading included; at least five times as fast."""
    client = openai.OpenAI(api_key="k", base_url=server, max_retries=0)
    path = tmp_path / "calls.jsonl"
    instrumentor = CassetteInstrumentor()
    instrumentor.instrument()
    with Cassette().recording(path):
        ask_all(client)

    def play() -> None:
        with Cassette.load(path).replaying() as session:
            ask_all(client)
        assert session.summary.served == CALLS

    plain = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=memory))
    ours, base = [], []
    for _ in range(ROUNDS):
        ours.append(timed_us(play))
        base.append(timed_us(lambda: ask_all(plain)))
    plain.close()
    instrumentor.uninstrument()

    tape = vcr.VCR(match_on=MATCH_ON)
    with tape.use_cassette(str(tmp_path / "vcr.yaml"), record_mode="once"):
        ask_all(client)

    def play_vcr() -> None:
        with tape.use_cassette(str(tmp_path / "vcr.yaml"), record_mode="none") as played:
            ask_all(client)
        assert played.play_count == CALLS

    vcrpy_us = timed_us(play_vcr)

    options: dict[str, Any] = {"match_on": ["method", "uri", "body"]}
    with cassetter.use_cassette(tmp_path / "cassetter.yaml", record_mode="all", **options):
        ask_all(client)

    def play_cassetter() -> None:
        with cassetter.use_cassette(tmp_path / "cassetter.yaml", record_mode="none", **options):
            ask_all(client)

    others = [timed_us(play_cassetter) for _ in range(ROUNDS)]
    client.close()

    sdk = min(base)
    figures.add("playback of 250 SDK calls, beside vcrpy", min(ours), vcrpy_us, 0.2)
    figures.add("playback of 250 SDK calls, beside cassetter", min(ours), min(others), 1.0)
    figures.note("  of it the SDK's own work", sdk)
    figures.note("  added by otel-cassette, loading included", min(ours) - sdk)
    figures.note("  added by cassetter, loading included", min(others) - sdk)
