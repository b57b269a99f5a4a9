"""A model provider on loopback that answers as the real APIs do, and the real SDKs pointed at it."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai

from otel_cassette import Cassette
from otel_cassette.clients import CassetteTransport
from otel_cassette.clients.instrumentor import CassetteInstrumentor

ARGUMENTS = '{"order_id": "A-17"}'


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # many threads connect at once

    def handle_error(self, *_: Any) -> None:
        """A client that left."""


class Provider:
    """Says `Echo: <prompt>`; words in brackets in the prompt ask for something else.

    `[429]` fails once, `[400]` and `[500]` always, `[tool]` asks for a tool call, `[gzip]` comes
    compressed, `[break]` breaks the connection in the middle of a stream, `[count]` counts the
    requests, so that equal ones are answered differently.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self._numbers = itertools.count(1)
        self._failed: set[str] = set()
        self._lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(
        self, path: str, body: dict[str, Any]
    ) -> tuple[int, list[tuple[str | None, Any]], Any]:
        """Return (status, events of the stream, body)."""
        prompt = prompt_of(body)
        with self._lock:
            number = next(self._numbers)
            if "[429]" in prompt and prompt not in self._failed:
                self._failed.add(prompt)
                return 429, [], error_body(path, "rate_limit_error", "Slow down")
        if "[400]" in prompt:
            return 400, [], error_body(path, "invalid_request_error", "Bad prompt")
        if "[500]" in prompt:
            return 500, [], error_body(path, "server_error", "Out of order")
        text = f"Echo: {prompt}" + (f" #{number}" if "[count]" in prompt else "")
        tool = "[tool]" in prompt
        for ending, made in ANSWERS.items():
            if path.partition("?")[0].endswith(ending):
                return (200, *made(body, text, number, tool))
        return 404, [], error_body(path, "not_found_error", f"no such route {path}")

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - inside, self is the handler
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are written apart

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                body = json.loads(raw)
                headers = {k.lower(): v for k, v in self.headers.items()}
                provider.requests.append((self.path, headers, body))
                status, events, answer = provider.answer(self.path, body)
                wants_stream = body.get("stream") or "streamGenerateContent" in self.path
                if status == 200 and wants_stream:
                    self.stream(events, breaks="[break]" in prompt_of(body))
                else:
                    self.plain(status, answer, compress="[gzip]" in prompt_of(body))

            def head(self, status: int, **headers: str) -> None:
                self.send_response(status)
                self.send_header("x-request-id", "req_provider")
                self.send_header("request-id", "req_provider")
                self.send_header("retry-after-ms", "1")
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()

            def plain(self, status: int, answer: Any, *, compress: bool) -> None:
                data = json.dumps(answer).encode()
                headers = {"content_type": "application/json"}
                if compress:
                    data = gzip.compress(data)
                    headers["content_encoding"] = "gzip"
                self.head(status, content_length=str(len(data)), **headers)
                self.wfile.write(data)

            def stream(self, events: list[tuple[str | None, Any]], *, breaks: bool) -> None:
                self.head(200, content_type="text/event-stream", transfer_encoding="chunked")
                for place, (name, event) in enumerate(events):
                    if breaks and place == 3:
                        self.close_connection = True
                        return
                    data = event if isinstance(event, str) else json.dumps(event)
                    text = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
                    try:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
                    except OSError:
                        self.close_connection = True
                        return
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        return Handler


def prompt_of(body: dict[str, Any]) -> str:
    if "contents" in body:
        return body["contents"][-1]["parts"][0].get("text", "")
    asked = body.get("messages") or body.get("input")
    if isinstance(asked, str):
        return asked
    last = asked[-1] if isinstance(asked, list) else ""
    content = last.get("content") if isinstance(last, dict) else last
    return content if isinstance(content, str) else json.dumps(content)


def error_body(path: str, kind: str, message: str) -> dict[str, Any]:
    if path.endswith("/messages"):
        return {"type": "error", "error": {"type": kind, "message": message}}
    if ":" in path:
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def cut(text: str) -> list[str]:
    return [text[i : i + 7] for i in range(0, len(text), 7)]


def chat(body: dict[str, Any], text: str, number: int, tool: bool) -> tuple[Any, Any]:
    head = {
        "id": f"chatcmpl-{number}",
        "created": 1_700_000_000 + number,
        "model": "gpt-4o-mini-2024-07-18",
    }
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if tool:
        function = {"name": "lookup", "arguments": ARGUMENTS}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
        }
    finish = "tool_calls" if tool else "stop"
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if tool else ""}]
    if tool:
        call = {"index": 0, "id": f"call_{number}", "type": "function"}
        deltas.append({"tool_calls": [{**call, "function": {"name": "lookup", "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
            for piece in cut(ARGUMENTS)
        ]
    else:
        deltas += [{"content": piece} for piece in cut(text)]
    chunk = {**head, "object": "chat.completion.chunk"}
    events: list[Any] = [
        (None, {**chunk, "choices": [{"index": 0, "delta": d, "finish_reason": None}]})
        for d in deltas
    ]
    events.append(
        (None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    )
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append((None, {**chunk, "choices": [], "usage": usage}))
    events.append((None, "[DONE]"))
    return events, {**head, "object": "chat.completion", "choices": [choice], "usage": usage}


def responses(body: dict[str, Any], text: str, number: int, tool: bool) -> tuple[Any, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    answer = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": body.get("model"),
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        },
    }
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    listed: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **where, "delta": p, "logprobs": []}
            for p in cut(text)
        ),
        {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]
    events = [(e["type"], {**e, "sequence_number": place}) for place, e in enumerate(listed)]
    return events, answer


def embeddings(body: dict[str, Any], text: str, number: int, tool: bool) -> tuple[Any, Any]:
    vectors = [[0.5, -0.25, len(str(t)) / 8] for t in body["input"]]
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return [], {"object": "list", "data": data, "model": body.get("model"), "usage": usage}


def messages(body: dict[str, Any], text: str, number: int, tool: bool) -> tuple[Any, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    delta = "text_delta", "text", text
    if tool:
        block = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "lookup",
            "input": json.loads(ARGUMENTS),
        }
        delta = "input_json_delta", "partial_json", ARGUMENTS
    stop = "tool_use" if tool else "end_turn"
    answer = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [block],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }
    empty = {**block, "input": {}} if tool else {**block, "text": ""}
    begun = {
        **answer,
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 11, "output_tokens": 1},
    }
    kind, field, whole = delta
    listed: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": kind, field: piece}}
            for piece in cut(whole)
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    return [(e["type"], e) for e in listed], answer


def generate(body: dict[str, Any], text: str, number: int, tool: bool) -> tuple[Any, Any]:
    def made(part: dict[str, Any], **rest: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
        return {
            "candidates": [{"content": content, "index": 0, **rest}],
            "usageMetadata": usage,
            "modelVersion": "gemini-2.5-flash",
            "responseId": f"resp-{number}",
        }

    pieces = cut(text)
    events = [(None, made({"text": piece})) for piece in pieces[:-1]]
    events.append((None, made({"text": pieces[-1]}, finishReason="STOP")))
    return events, made({"text": text}, finishReason="STOP")


ANSWERS = {
    "/chat/completions": chat,
    "/responses": responses,
    "/embeddings": embeddings,
    "/messages": messages,
    ":generateContent": generate,
    ":streamGenerateContent": generate,
}


class Sdks:
    """The real SDKs, sync and async, for one provider; made when they are first asked for."""

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url
        self._options = {"api_key": "sk-test", "max_retries": 0, **options}

    @functools.cached_property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self._url}/v1", **self._options)

    @functools.cached_property
    def aopenai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self._url}/v1", **self._options)

    @functools.cached_property
    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self._url, **self._options)

    @functools.cached_property
    def aanthropic(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=self._url, **self._options)

    @functools.cached_property
    def google(self) -> genai.Client:
        return genai.Client(api_key="sk-test", http_options={"base_url": self._url})

    def close(self) -> None:
        for name in {"openai", "anthropic", "google"} & vars(self).keys():
            getattr(self, name).close()

    async def aclose(self) -> None:
        """Close the async clients, in the loop that used them."""
        for name in {"aopenai", "aanthropic"} & vars(self).keys():
            await getattr(self, name).close()
        if "google" in vars(self):
            await self.google.aio.aclose()


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def dumped(value: Any) -> Any:
    """Return an SDK's object, or several, as plain data."""
    return [v.model_dump() for v in value] if isinstance(value, list) else value.model_dump()


# What a program asks of an SDK, and sees of the answer.
PLAIN = {
    "openai.chat": lambda s, t: s.openai.chat.completions.create(
        model="gpt-4o-mini", messages=user(t)
    ),
    "openai.responses": lambda s, t: s.openai.responses.create(model="gpt-4.1-mini", input=t),
    "openai.embeddings": lambda s, t: s.openai.embeddings.create(
        model="text-embedding-3-small", input=[t, t], encoding_format="float"
    ),
    "anthropic.messages": lambda s, t: s.anthropic.messages.create(
        model="claude-test", max_tokens=99, messages=user(t)
    ),
    "google.generate": lambda s, t: s.google.models.generate_content(
        model="gemini-2.5-flash", contents=t
    ),
}
STREAMED = {
    "openai.chat": lambda s, t: s.openai.chat.completions.create(
        model="gpt-4o-mini", messages=user(t), stream=True, stream_options={"include_usage": True}
    ),
    "openai.responses": lambda s, t: s.openai.responses.create(
        model="gpt-4.1-mini", input=t, stream=True
    ),
    "anthropic.messages": lambda s, t: s.anthropic.messages.create(
        model="claude-test", max_tokens=99, messages=user(t), stream=True
    ),
    "google.generate": lambda s, t: s.google.models.generate_content_stream(
        model="gemini-2.5-flash", contents=t
    ),
}
ASYNC_PLAIN = {
    "openai.chat": lambda s, t: s.aopenai.chat.completions.create(
        model="gpt-4o-mini", messages=user(t)
    ),
    "openai.responses": lambda s, t: s.aopenai.responses.create(model="gpt-4.1-mini", input=t),
    "anthropic.messages": lambda s, t: s.aanthropic.messages.create(
        model="claude-test", max_tokens=99, messages=user(t)
    ),
    "google.generate": lambda s, t: s.google.aio.models.generate_content(
        model="gemini-2.5-flash", contents=t
    ),
}
ASYNC_STREAMED = {
    "openai.chat": lambda s, t: s.aopenai.chat.completions.create(
        model="gpt-4o-mini", messages=user(t), stream=True
    ),
    "openai.responses": lambda s, t: s.aopenai.responses.create(
        model="gpt-4.1-mini", input=t, stream=True
    ),
    "anthropic.messages": lambda s, t: s.aanthropic.messages.create(
        model="claude-test", max_tokens=99, messages=user(t), stream=True
    ),
    "google.generate": lambda s, t: s.google.aio.models.generate_content_stream(
        model="gemini-2.5-flash", contents=t
    ),
}
_TABLES = {
    "ask": PLAIN,
    "ask_stream": STREAMED,
    "ask_async": ASYNC_PLAIN,
    "ask_async_stream": ASYNC_STREAMED,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, table in _TABLES.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list(table.values()), ids=list(table))


@pytest.fixture
def instrumented():
    instrumentor = CassetteInstrumentor()
    instrumentor.instrument()
    yield instrumentor
    instrumentor.uninstrument()


@pytest.fixture
def provider():
    server = Provider()
    yield server
    server.close()


@pytest.fixture
def make_sdks(instrumented):
    made: list[Sdks] = []

    def make(url: str, **options: Any) -> Sdks:
        made.append(Sdks(url, **options))
        return made[-1]

    yield make
    for sdks in made:
        sdks.close()


@pytest.fixture
def sdks(provider, make_sdks):
    return make_sdks(provider.url)


@pytest.fixture
def played():
    """Give a recording back as a cassette that came from a file would be."""

    def played(cassette: Cassette, tmp_path: Any = None, **options: Any) -> Cassette:
        return Cassette(cassette.entries, mode="strict", **options)

    return played


@pytest.fixture
def as_data():
    return dumped


@pytest.fixture
def ask_chat():
    return PLAIN["openai.chat"]


@pytest.fixture
def stream_chat():
    return STREAMED["openai.chat"]


class MemoryProvider:
    """A provider in memory: sends what it is told to, as JSON unless `kind` says otherwise."""

    def __init__(self) -> None:
        self.body = b""
        self.kind = "application/json"
        self.calls = 0
        self.client = httpx2.Client(
            transport=CassetteTransport(httpx2.MockTransport(self._answer)), base_url="http://m"
        )
        self.sdk = openai.OpenAI(
            api_key="k", base_url="http://m/v1", http_client=self.client, max_retries=0
        )

    def _answer(self, _request: Any) -> Any:
        self.calls += 1
        return httpx2.Response(200, content=self.body, headers={"content-type": self.kind})

    def post(self, **more: Any) -> Any:
        """Ask for a chat completion."""
        asked = {"model": "m", "messages": [{"role": "user", "content": "q"}], **more}
        return self.client.post("/v1/chat/completions", json=asked)

    def recorded(self, path: str, asked: Any) -> Cassette:
        """Return the recording of one request."""
        cassette = Cassette()
        with cassette.recording():
            assert self.client.post(path, json=asked).content == self.body
        return cassette


@pytest.fixture
def server():
    made = MemoryProvider()
    yield made
    made.client.close()
