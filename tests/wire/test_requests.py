"""Requests of real programs, as their providers' APIs received them, read as `LLMRequest` JSON."""

from __future__ import annotations

import pytest

from otel_cassette.model.llm import LLMRequest
from otel_cassette.wire import CODECS, find_codec

OPENAI = "api.openai.com"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "openai.chat"),
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2026-01-01", "openai.chat"),
        ("/v1beta/openai/chat/completions", "openai.chat"),
        ("/chat/completions", "openai.chat"),
        ("/v1/responses", "openai.responses"),
        ("/openai/v1/responses", "openai.responses"),
        ("/v1/embeddings", "openai.embeddings"),
        ("/v1/messages", "anthropic.messages"),
        ("/v1/messages?beta=true", "anthropic.messages"),
        ("/anthropic/v1/messages", "anthropic.messages"),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict",
            "anthropic.messages",
        ),
        ("/v1beta/models/gemini-2.5-flash:generateContent", "google.generate"),
        ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", "google.generate"),
        ("/v1beta/models/gemini-embedding-001:batchEmbedContents", "google.embed"),
        (
            "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent",
            "google.generate",
        ),
    ],
)
def test_a_path_finds_its_codec_under_any_base_url(path, name):
    codec = find_codec("POST", OPENAI, path)

    assert codec is not None
    assert codec.name == name


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/threads/t1/messages"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1beta/models/gemini-2.5-flash:countTokens"),
        ("POST", "/v1/traces"),
    ],
)
def test_other_requests_have_no_codec(method, path):
    assert find_codec(method, OPENAI, path) is None


@pytest.mark.parametrize("body", [None, [], "x", {}, {"answers": [1]}, {"input": None}])
@pytest.mark.parametrize("name", sorted(CODECS))
def test_a_body_without_any_content_is_no_request_of_the_api(name, body):
    assert not CODECS[name].accepts(body)


def test_chat_parameters_get_one_name_each_and_unknown_fields_survive():
    request = CODECS["openai.chat"].decode_request(
        {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "hi", "name": None}],
            "max_completion_tokens": 9,
            "stop": "END",
            "user": "u-1",
            "temperature": None,
            "stream": True,
            "stream_options": {"include_usage": True},
            "extra_body": {"custom_knob": 3},
        }
    )

    assert request == {
        "operation": "chat",
        "provider": "openai",
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        "params": {"max_tokens": 9, "stop_sequences": ["END"], "user": "u-1"},
        "extra": {"custom_knob": 3},
    }


def test_azure_reads_the_model_from_the_deployment_in_the_path():
    path = "/openai/deployments/gpt-4o/chat/completions"

    assert CODECS["openai.chat"].decode_request({"messages": []}, path=path)["model"] == "gpt-4o"


def test_responses_items_become_messages():
    request = CODECS["openai.responses"].decode_request(
        {
            "model": "m",
            "instructions": "Be brief.",
            "previous_response_id": "resp_1",
            "text": {"format": {"type": "json_object"}, "verbosity": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": {"a": None}, "strict": True}],
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "t"}],
                },
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "c1",
                    "name": "f",
                    "arguments": "{}",
                },
                {"type": "function_call_output", "call_id": "c1", "output": "42"},
                {"type": "item_reference", "id": "msg_1"},
            ],
        }
    )

    assert request["system_instructions"] == [{"type": "text", "content": "Be brief."}]
    assert request["previous_response_id"] == "resp_1"
    assert request["response_format"] == {"type": "json_object"}
    assert request["params"] == {"verbosity": "low"}
    assert request["tools"] == [
        {"type": "function", "name": "f", "parameters": {"a": None}, "strict": True}
    ]
    assert request["messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "t", "id": "rs_1"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "42"}]},
        {"role": "assistant", "parts": [{"type": "item_reference", "id": "msg_1"}]},
    ]


def test_anthropic_system_and_blocks():
    request = CODECS["anthropic.messages"].decode_request(
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 10,
            "system": [
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
            ],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"},
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": "x",
                            "is_error": True,
                        },
                        {"type": "text", "text": "go on", "citations": None},
                    ],
                }
            ],
        }
    )

    assert request["system_instructions"][0]["content"] == "Be brief."
    assert request["tools"] == [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    assert request["tool_choice"] == {"type": "any"}
    assert request["messages"][0]["parts"] == [
        {"type": "tool_call_response", "id": "t1", "response": "x", "is_error": True},
        {"type": "text", "content": "go on"},
    ]


def test_google_reads_model_from_the_path_and_config_by_either_case():
    camel = {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "hi"},
                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                ],
            },
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"someKey": 1}}}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "tools": [
            {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {
            "topP": 0.5,
            "maxOutputTokens": 7,
            "responseMimeType": "application/json",
        },
    }
    snake = {
        "model": "models/gemini-x",
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "hi"},
                    {"inline_data": {"mime_type": "image/png", "data": "AA=="}},
                ],
            },
            {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"someKey": 1}}}]},
        ],
        "config": {
            "system_instruction": "Be brief.",
            "tools": [
                {
                    "function_declarations": [
                        {"name": "f", "parameters_json_schema": {"type": "object"}}
                    ]
                }
            ],
            "tool_config": {"function_calling_config": {"mode": "ANY"}},
            "top_p": 0.5,
            "max_output_tokens": 7,
            "response_mime_type": "application/json",
        },
    }
    codec = CODECS["google.generate"]

    request = codec.decode_request(camel, path="/v1beta/models/gemini-x:generateContent")

    assert request == codec.decode_request(snake)
    assert request["model"] == "gemini-x"
    assert request["params"] == {"top_p": 0.5, "max_tokens": 7}
    assert request["tool_choice"] == "any"
    assert request["messages"][0]["parts"][1] == {
        "type": "blob",
        "modality": "image",
        "mime_type": "image/png",
        "content": "AA==",
    }
    assert request["messages"][1] == {
        "role": "assistant",
        "parts": [{"type": "tool_call", "name": "f", "arguments": {"someKey": 1}}],
    }


def test_a_decoded_request_is_what_the_model_dumps():
    request = CODECS["openai.chat"].decode_request(
        {
            "model": "m",
            "messages": [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": None}}],
        }
    )

    assert LLMRequest.model_validate(request).to_json() == request
