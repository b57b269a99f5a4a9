"""Streams that are left, broken, cancelled: recorded as such, and the session stays usable."""

# ruff: noqa: PT012 - a session raises at the end of its block, which is what is tested

from __future__ import annotations

import asyncio
import gc

import openai
import pytest

from otel_cassette import Cassette, CassetteMissError
from otel_cassette.clients import http_exchange

PROMPT = "count to a hundred, slowly"


def texts(chunks):
    return [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]


def take(stream, count):
    """Read some chunks, and close."""
    chunks = [next(stream) for _ in range(count)]
    stream.close()
    return chunks


def test_a_stream_left_early_is_recorded_as_such(sdks, stream_chat, tmp_path):
    cassette = Cassette()
    with cassette.recording():
        first = take(stream_chat(sdks, PROMPT), 3)

    (entry,) = cassette.entries
    assert entry.response_integrity == "partial"
    assert entry.response["ended_early"] is True
    assert texts(first) == ["Echo: c", "ount to"]

    cassette.save(tmp_path / "c.jsonl")
    with Cassette.load(tmp_path / "c.jsonl").replaying() as session:
        again = take(stream_chat(sdks, PROMPT), 3)
    assert [c.model_dump() for c in again] == [c.model_dump() for c in first]
    assert session.calls[0].flags == ("partial",)


def test_reading_past_the_recorded_end_is_a_miss(sdks, stream_chat, played):
    cassette = Cassette()
    with cassette.recording():
        take(stream_chat(sdks, PROMPT), 3)

    with (
        pytest.raises(CassetteMissError, match="never recorded") as miss,
        played(cassette).replaying(),
    ):
        with pytest.raises(openai.APIError, match="never recorded"):
            list(stream_chat(sdks, PROMPT))
        with pytest.raises(openai.ConflictError, match="never recorded"):
            stream_chat(sdks, "something else")

    assert miss.value.kind == "llm"


def test_a_stream_left_without_a_close_is_recorded_when_the_block_ends(sdks, stream_chat):
    cassette = Cassette()
    with cassette.recording():
        stream = stream_chat(sdks, PROMPT)
        next(stream)
        next(stream)
    stream.close()

    (entry,) = cassette.entries
    assert entry.response_integrity == "partial"


def test_a_broken_stream_breaks_again(sdks, stream_chat, tmp_path):
    def read():
        seen = []
        with pytest.raises(openai.APIConnectionError):
            for chunk in stream_chat(sdks, f"[break] {PROMPT}"):
                seen.append(chunk.model_dump())  # noqa: PERF401 - kept when it breaks
        return seen

    cassette = Cassette()
    with cassette.recording():
        first = read()
    assert len(first) == 3

    cassette.save(tmp_path / "c.jsonl")
    with Cassette.load(tmp_path / "c.jsonl").replaying() as session:
        assert read() == first
    assert session.poisoned is None


def test_a_stream_read_to_done_is_whole_although_the_sdk_closes_it_there(sdks, stream_chat):
    cassette = Cassette()
    with cassette.recording():
        list(stream_chat(sdks, PROMPT))

    (entry,) = cassette.entries
    assert entry.response_integrity == "whole"
    assert "ended_early" not in entry.response


def test_the_first_chunk_comes_before_the_last_is_made(sdks, stream_chat, played, monkeypatch):
    cassette = Cassette()
    with cassette.recording():
        list(stream_chat(sdks, PROMPT))
    made = []
    plain = http_exchange.StreamEvent.to_sse
    monkeypatch.setattr(
        http_exchange.StreamEvent, "to_sse", lambda self: made.append(self) or plain(self)
    )

    with played(cassette).replaying():
        stream = stream_chat(sdks, PROMPT)
        next(stream)
        assert len(made) == 1
        rest = list(stream)

    assert len(made) == len(rest) + 2  # the first chunk, and [DONE]


def test_abandoned_streams_leave_the_session_usable(sdks, stream_chat, ask_chat, played):
    cassette = Cassette()
    with cassette.recording():
        for _ in range(3):
            list(stream_chat(sdks, PROMPT))
        ask_chat(sdks, "hello")

    with played(cassette).replaying() as session:
        for _ in range(2):
            next(stream_chat(sdks, PROMPT))
            gc.collect()
        with stream_chat(sdks, PROMPT) as stream, pytest.raises(KeyError):
            for _ in stream:
                raise KeyError("the consumer's own")
        assert ask_chat(sdks, "hello").choices[0].message.content == "Echo: hello"

    assert session.summary.served == 4
    assert session.poisoned is None


async def cancelled(sdks, cassette):
    """Cancel before the call reaches the transport, and in the middle of a stream."""
    arguments = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": PROMPT}]}
    create = sdks.aopenai.chat.completions.create
    with cassette.replaying() as session:
        for ticks in (0, 1, 3):
            task = asyncio.create_task(create(**arguments, stream=True))
            for _ in range(ticks):
                if not task.done():
                    await asyncio.sleep(0)
            before = len(session.calls)
            if task.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert len(session.calls) == before

        seen = []

        async def read():
            async for chunk in await create(**arguments, stream=True):
                seen.append(chunk)  # noqa: PERF401 - looked at meanwhile

        task = asyncio.create_task(read())
        while len(seen) < 2:  # noqa: ASYNC110 - it waits for a stream
            await asyncio.sleep(0)
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held = len(seen)

        rest = [chunk async for chunk in await create(**arguments, stream=True)]
    await sdks.aclose()
    return session, held, rest


def test_cancellation_leaves_the_session_usable(sdks, stream_chat, played):
    cassette = Cassette()
    arguments = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": PROMPT}]}
    with cassette.recording():
        for _ in range(6):
            whole = list(sdks.openai.chat.completions.create(**arguments, stream=True))

    session, held, rest = asyncio.run(cancelled(sdks, played(cassette)))

    assert held < len(whole)
    assert texts(rest) == texts(whole)
    assert {c.id for c in rest} == {"chatcmpl-2"}  # calls cancelled before they began took nothing
    assert session.poisoned is None


def test_a_cancelled_recording_holds_what_was_read(sdks, provider):
    cassette = Cassette()

    async def main():
        with cassette.recording():
            stream = await sdks.aopenai.chat.completions.create(
                model="gpt-4o-mini", messages=[{"role": "user", "content": PROMPT}], stream=True
            )
            async with stream:
                async for _ in stream:
                    break
        await sdks.aclose()

    asyncio.run(main())

    (entry,) = cassette.entries
    assert entry.response_integrity == "partial"
    assert entry.response["ended_early"] is True
