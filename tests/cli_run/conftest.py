"""Programs as users have them, run by the command in processes of their own.

The provider that recordings are made with, and a socket that no replay may reach.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
TIMEOUT_S = 60


class Provider:
    """Answers chat completions and Anthropic messages with `Echo: <last text>`, and keeps count."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "messages" not in body:
                    self.reply(404, b"{}")
                    return
                content = body["messages"][-1]["content"]
                prompt = content if isinstance(content, str) else content[0]["text"]
                provider.prompts.append(prompt)
                made = anthropic_answer if "/messages" in self.path else chat_answer
                status, answer = made(body, prompt, len(provider.prompts))
                self.reply(status, json.dumps(answer).encode())

            def reply(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def env(self) -> dict[str, str]:
        """What points the SDKs at it."""
        return {
            "OPENAI_BASE_URL": f"{self.root}/v1",
            "ANTHROPIC_BASE_URL": self.root,
            "OPENAI_API_KEY": "key-for-recording",
            "ANTHROPIC_API_KEY": "key-for-recording",
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def chat_answer(body: dict[str, Any], prompt: str, number: int) -> tuple[int, Any]:
    if prompt == "[401]":
        return 401, {"error": {"message": "Wrong key", "type": "invalid_request_error"}}
    if prompt == "[flaky]" and number % 3:
        return 500, {"error": {"message": "Try again", "type": "server_error"}}
    message: dict[str, Any] = {"role": "assistant", "content": f"Echo: {prompt}"}
    if prompt == "[tool]":
        function = {"name": "look_up", "arguments": '{"id": 1}'}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    return 200, {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1764400000,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def anthropic_answer(body: dict[str, Any], prompt: str, number: int) -> tuple[int, Any]:
    return 200, {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": f"Echo: {prompt}"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }


class Trap:
    """A listening socket where a provider would be; counts who comes."""

    def __init__(self) -> None:
        self.connections = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(0.02)
        self.root = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self._open = True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while self._open:
            try:
                self.socket.accept()[0].close()
            except TimeoutError:
                continue
            self.connections += 1

    @property
    def env(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{self.root}/v1", "ANTHROPIC_BASE_URL": self.root}

    def close(self) -> None:
        self._open = False
        self.thread.join()
        self.socket.close()


@dataclass
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str
    report: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """Runs commands in a folder of their own, with nothing of the caller's keys in the environment."""

    folder: Path
    provider: Provider
    trap: Trap | None

    def command(self, *arguments: Any, env: dict[str, str] | None = None) -> Ran:
        """Run `otel-cassette` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "otel_cassette", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment(), **(env or {})},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in KEYS and not k.startswith("OTEL_")}
        return {**kept, "NO_COLOR": "1"}

    def record(self, *command: Any, env: dict[str, str] | None = None) -> Ran:
        """Record a program into `run.jsonl`."""
        return self.command(
            "record", "-o", "run.jsonl", "--", *command, env={**self.provider.env, **(env or {})}
        )

    def replay(self, *command: Any, options: Any = (), env: dict[str, str] | None = None) -> Ran:
        """Replay `run.jsonl` with no key, and the trap where the provider would be."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        ran = self.command(
            "replay",
            "run.jsonl",
            "--report",
            report,
            *options,
            "--",
            *command,
            env={**self.trap.env, **(env or {})},
        )
        if report.exists():
            ran.report = json.loads(report.read_text())
        return ran


@pytest.fixture(scope="session")
def provider():
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def trap():
    made = Trap()
    yield made
    made.close()


@pytest.fixture
def bench(tmp_path, provider, trap):
    provider.prompts.clear()
    return Bench(tmp_path, provider, trap)


@pytest.fixture(scope="session")
def tape(provider, tmp_path_factory) -> bytes:
    """A recording of `plain one two`, made once."""
    bench = Bench(tmp_path_factory.mktemp("tape"), provider, trap=None)
    ran = bench.record(sys.executable, PROGRAMS / "plain.py", "one", "two")
    assert ran.code == 0, ran.err
    return (bench.folder / "run.jsonl").read_bytes()


@pytest.fixture
def program():
    """Gives a program's command line."""

    def command(name: str, *arguments: str) -> list[str]:
        return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]

    return command
