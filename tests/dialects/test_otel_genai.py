"""OTel GenAI spans, one at a time: where content stands, what a verdict and a scope say.

Shapes are those of the conventions (1.28 and 1.37) and of the emitters named in the tests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_cassette.dialects.otel_genai import DIALECT
from otel_cassette.dialects.protocol import Reading
from otel_cassette.model.span import LogRecord, Scope, SpanEvent, SpanRecord, StatusCode

OPENAI = "opentelemetry.instrumentation.genai.openai"
INPUT = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
OUTPUT = [
    {"role": "assistant", "parts": [{"type": "text", "content": "hello"}], "finish_reason": "stop"}
]
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
CONTENT = {"gen_ai.input.messages": json.dumps(INPUT), "gen_ai.output.messages": json.dumps(OUTPUT)}


def read(
    attributes: dict[str, Any],
    *,
    name: str = "chat gpt-4o-mini",
    scope: str = OPENAI,
    status: StatusCode = "UNSET",
    message: str = "",
    events: tuple[SpanEvent, ...] = (),
    logs: tuple[LogRecord, ...] = (),
    dropped: int = 0,
) -> Reading:
    span = SpanRecord(
        trace_id="a" * 32,
        span_id="b" * 16,
        name=name,
        end_ns=1,
        attributes=attributes,
        scope=Scope(scope),
        status_code=status,
        status_message=message,
        events=events,
        dropped_attributes=dropped,
    )
    assert DIALECT.claims(span)
    return DIALECT.read(span, logs)


def only_choice(reading: Reading) -> Any:
    (choice,) = reading.response["choices"]
    return choice


@pytest.mark.parametrize("encode", [json.dumps, lambda value: value])
def test_messages_as_json_strings_and_as_structured_values(encode: Any) -> None:
    reading = read(
        {**CHAT, "gen_ai.input.messages": encode(INPUT), "gen_ai.output.messages": encode(OUTPUT)}
    )
    assert reading.request["messages"] == INPUT
    assert only_choice(reading)["message"] == {"role": "assistant", "parts": OUTPUT[0]["parts"]}
    assert (reading.request_integrity, reading.response_integrity) == ("whole", "whole")


@pytest.mark.parametrize("place", ["log", "span event"])
def test_the_operation_details_event_holds_what_the_span_lacks(place: str) -> None:
    name = "gen_ai.client.inference.operation.details"
    attributes = {
        "gen_ai.input.messages": INPUT,
        "gen_ai.output.messages": OUTPUT,
        "gen_ai.request.seed": 7,
    }
    if place == "log":
        reading = read(CHAT, logs=(LogRecord(name, attributes=attributes),))
    else:
        reading = read(CHAT, events=(SpanEvent(name, attributes=attributes),))
    assert reading.request["messages"] == INPUT
    assert reading.request["params"] == {"seed": 7}
    assert only_choice(reading)["finish_reason"] == "stop"


def test_a_cut_attribute_is_replaced_by_the_whole_event() -> None:
    name = "gen_ai.client.inference.operation.details"
    cut = {**CHAT, **CONTENT, "gen_ai.input.messages": CONTENT["gen_ai.input.messages"][:20]}
    assert read(cut).request_integrity == "truncated"
    reading = read(cut, logs=(LogRecord(name, attributes={"gen_ai.input.messages": INPUT}),))
    assert (reading.request["messages"], reading.request_integrity) == (INPUT, "whole")


MESSAGE_EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("gen_ai.system.message", {"content": "Be brief."}),
    ("gen_ai.user.message", {"content": "refund"}),
    (
        "gen_ai.assistant.message",
        {
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
            ]
        },
    ),
    ("gen_ai.tool.message", {"content": "ok", "id": "c1"}),
    ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "done"}}),
]
FROM_EVENTS = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "refund"}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "t", "arguments": "{}"}],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "ok"}]},
]


@pytest.mark.parametrize("shape", ["log", "log with JSON body", "span event", "events attribute"])
def test_an_event_per_message_makes_the_conversation(shape: str) -> None:
    if shape == "span event":
        events = tuple(SpanEvent(name, attributes=body) for name, body in MESSAGE_EVENTS)
        reading = read(CHAT, events=events)
    elif shape == "events attribute":
        entries = [{"event.name": name, **body} for name, body in MESSAGE_EVENTS]
        reading = read({**CHAT, "events": json.dumps(entries)}, scope="pydantic-ai")
    else:
        encode = json.dumps if "JSON" in shape else dict
        logs = tuple(LogRecord(name, body=encode(body)) for name, body in MESSAGE_EVENTS)
        reading = read(CHAT, logs=logs)
    assert reading.request["messages"] == FROM_EVENTS
    choice = only_choice(reading)
    assert choice["message"]["parts"] == [{"type": "text", "content": "done"}]
    assert choice["finish_reason"] == "stop"


def test_events_without_bodies_are_hidden_content() -> None:
    logs = (
        LogRecord("gen_ai.user.message", body={}),
        LogRecord("gen_ai.choice", body={"index": 0, "finish_reason": "stop", "message": {}}),
    )
    reading = read(CHAT, logs=logs, scope="opentelemetry.instrumentation.openai_v2")
    assert (reading.request_integrity, reading.response_integrity) == ("redacted", "redacted")
    assert "LoggerProvider" not in str(reading.remedy)
    assert "log" in str(reading.remedy)


def test_attributes_and_events_of_one_call_are_not_counted_twice() -> None:
    logs = (LogRecord("gen_ai.user.message", body={"content": "hi"}),)
    assert len(read({**CHAT, **CONTENT}, logs=logs).request["messages"]) == 1


def test_parameters_keep_their_names_and_usage_its_own() -> None:
    reading = read(
        {
            **CHAT,
            "gen_ai.provider.name": "openai",
            "gen_ai.request.temperature": 0.2,
            "gen_ai.request.max_tokens": 256,
            "gen_ai.request.stop_sequences": ["END"],
            "gen_ai.request.choice.count": 2,
            "gen_ai.usage.input_tokens": 19,
            "gen_ai.usage.cache_read.input_tokens": 3,
            "gen_ai.response.id": "r1",
            "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        }
    )
    assert reading.request == {
        "operation": "chat",
        "provider": "openai",
        "model": "gpt-4o-mini",
        "params": {"temperature": 0.2, "max_tokens": 256, "stop_sequences": ["END"], "n": 2},
    }
    assert reading.response["usage"] == {"input_tokens": 19, "cache_read.input_tokens": 3}
    assert (reading.response_id, reading.response["model"]) == ("r1", "gpt-4o-mini-2024-07-18")


@pytest.mark.parametrize(
    "reasons", [["tool_calls"], '["tool_calls"]', ("tool_calls",), "tool_calls"]
)
def test_finish_reasons_come_as_arrays_and_as_json_strings(reasons: Any) -> None:
    output = [{**OUTPUT[0], "finish_reason": "tool_call"}]
    attributes = {**CHAT, "gen_ai.output.messages": json.dumps(output)}
    reading = read({**attributes, "gen_ai.response.finish_reasons": reasons})
    assert only_choice(reading)["finish_reason"] == "tool_calls"


def test_the_anthropic_sdks_raw_stop_reason_is_the_finish_reason() -> None:
    attributes = {**CHAT, **CONTENT, "anthropic.message.stop_reason": "end_turn"}
    assert only_choice(read(attributes))["finish_reason"] == "end_turn"


def test_several_choices_and_an_answer_in_pieces_are_told_apart() -> None:
    said = {
        "role": "assistant",
        "parts": [{"type": "text", "content": "a"}],
        "finish_reason": "stop",
    }
    asked = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c", "name": "t", "arguments": {}}],
    }
    two = read(
        {
            **CHAT,
            "gen_ai.request.choice.count": 2,
            "gen_ai.output.messages": json.dumps([said, said]),
        }
    )
    assert len(two.response["choices"]) == 2
    pieces = read({**CHAT, "gen_ai.output.messages": json.dumps([said, asked])})
    assert [p["type"] for p in only_choice(pieces)["message"]["parts"]] == ["text", "tool_call"]


def test_an_empty_answer_is_an_answer_where_content_is_captured() -> None:
    attributes = {
        **CHAT,
        "gen_ai.input.messages": json.dumps(INPUT),
        "gen_ai.response.id": "r1",
        "gen_ai.response.finish_reasons": ["stop"],
    }
    empty = read({**attributes, "gen_ai.usage.output_tokens": 1})
    assert (empty.response_integrity, only_choice(empty)["message"]["parts"]) == ("whole", [])
    # The Anthropic SDK records no output of a raw stream: 28 tokens went somewhere.
    assert read({**attributes, "gen_ai.usage.output_tokens": 28}).response_integrity == "absent"


@pytest.mark.parametrize(
    ("more", "finish"),
    [({"gen_ai.request.stream": True}, None), ({}, "error")],
)
def test_a_stream_that_its_consumer_left_is_partial(
    more: dict[str, Any], finish: str | None
) -> None:
    output = [{"role": "assistant", "parts": OUTPUT[0]["parts"], "finish_reason": finish}]
    reading = read({**CHAT, "gen_ai.output.messages": json.dumps(output), **more})
    assert reading.partial
    assert (reading.response_integrity, reading.response["ended_early"]) == ("partial", True)
    assert "finish_reason" not in only_choice(reading)


def test_a_failure_has_its_type_message_and_status() -> None:
    reading = read(
        {**CHAT, "error.type": "openai.RateLimitError"}, status="ERROR", message="slow down"
    )
    assert reading.error is not None
    assert (reading.error.type, reading.error.message) == ("openai.RateLimitError", "slow down")
    event = SpanEvent(
        "exception", attributes={"exception.type": "ValueError", "exception.message": "bad"}
    )
    raised = read(CHAT, status="ERROR", events=(event,)).error
    assert raised is not None
    assert (raised.type, raised.message) == ("ValueError", "bad")
    coded = read({**CHAT, "error.type": "429"}, status="ERROR").error
    assert coded is not None
    assert coded.status == 429


def test_an_exception_event_on_a_span_without_error_is_no_failure() -> None:
    assert read({**CHAT, **CONTENT}, events=(SpanEvent("exception"),)).error is None


def test_a_request_that_started_to_be_answered_did_not_fail() -> None:
    reading = read({**CHAT, "gen_ai.response.id": "r1"}, status="ERROR", message="abandoned stream")
    assert (reading.partial, reading.has_response) == (True, False)


@pytest.mark.parametrize(
    ("scope", "has", "lacks"),
    [
        (
            OPENAI,
            {"messages", "tools", "system_instructions", "params/temperature"},
            {"tool_choice"},
        ),
        ("opentelemetry.instrumentation.openai_v2", {"messages"}, {"tools", "params/temperature"}),
        ("com.anthropic.sdk.python", {"messages"}, {"tools", "params/temperature"}),
        ("agent_framework", {"messages"}, {"tools"}),
        ("pydantic-ai", {"messages", "tools"}, {"params/temperature"}),
    ],
)
def test_absence_is_evidence_only_where_the_emitter_always_captures(
    scope: str, has: set[str], lacks: set[str]
) -> None:
    reading = read({**CHAT, **CONTENT}, scope=scope)
    assert reading.scope is not None
    assert has <= set(reading.scope)
    assert not lacks & set(reading.scope)


def test_without_content_the_scope_has_no_conversation() -> None:
    reading = read({**CHAT, "gen_ai.request.temperature": 0.2}, scope="someone.else")
    assert reading.scope == ("model", "params/temperature")
    assert not reading.has_request


def test_definitions_without_schemas_are_compared_by_name() -> None:
    tools = json.dumps([{"name": "t", "description": "d", "parameters": None, "type": "function"}])
    reading = read({**CHAT, **CONTENT, "gen_ai.tool.definitions": tools}, scope="gcp.vertex.agent")
    assert reading.scope is not None
    assert "tools/names" in reading.scope
    assert "tools" not in reading.scope


def test_results_without_ids_leave_the_ids_out_of_scope() -> None:
    history = [
        *INPUT,
        {"role": "tool", "parts": [{"type": "tool_call_response", "response": "ok"}]},
    ]
    reading = read({**CHAT, "gen_ai.input.messages": json.dumps(history)})
    assert reading.scope is not None
    assert "call_ids" not in reading.scope
    assert "messages" in reading.scope


def test_content_over_the_sdks_size_limit_is_truncated() -> None:
    left_out = json.dumps([{"role": "user", "parts": []}])
    attributes = {
        **CHAT,
        **CONTENT,
        "gen_ai.input.messages": left_out,
        "anthropic.content.truncated": True,
    }
    reading = read(attributes, scope="com.anthropic.sdk.python")
    assert (reading.request_integrity, reading.response_integrity) == ("truncated", "whole")
    assert reading.scope is not None
    assert "messages" not in reading.scope


def test_attributes_that_the_count_limit_evicted_are_dropped_not_absent() -> None:
    reading = read({"gen_ai.usage.output_tokens": 5}, dropped=7)
    assert (reading.request_integrity, reading.response_integrity) == ("dropped", "dropped")
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in str(reading.remedy)


EXECUTE = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}


@pytest.mark.parametrize(
    ("attributes", "arguments", "result"),
    [
        (
            {"gen_ai.tool.call.arguments": '{"x": 1}', "gen_ai.tool.call.result": '{"ok": true}'},
            {"x": 1},
            {"ok": True},
        ),
        ({"tool_arguments": '{"x":1}', "tool_response": "done"}, {"x": 1}, "done"),
        ({"gen_ai.tool.call.arguments": {"x": 1}, "gen_ai.tool.call.result": ""}, {"x": 1}, ""),
        ({"gen_ai.tool.call.arguments": "", "gen_ai.tool.call.result": "[1]"}, {}, [1]),
        ({"gen_ai.tool.call.arguments": "{}"}, {}, None),
        (
            {
                "gen_ai.tool.call.arguments": "{}",
                "anthropic.tool_result.content": '[{"type": "text", "text": "{\\"ok\\": true}"}]',
            },
            {},
            {"ok": True},
        ),
    ],
)
def test_tools_have_arguments_by_name_and_what_they_returned(
    attributes: dict[str, Any], arguments: Any, result: Any
) -> None:
    reading = read({**EXECUTE, **attributes, "gen_ai.tool.call.id": "c1"}, name="execute_tool t")
    assert (reading.kind, reading.name, reading.call_id) == ("tool", "t", "c1")
    assert (reading.request, reading.response) == (arguments, result)
    assert (reading.has_response, reading.response_integrity) == (True, "whole")


def test_a_tool_without_content_has_no_answer() -> None:
    reading = read(EXECUTE, scope="gcp.vertex.agent")
    assert (reading.has_request, reading.has_response, reading.response_integrity) == (
        False,
        False,
        "absent",
    )
    assert "SPAN_ONLY" in str(reading.remedy)


def test_the_message_of_a_failed_tool_is_not_its_result() -> None:
    attributes = {
        **EXECUTE,
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.tool.call.result": "not found",
    }
    reading = read({**attributes, "gen_ai.tool.call.id": "<not specified>"}, status="ERROR")
    assert (reading.has_response, reading.response, reading.call_id) == (False, None, None)
    assert reading.error is not None


def test_google_adk_wraps_results_and_repeats_parallel_ones() -> None:
    wrapped = {
        **EXECUTE,
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.tool.call.result": '{"result": "refunded"}',
    }
    assert read(wrapped, scope="gcp.vertex.agent").response == "refunded"
    assert read(wrapped, scope=OPENAI).response == {"result": "refunded"}
    merged = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    assert read(merged, scope="gcp.vertex.agent").role == "lookalike"


def test_documents_without_text_are_a_partial_answer() -> None:
    attributes = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "kb",
        "gen_ai.retrieval.query.text": "refunds",
        "gen_ai.retrieval.documents": '[{"id": "d1", "score": 0.9}]',
    }
    reading = read(attributes, name="retrieval kb")
    assert (reading.kind, reading.name, reading.request) == (
        "retrieval",
        "kb",
        {"query": "refunds"},
    )
    assert reading.response == [{"id": "d1", "score": 0.9}]
    assert reading.response_integrity == "partial"


def test_embeddings_have_neither_input_nor_vectors() -> None:
    attributes = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "e-3",
        "gen_ai.embeddings.dimension.count": 8,
        "gen_ai.request.encoding_formats": ["float"],
    }
    reading = read(attributes, name="embeddings e-3")
    assert reading.kind == "embedding"
    assert reading.request["params"] == {"dimensions": 8, "encoding_format": "float"}
    assert (reading.has_response, reading.response_integrity) == (False, "absent")


@pytest.mark.parametrize("operation", ["invoke_agent", "create_agent", "invoke_workflow", "plan"])
def test_agents_and_workflows_are_wrappers_whatever_they_carry(operation: str) -> None:
    assert read({**CHAT, **CONTENT, "gen_ai.operation.name": operation}).role == "wrapper"


def test_other_spans_are_not_claimed() -> None:
    span = SpanRecord(
        trace_id="a", span_id="b", name="chat room", attributes={"http.method": "GET"}
    )
    assert not DIALECT.claims(span)
