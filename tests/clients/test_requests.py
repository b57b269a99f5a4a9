"""Programs that call a provider with requests."""

# ruff: noqa: PT012 - a session raises at the end of its block, which is what is tested

from __future__ import annotations

import json

import pytest
import requests

from otel_cassette import Cassette, CassetteMissError
from otel_cassette.clients import CassetteAdapter

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def post(url, body=BODY, session=None, **options):
    with session or requests.Session() as made:
        return made.post(f"{url}/v1/chat/completions", json=body, timeout=5, **options)


def lines(url):
    with requests.Session() as session:
        answer = session.post(
            f"{url}/v1/chat/completions", json={**BODY, "stream": True}, stream=True, timeout=5
        )
        return list(answer.iter_lines())


def test_plain_answers(provider, instrumented, tmp_path):
    cassette = Cassette()
    with cassette.recording():
        first = post(provider.url)
    cassette.save(tmp_path / "c.jsonl")

    with Cassette.load(tmp_path / "c.jsonl").replaying():
        again = post(provider.url)

    assert again.json() == first.json()
    assert again.status_code == 200
    assert again.headers["x-request-id"].startswith("req_")
    assert again.ok
    assert again.url == first.url
    assert len(provider.requests) == 1


def test_streamed_answers(provider, instrumented):
    cassette = Cassette()
    with cassette.recording():
        first = lines(provider.url)
    with Cassette(cassette.entries, mode="strict").replaying():
        again = lines(provider.url)

    def events(read):
        data = [line[6:] for line in read if line.startswith(b"data: ")]
        return [json.loads(d) if d.startswith(b"{") else d for d in data]

    assert events(again) == events(first)
    assert len(events(first)) > 3
    assert len(provider.requests) == 1


def test_raw_reads(provider, instrumented):
    cassette = Cassette()
    with cassette.recording():
        first = post(provider.url)
    with Cassette(cassette.entries, mode="strict").replaying():
        answer = post(provider.url, stream=True)
        head = answer.raw.read(10)
        rest = answer.raw.read()
        answer.close()
    assert json.loads(head + rest) == first.json()


def test_compressed_answers_are_recorded(provider, instrumented):
    body = {"model": "m", "messages": [{"role": "user", "content": "[gzip]"}]}
    cassette = Cassette()
    with cassette.recording():
        post(provider.url, body)
    assert (
        cassette.entries[0].response["choices"][0]["message"]["parts"][0]["content"]
        == "Echo: [gzip]"
    )


def test_failures_and_refused_connections(provider, instrumented):
    body = {"model": "m", "messages": [{"role": "user", "content": "[400]"}]}
    cassette = Cassette()
    with cassette.recording():
        first = post(provider.url, body)
        with pytest.raises(requests.ConnectionError):
            post("http://127.0.0.1:9")

    replayed = Cassette(mode="strict")
    replayed._journal.extend(cassette.failures)
    with replayed.replaying() as session:
        again = post(provider.url, body)
        with pytest.raises(requests.ConnectionError):
            post("http://127.0.0.1:9")

    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert session.summary.served == 2


def test_a_miss(provider, instrumented):
    with pytest.raises(CassetteMissError), Cassette(mode="strict").replaying():
        answer = post(provider.url)
        assert answer.status_code == 409
        assert "the recording has none" in answer.json()["error"]["message"]
    assert not provider.requests


def test_a_stream_left_early_is_recorded_as_such(provider, instrumented):
    cassette = Cassette()
    with cassette.recording(), requests.Session() as session:
        answer = session.post(
            f"{provider.url}/v1/chat/completions",
            json={**BODY, "stream": True},
            stream=True,
            timeout=5,
        )
        read = answer.iter_content(chunk_size=200)
        next(read)
        answer.close()
    assert cassette.entries[0].response_integrity == "partial"


def test_an_explicit_adapter(provider):
    session = requests.Session()
    session.mount("http://", CassetteAdapter())
    assert isinstance(session.get_adapter("http://x"), requests.adapters.BaseAdapter)
    cassette = Cassette()
    with cassette.recording():
        first = post(provider.url, session=session)
    with Cassette(cassette.entries, mode="strict").replaying():
        assert post(provider.url, session=session).json() == first.json()
    assert len(provider.requests) == 1


def test_an_adapter_of_the_programs_own(provider, instrumented):
    class Own(requests.adapters.HTTPAdapter):
        def send(self, request, **kwargs):
            return super().send(request, **kwargs)

    session = requests.Session()
    session.mount("http://", Own())
    cassette = Cassette()
    with cassette.recording() as recorded:
        first = post(provider.url, session=session)
    with Cassette(cassette.entries, mode="strict").replaying():
        assert post(provider.url, session=session).json() == first.json()
    assert recorded.summary.recorded == 1
    assert len(provider.requests) == 1
