"""Recorded failures and misses as the real SDKs raise them."""

from __future__ import annotations

import anthropic
import openai
import pytest
from google.genai import errors as google_errors

from otel_cassette.wire import CODECS
from otel_cassette.wire.failures import read_message

NOPE = "The model `gpt-nope` is not available to you."
SEMANTIC_KERNEL = (
    f"(\"<class 'x.Client'> service failed: Error code: 400 - {NOPE}\", "
    f"BadRequestError('Error code: 400 - {NOPE}'))"
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        # texts of status messages and exception events in traces of these set-ups
        (f"Error code: 400 - {NOPE}", (NOPE, 400)),  # openai 3
        (
            f"Error code: 400 - {{'error': {{'message': '{NOPE}', 'param': None}}}}",  # openai 1
            (NOPE, 400),
        ),
        (f"BadRequestError: Error code: 400 - {NOPE}", (NOPE, 400)),  # OpenInference
        (
            f"OpenAIInvalidRequestError('Error code: 400 - {NOPE}')Traceback (most recent call last):\n x",
            (NOPE, 400),
        ),
        (
            "RateLimitError('Error code: 429 - slow')\n\nTraceback (most recent call last):\n x",
            ("slow", 429),
        ),
        (f"litellm.BadRequestError: OpenAIException - {NOPE}", (NOPE, None)),  # LiteLLM
        (
            f"ClientError: 400 INVALID_ARGUMENT. {{'error': {{'code': 400, 'message': '{NOPE}'}}}}",
            (NOPE, 400),
        ),
        (f"Error getting response: {{'error': 'Error code: 400 - {NOPE}'}}", (NOPE, 400)),
        (
            f"status_code: 400, model_name: gpt, body: {{'message': '{NOPE}', 'code': 'x'}}",
            (NOPE, 400),
        ),
        (
            SEMANTIC_KERNEL,
            (NOPE, 400),
        ),
        ("Connection error.", ("Connection error.", None)),
        ("order Z-99 not found", ("order Z-99 not found", None)),
    ],
)
def test_what_frameworks_put_around_a_message_is_taken_off(message, expected):
    assert read_message(message)[:2] == expected


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ({"type": "openai.RateLimitError", "message": "slow"}, 429),
        ({"type": "rate_limit_error"}, 429),
        ({"type": "429", "message": "slow"}, 429),
        ({"type": "anthropic.BadRequestError"}, 400),
        ({"type": "x.OpenAIInvalidRequestError"}, 400),
        ({"type": "<class 'openai.NotFoundError'>"}, 404),
        ({"type": "Exception", "message": "Error code: 503 - busy"}, 503),
        ({"type": "Exception", "message": "x", "status": 418}, 418),
        ({"type": "Exception", "message": "x"}, 500),
    ],
)
def test_the_status_comes_from_what_is_known(failure, status):
    assert CODECS["openai.chat"].encode_error(failure).status == status


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "openai.APIConnectionError", "message": "Connection error."},
        {"type": "connection_error"},
        {"type": "Exception", "message": "Connection error."},
    ],
)
def test_a_failed_connection_is_no_http_answer(failure):
    error = CODECS["openai.chat"].encode_error(failure)

    assert error.connection_error
    assert error.message == "Connection error."


def test_a_rate_limit_does_not_make_a_replay_sleep():
    headers = CODECS["openai.chat"].encode_error({"type": "RateLimitError"}).headers

    assert headers["retry-after-ms"] == "1"


def test_openai_raises_the_recorded_failure(provider, sdks):
    failure = {"type": "openai.RateLimitError", "message": "Error code: 429 - slow down"}
    provider.give_error(CODECS["openai.chat"].encode_error(failure))

    with pytest.raises(openai.RateLimitError, match=r"^Error code: 429 - .*slow down") as caught:
        sdks.plain("openai.chat")

    assert caught.value.body["message"] == "slow down"


def test_anthropic_raises_the_recorded_failure(provider, sdks):
    failure = {
        "type": "anthropic.BadRequestError",
        "message": "Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', "
        "'message': 'weird'}, 'request_id': 'req_1'}",
    }
    provider.give_error(CODECS["anthropic.messages"].encode_error(failure))

    with pytest.raises(anthropic.BadRequestError) as caught:
        sdks.plain("anthropic.messages")

    assert str(caught.value) == failure["message"]


def test_google_raises_the_recorded_failure(provider, sdks):
    message = "429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'slow', 'status': 'RESOURCE_EXHAUSTED'}}"
    failure = {"type": "google.genai.errors.ClientError", "message": message}
    provider.give_error(CODECS["google.generate"].encode_error(failure))

    with pytest.raises(google_errors.ClientError) as caught:
        sdks.plain("google.generate")

    assert str(caught.value) == message


DIFF = "no recorded answer\n--- recorded\n+++ live\n-hi\n+ho"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("openai.chat", openai.ConflictError),
        ("openai.responses", openai.ConflictError),
        ("anthropic.messages", anthropic.ConflictError),
        ("google.generate", google_errors.ClientError),
    ],
)
def test_a_miss_is_tried_once_and_says_the_diff(name, error, provider, sdks):
    provider.give_error(CODECS[name].encode_miss(DIFF))
    provider.requests.clear()
    sdks.openai.max_retries = sdks.anthropic.max_retries = 3

    try:
        with pytest.raises(error) as caught:
            sdks.plain(name)
    finally:
        sdks.openai.max_retries = sdks.anthropic.max_retries = 0

    assert DIFF in str(caught.value) or repr(DIFF)[1:-1] in str(caught.value)
    assert len(provider.requests) == 1
