"""`wrap_llm`: models behind a cassette, whole answers and streams, with and without a real client."""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import (
    Cassette,
    CassetteEntry,
    CassetteError,
    CassetteLLM,
    CassetteMissError,
    LLMClient,
    LLMRequest,
    LLMResponse,
    StreamChunk,
    ToolCallPart,
)


class Model:
    model = "gpt-4o"
    provider = "openai"
    price = 5

    def __init__(self) -> None:
        self.asked: list[LLMRequest] = []
        self.closed = 0

    def complete(self, request: LLMRequest) -> LLMResponse:
        self.asked.append(request)
        return LLMResponse.model_validate(
            {
                "choices": [
                    {
                        "message": {
                            "role": "assistant",
                            "content": f"re: {request.messages[-1].text}",
                        },
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"input_tokens": 3},
            }
        )

    async def acomplete(self, request: LLMRequest) -> LLMResponse:
        await asyncio.sleep(0)
        return self.complete(request)

    def stream(self, request: LLMRequest) -> Iterator[str]:
        try:
            yield from ("one ", "two ", "three")
        finally:
            self.closed += 1

    async def astream(self, request: LLMRequest) -> AsyncIterator[str]:
        try:
            for piece in ("one ", "two ", "three"):
                await asyncio.sleep(0)
                yield piece
        finally:
            self.closed += 1


def replayed(cassette: Cassette, tmp_path: Path, **options: Any) -> Cassette:
    cassette.save(tmp_path / "c.jsonl")
    return Cassette.load(tmp_path / "c.jsonl", **options)


@pytest.mark.parametrize(
    "request_",
    [
        "hi",
        [{"role": "user", "content": "hi"}],
        {"messages": "hi"},
        LLMRequest(messages=[{"role": "user", "content": "hi"}]),
    ],
)  # type: ignore[list-item]
def test_a_request_may_be_given_in_any_shape(request_: Any) -> None:
    cassette = Cassette()
    llm = cassette.wrap_llm(Model())
    answered = llm.complete(request_)
    assert (answered.text, answered.finish_reason, answered.usage) == (
        "re: hi",
        "stop",
        {"input_tokens": 3},
    )
    again = Cassette(cassette.entries, mode="strict")
    assert again.wrap_llm().complete(request_) == answered
    assert again.calls[0].verdict == "identical"


def test_the_examples_of_the_models_are_accepted() -> None:
    request = LLMRequest(messages=[{"role": "user", "content": "hi"}])  # type: ignore[list-item]
    response = LLMResponse(
        choices=[{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]
    )  # type: ignore[list-item]
    assert request.messages[0].text == "hi"
    assert (response.text, response.tool_calls) == ("ok", ())


def test_sync_and_async_are_one_kind(tmp_path: Path) -> None:
    cassette = Cassette()
    llm = cassette.wrap_llm(Model())
    llm.complete("a")
    asyncio.run(llm.acomplete("b"))
    again = replayed(cassette, tmp_path)
    played = again.wrap_llm()
    assert asyncio.run(played.acomplete("a")).text == "re: a"
    assert played.complete("b").text == "re: b"


@pytest.mark.parametrize(
    "answer", ["text", {"choices": [{"message": {"role": "assistant", "content": "text"}}]}]
)
def test_a_client_may_answer_with_text_or_a_mapping(answer: Any) -> None:
    class Small:
        def complete(self, _request: LLMRequest) -> Any:
            return answer

    cassette = Cassette()
    assert cassette.wrap_llm(Small()).complete("hi").text == "text"
    assert cassette.entries[0].llm_response.text == "text"


def test_a_client_is_needed_to_record_and_for_fallthrough_misses_only(tmp_path: Path) -> None:
    cassette = Cassette()
    with pytest.raises(CassetteError, match=r"give one, as in cassette.wrap_llm\(client\)"):
        cassette.wrap_llm().complete("hi")
    cassette.wrap_llm(Model()).complete("hi")
    for mode in ("strict", "lenient", "fallthrough"):
        assert replayed(cassette, tmp_path, mode=mode).wrap_llm().complete("hi").text == "re: hi"
    with pytest.raises(CassetteError, match="needs the real model client"):
        replayed(cassette, tmp_path, mode="fallthrough").wrap_llm().complete("other")


def test_a_client_that_lacks_a_method_is_told_by_name() -> None:
    class OnlySync:
        def complete(self, _request: LLMRequest) -> str:
            return "x"

    with pytest.raises(CassetteError, match="'OnlySync' has no acomplete"):
        asyncio.run(Cassette().wrap_llm(OnlySync()).acomplete("hi"))
    cassette = Cassette()
    with pytest.raises(CassetteError, match="'OnlySync' has no stream"):
        list(cassette.wrap_llm(OnlySync()).stream("hi"))
    assert cassette.failures == []


def test_model_and_provider_come_from_argument_client_or_recording(tmp_path: Path) -> None:
    cassette = Cassette(metadata={"provider": "kept"})
    llm = cassette.wrap_llm(Model(), model="named")
    assert (llm.model, llm.provider) == ("named", "openai")
    assert cassette.metadata == {"provider": "kept", "model": "named"}
    assert cassette.wrap_llm(Model()).model == "gpt-4o"
    played = replayed(cassette, tmp_path).wrap_llm()
    assert (played.model, played.provider) == ("named", "kept")
    assert Cassette().wrap_llm().model is None


def test_unknown_attributes_are_the_clients() -> None:
    cassette = Cassette()
    llm = cassette.wrap_llm(Model())
    assert isinstance(llm, CassetteLLM)
    assert isinstance(llm, LLMClient)
    assert llm.price == 5
    assert llm.cassette is cassette
    with pytest.raises(AttributeError, match="nonsense"):
        _ = llm.nonsense
    with pytest.raises(AttributeError, match="price"):
        _ = cassette.wrap_llm().price


@pytest.mark.parametrize("module", ["openai", "anthropic", "google.genai.client"])
def test_a_providers_client_is_a_type_error_that_names_the_way(module: str) -> None:
    sdk = type("Client", (), {"__module__": module})
    with pytest.raises(TypeError, match=r"replaying.*transport"):
        Cassette().wrap_llm(sdk())
    with pytest.raises(TypeError, match="'int' has neither"):
        Cassette().wrap_llm(5)


def test_a_mutated_answer_does_not_reach_the_recording(tmp_path: Path) -> None:
    class Calls:
        def complete(self, _request: LLMRequest) -> Any:
            call = {"id": "c", "function": {"name": "f", "arguments": {"a": [1]}}}
            return {
                "choices": [
                    {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}
                ],
                "raw": {"x": [1]},
            }

    cassette = Cassette()
    cassette.wrap_llm(Calls()).complete("hi")
    again = replayed(cassette, tmp_path)
    first = again.wrap_llm().complete("hi")
    first.tool_calls[0].arguments["a"].append(2)
    first.raw["x"].append(2)
    again.rewind()
    second = again.wrap_llm().complete("hi")
    assert (second.tool_calls[0].arguments, second.raw) == ({"a": [1]}, {"x": [1]})


def test_a_failed_call_is_kept_and_played_where_failures_are_played(tmp_path: Path) -> None:
    class Breaks(Model):
        def complete(self, request: LLMRequest) -> LLMResponse:
            if not self.asked:
                self.asked.append(request)
                raise TimeoutError("too slow")
            return super().complete(request)

    cassette = Cassette()
    llm = cassette.wrap_llm(Breaks())
    with pytest.raises(TimeoutError):
        llm.complete("hi")
    llm.complete("hi")
    assert [(f.kind, f.follows, f.error.message) for f in cassette.failures] == [
        ("llm", -1, "too slow")
    ]
    assert replayed(cassette, tmp_path).wrap_llm().complete("hi").text == "re: hi"
    again = replayed(cassette, tmp_path)
    with again.replaying():
        with pytest.raises(TimeoutError, match="too slow"):
            again.wrap_llm().complete("hi")
        assert again.wrap_llm().complete("hi").text == "re: hi"


# -- streams -----------------------------------------------------------------------------------------


async def _aread(stream: AsyncIterator[Any], count: int | None = None) -> list[Any]:
    read = []
    async for chunk in stream:
        read.append(chunk)
        if len(read) == count:
            await stream.aclose()  # type: ignore[attr-defined]
            break
    return read


def _read(stream: Iterator[Any], count: int | None = None) -> list[Any]:
    read = []
    for chunk in stream:
        read.append(chunk)
        if len(read) == count:
            stream.close()  # type: ignore[attr-defined]
            break
    return read


def _stream(llm: Any, way: str, request: Any, count: int | None = None) -> list[Any]:
    if way == "sync":
        return _read(llm.stream(request), count)
    return asyncio.run(_aread(llm.astream(request), count))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_stream_is_played_in_its_pieces(tmp_path: Path, way: str) -> None:
    cassette = Cassette()
    client = Model()
    assert _stream(cassette.wrap_llm(client), way, "hi") == ["one ", "two ", "three"]
    assert client.closed == 1
    assert cassette.entries[0].llm_response.text == "one two three"
    again = replayed(cassette, tmp_path)
    assert _stream(again.wrap_llm(), way, "hi") == ["one ", "two ", "three"]
    again.rewind()
    assert again.wrap_llm().complete("hi").text == "one two three"


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_stream_left_early_closes_the_real_one_and_reading_past_its_end_is_a_miss(
    tmp_path: Path, way: str
) -> None:
    cassette = Cassette()
    client = Model()
    assert _stream(cassette.wrap_llm(client), way, "hi", 2) == ["one ", "two "]
    assert client.closed == 1
    entry = cassette.entries[0]
    assert (entry.response_integrity, entry.llm_response.ended_early, entry.llm_response.text) == (
        "partial",
        True,
        "one two ",
    )
    again = replayed(cassette, tmp_path)
    assert _stream(again.wrap_llm(), way, "hi", 2) == ["one ", "two "]
    assert again.calls[0].flags == ("partial",)
    again.rewind()
    with pytest.raises(CassetteMissError, match="left after 2 chunks") as caught:
        _stream(again.wrap_llm(), way, "hi")
    assert caught.value.actual_request["messages"][0]["role"] == "user"
    assert again.calls[0].flags == ("partial", "missed")
    with again.replaying() as session, pytest.raises(CassetteMissError):
        _stream(again.wrap_llm(), way, "hi")
    assert (session.summary.served, session.summary.missed) == (0, 1)


def test_an_abandoned_stream_is_recorded_when_it_goes() -> None:
    cassette = Cassette()
    stream = cassette.wrap_llm(Model()).stream("hi")
    next(stream)
    assert cassette.entries == []
    del stream
    gc.collect()
    assert cassette.entries[0].llm_response.text == "one "


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("after", [0, 2])
def test_a_stream_that_breaks(tmp_path: Path, way: str, after: int) -> None:
    class Breaks:
        def stream(self, _request: LLMRequest) -> Iterator[str]:
            yield from ("one ", "two ")[:after]
            raise ConnectionError("gone")

        async def astream(self, request: LLMRequest) -> AsyncIterator[str]:
            for piece in self.stream(request):
                yield piece

    cassette = Cassette()
    with pytest.raises(ConnectionError):
        _stream(cassette.wrap_llm(Breaks()), way, "hi")
    assert (len(cassette.entries), len(cassette.failures)) == ((1, 0) if after else (0, 1))
    again = replayed(cassette, tmp_path, record_errors=True)
    expected = (
        pytest.raises(CassetteMissError, match="broke here: ConnectionError: gone")
        if after
        else pytest.raises(ConnectionError, match="gone")
    )
    with expected:
        _stream(again.wrap_llm(), way, "hi")


def test_a_cancelled_stream_keeps_what_came() -> None:
    class Slow:
        async def astream(self, _request: LLMRequest) -> AsyncIterator[str]:
            yield "one"
            await asyncio.sleep(60)

        acomplete = None

        def complete(self, _request: LLMRequest) -> str:
            return ""

    cassette = Cassette()

    async def main() -> None:
        task = asyncio.create_task(_aread(cassette.wrap_llm(Slow()).astream("hi")))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [(e.llm_response.text, e.response_integrity) for e in cassette.entries] == [
        ("one", "partial")
    ]


@pytest.mark.parametrize(
    ("pieces", "text", "calls"),
    [
        (
            [
                StreamChunk(text="a"),
                StreamChunk(text="b", finish_reason="stop", usage={"output_tokens": 2}),
            ],
            "ab",
            [],
        ),
        (
            [
                {"choices": [{"delta": {"content": "x"}}]},
                {
                    "choices": [
                        {
                            "delta": {
                                "tool_calls": [
                                    {
                                        "index": 0,
                                        "id": "c",
                                        "function": {"name": "f", "arguments": '{"a"'},
                                    }
                                ]
                            }
                        }
                    ]
                },
                {
                    "choices": [
                        {
                            "delta": {
                                "tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]
                            },
                            "finish_reason": "tool_calls",
                        }
                    ]
                },
                {"choices": [], "usage": {"total": 3}},
            ],
            "x",
            [("c", "f", '{"a": 1}')],
        ),
    ],
)
def test_pieces_come_back_in_the_form_they_had(
    tmp_path: Path, pieces: list[Any], text: str, calls: list[Any]
) -> None:
    class Streams:
        def stream(self, _request: LLMRequest) -> Iterator[Any]:
            yield from pieces

    cassette = Cassette()
    assert list(cassette.wrap_llm(Streams()).stream("hi")) == pieces
    response = cassette.entries[0].llm_response
    assert response.text == text
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == calls
    assert list(replayed(cassette, tmp_path).wrap_llm().stream("hi")) == pieces


def test_an_answer_recorded_whole_is_streamed_in_small_pieces(tmp_path: Path) -> None:
    class Whole:
        def complete(self, _request: LLMRequest) -> Any:
            call = {"id": "c", "function": {"name": "f", "arguments": '{"a": "' + "x" * 50 + '"}'}}
            return {
                "choices": [
                    {
                        "message": {"role": "assistant", "content": "y" * 50, "tool_calls": [call]},
                        "finish_reason": "tool_calls",
                    }
                ]
            }

    cassette = Cassette()
    whole = cassette.wrap_llm(Whole()).complete("hi")
    chunks = list(replayed(cassette, tmp_path).wrap_llm().stream("hi"))
    assert max(len(c.text) for c in chunks) <= 20
    again = LLMResponse.from_chunks(chunks)
    assert (again.text, again.finish_reason) == (whole.text, "tool_calls")
    assert (again.tool_calls[0].id, again.tool_calls[0].name, again.tool_calls[0].arguments) == (
        "c",
        "f",
        whole.tool_calls[0].arguments,
    )


def test_a_piece_that_is_none_is_an_error_that_says_what_to_give() -> None:
    class Odd:
        def stream(self, _request: LLMRequest) -> Iterator[Any]:
            yield 5

    with pytest.raises(CassetteError, match="int objects that are no chunks"):
        list(Cassette().wrap_llm(Odd()).stream("hi"))


@pytest.mark.parametrize(
    ("captured", "by_name"),
    [
        ('{"order_id": "A-17"}', {"order_id": "A-17"}),
        ({"order_id": "A-17"}, {"order_id": "A-17"}),
        ("", {}),
        (None, {}),
        ("{}", {}),
    ],
)
def test_a_tool_is_called_alike_whichever_way_its_arguments_were_captured(
    captured: Any, by_name: dict[str, Any]
) -> None:
    part = {"type": "tool_call", "id": "c1", "name": "refund", "arguments": captured}
    answer = LLMResponse(choices=[{"message": {"role": "assistant", "parts": [part]}}])
    cassette = Cassette(
        [CassetteEntry(kind="llm", index=0, request={}, response=answer.to_json())], mode="strict"
    )
    [call] = cassette.entries[0].llm_response.tool_calls
    assert call.parsed_arguments == by_name
    assert call.arguments == captured


@pytest.mark.parametrize(
    ("captured", "says"), [('{"a": ', "'refund' are no JSON"), ("[1]", "'refund' are a list")]
)
def test_arguments_that_are_no_object_are_an_error(captured: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _ = ToolCallPart(name="refund", arguments=captured).parsed_arguments


@pytest.mark.parametrize(
    "extra",
    [
        {"usage": {"input_tokens": 3, "details": {"cached": 1}}},
        {"raw": {"object": "chat.completion"}},
        {"choices": [{"message": {"role": "assistant", "content": "hi"}, "logprobs": {"a": [1]}}]},
        {"usage": {"input_tokens": 3}},
    ],
)
def test_what_a_caller_does_to_an_answer_never_reaches_the_recording(extra: Any) -> None:
    choices = [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
    entry = CassetteEntry(
        kind="llm", index=0, request={"messages": "q"}, response={"choices": choices, **extra}
    )
    before = copy.deepcopy(entry.response)
    cassette = Cassette([entry], mode="strict")
    answer = cassette.wrap_llm().complete("q")
    for held in (answer.usage, answer.raw, (answer.choices[0].model_extra or {}).get("logprobs")):
        for value in (held or {}).values():
            if isinstance(value, dict | list):
                value.clear()
        if held:
            held["changed"] = True
    assert cassette.entries[0].response == before
