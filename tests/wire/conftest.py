"""Recorded exchanges, and the real SDKs against a local server that gives a prepared answer."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

DATA = Path(__file__).parent.parent / "data" / "wire"
EXCHANGES = [
    json.loads(line)
    for file in sorted(DATA.glob("*.jsonl"))
    for line in file.read_text(encoding="utf-8").splitlines()
]


def pytest_generate_tests(metafunc):
    chosen = {
        "exchange": EXCHANGES,
        "llm_exchange": [e for e in EXCHANGES if e["codec"] != "openai.embeddings"],
        "stream_exchange": [e for e in EXCHANGES if "events" in e],
    }
    for name, rows in chosen.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, rows, ids=[e["source"] for e in rows])


class Provider:
    """A server on loopback; `answer` is given to every request."""

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, str], bytes] = (500, {}, b"")
        self.requests: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                provider.requests.append(self.path)
                status, headers, body = provider.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def give(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.answer = (200, {"content-type": "application/json"}, data)

    def give_stream(self, data: bytes, media_type: str = "text/event-stream") -> None:
        self.answer = (200, {"content-type": media_type}, data)

    def give_error(self, error: Any) -> None:
        self.answer = (error.status, error.headers, json.dumps(error.body).encode())

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Sdks:
    """Asks through the real SDKs, and says what a program sees of the answer."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.openai = openai.OpenAI(api_key="none", base_url=f"{provider.url}/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key="none", base_url=provider.url, max_retries=0)
        self.google = genai.Client(api_key="none", http_options={"base_url": provider.url})

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()
        close = getattr(self.google, "close", None)
        if close:
            close()

    def plain(self, codec: str) -> Any:
        if codec == "openai.chat":
            return chat_view(self.openai.chat.completions.create(model="m", messages=[]))
        if codec == "openai.responses":
            return responses_view(self.openai.responses.create(model="m", input="x"))
        if codec == "anthropic.messages":
            answer = self.anthropic.messages.create(model="m", messages=[], max_tokens=1)
            return anthropic_view(answer)
        if codec == "google.generate":
            return google_view([self.google.models.generate_content(model="m", contents="x")])
        answer = self.openai.embeddings.create(model="m", input="x", encoding_format="float")
        return [d.embedding for d in answer.data], answer.model, answer.usage.prompt_tokens

    def streamed(self, codec: str) -> Any:
        if codec == "openai.chat":
            with self.openai.chat.completions.stream(model="m", messages=[]) as stream:
                for _ in stream:
                    pass
                return chat_view(stream.current_completion_snapshot)
        if codec == "openai.responses":
            with self.openai.responses.stream(model="m", input="x") as stream:
                return responses_view(stream.get_final_response())
        if codec == "anthropic.messages":
            with self.anthropic.messages.stream(model="m", messages=[], max_tokens=1) as stream:
                return anthropic_view(stream.get_final_message())
        return google_view(
            list(self.google.models.generate_content_stream(model="m", contents="x"))
        )


def value_of(arguments: str) -> Any:
    return json.loads(arguments or "{}")


def chat_view(answer: Any) -> Any:
    choices = [
        (
            c.message.content or "",
            c.message.refusal,
            [
                (t.id, t.function.name, value_of(t.function.arguments))
                for t in c.message.tool_calls or ()
            ],
            c.finish_reason,
        )
        for c in answer.choices
    ]
    usage = answer.usage
    counts = usage and (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    return answer.id, answer.model, choices, counts


def responses_view(answer: Any) -> Any:
    items: list[Any] = []
    for item in answer.output:
        if item.type == "message":
            items += [getattr(b, "text", None) or getattr(b, "refusal", None) for b in item.content]
        elif item.type == "function_call":
            items.append((item.call_id, item.name, value_of(item.arguments)))
        else:
            items.append((item.type, "\n".join(s.text for s in item.summary)))
    usage = answer.usage
    counts = usage and (usage.input_tokens, usage.output_tokens, usage.total_tokens)
    asked = (answer.instructions, answer.temperature, answer.previous_response_id)
    return answer.id, answer.model, answer.status, items, counts, asked, len(answer.tools)


def anthropic_view(answer: Any) -> Any:
    blocks: list[Any] = []
    for block in answer.content:
        if block.type == "text":
            blocks.append(block.text)
        elif block.type == "tool_use":
            blocks.append((block.id, block.name, block.input))
        else:
            blocks.append((block.thinking, block.signature))
    usage = answer.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens)
    return answer.id, answer.model, blocks, answer.stop_reason, counts


def google_view(answers: list[Any]) -> Any:
    texts: list[str] = []
    calls: list[Any] = []
    for part in [p for a in answers for p in a.candidates[0].content.parts or ()]:
        if part.function_call:
            call = part.function_call
            calls.append((call.id, call.name, call.args, part.thought_signature))
        else:
            texts.append(part.text or "")
    last = answers[-1]
    usage = last.usage_metadata
    counts = (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count)
    finish = str(last.candidates[0].finish_reason)
    return last.response_id, last.model_version, "".join(texts), calls, finish, counts


@pytest.fixture(scope="module")
def provider():
    server = Provider()
    yield server
    server.close()


@pytest.fixture(scope="module")
def sdks(provider):
    clients = Sdks(provider)
    yield clients
    clients.close()
