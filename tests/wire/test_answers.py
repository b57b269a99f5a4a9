"""Answers that are made: what is repeated, cut, completed, left out; and the way back."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette.errors import CassetteFormatError
from otel_cassette.wire import CODECS

LLM = ["openai.chat", "openai.responses", "anthropic.messages", "google.generate"]
TEXT = "0123456789" * 5


def answer(*parts, finish_reason=None, **rest):
    choice = {"message": {"role": "assistant", "parts": list(parts)}}
    if finish_reason:
        choice["finish_reason"] = finish_reason
    return {"choices": [choice], **rest}


def text(content):
    return {"type": "text", "content": content}


def call(name="f", arguments='{"a": 1}', **rest):
    return {"type": "tool_call", "name": name, "arguments": arguments, **rest}


def events_of(name, response, **request):
    return list(CODECS[name].encode_stream(response, request_body=request, seed="e"))


@pytest.mark.parametrize("name", ["openai.chat", "openai.responses", "anthropic.messages"])
def test_ids_are_the_same_for_an_entry_and_unique_to_it(name):
    response = answer(text("hi"), call(), call())

    def ids(seed):
        body = CODECS[name].encode_response(response, request_body={}, seed=seed)
        found = [body["id"]]
        for item in body.get("output") or body.get("content") or ():
            found += [item[k] for k in ("id", "call_id") if k in item]
        for item in body.get("choices") or ():
            found += [c["id"] for c in item["message"]["tool_calls"]]
        return found

    first, other = ids("entry-1"), ids("entry-2")

    assert ids("entry-1") == first
    assert len(set(first)) == len(first) >= 3
    assert not set(first) & set(other)


@pytest.mark.parametrize("name", LLM)
def test_texts_without_known_boundaries_come_in_short_pieces(name):
    response = CODECS[name].decode_stream(events_of(name, answer(text(TEXT))))

    pieces = [c["text"] for c in response["chunks"] if c.get("text")]

    assert "".join(pieces) == TEXT
    assert max(map(len, pieces)) <= 20


def test_a_chat_streams_usage_only_when_asked():
    response = answer(text("hi"), usage={"input_tokens": 3, "output_tokens": 1})

    plain = events_of("openai.chat", response)
    asked = events_of("openai.chat", response, stream_options={"include_usage": True})

    assert all("usage" not in e.data for e in plain[:-1])
    assert [e.data["usage"] for e in asked[:-2]] == [None] * (len(asked) - 2)
    assert asked[-2].data["choices"] == []
    assert asked[-2].data["usage"]["total_tokens"] == 4
    assert plain[-1].data == asked[-1].data == "[DONE]"


def test_a_recorded_usage_chunk_is_held_back_unless_asked_for():
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    piece = {"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}
    recorded = [{**head, "choices": [piece]}, {**head, "choices": [], "usage": usage}]
    response = CODECS["openai.chat"].decode_stream([*recorded, "[DONE]"])

    plain = events_of("openai.chat", response)
    asked = events_of("openai.chat", response, stream_options={"include_usage": True})

    assert [e.data for e in plain] == [recorded[0], "[DONE]"]
    assert [e.data for e in asked] == [*recorded, "[DONE]"]


@pytest.mark.parametrize("name", LLM)
def test_a_stream_that_broke_off_has_no_end(name):
    codec = CODECS[name]
    whole = events_of(name, answer(text(TEXT)))
    broken = events_of(name, answer(text(TEXT), ended_early=True))

    assert len(broken) < len(whole) or name == "google.generate"
    assert codec.decode_stream(whole).get("ended_early") is None
    read = codec.decode_stream(broken)
    assert read["ended_early"] is True
    assert read["choices"] == [{"message": answer(text(TEXT))["choices"][0]["message"]}]


def test_a_responses_body_repeats_the_live_request():
    request = {
        "model": "gpt-live",
        "instructions": "Be brief.",
        "temperature": 0.2,
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "metadata": {"k": "v"},
        "previous_response_id": "resp_0",
    }

    body = CODECS["openai.responses"].encode_response(
        answer(text("hi")), request_body=request, seed="e"
    )

    assert {k: body[k] for k in request} == request
    assert body["top_p"] == 1.0


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("openai.chat", {"tool_call": "tool_calls", "end_turn": "stop", "MAX_TOKENS": "length"}),
        (
            "anthropic.messages",
            {"tool_call": "tool_use", "stop": "end_turn", "length": "max_tokens"},
        ),
        ("google.generate", {"tool_call": "STOP", "end_turn": "STOP", "length": "MAX_TOKENS"}),
    ],
)
def test_finish_reasons_are_spelled_as_the_api_does(name, spelled):
    def made(reason):
        response = answer(text("hi"), finish_reason=reason)
        body = CODECS[name].encode_response(response, request_body={}, seed="e")
        if name == "openai.chat":
            return body["choices"][0]["finish_reason"]
        if name == "google.generate":
            return body["candidates"][0]["finishReason"]
        return body["stop_reason"]

    assert {reason: made(reason) for reason in spelled} == spelled


def test_an_unknown_finish_reason_is_told_by_the_calls():
    body = CODECS["openai.chat"].encode_response(answer(call()), request_body={}, seed="e")

    assert body["choices"][0]["finish_reason"] == "tool_calls"


def test_a_length_stop_makes_a_response_incomplete():
    response = answer(text("hi"), finish_reason="length")

    events = events_of("openai.responses", response)

    assert events[-1].event == "response.incomplete"
    assert events[-1].data["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_rebuilt_chat_payload_is_completed():
    raw = {"id": "c1", "choices": [{"message": {"content": "hi"}}]}
    response = answer(
        text("hi"), usage={"input_tokens": 3, "output_tokens": 1}, model="m-1", raw=raw
    )

    body = CODECS["openai.chat"].encode_response(response, request_body={"model": "m"}, seed="e")

    assert body["id"] == "c1"
    assert (body["object"], body["model"]) == ("chat.completion", "m-1")
    assert body["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    ]
    assert body["usage"]["prompt_tokens"] == 3


def test_a_response_payload_that_lost_its_usage_gets_it_back():
    codec = CODECS["openai.responses"]
    response = answer(text("hi"), usage={"input_tokens": 3, "output_tokens": 1})
    whole = codec.encode_response(response, request_body={}, seed="e")
    raw = {k: v for k, v in whole.items() if k != "usage"}

    served = codec.encode_response({**response, "raw": raw}, request_body={}, seed="e")

    assert served == whole
    assert served["usage"]["total_tokens"] == 4


def test_a_payload_that_lost_its_calls_is_not_served():
    raw = {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": "hi"}}],
    }

    body = CODECS["openai.chat"].encode_response(
        answer(text("hi"), call(id="c1"), raw=raw), request_body={}, seed="e"
    )

    assert body["choices"][0]["message"]["tool_calls"][0]["id"] == "c1"


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("openai.chat", {"choices": [{"message": {"content": "hi", "tool_calls": [{"id": "c"}]}}]}),
        ("openai.chat", {"choices": [{"message": {"content": [{"text": "hi"}]}}]}),
        ("openai.responses", {"object": "response", "output": [{"type": "message", "content": 1}]}),
        ("anthropic.messages", {"type": "message", "role": "assistant", "content": "hi"}),
        ("anthropic.messages", {"choices": [{"message": {"content": "hi"}}]}),
        ("google.generate", {"candidates": [{"content": {"parts": 1}}]}),
        # the SDK's model instead of the wire's body
        (
            "google.generate",
            {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finish_reason": "STOP"}]},
        ),
    ],
)
def test_a_payload_of_another_shape_is_made_anew(name, raw):
    response = answer(text("hi"))
    codec = CODECS[name]

    served = codec.encode_response({**response, "raw": raw}, request_body={}, seed="e")

    assert served == codec.encode_response(response, request_body={}, seed="e")


@pytest.mark.parametrize("name", sorted(CODECS))
def test_a_body_of_another_shape_is_an_error_that_names_the_api(name):
    body = {"messages": 1, "tools": 1, "input": 1, "contents": 1, "requests": 1, "extra_body": {}}
    broken = {
        "choices": 1,
        "output": 1,
        "content": [{"type": []}],
        "candidates": 1,
        "data": 1,
        "embedding": 1,
    }
    codec = CODECS[name]

    if name != "openai.embeddings":  # any input is one
        with pytest.raises(CassetteFormatError, match=f"this request has not the shape of {name}"):
            codec.decode_request(body)
    with pytest.raises(CassetteFormatError, match=f"this response has not the shape of {name}"):
        codec.decode_response({**broken, "usage": 1})


@pytest.mark.parametrize("served", LLM)
@pytest.mark.parametrize("recorded", LLM)
def test_an_answer_recorded_on_one_api_is_served_on_another(recorded, served):
    response = answer(text("hi"), call(name="lookup", id="c1"))
    body = CODECS[recorded].encode_response(response, request_body={}, seed="e")
    read = CODECS[recorded].decode_response(body)

    again = CODECS[served].decode_response(
        CODECS[served].encode_response(read, request_body={}, seed="e")
    )

    parts = again["choices"][0]["message"]["parts"]
    assert parts[0] == text("hi")
    assert (parts[1]["name"], parts[1]["id"]) == ("lookup", "c1")
    arguments = parts[1]["arguments"]
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"a": 1}


def test_cached_tokens_count_as_input_and_go_back_apart():
    usage = {"input_tokens": 342, "output_tokens": 9, "cache_read_input_tokens": 11}
    codec = CODECS["anthropic.messages"]

    read = codec.decode_response({"type": "message", "content": [], "usage": usage})
    body = codec.encode_response({**read, "raw": None}, request_body={}, seed="e")

    assert read["usage"]["input_tokens"] == 353
    assert body["usage"] == {**usage, "cache_creation_input_tokens": 0}


def test_google_streams_an_array_unless_events_are_asked_for():
    codec = CODECS["google.generate"]
    path = "/v1beta/models/m:streamGenerateContent"
    events = events_of("google.generate", answer(text(TEXT)))

    data = b"".join(codec.write_stream(events, path=path))

    assert codec.stream_media_type(path) == "application/json"
    assert [e.data for e in events] == json.loads(data)
    assert codec.read_stream(data[:-20], path=path) == events[:-1]
    assert codec.stream_media_type(path + "?alt=sse") == "text/event-stream"
    assert codec.is_stream({}, path=path)


@pytest.mark.parametrize("encoding", ["float", "base64"])
@pytest.mark.parametrize("recorded", ["float", "base64"])
def test_vectors_come_in_the_encoding_that_is_asked_for(recorded, encoding):
    packed, numbers = "AAAAPwAAgL4=", [0.5, -0.25]  # little-endian float32
    forms = {"float": numbers, "base64": packed}
    raw = {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": forms[recorded]}],
        "model": "m",
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    }
    codec = CODECS["openai.embeddings"]
    response = codec.decode_response(raw)

    body = codec.encode_response(response, request_body={"encoding_format": encoding}, seed="e")

    assert response["embeddings"] == [numbers]
    assert body == {**raw, "data": [{**raw["data"][0], "embedding": forms[encoding]}]}


def test_google_embeddings_are_read_and_served(provider, sdks):
    codec = CODECS["google.embed"]
    path = "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    item = {"model": "models/gemini-embedding-001", "outputDimensionality": 2}
    body = {"requests": [{**item, "content": {"parts": [{"text": t}]}} for t in ("a", "b")]}

    request = codec.decode_request(body, path=path)
    provider.give(
        codec.encode_response({"embeddings": [[0.5, 1.0], [2.0, 3.0]]}, request_body=body, seed="e")
    )
    answer = sdks.google.models.embed_content(model="m", contents=["a", "b"])

    assert request == {
        "operation": "embeddings",
        "provider": "gcp.gemini",
        "model": "gemini-embedding-001",
        "input": ["a", "b"],
        "params": {"dimensions": 2},
    }
    assert [e.values for e in answer.embeddings] == [[0.5, 1.0], [2.0, 3.0]]
    single = {"content": {"parts": [{"text": "a"}]}}
    assert codec.decode_request(single)["input"] == "a"
    assert codec.encode_response({"embeddings": [[1.0]]}, request_body=single, seed="e") == {
        "embedding": {"values": [1.0]}
    }


# The way back, for whatever can be said on each wire.

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
names = st.from_regex(r"[A-Za-z_]\w{0,20}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(words, v, max_size=3), max_leaves=8
)
arguments = st.dictionaries(names, values, max_size=4)
usages = st.fixed_dictionaries(
    {"input_tokens": st.integers(100, 10**6), "output_tokens": st.integers(100, 10**6)},
    optional={
        "cache_read.input_tokens": st.integers(1, 50),
        "reasoning.output_tokens": st.integers(1, 50),
    },
)


def part(kind, **fields):
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


def parts_of(name):
    """Return a strategy for the parts that come back equal; the order that the API has."""
    written = arguments.map(json.dumps)
    calls = {"id": names, "name": names}
    if name == "openai.chat":
        return st.tuples(
            st.lists(part("reasoning", content=words), max_size=1),
            st.lists(part("text", content=words), max_size=1),
            st.lists(part("refusal", content=words), max_size=1),
            st.lists(part("tool_call", **calls, arguments=written), max_size=3),
        ).map(lambda groups: [p for group in groups for p in group])
    if name == "openai.responses":
        reasoning = part("reasoning", content=words, id=names)
        call_part = part("tool_call", **calls, arguments=written)
        return st.lists(part("text", content=words) | reasoning | call_part, max_size=5)
    call_part = part("tool_call", **calls, arguments=arguments)
    if name == "anthropic.messages":
        reasoning = part("reasoning", content=words, signature=words)
        return st.lists(part("text", content=words) | reasoning | call_part, max_size=5)
    kinds = st.one_of(part("text", content=words), part("reasoning", content=words), call_part)
    # Texts that follow each other are one text once they were streamed.
    return st.lists(kinds, max_size=5).filter(
        lambda parts: all(
            a["type"] != b["type"] or a["type"] == "tool_call" for a, b in pairwise(parts)
        )
    )


FINISH = {
    "openai.chat": ("stop", "tool_calls"),
    "openai.responses": ("stop", "tool_calls"),
    "anthropic.messages": ("end_turn", "tool_use"),
    "google.generate": ("STOP", "STOP"),
}


@st.composite
def responses(draw, name):
    parts = draw(parts_of(name))
    calls = any(p["type"] == "tool_call" for p in parts)
    usage = draw(usages)
    if name == "anthropic.messages":
        usage.pop("reasoning.output_tokens", None)  # the API does not tell it
    reason = FINISH[name][calls]
    return answer(*parts, finish_reason=reason, id=draw(names), model=draw(words), usage=usage)


@pytest.mark.parametrize("name", LLM)
@given(data=st.data())
def test_a_made_answer_reads_back(name, data):
    codec = CODECS[name]
    response = data.draw(responses(name))

    body = codec.encode_response(response, request_body={}, seed="e")
    read = codec.decode_response(json.loads(json.dumps(body)))

    assert {k: v for k, v in read.items() if k != "raw"} == response


@pytest.mark.parametrize("name", LLM)
@given(data=st.data())
def test_a_made_stream_reads_back(name, data):
    codec = CODECS[name]
    response = data.draw(responses(name))
    asked = {"stream_options": {"include_usage": True}}
    path = "/m:streamGenerateContent?alt=sse"

    events = codec.encode_stream(response, request_body=asked, seed="e")
    read = codec.decode_stream(
        codec.read_stream(b"".join(codec.write_stream(events, path=path)), path=path)
    )

    assert {k: v for k, v in read.items() if k != "chunks"} == response
