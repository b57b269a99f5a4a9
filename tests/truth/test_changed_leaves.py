"""One changed leaf of a real request: seen where it was captured, named by its field, else not.

Every leaf of every wire request is changed in turn. A leaf either shows in the canonical request,
under a field that its place on the wire maps to, or stands in the list of what rules drop.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
from corpus import cassette_of, decoded, failed, live_call, recorded_truth
from test_strict_replay import PLAYABLE

from otel_cassette.engine import Comparer, Engine, LiveCall, Settings
from otel_cassette.keys import compare, llm_request

FIELDS = {
    "model": {"model"},
    "messages": {"messages", "system_instructions"},
    "input": {"messages", "system_instructions", "input"},
    "contents": {"messages"},
    "system": {"system_instructions"},
    "systemInstruction": {"system_instructions"},
    "instructions": {"system_instructions"},
    "tools": {"tools"},
    "tool_choice": {"tool_choice"},
    "toolConfig": {"tool_choice"},
    "response_format": {"response_format"},
    "text": {"response_format", "params", "extra"},
    "output_config": {"response_format", "params", "extra"},
    "previous_response_id": {"previous_response_id"},
    "generationConfig": {"params", "response_format", "extra"},
}
"""Where the members of a wire body stand in the canonical request; others are parameters."""

DROPPED = re.compile(
    r"""
    ^/stream(_options/.*)?$                     # how the answer comes is no part of the question
    | ^/(betas|thread)(/|$)
    | /strict$ | /cache_control/ | /signature$ | thoughtSignature$
    | ^/tools/\d+/type$                         # every tool is a function
    | /(tool_call_id|tool_use_id|call_id)$      # ids only link a call to its result
    | /tool_calls/\d+/(id|type)$
    | functionResponse/name$                    # likewise, where there are no ids
    | /content/\d+/id$ | ^/input/\d+/(id|status|type)$ | function(Call|Response)/id$
    | ^/messages/\d+/name$                      # names of speakers
    | /detail$ | /is_error$ | /filename$ | /title$
    | /encrypted_content$ | ^/include/ | ^/store$
    | ^/messages/\d+/refusal$ | /annotations/ | /logprobs
    | ^/encoding_format$
    """,
    re.VERBOSE,
)
STRUCTURE = re.compile(
    r"/(type|role|object|modality|media_type|mimeType|mime_type|url|image_url|data|file_data|format)$"
)
"""Leaves that say how to read the rest: another value is another shape, not a changed leaf."""


def leaves(value: Any, pointer: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, f"{pointer}/{place}")
    elif value is not None:
        yield pointer


def changed(body: dict[str, Any], pointer: str) -> dict[str, Any]:
    result = copy.deepcopy(body)
    *path, last = [p.replace("~1", "/").replace("~0", "~") for p in pointer[1:].split("/")]
    place: Any = result
    for step in path:
        place = place[int(step)] if isinstance(place, list) else place[step]
    key: Any = int(last) if isinstance(place, list) else last
    old = place[key]
    place[key] = (
        (not old) if isinstance(old, bool) else old + "~x" if isinstance(old, str) else old + 7
    )
    return result


def is_captured(pointer: str, scope: frozenset[str]) -> bool:
    """Whether a scope covers what a pointer into the canonical request names."""
    root, *rest = pointer[1:].split("/")
    if root == "model":
        return bool(scope & {"model", "model/family"})
    if root == "params":
        return "params" in scope or (bool(rest) and f"params/{rest[0]}" in scope)
    if root == "tools":
        return "tools" in scope or ("tools/names" in scope and rest[-1:] == ["name"])
    return root in scope


@pytest.mark.parametrize("run", PLAYABLE)
def test_a_changed_leaf_is_seen_where_it_was_captured_and_only_there(run: str) -> None:
    cassette = cassette_of(run)
    records = [*cassette.entries, *cassette.nested, *cassette.failures]
    settings = Settings(mode="strict", match="content", play_failures=True)
    before: list[dict[str, Any]] = []
    checked = 0
    for call in recorded_truth(run, cassette):
        if call["kind"] == "llm" and not failed(call):
            engine = Engine(records, settings, Comparer())
            for earlier in before:
                engine.decide(live_call(earlier))
            decision = engine.decide(live_call(call))
            if decision.verdict == "identical" and decision.entry is not None:
                checked += check_leaves(call, Comparer().recorded(decision.entry))
        before.append(call)
    assert checked or run.split("/")[1].startswith(("llm_error", "refund--valuelimit"))


def check_leaves(call: dict[str, Any], recorded: Any) -> int:
    sent = llm_request(decoded(call, call["request"]))
    checked = 0
    for pointer in leaves(call["request"]):
        if STRUCTURE.search(pointer):
            continue
        now = llm_request(decoded(call, changed(call["request"], pointer)))
        everything = compare(sent, now).pointers
        if not everything:
            assert DROPPED.search(pointer), f"{pointer} is nowhere in the canonical request"
            continue
        roots = FIELDS.get(pointer.split("/")[1], {"params", "extra"})
        assert {p.split("/")[1] for p in everything} <= roots, (pointer, everything)
        comparison = compare(recorded, now)
        captured = [p for p in everything if is_captured(p, comparison.scope)]
        assert bool(comparison.pointers) == bool(captured), (pointer, everything, comparison)
        if captured:
            assert comparison.pointers[0].split("/")[1] in roots
        checked += 1
    return checked


def test_a_changed_leaf_gives_one_first_divergence() -> None:
    """Through the engine: the changed call departs, what follows from it says so."""
    run = "otel-genai-openai/extras"
    cassette = cassette_of(run)
    engine = Engine(cassette.entries, Settings(mode="lenient", match="content"), Comparer())
    for call in recorded_truth(run, cassette):
        if call["kind"] == "llm" and not failed(call):
            body = (
                changed(call["request"], "/messages/0/content")
                if "messages" in call["request"]
                and isinstance(call["request"]["messages"][0]["content"], str)
                else call["request"]
            )
            engine.decide(LiveCall("llm", decoded(call, body)))
    first = [d for d in engine.divergences if d.is_first_cause]
    assert first
    assert all(d.fields[0].split("/")[1] in ("messages", "system_instructions") for d in first)
