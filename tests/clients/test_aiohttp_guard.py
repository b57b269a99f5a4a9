"""Model calls over aiohttp: refused in a strict replay, named in a recording."""

# ruff: noqa: SIM117 - a session raises at the end of its block, which is what is tested

from __future__ import annotations

import asyncio
import sys
import types

import pytest

from otel_cassette import Cassette, CassetteMissError
from otel_cassette.clients import CassetteInstrumentor

URL = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
BODY = {"contents": [{"parts": [{"text": "hi"}]}]}


class ClientSession:
    """What the guard needs of aiohttp's: `_request` is where every request comes by."""

    def __init__(self):
        self.sent = []

    def _build_url(self, url):
        return url

    async def _request(self, method, str_or_url, **kwargs):
        self.sent.append((method, str_or_url))
        return "answered"

    async def post(self, url, **kwargs):
        return await self._request("POST", url, **kwargs)


class ClientError(Exception):
    pass


@pytest.fixture
def session(monkeypatch, tmp_path):
    """A stand-in: with the real one installed, google-genai would use it for all its async calls."""
    module = types.ModuleType("aiohttp")
    module.__spec__ = types.SimpleNamespace(name="aiohttp", loader=None)
    module.ClientSession, module.ClientError = ClientSession, ClientError
    monkeypatch.setitem(sys.modules, "aiohttp", module)
    CassetteInstrumentor().instrument()
    yield ClientSession()
    CassetteInstrumentor().uninstrument()


@pytest.mark.parametrize(
    "body", [{"json": BODY}, {"data": '{"contents": []}'}], ids=["json", "text"]
)
def test_a_strict_replay_sends_none(session, body):
    with pytest.raises(CassetteMissError, match="aiohttp"), Cassette(mode="strict").replaying():
        with pytest.raises(ClientError, match="neither answered nor recorded"):
            asyncio.run(session.post(URL, **body))
    assert not session.sent


def test_other_requests_and_other_modes_pass(session, caplog):
    with Cassette(mode="strict").replaying():
        asyncio.run(session.post("https://collector.example/v1/traces", json={}))
        asyncio.run(session.post("https://shop.example/responses", json={"answers": []}))
    with Cassette(mode="strict").replaying(kinds={"tool"}), Cassette().recording():
        asyncio.run(session.post(URL, json=BODY))
    asyncio.run(session.post(URL, json=BODY))
    assert len(session.sent) == 4
    assert caplog.text.count("neither answered nor recorded") == 1
