"""Answers of real exchanges: served as they are, and made anew, as the real SDKs see them."""

from __future__ import annotations

import copy

from otel_cassette.model.llm import LLMRequest, LLMResponse
from otel_cassette.wire import CODECS, find_codec


def without_raw(response):
    return {k: v for k, v in response.items() if k != "raw"}


def as_recorded(events, like):
    """Give events the shape that the data file has: payloads, or dicts with the event's name."""
    named = isinstance(like, dict) and "data" in like
    return [{"event": e.event, "data": e.data} if named else e.data for e in events]


def test_the_path_finds_the_codec_and_the_body_is_accepted(exchange):
    codec = find_codec("POST", "example.org", exchange["path"])

    assert codec.name == exchange["codec"]
    assert codec.accepts(exchange["request"])


def test_a_request_is_what_the_model_dumps(exchange):
    codec = CODECS[exchange["codec"]]

    request = codec.decode_request(exchange["request"], path=exchange["path"])

    assert LLMRequest.model_validate(request).to_json() == request
    assert request["model"] == exchange["request"].get("model", request["model"])


def test_an_answer_is_what_the_model_dumps(exchange):
    response = CODECS[exchange["codec"]].decode_response(exchange["response"])

    assert LLMResponse.model_validate(response).to_json() == response


def test_a_providers_own_payload_is_served_as_it_is(exchange):
    codec = CODECS[exchange["codec"]]
    response = codec.decode_response(exchange["response"])

    served = codec.encode_response(response, request_body=exchange["request"], seed="e")

    assert served == exchange["response"]


def test_an_answer_made_anew_is_the_same_to_a_program(llm_exchange, provider, sdks):
    codec = CODECS[llm_exchange["codec"]]
    response = without_raw(codec.decode_response(llm_exchange["response"]))
    provider.give(llm_exchange["response"])
    true = sdks.plain(codec.name)

    provider.give(codec.encode_response(response, request_body=llm_exchange["request"], seed="e"))

    assert sdks.plain(codec.name) == true


def test_an_answer_recorded_plain_is_the_same_when_streamed(llm_exchange, provider, sdks):
    codec = CODECS[llm_exchange["codec"]]
    response = without_raw(codec.decode_response(llm_exchange["response"]))
    request = {**llm_exchange["request"], "stream_options": {"include_usage": True}}
    path = "/m:streamGenerateContent?alt=sse"
    provider.give(llm_exchange["response"])
    true = sdks.plain(codec.name)

    events = codec.encode_stream(response, request_body=request, seed="e")
    provider.give_stream(b"".join(codec.write_stream(events, path=path)))

    assert sdks.streamed(codec.name) == true


def test_a_recorded_stream_is_served_event_for_event(stream_exchange):
    codec = CODECS[stream_exchange["codec"]]
    recorded = stream_exchange["events"]
    response = codec.decode_stream(recorded)

    events = list(codec.encode_stream(response, request_body=stream_exchange["request"], seed="e"))

    assert as_recorded(events, recorded[0]) == recorded
    assert LLMResponse.model_validate(response).to_json() == response
    assert response.get("ended_early", False) == stream_exchange.get("left_early", False)


def test_a_stream_read_to_its_end_is_the_whole_answer(stream_exchange):
    codec = CODECS[stream_exchange["codec"]]
    whole = without_raw(codec.decode_response(stream_exchange["response"]))
    options = stream_exchange["request"].get("stream_options") or {}
    if codec.name == "openai.chat" and not options.get("include_usage"):
        whole.pop("usage", None)  # nobody asked for it, so the stream has none

    read = codec.decode_stream(stream_exchange["events"])
    del read["chunks"]

    if stream_exchange.get("left_early"):
        assert LLMResponse.model_validate(whole).text.startswith(
            LLMResponse.model_validate(read).text
        )
    else:
        assert read == whole


def test_boundaries_are_kept_where_only_the_pieces_are_known(stream_exchange):
    codec = CODECS[stream_exchange["codec"]]
    response = codec.decode_stream(stream_exchange["events"])
    bare = copy.deepcopy(response)
    for chunk in bare["chunks"]:
        del chunk["raw"]

    events = codec.encode_stream(bare, request_body=stream_exchange["request"], seed="e")
    again = codec.decode_stream(events)

    def texts(read):
        return [c[f] for c in read["chunks"] for f in ("text", "reasoning") if c.get(f)]

    assert texts(again) == texts(response)
    assert again["choices"] == response["choices"]
    assert again.get("ended_early", False) == response.get("ended_early", False)


def test_bytes_of_a_stream_read_back_as_its_events(stream_exchange):
    codec = CODECS[stream_exchange["codec"]]
    response = codec.decode_stream(stream_exchange["events"])
    events = list(codec.encode_stream(response, request_body=stream_exchange["request"], seed="e"))

    data = b"".join(codec.write_stream(events, path=stream_exchange["path"]))

    assert codec.read_stream(data, path=stream_exchange["path"]) == events
    assert codec.read_stream(data[:-9], path=stream_exchange["path"]) == events[:-1]
