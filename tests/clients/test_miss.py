"""A call without a recorded answer: one try, readable text, a poisoned session, an error at the end."""

# ruff: noqa: PT012, SIM117 - a session raises at the end of its block, which is what is tested

from __future__ import annotations

import contextlib

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as google_errors

from otel_cassette import Cassette, CassetteMissError, wrap_llm
from otel_cassette.clients import http_exchange, httpx_transport


def user(text):
    return [{"role": "user", "content": text}]


ASKS = {
    "openai.chat": (
        lambda s, t: s.openai.chat.completions.create(model="m", messages=user(t)),
        openai.ConflictError,
    ),
    "openai.responses": (
        lambda s, t: s.openai.responses.create(model="m", input=t),
        openai.ConflictError,
    ),
    "openai.stream": (
        lambda s, t: s.openai.chat.completions.create(model="m", messages=user(t), stream=True),
        openai.ConflictError,
    ),
    "anthropic.messages": (
        lambda s, t: s.anthropic.messages.create(model="m", max_tokens=9, messages=user(t)),
        anthropic.ConflictError,
    ),
    "anthropic.stream": (
        lambda s, t: list(
            s.anthropic.messages.create(model="m", max_tokens=9, messages=user(t), stream=True)
        ),
        anthropic.ConflictError,
    ),
    "google.generate": (
        lambda s, t: s.google.models.generate_content(model="gemini-2.5-flash", contents=t),
        google_errors.ClientError,
    ),
}


@pytest.fixture(params=ASKS.values(), ids=ASKS)
def call(request):
    return request.param


@pytest.fixture
def tries(monkeypatch):
    """What came to the transports."""
    seen = []
    plain = http_exchange.Exchange.open
    monkeypatch.setattr(
        http_exchange.Exchange, "open", lambda self, *args: seen.append(self) or plain(self, *args)
    )
    return seen


@pytest.fixture
def recorded(provider, make_sdks, call):
    cassette = Cassette()
    with cassette.recording():
        answer = call[0](make_sdks(provider.url), "What is the capital of Norway?")
        if hasattr(answer, "__next__"):
            list(answer)
    return Cassette(cassette.entries, mode="strict")


def test_one_try_with_the_diff_as_its_text(call, recorded, provider, make_sdks, tries):
    ask, kind = call
    sdks = make_sdks(provider.url, max_retries=3)
    before = len(provider.requests)

    with (
        pytest.raises(CassetteMissError) as miss,
        recorded.replaying() as session,
        pytest.raises(kind) as raised,
    ):
        ask(sdks, "What is the capital of Sweden?")

    shown = str(raised.value)
    assert "request differs (messages/0/parts/0/content)" in shown
    assert "Norway" in shown
    assert "Sweden" in shown
    assert len(tries) == 1
    assert len(provider.requests) == before
    assert '+          "content": "What is the capital of Sweden?"' in str(miss.value)
    assert session.summary.missed == 1


def test_later_calls_fail_alike_and_are_no_divergences(call, recorded, provider, make_sdks):
    ask, kind = call
    sdks = make_sdks(provider.url)

    with pytest.raises(CassetteMissError), recorded.replaying() as session:
        with pytest.raises(kind):
            ask(sdks, "edited")
        with pytest.raises(kind, match="edited"):
            ask(sdks, "What is the capital of Norway?")

    assert [d.reason for d in session.divergences] == ["request_changed"]
    assert len(session.calls) == 1
    assert recorded.divergences == session.divergences


def test_the_miss_is_raised_from_what_the_program_made_of_it(call, recorded, provider, make_sdks):
    ask, kind = call
    sdks = make_sdks(provider.url)

    def agent():
        try:
            ask(sdks, "edited")
        except kind as error:
            raise RuntimeError("the agent gave up") from error

    with pytest.raises(CassetteMissError) as miss, recorded.replaying():
        agent()

    assert isinstance(miss.value.__cause__, RuntimeError)
    assert isinstance(miss.value.__cause__.__cause__, kind)


def test_a_program_that_swallows_the_error_fails_at_the_end_of_the_block(
    recorded, provider, make_sdks, call
):
    ask, _ = call
    sdks = make_sdks(provider.url)
    with pytest.raises(CassetteMissError), recorded.replaying():
        with contextlib.suppress(Exception):
            ask(sdks, "edited")
        after = "the program went on"
    assert after


def test_lenient_serves_the_entry_it_departed_from_and_misses_beyond(sdks, ask_chat, played):
    cassette = Cassette()
    with cassette.recording():
        ask_chat(sdks, "hello")

    with pytest.raises(CassetteMissError, match="extra call"):
        with played(cassette).replaying(mode="lenient") as session:
            assert ask_chat(sdks, "edited").choices[0].message.content == "Echo: hello"
            with pytest.raises(openai.ConflictError, match="the recording has none"):
                ask_chat(sdks, "once more")
    assert [d.reason for d in session.divergences] == ["request_changed", "extra_call"]


def test_fallthrough_goes_live_and_says_so(sdks, provider, ask_chat, played):
    cassette = Cassette()
    with cassette.recording():
        ask_chat(sdks, "hello")

    with played(cassette, record_new=True).replaying(mode="fallthrough") as session:
        assert ask_chat(sdks, "edited").choices[0].message.content == "Echo: edited"

    assert str(session.summary) == "served 0, live 1, missed 0, unplayed 0, ties 0"
    assert len(provider.requests) == 2
    (entry,) = session.owner.entries
    assert entry.response["choices"][0]["message"]["parts"][0]["content"] == "Echo: edited"


def test_an_api_that_no_codec_reads_does_not_leave_for_a_provider(
    instrumented, ask_chat, make_sdks
):
    client = openai.OpenAI(api_key="sk-test", max_retries=3)
    with Cassette(mode="strict").replaying(block_network=True) as session:
        with pytest.raises(openai.ConflictError, match="no codec"):
            client.completions.create(model="m", prompt="hi")
        with pytest.raises(openai.ConflictError, match=r"audio/speech"):
            client.audio.speech.create(model="m", input="hi", voice="alloy")
    client.close()
    assert session.poisoned is None


def test_two_sessions_and_a_lost_context_are_an_error_answer(sdks, provider, ask_chat, played):
    from concurrent.futures import ThreadPoolExecutor

    cassette = Cassette()
    with cassette.recording():
        ask_chat(sdks, "hello")
    with played(cassette).replaying(), played(cassette).replaying(), ThreadPoolExecutor(1) as pool:
        with pytest.raises(openai.ConflictError, match="2 cassette sessions are open"):
            pool.submit(ask_chat, sdks, "hello").result()
    assert len(provider.requests) == 1


def test_a_fault_of_ours_is_an_error_answer_in_a_replay(
    sdks, provider, ask_chat, played, monkeypatch, caplog
):
    cassette = Cassette()
    with cassette.recording():
        ask_chat(sdks, "hello")

    def broken(*args, **kwargs):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(http_exchange._Call, "outcome", broken)
    with (
        pytest.raises(CassetteMissError, match="ZeroDivisionError"),
        played(cassette).replaying(),
        pytest.raises(openai.ConflictError, match="ZeroDivisionError"),
    ):
        ask_chat(sdks, "hello")
    with Cassette().recording():  # and nothing at all in a recording
        assert ask_chat(sdks, "hello").choices[0].message.content == "Echo: hello"
    assert "could not be handled" in caplog.text


def test_what_is_no_model_call_passes(instrumented, provider):
    """Exporters, vendors' ingest, an application's own API: also in a strict replay."""
    with Cassette(mode="strict").replaying(), httpx2.Client() as client:
        other = client.post(f"{provider.url}/v1/traces", json={"resourceSpans": []})
        client.post(f"{provider.url}/responses", json={"answers": [1, 2]})
    assert other.status_code == 404
    assert [path for path, _, _ in provider.requests] == ["/v1/traces", "/responses"]


def test_a_wrapped_client_that_calls_the_sdk_is_one_call(sdks, provider, ask_chat):
    class Client:
        model = "m"

        def complete(self, request):
            return ask_chat(sdks, request.messages[0].text).choices[0].message.content

    cassette = Cassette()
    wrapped = wrap_llm(cassette.wrap_llm(Client()))
    with cassette.recording() as session:
        wrapped.complete("hello")
    assert session.summary.recorded == 1

    with Cassette(cassette.entries, mode="strict").replaying(mode="fallthrough") as session:
        wrapped.complete("edited")
    assert str(session.summary) == "served 0, live 1, missed 0, unplayed 0, ties 0"
    assert len(provider.requests) == 2


def test_the_library_of_a_transport_is_told_by_its_class():
    with pytest.raises(TypeError, match="no transport of httpx or httpx2"):
        httpx_transport.CassetteTransport(object())
