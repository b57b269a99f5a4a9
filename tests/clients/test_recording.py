"""What a recording holds of an exchange."""

from __future__ import annotations

import json

import pytest

from otel_cassette import Cassette


@pytest.fixture
def raw_of():
    return lambda entry: entry.response["raw"]


def test_the_providers_payload_is_kept_as_it_is(ask, sdks, provider, raw_of):
    cassette = Cassette()
    with cassette.recording():
        ask(sdks, "hello")

    (path, _, body) = provider.requests[0]
    (entry,) = cassette.entries
    assert raw_of(entry)
    assert entry.latency_ms > 0
    assert entry.request["model"] == body.get("model", "gemini-2.5-flash")
    assert entry.kind == ("embedding" if path.endswith("embeddings") else "llm")


def test_the_events_of_a_stream_are_kept_as_they_are(ask_stream, sdks, provider):
    cassette = Cassette()
    with cassette.recording():
        list(ask_stream(sdks, "count to ten"))

    path, _, body = provider.requests[0]
    _, events, _ = provider.answer(path, body)
    sent = [e for _, e in events if e != "[DONE]"]
    kept = [c["raw"] for c in cassette.entries[0].response["chunks"]]
    numbers = ("id", "created", "response", "item", "item_id", "message", "responseId")

    def without_numbers(event):
        return {k: v for k, v in event.items() if k not in numbers}

    assert [without_numbers(e) for e in kept] == [without_numbers(e) for e in sent]


def test_compressed_answers(sdks, ask_chat, raw_of):
    cassette = Cassette()
    with cassette.recording():
        answer = ask_chat(sdks, "[gzip] hello")
    assert answer.choices[0].message.content == "Echo: [gzip] hello"
    assert raw_of(cassette.entries[0])["choices"][0]["message"]["content"] == "Echo: [gzip] hello"


def test_no_header_and_no_key_reaches_the_file(sdks, ask_chat, tmp_path):
    cassette = Cassette()
    with cassette.recording(tmp_path / "c.jsonl"):
        ask_chat(sdks, "hello")
    text = (tmp_path / "c.jsonl").read_text()
    assert "sk-test" not in text
    assert "authorization" not in text.lower()
    assert json.loads(text.splitlines()[1])["response"]["raw"]["id"] == "chatcmpl-1"


def test_an_answer_that_is_not_json_keeps_its_place(sdks, provider, monkeypatch, caplog):
    import httpx2
    import openai

    pages = iter([b"<html>a proxy's page</html>", b"{}"])
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=next(pages)))
    client = openai.OpenAI(
        api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport)
    )
    cassette = Cassette()
    with cassette.recording():
        for _ in range(2):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    client.close()

    assert next(e.response_integrity for e in cassette.entries) == "absent"
    assert "recorded without content" in caplog.text


def test_a_fault_of_the_recording_does_not_touch_the_call(sdks, ask_chat, monkeypatch, caplog):
    from otel_cassette.session import Step

    def broken(self, record):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(Step, "succeeded", broken)
    cassette = Cassette()
    with cassette.recording():
        answer = ask_chat(sdks, "hello")
    assert answer.choices[0].message.content == "Echo: hello"
    assert "could not be recorded" in caplog.text
    assert not cassette.entries


def test_calls_of_a_tool_are_recorded_inside_it(sdks, ask_chat):
    cassette = Cassette()

    @cassette.wrap_tool
    def research(topic: str) -> str:
        return ask_chat(sdks, topic).choices[0].message.content

    with cassette.recording():
        research("fjords")
        ask_chat(sdks, "hello")

    assert [e.kind for e in cassette.entries] == ["tool", "llm"]
    (nested,) = cassette.nested
    assert (nested.parent.kind, nested.parent.index) == ("tool", 0)

    played = Cassette([*cassette.entries, nested], mode="strict")
    calls = len(cassette.entries)
    with played.replaying(kinds={"llm"}) as session:
        rewrapped = played.wrap_tool(research.__wrapped__, name="research")
        assert rewrapped("fjords") == "Echo: fjords"
        ask_chat(sdks, "hello")
    assert session.summary.served == calls
