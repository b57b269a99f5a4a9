"""Hand-made spans, and this package's own tracing wrappers: lossless both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette.dialects.native import DIALECT
from otel_cassette.dialects.protocol import Reading
from otel_cassette.model.llm import LLMRequest, LLMResponse
from otel_cassette.model.span import SpanRecord, StatusCode

REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "params": {"temperature": 0},
}
RESPONSE = {
    "choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]
}
USER = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]


def spanned(name: str, attributes: dict[str, Any], status: StatusCode = "UNSET") -> SpanRecord:
    return SpanRecord(
        trace_id="a" * 32,
        span_id="b" * 16,
        name=name,
        end_ns=1,
        attributes=attributes,
        status_code=status,
    )


def read(name: str, attributes: dict[str, Any], status: StatusCode = "UNSET") -> Reading:
    span = spanned(name, attributes, status)
    assert DIALECT.claims(span)
    return DIALECT.read(span, ())


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("llm_call", {}),
        ("llm_call gpt-4o", {}),
        ("llm_call:planner", {}),
        ("llm_call.planner", {}),
        ("ask the model", {"cassette.span.type": "llm_call"}),
        ("ask the model", {"span.type": "llm_call"}),
        ("ask the model", {"span_type": "llm_call"}),
        ("ask the model", {"type": "llm_call"}),
        ("ask the model", {"kind": "llm_call"}),
        ("chat m", {"cassette.span.type": "llm_call", "gen_ai.operation.name": "chat"}),
    ],
)
def test_a_model_call_is_known_by_its_name_or_by_an_attribute(
    name: str, attributes: dict[str, Any]
) -> None:
    assert read(name, attributes).kind == "llm"


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("llm_calls", {}),
        ("my llm_call", {}),
        ("llm_call", {"gen_ai.operation.name": "invoke_agent"}),
        ("tool_call x", {"openinference.span.kind": "TOOL"}),
        ("step", {"type": "agent"}),
    ],
)
def test_other_names_and_other_vocabularies_are_left_alone(
    name: str, attributes: dict[str, Any]
) -> None:
    assert not DIALECT.claims(spanned(name, attributes))


@pytest.mark.parametrize(
    "given",
    [
        json.dumps(REQUEST),
        REQUEST,
        json.dumps(REQUEST["messages"]),
        REQUEST["messages"],
        json.dumps(REQUEST["messages"][0]),  # type: ignore[index]
        "hi",
        '"hi"',
    ],
)
def test_input_is_a_request_messages_or_text(given: Any) -> None:
    reading = read("llm_call", {"input": given})
    assert reading.request["messages"] == USER
    assert (reading.has_request, reading.request_integrity) == (True, "whole")
    assert reading.scope is not None
    assert "messages" in reading.scope
    assert "tools" not in reading.scope


@pytest.mark.parametrize(
    "answer",
    [json.dumps(RESPONSE), RESPONSE, json.dumps({"role": "assistant", "content": "ok"}), "ok"],
)
def test_output_is_a_response_a_message_or_text(answer: Any) -> None:
    reading = read(
        "llm_call", {"output.value": answer, "usage": '{"input_tokens": 3}', "raw": '{"id": "x"}'}
    )
    assert LLMResponse.model_validate(reading.response).text == "ok"
    assert reading.response["usage"] == {"input_tokens": 3}
    assert reading.response["raw"] == {"id": "x"}
    assert reading.response_integrity == "whole"


@pytest.mark.parametrize("key", ["model", "gen_ai.request.model", "llm.model_name"])
def test_model_and_provider_go_by_several_names(key: str) -> None:
    reading = read("llm_call", {key: "m-1", "gen_ai.system": "openai", "input": "hi"})
    assert (reading.request["model"], reading.request["provider"]) == ("m-1", "openai")


@pytest.mark.parametrize(
    "attributes",
    [
        {"usage": '{"input_tokens": 3, "output_tokens": 2}'},
        {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2},
        {"llm.token_count.prompt": 3, "llm.token_count.completion": 2},
    ],
)
def test_usage_goes_by_several_names(attributes: dict[str, Any]) -> None:
    reading = read("llm_call", {"input": "hi", "output": "ok", **attributes})
    assert reading.response["usage"] == {"input_tokens": 3, "output_tokens": 2}


@pytest.mark.parametrize(
    ("name", "attributes", "tool"),
    [
        ("tool_call", {"tool.name": "look"}, "look"),
        ("tool_call", {"gen_ai.tool.name": "look"}, "look"),
        ("tool_call", {"name": "look"}, "look"),
        ("tool_call look", {}, "look"),
        ("tool_call:look", {}, "look"),
        ("tool_call", {}, "tool_call"),
    ],
)
def test_a_tools_name_is_an_attribute_or_the_rest_of_the_spans(
    name: str, attributes: dict[str, Any], tool: str
) -> None:
    assert read(name, attributes).name == tool


@pytest.mark.parametrize("given", ['{"x": 1}', {"x": 1}, '{"args": [], "kwargs": {"x": 1}}'])
def test_tool_arguments_are_by_name(given: Any) -> None:
    reading = read("tool_call t", {"input": given, "output": '{"y": [1]}'})
    assert (reading.request, reading.response) == ({"x": 1}, {"y": [1]})
    assert (reading.scope, reading.response_integrity) == (("arguments",), "whole")


def test_a_tool_with_arguments_and_no_output_returned_none() -> None:
    reading = read("tool_call t", {"input": "{}"})
    assert (reading.has_response, reading.response, reading.response_integrity) == (
        True,
        None,
        "whole",
    )
    failed = read("tool_call t", {"input": "{}"}, "ERROR")
    assert (failed.has_response, failed.error is not None) == (False, True)


def test_nothing_captured_says_what_to_set() -> None:
    reading = read("llm_call", {})
    assert (reading.request_integrity, reading.response_integrity) == ("absent", "absent")
    assert reading.remedy == "Set the attributes `input` and `output` on the span."


def test_cut_input_is_truncated() -> None:
    cut = json.dumps(REQUEST)[:40]
    assert read("llm_call", {"input": cut}).request_integrity == "truncated"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(), c, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), JSON, max_size=4), JSON)
def test_the_wrappers_spans_give_arguments_and_results_back_without_loss(
    arguments: dict[str, Any], result: Any
) -> None:
    attributes = {
        "cassette.span.type": "tool_call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "t",
        "gen_ai.tool.call.arguments": "{}",
        "cassette.request": json.dumps(arguments),
        "cassette.response": json.dumps(result),
    }
    reading = read("execute_tool t", attributes)
    assert reading.request == arguments
    assert reading.response == result


def test_the_wrappers_spans_give_a_model_call_back_without_loss() -> None:
    request = LLMRequest.model_validate(
        {
            **REQUEST,
            "tools": [{"name": "t", "parameters": {"type": "object"}}],
            "tool_choice": {"type": "function", "function": {"name": "t"}},
            "extra": {"user": "u-1"},
        }
    )
    response = LLMResponse.model_validate(
        {**RESPONSE, "raw": {"id": "r", "choices": []}, "id": "r"}
    )
    attributes = {
        "cassette.span.type": "llm_call",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": "[]",
        "cassette.request": json.dumps(request.to_json()),
        "cassette.response": json.dumps(response.to_json()),
    }
    reading = read("chat m", attributes)
    assert reading.request == request.to_json()
    assert reading.response == response.to_json()
    assert (reading.scope, reading.response_id) == (None, "r")
