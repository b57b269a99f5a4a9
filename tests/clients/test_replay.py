"""Unmodified SDKs get their recorded answers: the objects that they got from the provider."""

from __future__ import annotations

import asyncio

import anthropic
import openai
import pytest
from google.genai import errors as google_errors
from pydantic import BaseModel

from otel_cassette import Cassette


def reload(cassette, tmp_path):
    cassette.save(tmp_path / "c.jsonl")
    return Cassette.load(tmp_path / "c.jsonl")


def test_a_plain_answer(ask, sdks, provider, tmp_path, as_data):
    cassette = Cassette()
    with cassette.recording():
        first = as_data(ask(sdks, "hello"))
    asked = len(provider.requests)

    with reload(cassette, tmp_path).replaying() as session:
        again = as_data(ask(sdks, "hello"))

    ignored = {"sdk_http_response"} if "sdk_http_response" in first else set()
    assert {k: v for k, v in again.items() if k not in ignored} == {
        k: v for k, v in first.items() if k not in ignored
    }
    assert (asked, len(provider.requests)) == (1, 1)
    assert session.summary.served == 1


def without_http(events):
    return [{k: v for k, v in e.items() if k != "sdk_http_response"} for e in events]


def test_a_streamed_answer_event_for_event(ask_stream, sdks, provider, tmp_path, as_data):
    cassette = Cassette()
    with cassette.recording():
        first = as_data(list(ask_stream(sdks, "count to ten, please")))

    with reload(cassette, tmp_path).replaying():
        again = as_data(list(ask_stream(sdks, "count to ten, please")))

    assert without_http(again) == without_http(first)
    assert len(first) >= 4
    assert len(provider.requests) == 1


def test_a_plain_answer_of_an_async_client(ask_async, sdks, provider, as_data, played):
    async def main():
        cassette = Cassette()
        with cassette.recording():
            first = as_data(await ask_async(sdks, "hello"))
        with played(cassette).replaying():
            again = as_data(await ask_async(sdks, "hello"))
        await sdks.aclose()
        return without_http([first]), without_http([again])

    first, again = asyncio.run(main())

    assert again == first
    assert len(provider.requests) == 1


def test_a_streamed_answer_of_an_async_client(ask_async_stream, sdks, provider, as_data, played):
    async def read():
        return as_data(
            [event async for event in await ask_async_stream(sdks, "count to ten, please")]
        )

    async def main():
        cassette = Cassette()
        with cassette.recording():
            first = await read()
        with played(cassette).replaying():
            again = await read()
        await sdks.aclose()
        return first, again

    first, again = asyncio.run(main())

    assert without_http(again) == without_http(first)
    assert len(provider.requests) == 1


def test_an_answer_recorded_plain_is_streamed_and_the_other_way_round(
    sdks, played, ask_chat, stream_chat
):
    plain, streamed = Cassette(), Cassette()
    with plain.recording():
        first = ask_chat(sdks, "hello")
    with streamed.recording():
        list(stream_chat(sdks, "hello"))

    with played(plain).replaying():
        chunks = list(stream_chat(sdks, "hello"))
    with played(streamed).replaying():
        whole = ask_chat(sdks, "hello")

    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Echo: hello"
    assert whole.choices[0].message.content == first.choices[0].message.content
    assert whole.usage.total_tokens == 18


def test_tool_calls_keep_their_arguments_and_ids(sdks, played):
    cassette = Cassette()

    def ask():
        return sdks.anthropic.messages.create(
            model="claude-test", max_tokens=9, messages=[{"role": "user", "content": "[tool]"}]
        )

    with cassette.recording():
        first = ask()
    with played(cassette).replaying():
        again = ask()

    assert again.content[0].input == {"order_id": "A-17"}
    assert again.content[0].id == first.content[0].id


def test_answers_carry_a_request_id_of_their_own(sdks, played, ask_chat):
    cassette = Cassette()
    with cassette.recording():
        ask_chat(sdks, "one")
        ask_chat(sdks, "two")

    with played(cassette).replaying():
        ids = [ask_chat(sdks, text)._request_id for text in ("one", "two")]

    assert all(i.startswith("req_") for i in ids)
    assert len(set(ids)) == 2


def test_raw_and_streaming_responses_of_the_sdks(sdks, played):
    cassette = Cassette()
    arguments = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
    with cassette.recording():
        for _ in range(3):
            sdks.openai.chat.completions.create(**arguments)

    with played(cassette).replaying():
        raw = sdks.openai.chat.completions.with_raw_response.create(**arguments)
        with sdks.openai.chat.completions.with_streaming_response.create(**arguments) as response:
            lines = list(response.iter_lines())
        with sdks.openai.chat.completions.with_streaming_response.create(**arguments) as response:
            parsed = response.parse()

    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.elapsed.total_seconds() < 1
    assert raw.parse().choices[0].message.content == "Echo: hello"
    assert "Echo: hello" in "".join(lines)
    assert parsed.choices[0].message.content == "Echo: hello"


def test_stream_helpers_and_parse(sdks, played):
    class Answer(BaseModel):
        text: str

    openai_arguments = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
    arguments = {**openai_arguments, "model": "claude-test", "max_tokens": 9}

    def ask():
        with sdks.openai.chat.completions.stream(**openai_arguments) as stream:
            kinds = [event.type for event in stream]
            text = stream.get_final_completion().choices[0].message.content
        with sdks.anthropic.messages.stream(**arguments) as stream:
            texts = list(stream.text_stream)
        with sdks.openai.responses.stream(model="gpt-4.1-mini", input="hello") as stream:
            final = stream.get_final_response().output_text
        return kinds, text, texts, final

    cassette = Cassette()
    with cassette.recording():
        first = ask()
    with played(cassette).replaying():
        assert ask() == first
    assert first[1] == "Echo: hello"

    cassette = Cassette()
    prompt = [{"role": "user", "content": '{"text": "x"}'}]
    with cassette.recording(), pytest.raises(ValueError, match="Invalid JSON"):
        sdks.openai.chat.completions.parse(model="m", messages=prompt, response_format=Answer)
    with played(cassette).replaying() as session, pytest.raises(ValueError, match="Invalid JSON"):
        sdks.openai.chat.completions.parse(model="m", messages=prompt, response_format=Answer)
    assert session.summary.served == 1  # the SDK's own parsing failed, on the recorded text


ERRORS = {
    "openai": (
        "[400] hi",
        lambda s, t: s.openai.responses.create(model="m", input=t),
        openai.BadRequestError,
    ),
    "anthropic": (
        "[500] hi",
        lambda s, t: s.anthropic.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": t}]
        ),
        anthropic.InternalServerError,
    ),
    "google": (
        "[400] hi",
        lambda s, t: s.google.models.generate_content(model="gemini-2.5-flash", contents=t),
        google_errors.ClientError,
    ),
}


@pytest.mark.parametrize(("prompt", "fails", "kind"), ERRORS.values(), ids=ERRORS)
def test_a_recorded_failure_is_the_sdks_own_exception(
    prompt, fails, kind, sdks, provider, tmp_path
):
    cassette = Cassette()
    with cassette.recording(), pytest.raises(kind) as first:
        fails(sdks, prompt)

    with reload(cassette, tmp_path).replaying() as session, pytest.raises(kind) as again:
        fails(sdks, prompt)

    assert str(again.value) == str(first.value)
    assert len(provider.requests) == 1
    assert session.summary.served == 1
    assert not cassette.entries


@pytest.mark.parametrize(
    ("fails", "kind"),
    [
        (ERRORS["openai"][1], openai.APIConnectionError),
        (ERRORS["anthropic"][1], anthropic.APIConnectionError),
    ],
    ids=["openai", "anthropic"],
)
def test_a_refused_connection_is_refused_again(fails, kind, make_sdks, tmp_path):
    sdks = make_sdks("http://127.0.0.1:9")
    cassette = Cassette()
    with cassette.recording(), pytest.raises(kind):
        fails(sdks, "anybody?")

    with reload(cassette, tmp_path).replaying() as session, pytest.raises(kind):
        fails(sdks, "anybody?")

    assert session.summary.served == 1


def test_a_call_that_the_sdk_tried_again_is_one_entry_and_one_answer(
    provider, make_sdks, tmp_path, ask_chat
):
    sdks = make_sdks(provider.url, max_retries=2)
    cassette = Cassette()
    with cassette.recording() as session:
        ask_chat(sdks, "[429] once")
    assert len(provider.requests) == 2
    assert session.summary.recorded == 1

    replayed = reload(cassette, tmp_path)
    with replayed.replaying() as session:
        ask_chat(sdks, "[429] once")

    assert [e.response["choices"][0]["finish_reason"] for e in replayed.entries] == ["stop"]
    assert not replayed.failures
    assert session.summary.served == 1


def test_a_retry_gets_its_own_error_again_and_consumes_nothing(
    provider, make_sdks, tmp_path, ask_chat
):
    cassette = Cassette()
    once = make_sdks(provider.url)
    with cassette.recording():
        with pytest.raises(openai.RateLimitError):
            ask_chat(once, "[429] twice")
        ask_chat(once, "[429] twice")
    sdks = make_sdks(provider.url, max_retries=2)

    with reload(cassette, tmp_path).replaying() as session:
        with pytest.raises(openai.RateLimitError):
            ask_chat(sdks, "[429] twice")
        answer = ask_chat(sdks, "[429] twice")

    assert answer.choices[0].message.content == "Echo: [429] twice"
    assert session.summary.served == 2
    assert "retry" in session.calls[0].flags
    assert len(provider.requests) == 2


def test_calls_of_two_sdks_and_two_kinds_in_one_session(sdks, tmp_path):
    def ask():
        vector = sdks.openai.embeddings.create(model="e", input=["hi"], encoding_format="float")
        answer = sdks.anthropic.messages.create(
            model="claude-test", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
        return vector.data[0].embedding, answer.content[0].text

    cassette = Cassette()
    with cassette.recording():
        first = ask()
    with reload(cassette, tmp_path).replaying() as session:
        assert ask() == first

    assert [e.kind for e in cassette.entries] == ["embedding", "llm"]
    assert session.summary.unplayed == 0
