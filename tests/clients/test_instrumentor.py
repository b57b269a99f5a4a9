"""Where the HTTP libraries are patched, and what stays as it was."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import openai
import pytest
import requests
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_cassette import Cassette
from otel_cassette.clients import AsyncCassetteTransport, CassetteInstrumentor, CassetteTransport

PATCHED = [
    (httpx2.HTTPTransport, "handle_request"),
    (httpx2.AsyncHTTPTransport, "handle_async_request"),
    (httpx2.Client, "_transport_for_url"),
    (httpx2.AsyncClient, "_transport_for_url"),
    (requests.adapters.HTTPAdapter, "send"),
    (requests.Session, "get_adapter"),
]
USER = [{"role": "user", "content": "hello"}]


def methods():
    return [vars(cls)[name] for cls, name in PATCHED]


def ask(client):
    return client.chat.completions.create(model="m", messages=USER).choices[0].message.content


@pytest.fixture
def recording(provider, make_sdks):
    cassette = Cassette()
    with cassette.recording():
        ask(make_sdks(provider.url).openai)
    return cassette


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter, provider
    provider.shutdown()


def test_it_patches_once_and_takes_everything_back():
    before = methods()
    instrumentor = CassetteInstrumentor()
    assert not instrumentor.is_instrumented_by_opentelemetry

    instrumentor.instrument()
    patched = methods()
    CassetteInstrumentor().instrument(skip_dep_check=True)

    assert methods() == patched
    assert not any(a is b for a, b in zip(before, patched, strict=True))
    assert instrumentor.is_instrumented_by_opentelemetry

    instrumentor.uninstrument()
    instrumentor.uninstrument()

    assert all(a is b for a, b in zip(before, methods(), strict=True))


def test_importing_the_package_patches_nothing_and_imports_no_http_library():
    shown = "print([m for m in ('httpx', 'httpx2', 'requests') if m in sys.modules])"
    for imports in ("otel_cassette.clients.instrumentor", "opentelemetry.sdk.trace, pydantic"):
        program = f"import sys, {imports}\n{shown}"
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("ours_first", [True, False], ids=["before", "after"])
def test_the_client_span_of_an_http_instrumentation_stays_in_a_replay(ours_first, provider, spans):
    exporter, tracer_provider = spans
    others, ours = HTTPX2ClientInstrumentor(), CassetteInstrumentor()
    order = [ours.instrument, lambda: others.instrument(tracer_provider=tracer_provider)]
    for instrument in order if ours_first else reversed(order):
        instrument()
    try:
        client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1", max_retries=0)
        cassette = Cassette()
        with cassette.recording():
            ask(client)
        with Cassette(cassette.entries, mode="strict").replaying(span=False):
            assert ask(client) == "Echo: hello"
        client.close()
    finally:
        others.uninstrument()
        ours.uninstrument()

    names = [(s.name, s.kind.name) for s in exporter.get_finished_spans()]
    assert names == [("POST", "CLIENT")] * 2
    assert len(provider.requests) == 1
    assert not any(hasattr(m, "__wrapped__") for m in methods()[:4])


def test_a_client_that_was_instrumented_by_itself_is_answered(provider, recording, spans):
    _exporter, tracer_provider = spans
    CassetteInstrumentor().uninstrument()
    http = httpx2.Client()
    HTTPX2ClientInstrumentor.instrument_client(http, tracer_provider=tracer_provider)
    client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1", http_client=http)
    CassetteInstrumentor().instrument()
    with Cassette(recording.entries, mode="strict").replaying(span=False):
        assert ask(client) == "Echo: hello"
    client.close()
    assert len(provider.requests) == 1


class Counting(httpx2.BaseTransport):
    """A transport of the program's own that hands on to another."""

    def __init__(self, inner):
        self.inner = inner
        self.count = 0

    def handle_request(self, request):
        self.count += 1
        return self.inner.handle_request(request)

    def close(self):
        self.inner.close()


class Subclass(httpx2.HTTPTransport):
    def handle_request(self, request):
        request.headers["x-own"] = "1"
        return super().handle_request(request)


TRANSPORTS = {
    "own": lambda: httpx2.Client(transport=Counting(httpx2.HTTPTransport())),
    "subclass": lambda: httpx2.Client(transport=Subclass()),
    "mounted": lambda: httpx2.Client(mounts={"http://": Counting(httpx2.HTTPTransport())}),
    "proxied": lambda: httpx2.Client(mounts={"http://": httpx2.HTTPTransport()}),
}


@pytest.mark.parametrize("make", TRANSPORTS.values(), ids=TRANSPORTS)
def test_transports_of_the_programs_own_are_recorded_once_and_answered(
    make, provider, instrumented
):
    client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1", http_client=make())
    cassette = Cassette()
    with cassette.recording() as session:
        assert ask(client) == "Echo: hello"
    assert session.summary.recorded == 1
    with Cassette(cassette.entries, mode="strict").replaying() as session:
        assert ask(client) == "Echo: hello"
    client.close()
    assert session.summary.served == 1
    assert len(provider.requests) == 1


def test_an_application_in_this_process_is_no_provider(recording, instrumented):
    """A program's own endpoint may speak OpenAI's API; its test client asks it, not a model."""

    def app(environ, start_response):
        start_response("200 OK", [("content-type", "application/json")])
        return [b'{"own": true}']

    with (
        Cassette(recording.entries, mode="strict").replaying() as session,
        httpx2.Client(transport=httpx2.WSGITransport(app=app), base_url="http://app") as client,
    ):
        answer = client.post("/v1/chat/completions", json={"model": "m", "messages": USER})
    assert answer.json() == {"own": True}
    assert not session.calls


def test_transports_that_stand_in_for_the_network_are_recorded(instrumented):
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "mocked"},
                "finish_reason": "stop",
            }
        ],
    }
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=body))
    client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport))
    cassette = Cassette()
    with cassette.recording():
        assert ask(client) == "mocked"
    client.close()
    assert cassette.entries[0].response["raw"] == body


def test_explicit_transports_need_no_instrumentor(provider):
    import asyncio

    http = httpx2.Client(transport=CassetteTransport(httpx2.HTTPTransport()))
    client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1", http_client=http)
    assert isinstance(CassetteTransport(httpx2.HTTPTransport()), httpx2.BaseTransport)
    cassette = Cassette()
    with cassette.recording():
        assert ask(client) == "Echo: hello"
    with Cassette(cassette.entries, mode="strict").replaying():
        assert ask(client) == "Echo: hello"
    client.close()

    async def main():
        transport = AsyncCassetteTransport(httpx2.AsyncHTTPTransport())
        async with openai.AsyncOpenAI(
            api_key="k",
            base_url=f"{provider.url}/v1",
            http_client=httpx2.AsyncClient(transport=transport),
        ) as client:
            with Cassette(cassette.entries, mode="strict").replaying():
                answer = await client.chat.completions.create(model="m", messages=USER)
        return answer.choices[0].message.content

    assert asyncio.run(main()) == "Echo: hello"
    assert len(provider.requests) == 1


def test_an_explicit_transport_and_the_instrumentor_record_once(provider, instrumented):
    http = httpx2.Client(transport=CassetteTransport(httpx2.HTTPTransport()))
    client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1", http_client=http)
    cassette = Cassette()
    with cassette.recording() as session:
        ask(client)
    client.close()
    assert session.summary.recorded == 1


def test_a_client_made_before_is_included(provider, recording):
    CassetteInstrumentor().uninstrument()
    client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1")
    CassetteInstrumentor().instrument()
    with Cassette(recording.entries, mode="strict").replaying():
        assert ask(client) == "Echo: hello"
    client.close()


def test_without_a_session_everything_is_as_it_was(provider, instrumented):
    client = openai.OpenAI(api_key="k", base_url=f"{provider.url}/v1")
    assert ask(client) == "Echo: hello"
    client.close()
    assert len(provider.requests) == 1
