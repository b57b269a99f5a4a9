"""Streams without their end, asked for as whole answers; requests that nobody can read; odd streams."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import requests
import urllib3
from google import genai

from otel_cassette import Cassette, CassetteMissError
from otel_cassette.clients import CassetteAdapter, CassetteInstrumentor

ASKED = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GEMINI = "/v1beta/models/g:streamGenerateContent?alt=sse"
SAID: dict[str, Any] = {"id": "m1", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}


def chunk(content: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }


BEGUN = [
    {
        "type": "message_start",
        "message": {**SAID, "type": "message", "role": "assistant", "content": []},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Do NOT"}},
]
OPENED = [
    {"type": "response.created", "response": {"id": "r", "model": "m", "output": []}},
    {
        "type": "response.output_text.delta",
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": "Do",
    },
]
FAILED = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "status": "failed",
    "error": {"code": "server_error", "message": "x"},
    "model": "m",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


def events(payloads: list[Any]) -> bytes:
    names = (
        f"event: {p['type']}\n" if isinstance(p, dict) and "type" in p else "" for p in payloads
    )
    texts = (p if isinstance(p, str) else json.dumps(p) for p in payloads)
    return "".join(f"{n}data: {t}\n\n" for n, t in zip(names, texts, strict=True)).encode()


def payloads_of(text: str) -> list[Any]:
    """Return the payloads of a stream, less the mark at the end of a chat's."""
    lines = [x.removeprefix("data: ") for x in text.splitlines() if x.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize(
    ("path", "asked", "sent"),
    [
        (CHAT, ASKED, [chunk("Do"), chunk(" NOT")]),
        (MESSAGES, {**ASKED, "max_tokens": 9}, BEGUN),
        (RESPONSES, {"model": "m", "input": "q"}, OPENED),
    ],
)
def test_a_stream_without_its_end_is_no_whole_answer(
    server: Any, path: str, asked: Any, sent: list[Any]
) -> None:
    server.kind = "text/event-stream"
    server.body = events(sent)
    cassette = server.recorded(path, {**asked, "stream": True})
    with cassette.replaying() as session:
        again = server.client.post(path, json={**asked, "stream": True})
    assert payloads_of(again.text) == sent
    assert session.summary.served == 1
    with pytest.raises(CassetteMissError, match="did not say why"), cassette.replaying() as session:
        assert server.client.post(path, json=asked).status_code == 409
    assert (server.calls, session.summary.served, session.summary.missed) == (1, 0, 1)


def test_the_last_event_of_a_failed_response_is_the_answer(server: Any) -> None:
    asked = {"model": "m", "input": "q"}
    server.kind = "text/event-stream"
    server.body = events([*OPENED, {"type": "response.failed", "response": FAILED}])
    cassette = server.recorded(RESPONSES, {**asked, "stream": True})
    with cassette.replaying():
        assert server.client.post(RESPONSES, json=asked).json() == FAILED


def test_a_wrapper_has_no_half_answer_either() -> None:
    class Model:
        model = "m"

        def stream(self, _request: Any) -> Iterator[str]:
            yield "Do"
            yield " NOT"

        def complete(self, _request: Any) -> str:
            raise AssertionError("it was asked")

    cassette = Cassette()
    stream = cassette.wrap_llm(Model()).stream("q")
    next(stream)
    stream.close()
    with pytest.raises(CassetteMissError, match="left after 1 chunks"), cassette.replaying():
        cassette.wrap_llm(Model()).complete("q")


AZURE = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [],
}


def call(number: int) -> dict[str, Any]:
    function = {"name": f"get_{number}", "arguments": "{}"}
    piece = {"index": 0, "id": f"c{number}", "type": "function", "function": function}
    delta = {"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None}
    return {**chunk(""), "choices": [delta]}


def end(reason: str) -> dict[str, Any]:
    return {**chunk(""), "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("path", "asked", "sent"),
    [
        (CHAT, ASKED, [AZURE, chunk("Hi", system_fingerprint="f"), end("stop"), "[DONE]"]),
        (CHAT, ASKED, [chunk("Hi"), "[DONE]"]),
        (CHAT, ASKED, []),
        (
            MESSAGES,
            {**ASKED, "max_tokens": 9},
            [
                *BEGUN,
                {"type": "news_of_tomorrow", "field": 1},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
                {"type": "message_stop"},
            ],
        ),
    ],
)
def test_events_come_back_as_they_were_sent(
    server: Any, path: str, asked: Any, sent: list[Any]
) -> None:
    server.kind = "text/event-stream"
    server.body = events(sent)
    cassette = server.recorded(path, {**asked, "stream": True})
    with cassette.replaying():
        again = server.client.post(path, json={**asked, "stream": True})
    assert payloads_of(again.text) == [p for p in sent if p != "[DONE]"]


def test_calls_that_all_have_the_index_0_stay_two(server: Any) -> None:
    server.kind = "text/event-stream"
    server.body = events([call(1), call(2), end("tool_calls"), "[DONE]"])
    cassette = server.recorded(CHAT, {**ASKED, "stream": True})
    with cassette.replaying():
        (choice,) = server.client.post(CHAT, json=ASKED).json()["choices"]
    assert [
        (c["id"], c["function"]["name"], c["function"]["arguments"])
        for c in choice["message"]["tool_calls"]
    ] == [("c1", "get_1", "{}"), ("c2", "get_2", "{}")]


def test_a_stream_that_an_sdk_leaves_at_its_mark_is_whole(server: Any) -> None:
    server.kind = "text/event-stream"
    server.body = events([chunk("Hi"), "[DONE]"])
    sdk = openai.OpenAI(api_key="k", base_url="http://m/v1", http_client=server.client)
    cassette = Cassette()
    with cassette.recording():
        live = list(sdk.chat.completions.create(**ASKED, stream=True))  # type: ignore[call-overload]
    with cassette.replaying() as session:
        assert list(sdk.chat.completions.create(**ASKED, stream=True)) == live  # type: ignore[call-overload]
    assert session.summary.served == 1


def test_gemini_s_last_event_needs_no_empty_line(server: Any) -> None:
    said = [{"candidates": [{"content": {"role": "model", "parts": [{"text": t}]}}]} for t in "ab"]
    said[1]["candidates"][0]["finishReason"] = "STOP"
    server.kind = "text/event-stream"
    server.body = events([{"promptFeedback": {}}, *said]).rstrip(b"\n")
    client = genai.Client(
        api_key="k",
        http_options=genai.types.HttpOptions(base_url="http://m", httpx_client=server.client),
    )

    def ask() -> list[str | None]:
        stream = client.models.generate_content_stream(model="g", contents="q")
        return [each.text for each in stream if each.candidates]

    cassette = Cassette()
    with cassette.recording():
        live = ask()
    with cassette.replaying() as session:
        assert ask() == live == ["a", "b"]
    assert session.summary.served == 1


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (gzip.compress(json.dumps(ASKED).encode()), {"content-encoding": "gzip"}),
        (b'{"model": "m", "messages": [], "temperature": NaN}', {}),
        (
            '{"model": "m", "messages": [{"role": "user", "content": "\u00e9"}]}'.encode("latin-1"),
            {},
        ),
    ],
)
def test_a_model_call_that_nobody_can_read_is_not_sent(
    server: Any, body: bytes, more: dict[str, str]
) -> None:
    headers = {"content-type": "application/json", **more}
    cassette = Cassette()
    with (
        pytest.raises(CassetteMissError, match="no JSON that could be compared"),
        cassette.replaying(),
    ):
        assert server.client.post(CHAT, content=body, headers=headers).status_code == 409
    assert server.calls == 0


@pytest.mark.parametrize("path", ["/v1/messages", "/api/v1/responses", "/embeddings"])
@pytest.mark.parametrize("body", [b"[1, 2]", b'"text"', b"", b'{"a": 1}\n{"b": 2}'])
def test_like_named_paths_of_others_are_theirs(server: Any, path: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    with Cassette().replaying():
        answer = server.client.post(f"http://own.example{path}", content=body, headers=headers)
    assert (answer.status_code, server.calls) == (200, 1)


def test_pieces_with_ids_of_their_own_are_one_call(server: Any) -> None:
    more = call(1)
    more["choices"][0]["delta"]["tool_calls"][0] = {
        "index": 0,
        "id": "other",
        "function": {"arguments": "[1]"},
    }
    first = call(1)
    first["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = ""
    server.kind = "text/event-stream"
    server.body = events([first, more, end("tool_calls"), "[DONE]"])
    cassette = server.recorded(CHAT, {**ASKED, "stream": True})
    (choice,) = cassette.entries[0].response["choices"]
    (part,) = choice["message"]["parts"]
    assert (part["name"], part["arguments"]) == ("get_1", "[1]")


def test_a_form_sent_to_a_like_named_path_goes_its_way(server: Any) -> None:
    with Cassette().replaying():
        assert server.client.post("/survey/responses", data={"a": "b"}).status_code == 200
    assert server.calls == 1


class Sink(requests.adapters.BaseAdapter):
    """Takes what would have been sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []

    def send(self, request: Any, **_: Any) -> Any:  # type: ignore[override]
        self.bodies.append(request.body)
        answer = requests.Response()
        answer.status_code, answer.request, answer.raw = (
            200,
            request,
            urllib3.HTTPResponse(io.BytesIO(b"{}"), preload_content=False),
        )
        return answer

    def close(self) -> None: ...


class Blocks:
    """A file of which a read gives no more than 16 bytes."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 16))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)


@pytest.mark.parametrize(
    "form", [io.BytesIO, bytearray, Blocks, lambda data: iter([data[:9], data[9:]])]
)
def test_bodies_of_requests_are_read_in_every_form(form: Any) -> None:
    sink = Sink()
    session = requests.Session()
    session.mount("https://", CassetteAdapter(sink))
    data = json.dumps(ASKED).encode()

    def post(asked: bytes) -> Any:
        return session.post(
            f"https://api.openai.com{CHAT}",
            data=form(asked),
            headers={"content-type": "application/json"},
        )

    cassette = Cassette()
    with cassette.recording():
        assert post(data).json() == {}
    assert sink.bodies == [data]
    with cassette.replaying() as replay:
        assert post(data).json() == {}
    assert replay.summary.served == 1
    with pytest.raises(CassetteMissError), cassette.replaying():
        assert post(data.replace(b'"q"', b'"other"')).status_code == 409
    assert len(sink.bodies) == 1


@pytest.mark.parametrize("path", ["/v1/moderations", "/v1/messages/count_tokens", "/v1/files"])
def test_a_gateway_gets_nothing_in_a_strict_replay(
    server: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway.example:4000/v1")
    with Cassette().replaying():
        assert server.client.post(f"http://gateway.example:4000{path}", json={}).status_code == 409
        assert server.client.post(f"http://other.example:4000{path}", json={}).status_code == 200
    assert server.calls == 1


def test_pictures_that_hold_the_beginning_of_a_key_are_two(server: Any) -> None:
    server.body = json.dumps({"choices": []}).encode()

    def ask(tail: str) -> Any:
        url = f"data:image/png;base64,iVBORw0KGgo/ABSK{tail * 100}"
        content = [{"type": "image_url", "image_url": {"url": url}}]
        body = {"model": "m", "messages": [{"role": "user", "content": content}]}
        return server.client.post(CHAT, json=body).status_code

    cassette = Cassette()
    with cassette.recording():
        assert ask("abcd") == 200
    assert "ABSK" in json.dumps(cassette.entries[0].request)
    with pytest.raises(CassetteMissError), cassette.replaying():
        assert ask("efgh") == 409


def test_instrumented_clients_know_a_gateway_by_its_calls(server: Any) -> None:
    server.body = json.dumps({"choices": []}).encode()
    CassetteInstrumentor().instrument()
    try:
        cassette = Cassette()
        with cassette.recording():
            server.client.post(f"http://learned.example:4001{CHAT}", json=ASKED)
        images = "http://learned.example:4001/v1/images/generations"
        with cassette.replaying():
            server.client.post(f"http://learned.example:4001{CHAT}", json=ASKED)
            assert server.client.post(images, json={}).status_code == 409
        with cassette.replaying():  # another session knows nothing of it
            assert server.client.post(images, json={}).status_code == 200
    finally:
        CassetteInstrumentor().uninstrument()
