"""Recorded requests against the wire requests that were really sent, on the common scope.

What a span lost in writing must not look like a change; what it captured must show one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from model_calls import RUNS, model_pairs

import truth
from otel_cassette.keys.compare import compare
from otel_cassette.keys.request import CanonicalRequest, llm_request
from otel_cassette.keys.scope import intersect, scope_of
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.wire import CODECS

CODEC_OF = {
    "gemini.generateContent": "google.generate",
    "google.generateContent": "google.generate",
    "openai.chat.completions": "openai.chat",
}
"""The truth files' names of the APIs, where they differ."""


def live(call: dict[str, Any], entry: CassetteEntry) -> dict[str, Any]:
    """The wire request as a plain request; Gemini has its model in the URL."""
    codec = CODECS[CODEC_OF.get(call["api"], call["api"])]
    path = call.get("path") or f"/v1beta/models/{entry.request.get('model')}:generateContent"
    return codec.decode_request(call["request"], path=path)


def recorded(entry: CassetteEntry) -> CanonicalRequest:
    return llm_request(entry.request, scope=scope_of(entry.scope, "llm"), masks=True)


@pytest.mark.parametrize("run", RUNS)
def test_what_was_sent_equals_what_was_recorded(run: str) -> None:
    for call, entry in model_pairs(run):
        comparison = compare(recorded(entry), llm_request(live(call, entry)))
        assert comparison.pointers == (), comparison


@pytest.mark.parametrize("run", RUNS)
def test_one_changed_leaf_shows_where_it_was_captured_and_only_there(run: str) -> None:
    for call, entry in model_pairs(run):
        sent = live(call, entry)
        before = recorded(entry)
        scope = intersect(before.scope, llm_request(sent).scope)
        for field, tokens, changed in changes(sent):
            comparison = compare(before, llm_request(changed))
            if scope & tokens:
                assert comparison.pointers, (field, comparison)
                assert comparison.pointers[0].split("/")[1] == field
            else:
                assert comparison.pointers == ()


def changes(request: dict[str, Any]) -> Iterator[tuple[str, set[str], dict[str, Any]]]:
    """Copies of a request with one leaf changed: its field, and the scope tokens that cover it."""
    changed = copy.deepcopy(request)
    changed["model"] = "another-model"
    yield "model", {"model", "model/family"}, changed
    for i, message in enumerate(request.get("messages") or ()):
        for k, part in enumerate(message.get("parts") or ()):
            if part.get("type") == "text" and message["role"] in ("user", "assistant"):
                changed = copy.deepcopy(request)
                changed["messages"][i]["parts"][k]["content"] += " and more"
                yield "messages", {"messages"}, changed
    for i in range(len(request.get("tools") or ())):
        changed = copy.deepcopy(request)
        changed["tools"][i]["description"] = "Does something else."
        yield "tools", {"tools"}, changed
    for name, value in (request.get("params") or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            changed = copy.deepcopy(request)
            changed["params"][name] = value + 1
            yield "params", {"params", f"params/{name}"}, changed
    changed = copy.deepcopy(request)
    changed.setdefault("params", {})["frequency_penalty"] = 1.75
    yield "params", {"params", "params/frequency_penalty"}, changed


COMPARED_ON_CONTENT = {
    "otel-genai-openai/extras": 10,
    "otel-genai-anthropic/refund": 3,
    "otel-google-genai/refund": 3,
    "otel-openai-v2/refund--legacy_events": 3,
    "otel-openai-v2/refund--legacy_default": 0,
    "anthropic-sdk-native/toolrunner": 5,
    "anthropic-sdk-native/refund--default": 0,
    "pydantic-ai/two_turns": 6,
    "pydantic-ai/refund__nocontent": 0,
    "agent-framework-sensitive/refund": 3,
    "google-adk-content/refund": 3,
    "google-adk-event/refund": 3,
}
"""How many requests hold their conversation, by the truth's own counts of calls and content modes."""


@pytest.mark.parametrize("run", sorted(COMPARED_ON_CONTENT))
def test_requests_with_content_can_be_told(run: str) -> None:
    told = [
        entry
        for call, entry in model_pairs(run)
        if not compare(recorded(entry), llm_request(live(call, entry))).cannot_tell
    ]
    assert len(told) == COMPARED_ON_CONTENT[run]


def test_truth_has_a_codec_for_every_api() -> None:
    apis = {c["api"] for run in RUNS for c in truth.calls(run) if c["kind"] == "llm"}
    assert {CODEC_OF.get(api, api) for api in apis} <= set(CODECS)
