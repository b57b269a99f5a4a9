"""OpenInference spans one by one: limits, masks, envelopes, failures, what is captured of what.

Spans that limits damaged are made by the OTel SDK from recorded ones.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_cassette.assemble import assemble
from otel_cassette.dialects.openinference import DIALECT
from otel_cassette.dialects.protocol import Reading
from otel_cassette.formats import load_trace, span_of
from otel_cassette.keys.compare import compare
from otel_cassette.keys.request import llm_request
from otel_cassette.keys.scope import scope_of
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.model.span import Scope, SpanEvent, SpanRecord
from otel_cassette.wire import openai_chat

DATA = Path(__file__).parents[1] / "data" / "dialects" / "openinference"
FILES = sorted(p.relative_to(DATA).as_posix() for p in DATA.glob("*/*.otlp.jsonl"))


def spans_of(file: str) -> list[SpanRecord]:
    return sorted(load_trace(DATA / file, merge=True).spans, key=lambda s: s.start_ns)


def wire_requests(file: str) -> list[dict[str, Any]]:
    text = (DATA / file.replace(".otlp.jsonl", ".truth.json")).read_text(encoding="utf-8")
    return [c["request"] for c in json.loads(text)["calls"] if c["kind"] == "llm"]


def make(
    kind: str,
    attributes: Mapping[str, Any],
    *,
    name: str = "span",
    library: str = "",
    dropped: int = 0,
    **rest: Any,
) -> SpanRecord:
    return SpanRecord(
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "1",
        name=name,
        end_ns=1,
        attributes={**attributes, "openinference.span.kind": kind},
        scope=Scope(f"openinference.instrumentation.{library}" if library else "app"),
        dropped_attributes=dropped,
        **rest,
    )


def read(kind: str, attributes: Mapping[str, Any], **rest: Any) -> Reading:
    return DIALECT.read(make(kind, attributes, **rest), ())


def through_sdk(span: SpanRecord, limits: SpanLimits) -> SpanRecord:
    """The same span as the SDK would export it under *limits*."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer(span.scope.name, span.scope.version).start_as_current_span(
        span.name
    ) as live:
        for key, value in span.attributes.items():
            live.set_attribute(key, value)
    provider.shutdown()
    return span_of(exporter.get_finished_spans()[0])


def live_request(body: dict[str, Any]) -> Any:
    return llm_request(openai_chat.CODEC.decode_request(body))


def recorded_request(reading: Reading) -> Any:
    return llm_request(reading.request, scope=scope_of(reading.scope, "llm"), masks=True)


# --- attribute limits ---------------------------------------------------------------------------


def test_of_a_long_chat_that_lost_its_oldest_attributes_the_last_messages_stay() -> None:
    file = "openinference-openai/longchat--count10000.otlp.jsonl"
    span = through_sdk(spans_of(file)[0], SpanLimits(max_span_attributes=128))
    assert span.dropped_attributes > 100
    assert "input.value" not in span.attributes
    reading = DIALECT.read(span, ())
    sent = wire_requests(file)[0]["messages"]
    kept = reading.request["messages"]
    assert 10 < len(kept) < len(sent)
    assert [m["role"] for m in kept] == [m["role"] for m in sent[-len(kept) :]]
    assert kept[-1]["parts"] == [{"type": "text", "content": sent[-1]["content"]}]
    assert reading.request_integrity == "truncated"
    assert set(reading.scope or ()) == {"messages/tail", "call_ids", "model/family"}
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in (reading.remedy or "")
    # The answer was written last, and is whole.
    assert reading.response_integrity == "whole"
    (choice,) = reading.response["choices"]
    text = "Echo(9 chars): Say hello 🎉 — end"
    assert choice["message"]["parts"] == [{"type": "text", "content": text}]
    assert choice["finish_reason"] == "stop"


def test_the_tail_of_a_long_chat_is_compared() -> None:
    file = "openinference-openai/longchat--count10000.otlp.jsonl"
    span = through_sdk(spans_of(file)[0], SpanLimits(max_span_attributes=128))
    recorded = recorded_request(DIALECT.read(span, ()))
    body = wire_requests(file)[0]
    assert compare(recorded, live_request(body)).equal
    body["messages"][-1]["content"] = "Say something else"
    assert not compare(recorded, live_request(body)).equal


def test_values_cut_by_a_length_limit_match_what_goes_on_the_same() -> None:
    file = "openinference-openai/refund.otlp.jsonl"
    last = spans_of(file)[-1]
    span = through_sdk(last, SpanLimits(max_span_attribute_length=40))
    reading = DIALECT.read(span, ())
    assert reading.request_integrity == "truncated"
    body = wire_requests(file)[-1]
    recorded = recorded_request(reading)
    assert compare(recorded, live_request(body)).masked
    body["messages"][1]["content"] = "Another order: " + body["messages"][1]["content"]
    assert compare(recorded, live_request(body)).pointers == ("/messages/0/parts/0/content",)


def test_an_answer_cut_by_a_length_limit_is_not_whole() -> None:
    last = spans_of("openinference-openai/refund.otlp.jsonl")[-1]
    reading = DIALECT.read(through_sdk(last, SpanLimits(max_span_attribute_length=40)), ())
    assert reading.response_integrity == "truncated"
    assert reading.remedy is not None
    text = reading.response["choices"][0]["message"]["parts"][0]["content"]
    assert text == "Done! Order A-17 was refunded: €42.50 wi"


def test_cut_tool_schemas_leave_the_names() -> None:
    reading = DIALECT.read(spans_of("openinference-openai/refund--valuelimit200.otlp.jsonl")[0], ())
    assert [t["name"] for t in reading.request["tools"]] == ["lookup_order", "refund"]
    assert "tools/names" in (reading.scope or ())
    assert "tools" not in (reading.scope or ())


def test_a_cut_argument_is_truncated_and_compared_by_nothing() -> None:
    reading = read(
        "TOOL",
        {
            "tool.name": "refund",
            "input.value": '{"order_id": "A-17", "am',
            "input.mime_type": "application/json",
            "output.value": "ok",
        },
    )
    assert (reading.request_integrity, reading.scope) == ("truncated", ())
    assert not reading.has_request


# --- what is captured ---------------------------------------------------------------------------

EVERYTHING = {
    "call_ids",
    "input",
    "messages",
    "model",
    "params",
    "previous_response_id",
    "response_format",
    "system_instructions",
    "tool_choice",
    "tools",
}
CHAT = {"call_ids", "messages", "system_instructions"}


@pytest.mark.parametrize(
    ("file", "scope"),
    [
        # An SDK's keyword arguments are the body, but for `extra_body`.
        ("openinference-openai/refund", EVERYTHING),
        # Anthropic's have `extra_body` too: None is everything.
        ("openinference-anthropic/refund", None),
        # Google's model stands in the URL; the span has the answering one.
        ("openinference-google-genai/refund", EVERYTHING - {"model"} | {"model/family"}),
        (
            "langchain-openinference/refund__responses",
            CHAT | {"model", "params", "response_format", "tool_choice", "tools"},
        ),
        ("agno-openinference/refund", CHAT | {"model", "tools", "params/temperature"}),
        # Settings and model are copied from the answer here: the settings are no evidence.
        ("openai-agents-openinference/refund", CHAT | {"model/family", "tools"}),
        ("openai-agents-openinference/refund__chat", CHAT | {"model"}),
        # The inner schemas are Python reprs.
        ("crewai-openinference-events/refund", CHAT | {"model", "tools/names"}),
    ],
)
def test_the_scope_says_what_the_instrumentation_captures(
    file: str, scope: set[str] | None
) -> None:
    readings = [DIALECT.read(s, ()) for s in spans_of(f"{file}.otlp.jsonl") if DIALECT.claims(s)]
    first = next(r for r in readings if r.kind == "llm")
    assert first.scope == (None if scope is None else tuple(sorted(scope)))


def test_langchain_without_parameters_has_the_answering_model_only() -> None:
    prompt = {"messages": [[{"lc": 1, "kwargs": {"type": "human", "content": "Hi"}}]]}
    reading = read(
        "LLM",
        {
            "input.value": json.dumps(prompt),
            "input.mime_type": "application/json",
            "llm.model_name": "gpt-4o-mini-2024-07-18",
        },
        library="langchain",
    )
    assert "model/family" in (reading.scope or ())
    assert reading.request["model"] == "gpt-4o-mini-2024-07-18"


def test_langchain_parameters_of_other_providers_are_not_all_there_are() -> None:
    prompt = {"messages": [[{"lc": 1, "kwargs": {"type": "human", "content": "Hi"}}]]}
    reading = read(
        "LLM",
        {
            "input.value": json.dumps(prompt),
            "input.mime_type": "application/json",
            "llm.invocation_parameters": json.dumps(
                {"_type": "chat-ollama", "model": "llama3", "temperature": 0.1}
            ),
        },
        library="langchain",
    )
    assert {"model", "params/temperature"} <= set(reading.scope or ())
    assert not {"params", "tool_choice"} & set(reading.scope or ())


def test_googles_arguments_keep_the_case_of_their_keys() -> None:
    """The instrumentation turns the keys of the body to snake case, in arguments and results too."""
    contents = [
        {"role": "user", "parts": [{"text": "Refund."}]},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"order_id": 1}}}]},
        {
            "role": "user",
            "parts": [{"function_response": {"name": "f", "response": {"refund_id": 2}}}],
        },
    ]
    prefix = "llm.input_messages"
    reading = read(
        "LLM",
        {
            f"{prefix}.0.message.role": "user",
            f"{prefix}.0.message.content": "Refund.",
            f"{prefix}.1.message.role": "model",
            f"{prefix}.1.message.tool_calls.0.tool_call.function.name": "f",
            f"{prefix}.1.message.tool_calls.0.tool_call.function.arguments": '{"orderId": 1}',
            f"{prefix}.2.message.role": "tool",
            f"{prefix}.2.message.content": '{"refundId": 2}',
            "input.value": json.dumps({"contents": contents}),
            "input.mime_type": "application/json",
        },
        library="google_genai",
    )
    _, call, result = reading.request["messages"]
    assert call["parts"][0]["arguments"] == {"orderId": 1}
    assert result["parts"][0]["response"] == {"refundId": 2}


def test_a_body_of_another_shape_gives_way_to_the_flattened_copy() -> None:
    reading = read(
        "LLM",
        {
            "input.value": json.dumps({"model": "m", "messages": [{"role": "user"}, 7]}),
            "input.mime_type": "application/json",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Hi",
        },
        library="openai",
    )
    assert reading.request["messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}
    ]


# --- tools --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "schema", "arguments"),
    [
        ('{"kwargs": {"a": 1}}', None, {"a": 1}),
        ('{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"a": 1}}', None, {"a": 1}),
        ('{"args": [1], "kwargs": {"b": 2}}', {"a": {}, "b": {}}, {"a": 1, "b": 2}),
        ('{"kwargs": {"a": 1}}', {"kwargs": {}}, {"kwargs": {"a": 1}}),
        ('{"kwargs": {"a": 1}, "b": 2}', None, {"kwargs": {"a": 1}, "b": 2}),
        ("{}", None, {}),
        ("null", None, {}),
    ],
)
def test_arguments_are_taken_out_of_a_call(given: str, schema: Any, arguments: Any) -> None:
    attributes = {"tool.name": "t", "input.value": given, "input.mime_type": "application/json"}
    if schema is not None:
        attributes["tool.parameters"] = json.dumps({"type": "object", "properties": schema})
    reading = read("TOOL", attributes)
    assert reading.request == arguments
    assert reading.scope == ("arguments",)


def test_a_bare_argument_waits_for_its_name() -> None:
    reading = read("TOOL", {"tool.name": "lookup", "input.value": "17"}, library="langchain")
    assert (reading.request, reading.arguments_known, reading.scope) == ("17", False, ())


def test_a_bare_argument_is_named_by_the_schema() -> None:
    schema = json.dumps({"properties": {"order_id": {"type": "string"}}})
    reading = read(
        "TOOL", {"tool.name": "lookup", "input.value": "A-17", "tool.parameters": schema}
    )
    assert (reading.request, reading.arguments_known) == ({"order_id": "A-17"}, True)


def tool_message(content: Any) -> str:
    data = {"content": content, "type": "tool", "tool_call_id": "call_1", "status": "success"}
    return json.dumps({"type": "tool", "data": data})


@pytest.mark.parametrize(
    ("library", "value", "mime", "result"),
    [
        ("langchain", tool_message('{"a": 1}'), "application/json", {"a": 1}),
        ("langchain", tool_message("17"), "application/json", "17"),
        ("langchain", tool_message([{"type": "text", "text": "x"}]), "application/json", "x"),
        (
            "llama_index",
            '{"blocks":[],"raw_input":{},"raw_output":null,"is_error":false,"tool_name":"t"}',
            "application/json",
            None,
        ),
        ("google_adk", '{"id":"1","name":"t","response":{"a":1}}', "application/json", {"a": 1}),
        # The framework shows the model `str()` of the result; the span has the same text.
        ("agno", "{'a': None, 'b': [1.5]}", "text/plain", {"a": None, "b": [1.5]}),
        ("agno", '{"a": 1}', "text/plain", '{"a": 1}'),
        (
            "agno",
            "{'a': datetime.date(2026, 1, 1)}",
            "text/plain",
            "{'a': datetime.date(2026, 1, 1)}",
        ),
        ("openai_agents", "{'a': 1}", None, "{'a': 1}"),
        ("", "None", "text/plain", None),
        ("", "42", "text/plain", "42"),
        ("", "42", "application/json", 42),
        ("", '"quoted"', "application/json", "quoted"),
    ],
)
def test_results_come_out_of_their_envelopes(
    library: str, value: str, mime: str | None, result: Any
) -> None:
    attributes = {"tool.name": "t", "input.value": "{}", "input.mime_type": "application/json"}
    attributes["output.value"] = value
    if mime is not None:
        attributes["output.mime_type"] = mime
    reading = read("TOOL", attributes, library=library)
    assert reading.has_response
    assert reading.response == result
    assert type(reading.response) is type(result)
    assert reading.response_integrity == "whole"


def test_the_call_id_of_an_envelope_is_kept() -> None:
    reading = read(
        "TOOL",
        {
            "tool.name": "t",
            "input.value": "x",
            "output.value": tool_message("ok"),
            "output.mime_type": "application/json",
        },
    )
    assert reading.call_id == "call_1"


def test_a_tool_output_that_is_an_error_is_a_failure() -> None:
    value = '{"blocks":[],"raw_input":{},"raw_output":"order Z-99 not found","is_error":true}'
    reading = read(
        "TOOL",
        {
            "tool.name": "t",
            "input.value": '{"kwargs": {}}',
            "input.mime_type": "application/json",
            "output.value": value,
            "output.mime_type": "application/json",
        },
        library="llama_index",
    )
    assert reading.error is not None
    assert reading.error.message == "order Z-99 not found"
    assert not reading.has_response


def test_a_tool_without_output_returned_none() -> None:
    reading = read(
        "TOOL", {"tool.name": "t", "input.value": "{}", "input.mime_type": "application/json"}
    )
    assert (reading.has_response, reading.response, reading.response_integrity) == (
        True,
        None,
        "whole",
    )


def test_a_handoff_is_no_tool() -> None:
    assert read("TOOL", {}, name="handoff to billing").role == "lookalike"


def test_an_agent_span_that_collects_model_calls_is_none() -> None:
    reading = read(
        "LLM", {"gen_ai.operation.name": "generate_content"}, name="invoke_agent support"
    )
    assert reading.role == "lookalike"


# --- failures -----------------------------------------------------------------------------------


def exception(kind: str, message: str) -> list[SpanEvent]:
    return [SpanEvent("exception", 0, {"exception.type": kind, "exception.message": message})]


@pytest.mark.parametrize(
    ("status_message", "events", "kind", "message"),
    [
        (
            "ValueError('x')Traceback (most recent call last):\n ...",
            exception("ValueError", "x"),
            "ValueError",
            "x",
        ),
        ("RateLimitError: Error code: 429 - slow", [], "RateLimitError", "Error code: 429 - slow"),
        (
            "Error running tool: {'tool_name': 't', 'error': 'order Z-99 not found'}",
            [],
            "Exception",
            "order Z-99 not found",
        ),
        ("it broke", [], "Exception", "it broke"),
        ("", [], "Exception", ""),
    ],
)
def test_a_failure_is_read_where_it_is_said_best(
    status_message: str, events: list[SpanEvent], kind: str, message: str
) -> None:
    reading = read(
        "TOOL",
        {"tool.name": "t", "input.value": "{}", "output.value": "An error occurred."},
        status_code="ERROR",
        status_message=status_message,
        events=events,
    )
    assert reading.error is not None
    assert (reading.error.type, reading.error.message) == (kind, message)
    assert not reading.has_response


def test_langchain_keeps_status_and_body_of_a_refused_request() -> None:
    spans = spans_of("langchain-openinference/llm_error__raw.otlp.jsonl")
    reading = next(r for s in spans if (r := DIALECT.read(s, ())).kind == "llm")
    assert reading.error is not None
    assert reading.error.status == 400
    assert reading.error.body["error"]["message"] == "The model `gpt-nope` is not available to you."
    assert not reading.has_response


def test_an_error_with_partial_output_is_a_partial_answer() -> None:
    reading = read(
        "LLM",
        {
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "1 2 3",
        },
        library="openai",
        status_code="ERROR",
        status_message="ValueError: consumer",
    )
    assert reading.has_response
    assert reading.partial
    assert reading.response_integrity == "partial"
    assert reading.error is not None


# --- masks and hidden parts ---------------------------------------------------------------------


def test_one_masked_text_leaves_the_rest_of_the_request() -> None:
    body = {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "You are a refund assistant. Be brief."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello, which card?"},
            {"role": "user", "content": "****"},
        ],
    }
    reading = read(
        "LLM",
        {"input.value": json.dumps(body), "input.mime_type": "application/json"},
        library="openai",
    )
    assert reading.has_request
    assert reading.request_integrity == "whole"
    last = {"role": "user", "content": "4000 1234"}
    sent = {**body, "messages": [*body["messages"][:-1], last]}
    assert compare(recorded_request(reading), live_request(sent)).masked


# --- robustness ---------------------------------------------------------------------------------

JUNK: list[Any] = [
    None,
    True,
    3.5,
    float("nan"),
    b"\x00",
    "",
    "{",
    "[[]]",
    "null",
    "\ud800",
    [1, "a"],
    {"a": 1},
    '{"messages":[[1]]}',
    '{"messages":[{"role":1}]}',
    '{"contents":[1]}',
    '{"generations":[[{"message":{"kwargs":{"content":5,"tool_calls":[1,{"name":3}]}}}]]}',
    '{"choices":[{"message":{"content":7,"tool_calls":3}}]}',
    '{"output":[3]}',
    '{"candidates":[{"content":{"parts":[{"functionCall":3}]}}]}',
    '{"type":"message","content":[1]}',
    '{"data":[{"embedding":3}]}',
    '{"documents":[{"page_content":1}]}',
    '{"kwargs":{"a":1},"args":[1,2]}',
    "__REDACTED__",
]


@pytest.mark.parametrize("seed", range(20))
def test_no_content_makes_the_dialect_raise_or_an_entry_invalid(seed: int) -> None:
    rnd = random.Random(seed)
    spans = [s for file in rnd.sample(FILES, 6) for s in spans_of(file) if DIALECT.claims(s)]
    for span in spans:
        attributes = dict(span.attributes)
        for key in rnd.sample(sorted(attributes), min(3, len(attributes))):
            value = attributes[key]
            cut = isinstance(value, str) and rnd.random() < 0.4
            attributes[key] = value[: rnd.randrange(len(value) + 1)] if cut else rnd.choice(JUNK)
        attributes.setdefault("input.value", rnd.choice(JUNK))
        kind = span.attributes["openinference.span.kind"]
        reading = DIALECT.read(make(kind, attributes, library=span.scope.name.split(".")[-1]), ())
        if reading.role == "call" and reading.has_response:
            entry = CassetteEntry(
                kind=reading.kind,
                index=0,
                name=reading.name,
                request=reading.request,
                response=reading.response,
                scope=reading.scope,
            )
            assert entry.kind == reading.kind


@pytest.mark.parametrize("file", FILES)
def test_validation_changes_nothing(file: str) -> None:
    """Entries are made without validation: readings must be what it would make of them."""
    for span in spans_of(file):
        reading = DIALECT.read(span, ()) if DIALECT.claims(span) else None
        if reading is None or reading.kind not in ("llm", "embedding") or reading.role != "call":
            continue
        entry = CassetteEntry(
            kind=reading.kind, index=0, request=reading.request, response=reading.response
        )
        assert (entry.request or None) == reading.request
        assert (entry.response or None) == reading.response


# --- whole files --------------------------------------------------------------------------------

# What each file holds, counted by searching the spans for the values of the wire: LLM calls that
# succeeded, playable answers, whole requests, tool results on spans or in the next request.
EXPECTED = {
    "agno-openinference/refund": (3, 3, 3, 2),
    "agno-openinference/tool_error": (2, 2, 2, 0),
    "crewai-openinference-events/refund": (3, 2, 2, 2),
    "langchain-openinference/llm_error__raw": (0, 0, 0, 0),
    "langchain-openinference/rag_chain": (1, 1, 1, 0),
    "langchain-openinference/refund__responses": (3, 3, 3, 2),
    "langchain-openinference/tool_error": (1, 1, 1, 0),
    "llama-index-openinference/rag_query_engine": (1, 1, 1, 0),
    "llama-index-openinference/tool_error": (2, 2, 2, 0),
    "openai-agents-openinference/llm_error": (0, 0, 0, 0),
    "openai-agents-openinference/refund": (3, 3, 3, 2),
    "openai-agents-openinference/refund__chat": (3, 3, 3, 2),
    "openai-agents-openinference/refund__hidden": (3, 0, 0, 0),
    "openai-agents-openinference/tool_error": (2, 2, 2, 0),
    "openai-agents-openinference/tool_error__raise": (1, 1, 1, 0),
    "openinference-anthropic/error": (5, 4, 4, 0),
    "openinference-anthropic/refund": (3, 3, 3, 2),
    "openinference-google-genai/refund": (3, 3, 3, 2),
    "openinference-litellm/refund": (6, 6, 6, 4),
    "openinference-openai/error": (5, 4, 4, 0),
    "openinference-openai/longchat--count10000": (1, 1, 1, 0),
    "openinference-openai/refund": (3, 3, 3, 2),
    "openinference-openai/refund--hidden": (3, 0, 0, 0),
    "openinference-openai/refund--valuelimit200": (3, 3, 3, 2),
    "openinference-openai/responses": (7, 7, 7, 1),
    "openinference-openai-manual/extras": (10, 9, 8, 1),
}


def test_every_copied_file_is_counted() -> None:
    assert sorted(f"{name}.otlp.jsonl" for name in EXPECTED) == FILES


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_run_gives_the_calls_that_happened(name: str) -> None:
    llm, answers, requests, tools = EXPECTED[name]
    found = assemble(load_trace(DATA / f"{name}.otlp.jsonl", merge=True).spans)
    entries = [*found.entries, *found.nested]
    models = [e for e in entries if e.kind == "llm"]
    assert len(models) == llm
    assert sum(e.is_playable for e in models) >= answers
    assert sum(e.request_integrity == "whole" for e in models) >= requests
    text = (DATA / f"{name}.truth.json").read_text(encoding="utf-8")
    truth = [c for c in json.loads(text)["calls"] if c["kind"] == "tool"]
    played = [e for e in entries if e.kind == "tool" and e.is_playable]
    assert len(played) >= tools
    happened = [(c["name"], c["request"], c["response"]) for c in truth if not c["error"]]
    failed = [(c["name"], c["request"]) for c in truth if c["error"]]
    for entry in played:
        if entry.inferred and (entry.name, entry.request) in failed:
            continue  # the model was told of the failure as of any other result
        assert (entry.name, entry.request, entry.response) in happened
