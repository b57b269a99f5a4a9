"""Nothing leaves: no connection, no look-up, no key, whoever suppresses instrumentation."""

# ruff: noqa: PT012, SIM117 - a session raises at the end of its block, which is what is tested

from __future__ import annotations

import contextlib
import gc
import os
import socket

import anthropic
import httpx2
import openai
import pytest
from google import genai
from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_cassette import Cassette, CassetteMissError, NetworkBlockedError
from otel_cassette.clients import CassetteInstrumentor, CassetteTransport
from otel_cassette.session.provider_keys import DUMMY_KEY

KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
)


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lookups(monkeypatch):
    """Hosts that were looked up."""
    seen = []

    def getaddrinfo(host, *args, **kwargs):
        seen.append(host)
        raise socket.gaierror(f"no look-up of {host} in this test")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return seen


@pytest.fixture
def listener():
    """A socket that must see no connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture
def recorded(sdks, provider):
    cassette = Cassette()
    with cassette.recording():
        everything(sdks.openai, sdks.anthropic, sdks.google)
    return Cassette(cassette.entries, mode="strict")


def everything(openai_client, anthropic_client, google_client):
    user = [{"role": "user", "content": "hi"}]
    texts = [
        openai_client.chat.completions.create(model="m", messages=user).choices[0].message.content,
        openai_client.responses.create(model="m", input="hi").output_text,
        anthropic_client.messages.create(model="m", max_tokens=9, messages=user).content[0].text,
        google_client.models.generate_content(model="gemini-2.5-flash", contents="hi").text,
    ]
    vector = openai_client.embeddings.create(model="e", input=["hi"], encoding_format="float")
    return [*texts, vector.data[0].embedding]


EXPECTED = ["Echo: hi"] * 4 + [[0.5, -0.25, 0.25]]


def clients(base=None):
    openai_client = openai.OpenAI(base_url=base and f"{base}/v1", max_retries=2)
    anthropic_client = anthropic.Anthropic(base_url=base, max_retries=2)
    google_client = genai.Client(http_options={"base_url": base} if base else None)
    return openai_client, anthropic_client, google_client


def close(made):
    for client in made:
        client.close()


@pytest.mark.parametrize("suppressed", [False, True], ids=["", "suppressed"])
def test_a_strict_replay_without_keys_connects_to_nothing(recorded, listener, lookups, suppressed):
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    around = suppress_instrumentation if suppressed else contextlib.nullcontext
    for base in (url, None):
        with recorded.replaying(block_network=base is None) as session:
            made = clients(base)
            with around():
                assert everything(*made) == EXPECTED
            close(made)
        assert str(session.summary).startswith("served 5, live 0, missed 0, unplayed 0")

    assert lookups == []
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("suppressed", [False, True], ids=["", "suppressed"])
def test_a_miss_connects_to_nothing_either(recorded, listener, lookups, suppressed):
    user = [{"role": "user", "content": "edited"}]
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    around = suppress_instrumentation if suppressed else contextlib.nullcontext
    for base in (url, None):
        with pytest.raises(CassetteMissError), recorded.replaying():
            made = clients(base)
            with around(), pytest.raises(anthropic.ConflictError, match="request differs"):
                made[1].messages.create(model="m", max_tokens=9, messages=user)
            close(made)

    assert lookups == []
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_with_the_network_blocked_no_other_request_leaves(recorded, instrumented):
    client = openai.OpenAI(api_key="k", base_url="https://models.example/v1", max_retries=0)
    with recorded.replaying(block_network=True):
        with pytest.raises(openai.APIConnectionError) as raised:
            client.models.list()
        with pytest.raises(NetworkBlockedError, match=r"collector\.example:4318"):
            socket.create_connection(("collector.example", 4318))
    client.close()

    causes = []
    error: BaseException | None = raised.value
    while error is not None:
        causes.append(type(error))
        error = error.__cause__ or error.__context__
    assert NetworkBlockedError in causes


def test_missing_keys_get_a_stand_in_while_the_replay_is_open(recorded, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the program's own")
    with recorded.replaying():
        assert os.environ["OPENAI_API_KEY"] == DUMMY_KEY
        assert os.environ["ANTHROPIC_API_KEY"] == "the program's own"
        with recorded.replaying():
            assert os.environ["OPENAI_API_KEY"] == DUMMY_KEY
        assert os.environ["GOOGLE_API_KEY"] == DUMMY_KEY
    assert "OPENAI_API_KEY" not in os.environ
    assert "GOOGLE_API_KEY" not in os.environ


def test_without_a_transport_no_key_is_set(recorded):
    """With a stand-in and nothing that answers, an SDK would send the prompt to its provider."""
    CassetteInstrumentor().uninstrument()
    gc.collect()  # transports of other tests' clients, which are cycles
    with recorded.replaying():
        assert "OPENAI_API_KEY" not in os.environ
        with pytest.raises(openai.OpenAIError, match="api_key"):
            openai.OpenAI()
        transport = CassetteTransport(httpx2.HTTPTransport())
        assert os.environ["OPENAI_API_KEY"] == DUMMY_KEY
        transport.close()
    assert "OPENAI_API_KEY" not in os.environ
    del transport
    gc.collect()
    with recorded.replaying():
        assert "OPENAI_API_KEY" not in os.environ


def test_only_providers_of_the_recording_get_a_stand_in(sdks, ask_chat):
    cassette = Cassette()
    with cassette.recording():
        ask_chat(sdks, "hi")
        assert "OPENAI_API_KEY" not in os.environ
    with Cassette(cassette.entries, mode="strict").replaying():
        assert os.environ["OPENAI_API_KEY"] == DUMMY_KEY
        assert "ANTHROPIC_API_KEY" not in os.environ


def test_fallthrough_never_goes_live_with_a_stand_in(recorded, listener):
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(CassetteMissError, match="set the provider's key"):
        with recorded.replaying(mode="fallthrough") as session:
            made = clients(url)
            asks = (
                lambda: made[0].responses.create(model="m", input="edited"),
                lambda: made[1].messages.create(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "edited"}]
                ),
                lambda: made[2].models.generate_content(model="m", contents="edited"),
            )
            for ask in asks:
                with pytest.raises(Exception, match="its key is missing"):
                    ask()
                session.poisoned, kept = None, session.poisoned
            session.poisoned = kept
    close(made)

    assert str(session.summary).startswith("served 0, live 0, missed 3")
    with pytest.raises(BlockingIOError):
        listener.accept()


# 192.0.2.1 is for documentation (RFC 5737): nobody answers there.
FAR = ("192.0.2.1", 53)


@pytest.mark.parametrize(
    "reach",
    [
        lambda udp: udp.sendmsg([b"x"], [], 0, FAR),
        lambda udp: udp.sendto(b"x", FAR),
        lambda udp: udp.connect(FAR),
        lambda _udp: socket.getnameinfo(FAR, 0),
        lambda _udp: socket.gethostbyaddr(FAR[0]),
    ],
)
def test_no_other_way_out_is_open(reach):
    block = Cassette().replaying(block_network=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, block:
        with pytest.raises(NetworkBlockedError, match=r"192\.0\.2\.1"):
            reach(udp)
        udp.sendto(b"x", ("127.0.0.1", 9))
