"""What the OpenInference dialect reads, beside what the provider and the tools really saw.

The expected values come from the recorded provider bodies, read here in a few lines of their own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_cassette.dialects.openinference import DIALECT
from otel_cassette.dialects.protocol import Reading
from otel_cassette.formats import load_trace
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.model.span import SpanRecord

DATA = Path(__file__).parents[1] / "data" / "dialects" / "openinference"
FILES = sorted(p.relative_to(DATA).as_posix() for p in DATA.glob("*/*.otlp.jsonl"))
HIDDEN = {f for f in FILES if "hidden" in f}
# Instrumentations of a client alone make no tool spans, and these scenarios have no tools.
TOOL_FILES = [
    f
    for f in FILES
    if f not in HIDDEN
    and ("manual" in f or not f.startswith("openinference-"))
    and "rag_" not in f
    and "llm_error" not in f
]
Facts = list[tuple[Any, ...]]


def read(file: str) -> list[tuple[SpanRecord, Reading]]:
    spans = sorted(load_trace(DATA / file, merge=True).spans, key=lambda s: s.start_ns)
    return [(s, DIALECT.read(s, ())) for s in spans if DIALECT.claims(s)]


def truth(file: str, *kinds: str) -> list[dict[str, Any]]:
    path = DATA / file.replace(".otlp.jsonl", ".truth.json")
    calls = json.loads(path.read_text(encoding="utf-8"))["calls"]
    return [c for c in calls if c["kind"] in kinds]


def model_calls(file: str) -> list[tuple[SpanRecord, Reading]]:
    """LLM readings, one for each call: of LlamaIndex's nested spans the one with messages."""
    found = [(s, r) for s, r in read(file) if r.role == "call" and r.kind == "llm"]
    nested = "llama-index" in file
    return [(s, r) for s, r in found if not nested or r.has_request]


def pairs(file: str) -> list[tuple[dict[str, Any], Reading]]:
    """Each wire request with its reading: by the span current in the caller, else in order."""
    readings = model_calls(file)
    calls = truth(file, "llm")
    # An SDK that tries again makes two requests below one span: the last one answered.
    spans = [c.get("client_span") for c in calls]
    calls = [c for i, c in enumerate(calls) if spans[i] is None or spans[i] not in spans[i + 1 :]]
    by_span = {s.span_id: r for s, r in readings}
    known = {c.get("client_span") for c in calls}
    rest = [r for s, r in readings if s.span_id not in known]
    matched = [
        (c, by_span[c["client_span"]] if c.get("client_span") in by_span else rest.pop(0))
        for c in calls
    ]
    assert not rest, "an LLM span has no request on the wire"
    return matched


def value(text: Any) -> Any:
    """A result as a value: JSON text and the value are the same."""
    if isinstance(text, list) and all(isinstance(b, dict) and "text" in b for b in text):
        text = "\n".join(b["text"] for b in text)
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def reading_facts(request: dict[str, Any]) -> Facts:
    facts: Facts = [("text", p["content"]) for p in request.get("system_instructions", ())]
    for message in request.get("messages", ()):
        facts += part_facts(message["parts"])
    return facts


def part_facts(parts: list[dict[str, Any]]) -> Facts:
    facts: Facts = []
    for part in parts:
        if part["type"] == "text" and part["content"]:
            facts.append(("text", part["content"]))
        elif part["type"] == "tool_call":
            facts.append(("call", part["name"], value(part.get("arguments") or "{}")))
        elif part["type"] == "tool_call_response":
            facts.append(("result", value(part.get("response"))))
    return facts


def wire_facts(body: dict[str, Any]) -> Facts:
    """Texts, calls and results of a request body of any of the four APIs, in order."""
    facts: Facts = []
    for key in ("system", "instructions"):
        facts += item_facts({"content": body.get(key)})
    if body.get("systemInstruction"):
        facts += google_facts(body["systemInstruction"])
    items = body.get("messages") or body.get("input") or body.get("contents")
    if isinstance(items, str):
        return [*facts, ("text", items)]
    for item in items:
        facts += google_facts(item) if "parts" in item else item_facts(item)
    return facts


def google_facts(content: dict[str, Any]) -> Facts:
    facts: Facts = []
    for part in content["parts"]:
        if "text" in part:
            facts.append(("text", part["text"]))
        elif "functionCall" in part:
            facts.append(("call", part["functionCall"]["name"], part["functionCall"]["args"]))
        elif "functionResponse" in part:
            facts.append(("result", part["functionResponse"]["response"]))
    return facts


def item_facts(item: dict[str, Any]) -> Facts:
    if item.get("type") == "function_call":
        return [("call", item["name"], value(item["arguments"]))]
    if item.get("type") == "function_call_output":
        return [("result", value(item["output"]))]
    if item.get("role") == "tool":
        return [("result", value(item["content"]))]
    facts: Facts = []
    content = item.get("content")
    for block in [content] if isinstance(content, str) else content or ():
        if isinstance(block, str):
            facts += [("text", block)] if block else []
        elif "text" in block:
            facts.append(("text", block["text"]))
        elif block["type"] == "tool_use":
            facts.append(("call", block["name"], block["input"]))
        elif block["type"] == "tool_result":
            facts.append(("result", value(block["content"])))
    for call in item.get("tool_calls") or ():
        facts.append(("call", call["function"]["name"], value(call["function"]["arguments"])))
    return facts


def answer_facts(body: dict[str, Any]) -> list[Facts]:
    """Texts and calls of each choice of an answer."""
    if "choices" in body:
        return [item_facts(c["message"]) for c in body["choices"]]
    if "candidates" in body:
        return [google_facts(c["content"]) for c in body["candidates"]]
    if "output" in body:
        return [[f for item in body["output"] for f in item_facts(item)]]
    return [item_facts(body)]


def failed(call: dict[str, Any]) -> bool:
    return bool(call.get("error")) or (call.get("status") or 200) >= 400


@pytest.mark.parametrize("file", [f for f in FILES if f not in HIDDEN])
def test_every_request_is_what_was_sent(file: str) -> None:
    for call, reading in pairs(file):
        if not isinstance(call.get("request"), dict) or "llm_error.otlp" in file:
            continue  # refused before it was sent; a failed Responses call keeps no input
        assert reading_facts(reading.request) == wire_facts(call["request"])
        assert reading.request["model"].rpartition("/")[2].startswith(call["name"])
        assert reading.has_request
        assert reading.scope is None or "messages" in reading.scope


@pytest.mark.parametrize("file", [f for f in FILES if f not in HIDDEN])
def test_every_answer_is_what_the_provider_said(file: str) -> None:
    for call, reading in pairs(file):
        if failed(call):
            assert not reading.has_response
            assert reading.error is not None
            continue
        assert reading.has_response
        choices = [part_facts(c["message"]["parts"]) for c in reading.response["choices"]]
        expected = answer_facts(call["response"])
        if reading.partial:  # the consumer left: it saw the beginning of the text
            assert reading.response["ended_early"]
            assert reading.response_integrity == "partial"
            assert expected[0][0][1].startswith(choices[0][0][1])
        elif reading.response_integrity == "suspect":  # CrewAI's listener drops texts beside calls
            assert choices == [[f for f in facts if f[0] == "call"] for facts in expected]
            assert reading.notes
        else:
            assert choices == expected
            assert reading.response_integrity == "whole"


@pytest.mark.parametrize(
    "file",
    [f for f in FILES if f not in HIDDEN and f.startswith("openinference-") and "lite" not in f],
)
def test_ids_models_and_usage_are_the_providers(file: str) -> None:
    for call, reading in pairs(file):
        if failed(call) or reading.response_integrity != "whole" or "valuelimit" in file:
            continue
        body = call["response"]
        assert reading.response_id == body.get("id", body.get("responseId"))
        assert reading.response["model"] == body.get("model", body.get("modelVersion"))
        usage = body.get("usage") or body.get("usageMetadata")
        counts = [usage.get(k) for k in ("prompt_tokens", "input_tokens", "promptTokenCount")]
        cached = sum(usage.get(f"cache_{k}_input_tokens") or 0 for k in ("read", "creation"))
        sent = next(c for c in counts if c is not None) + cached
        assert reading.response["usage"]["input_tokens"] == sent


@pytest.mark.parametrize("file", TOOL_FILES)
def test_every_tool_span_holds_arguments_and_result(file: str) -> None:
    tools = [r for _, r in read(file) if r.role == "call" and r.kind == "tool"]
    calls = truth(file, "tool")
    assert [t.name for t in tools] == [c["name"] for c in calls]
    for call, tool in zip(calls, tools, strict=True):
        if tool.arguments_known:
            assert tool.request == call["request"]
        else:  # LangChain writes an only argument bare
            assert [tool.request] == list(call["request"].values())
        if call["error"]:
            assert tool.error is not None
            assert not tool.has_response
        else:
            assert tool.error is None
            assert tool.response == call["response"]
            assert tool.response_integrity == "whole"


@pytest.mark.parametrize("file", [f for f in FILES if "rag" in f or "extras" in f])
def test_retrievals_hold_query_and_documents(file: str) -> None:
    readings = [
        r for _, r in read(file) if r.kind == "retrieval" and r.response_integrity == "whole"
    ]
    calls = truth(file, "retrieval")
    assert [r.request for r in readings] == [c["request"] for c in calls]
    assert [r.response for r in readings] == [c["response"] for c in calls]


def test_embeddings_hold_inputs_and_vectors() -> None:
    readings = [r for _, r in read("openinference-openai-manual/extras.otlp.jsonl")]
    readings = [r for r in readings if r.kind == "embedding"]
    as_base64, as_floats = truth("openinference-openai-manual/extras.otlp.jsonl", "embedding")
    assert [r.request["input"] for r in readings] == [
        as_base64["request"]["input"],
        as_floats["request"]["input"],
    ]
    assert readings[1].response["embeddings"] == [
        d["embedding"] for d in as_floats["response"]["data"]
    ]
    assert readings[1].response["raw"]["data"] == as_floats["response"]["data"]
    # The SDK decoded the first: what it made of it is no payload to serve.
    assert "raw" not in readings[0].response
    assert len(readings[0].response["embeddings"]) == 2
    assert readings[1].request["params"] == {"dimensions": 4}


@pytest.mark.parametrize("file", sorted(HIDDEN))
def test_hidden_content_is_redacted_and_says_which_switch(file: str) -> None:
    calls = [r for _, r in read(file) if r.role == "call"]
    assert calls
    for reading in calls:
        assert (reading.request_integrity, reading.response_integrity) == ("redacted", "redacted")
        assert not reading.has_request
        assert not reading.has_response
        assert "OPENINFERENCE_HIDE" in (reading.remedy or "")
        assert "__REDACTED__" not in json.dumps([reading.request, reading.response])


@pytest.mark.parametrize("file", FILES)
def test_every_reading_makes_a_valid_entry(file: str) -> None:
    for _, reading in read(file):
        if reading.role == "call" and reading.has_response:
            entry = CassetteEntry(
                kind=reading.kind,
                index=0,
                name=reading.name,
                request=reading.request,
                response=reading.response,
                scope=reading.scope,
            )
            assert entry.is_playable


def test_wrappers_and_look_alikes_are_no_calls() -> None:
    roles = {(s.name, r.role) for file in FILES for s, r in read(file) if r.role != "call"}
    names = {name for name, role in roles if role == "lookalike"}
    assert names == {"OpenAILike._prepare_chat_with_tools"}
    wrappers = {name for name, role in roles if role == "wrapper"}
    assert {"support_agent", "ChatPromptTemplate", "handle_request", "turn"} <= wrappers


def test_only_the_providers_own_payload_is_kept_as_raw() -> None:
    own = [r for _, r in pairs("openinference-openai/refund.otlp.jsonl")]
    assert all(r.response["raw"]["object"] == "chat.completion" for r in own)
    rebuilt = [
        *(r for _, r in pairs("openinference-litellm/refund.otlp.jsonl")),
        *(r for _, r in pairs("openinference-google-genai/refund.otlp.jsonl")),
    ]
    assert not any("raw" in r.response for r in rebuilt)


def test_litellm_ids_of_other_providers_are_not_passed_off_as_theirs() -> None:
    ids = {c["api"]: r.response_id for c, r in pairs("openinference-litellm/refund.otlp.jsonl")}
    assert ids["anthropic.messages"] is None
