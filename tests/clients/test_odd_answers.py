"""Answers that are no answers, and answers that JSON or UTF-8 has no form for."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest

from otel_cassette import Cassette, CassetteMissError
from otel_cassette.clients import CassetteTransport

ASKED = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
HASHES = ["5e48291", "120e3", "12e4", "1.10", "1.1"]


def answer(content: str, **more: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": "stop",
    }
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Rate limited", "code": 429}},
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []},
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": None},
    ],
)
def test_a_body_without_an_answer_comes_back_as_it_was(server: Any, body: Any) -> None:
    server.body = json.dumps(body).encode()
    cassette = Cassette()
    with cassette.recording():
        assert server.post().json() == body
    with cassette.replaying() as session:
        assert server.post().json() == body
    assert (server.calls, session.summary.served) == (1, 1)


@pytest.mark.parametrize(
    ("path", "asked", "body"),
    [
        (
            "/v1/messages",
            {**ASKED, "max_tokens": 9},
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ),
        (
            "/v1/responses",
            {"model": "m", "input": "q"},
            {"error": {"message": "Rate limited", "code": 429}},
        ),
        (
            "/v1beta/models/gemini:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
            {"promptFeedback": {"blockReason": "SAFETY"}},
        ),
        (
            "/v1/embeddings",
            {"model": "m", "input": "q"},
            {"error": {"message": "Rate limited", "code": 429}},
        ),
    ],
)
def test_so_it_is_with_every_api(server: Any, path: str, asked: Any, body: Any) -> None:
    server.body = json.dumps(body).encode()
    cassette = Cassette()
    with cassette.recording():
        server.client.post(path, json=asked)
    with cassette.replaying() as session:
        assert server.client.post(path, json=asked).json() == body
    assert (server.calls, session.summary.served) == (1, 1)


@pytest.mark.parametrize(
    ("path", "asked", "body"),
    [
        (
            "/v1/messages",
            {**ASKED, "max_tokens": 9},
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [{"type": "text", "text": "a"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        ),
        (
            "/v1beta/models/gemini:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]},
        ),
    ],
)
def test_nothing_is_added_to_an_answer(server: Any, path: str, asked: Any, body: Any) -> None:
    server.body = json.dumps(body).encode()
    cassette = Cassette()
    with cassette.recording():
        server.client.post(path, json=asked)
    with cassette.replaying():
        assert server.client.post(path, json=asked).json() == body


def test_an_error_with_status_200_is_an_error_of_a_stream_too(server: Any) -> None:
    server.body = b'{"error": {"message": "Rate limited", "code": 429}}'
    cassette = Cassette()
    with cassette.recording():
        server.post()
    with cassette.replaying(), pytest.raises(openai.APIError, match="Rate limited"):
        list(server.sdk.chat.completions.create(**ASKED, stream=True))  # type: ignore[call-overload]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_without_json_costs_its_own_answer_only(
    server: Any, number: str, tmp_path: Any
) -> None:
    cassette = Cassette()
    with cassette.recording(tmp_path / "calls.jsonl"):
        server.body = json.dumps(answer("good")).encode()
        server.post()
        server.body = json.dumps(answer("odd", logprob=0.25)).replace("0.25", number).encode()
        server.post(seed=1)
    played = Cassette.load(tmp_path / "calls.jsonl")
    with pytest.raises(CassetteMissError, match="without a response"), played.replaying():
        good, odd = server.post(), server.post(seed=1)
    assert good.json()["choices"][0]["message"]["content"] == "good"
    assert (odd.status_code, server.calls) == (409, 2)


def test_half_a_surrogate_pair_is_streamed_again(server: Any, tmp_path: Any) -> None:
    chunk = answer("")
    chunk["object"] = "chat.completion.chunk"

    def event(text: str, reason: str | None = None) -> str:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
        return f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n"

    server.kind = "text/event-stream"
    server.body = (event("\ud83d") + event("\ude00", "stop") + "data: [DONE]\n\n").encode()
    cassette = Cassette()
    with cassette.recording(tmp_path / "calls.jsonl"):
        server.post(stream=True)
    with Cassette.load(tmp_path / "calls.jsonl").replaying():
        lines = [line for line in server.post(stream=True).text.splitlines() if line]
    pieces = [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in lines[:-1]]
    assert "".join(pieces) == "\ud83d\ude00"


def conversation(result: str) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "sha", "arguments": "{}"}}
    return {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": result},
        ]
    }


def test_hashes_and_versions_are_texts(server: Any, tmp_path: Any) -> None:
    cassette = Cassette()
    with cassette.recording(tmp_path / "calls.jsonl"):
        for text in HASHES:
            server.body = json.dumps(answer(f"about {text}")).encode()
            server.post(**conversation(text))
    with Cassette.load(tmp_path / "calls.jsonl").replaying() as session:
        for text in reversed(HASHES):
            said = server.post(**conversation(text)).json()["choices"][0]["message"]["content"]
            assert said == f"about {text}"
    assert (session.summary.served, session.divergences) == (5, [])
    for text in ("6e48291", "1.100"):
        with pytest.raises(CassetteMissError), Cassette.load(tmp_path / "calls.jsonl").replaying():
            assert server.post(**conversation(text)).status_code == 409


def custom(value: str, name: str = "sql") -> list[dict[str, Any]]:
    call = {"id": "1", "type": "custom", "custom": {"name": name, "input": value}}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]


def search(**options: Any) -> list[dict[str, Any]]:
    return [{"type": "file_search", **options}]


@pytest.mark.parametrize(
    ("recorded", "asked", "field"),
    [
        ({"messages": custom("SELECT 1")}, {"messages": custom("DROP TABLE x")}, "arguments"),
        ({"messages": custom("a")}, {"messages": custom("a", "shell")}, "name"),
        (
            {"tools": [{"type": "custom", "custom": {"name": "a"}}]},
            {"tools": [{"type": "custom", "custom": {"name": "b"}}]},
            "tools/0/name",
        ),
        (
            {"tools": search(vector_store_ids=["a"])},
            {"tools": search(vector_store_ids=["b"])},
            "tools/0/vector_store_ids",
        ),
    ],
)
def test_what_a_tool_is_given_is_compared(
    server: Any, recorded: Any, asked: Any, field: str
) -> None:
    server.body = json.dumps(answer("yes")).encode()
    cassette = Cassette()
    with cassette.recording():
        server.post(**recorded)
    with cassette.replaying() as session:
        assert server.post(**recorded).status_code == 200
    assert session.divergences == []
    with pytest.raises(CassetteMissError, match=field), cassette.replaying():
        assert server.post(**asked).status_code == 409
    assert server.calls == 1


def test_the_tools_that_may_be_chosen_are_compared() -> None:
    def allowed(*names: str) -> Any:
        config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": names}}
        contents = [{"role": "user", "parts": [{"text": "q"}]}]
        return {"contents": contents, "toolConfig": config}

    def respond(_request: Any) -> Any:
        part = {"role": "model", "parts": [{"text": "yes"}]}
        return httpx2.Response(200, json={"candidates": [{"content": part}]})

    path = "http://m/v1beta/models/gemini:generateContent"
    with httpx2.Client(transport=CassetteTransport(httpx2.MockTransport(respond))) as client:
        cassette = Cassette()
        with cassette.recording():
            client.post(path, json=allowed("a", "b"))
        with cassette.replaying():
            assert client.post(path, json=allowed("a", "b")).status_code == 200
        with pytest.raises(CassetteMissError, match="tool_choice"), cassette.replaying():
            client.post(path, json=allowed("a", "c"))
