"""Recorded traces of real instrumentations against what really happened.

Counts come from EXPECTED.json, values from the truth files (see tests/data/traces/README.md).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from model_calls import RUNS, all_of, assembled, model_pairs

import truth
from otel_cassette.assemble import assemble
from otel_cassette.formats import load_trace
from otel_cassette.model.entry import PLAYABLE, CassetteEntry, CassetteFailure, EntrySource

WITHOUT_SPAN = {
    # openai-v2 covers neither parse() nor a stream whose consumer raised
    "otel-openai-v2/extras--legacy_events": 1,
    "otel-openai-v2/error": 1,
}
"""Successful model calls for which the instrumentation made no span."""

FEWER_REQUESTS = {
    # EXPECTED counts a text that was found in part: here it was cut, or its parts were left out
    "otel-genai-openai/refund--valuelimit200": 1,
    "anthropic-sdk-native/unicode--max4000": 1,
}


def read_answers(entry: CassetteEntry) -> list[truth.Answer]:
    found = []
    for choice in entry.response["choices"]:
        parts = choice["message"]["parts"]
        text = "".join(p["content"] for p in parts if p["type"] == "text")
        calls = tuple(
            (p["name"], truth.value(p.get("arguments")) or {}, p.get("id"))
            for p in parts
            if p["type"] == "tool_call"
        )
        found.append(truth.Answer(text, calls, choice.get("finish_reason")))
    return found


def same_finish(got: str | None, wanted: str | None) -> bool:
    return None in (got, wanted) or truth.FINISH.get(got, got) == truth.FINISH.get(wanted, wanted)


@pytest.mark.parametrize("run", RUNS)
def test_every_successful_model_call_is_one_entry(run: str) -> None:
    expected = truth.EXPECTED[run]["llm_calls"] - WITHOUT_SPAN.get(run, 0)
    assert len(all_of(assembled(run), "llm")) == expected


@pytest.mark.parametrize("run", RUNS)
def test_playable_answers_are_those_the_provider_gave(run: str) -> None:
    playable = 0
    for call, entry in model_pairs(run):
        if entry.response_integrity not in PLAYABLE:
            continue
        playable += 1
        wanted, got = truth.answers(call), read_answers(entry)
        assert len(got) == len(wanted)
        for mine, real in zip(got, wanted, strict=True):
            if entry.response_integrity == "partial":
                assert real.text.startswith(mine.text)
                assert entry.response["ended_early"] is True
                continue
            assert mine.text == real.text
            assert mine.calls == real.calls
            # google-adk writes `stop` for every answer, whatever the provider said
            assert run.startswith("google-adk") or same_finish(
                mine.finish_reason, real.finish_reason
            )
    assert playable >= truth.EXPECTED[run]["llm_response"]


@pytest.mark.parametrize("run", RUNS)
def test_whole_requests_hold_every_text_the_model_read(run: str) -> None:
    whole = 0
    for call, entry in model_pairs(run):
        if entry.request_integrity != "whole":
            continue
        whole += 1
        held = list(strings(entry.request))
        for text in truth.texts(call["request"]):
            assert is_held(text, held), text[:200]
    assert whole >= truth.EXPECTED[run]["llm_request_texts"] - FEWER_REQUESTS.get(run, 0)


def strings(data: Any) -> Iterable[Any]:
    """Every string, and every value that stands for a JSON text."""
    if isinstance(data, dict):
        yield data
        for inner in data.values():
            yield from strings(inner)
    elif isinstance(data, list):
        yield data
        for inner in data:
            yield from strings(inner)
    elif isinstance(data, str):
        yield data
        if data[:1] in ("{", "["):
            yield truth.value(data)


def is_held(text: str, held: list[Any]) -> bool:
    if any(isinstance(item, str) and text in item for item in held):
        return True
    parsed = truth.value(text)
    if isinstance(parsed, dict) and parsed.keys() == {"error"}:
        return parsed["error"] in held  # pydantic-ai tells the model the bare text
    return parsed != text and parsed in held


@pytest.mark.parametrize("run", RUNS)
def test_tools_are_those_that_ran(run: str) -> None:
    left = all_of(assembled(run), "tool")
    right = 0
    for call in truth.calls(run):
        if call["kind"] != "tool" or not truth.succeeded(call):
            continue
        same_name = [e for e in left if e.name == call["name"]]
        fitting = [
            e
            for e in same_name
            if e.request == call["request"]
            and e.response_integrity in PLAYABLE
            and is_result(e, call["response"])
        ]
        right += bool(fitting)
        unplayable = [e for e in same_name if e.response_integrity not in PLAYABLE]
        assert fitting or unplayable or not same_name, (call, same_name)
        if fitting or unplayable:
            left.remove((fitting or unplayable)[0])
    failed = {c["name"] for c in truth.calls(run) if c["kind"] == "tool" and c.get("error")}
    assert [e for e in left if not (e.inferred and e.name in failed)] == []
    expected = truth.EXPECTED[run]
    assert right >= expected["tool_spans"] + expected["tools_inferable"]


def is_result(entry: CassetteEntry, returned: Any) -> bool:
    """An inferred result is what the model saw: the program's own text for None is `null`."""
    return bool(
        entry.response == returned or (entry.inferred and returned == truth.value(entry.response))
    )


@pytest.mark.parametrize("run", RUNS)
def test_nothing_but_calls_that_went_out(run: str) -> None:
    result = assembled(run)
    happened = [c for c in truth.calls(run) if truth.succeeded(c)]
    for kind in ("embedding", "retrieval"):
        assert len(all_of(result, kind)) <= sum(c["kind"] == kind for c in happened)


@pytest.mark.parametrize("run", RUNS)
def test_entries_stand_in_the_order_in_which_the_calls_were_made(run: str) -> None:
    starts = [
        call["start_ns"] for call, entry in sorted(model_pairs(run), key=lambda p: p[1].index)
    ]
    if "threads" in run or "parallel" in run or "stream" in run:
        # Calls in flight at once reach the provider in any order; their spans do not.
        starts = [e.source.start_ns for e in all_of(assembled(run), "llm") if e.source]
    assert starts == sorted(starts)


@pytest.mark.parametrize("run", RUNS)
def test_indices_count_each_kind_from_zero(run: str) -> None:
    result = assembled(run)
    for kind in ("llm", "tool", "retrieval", "embedding"):
        assert [e.index for e in result.entries_of(kind)] == list(
            range(len(result.entries_of(kind)))
        )


@pytest.mark.parametrize("run", RUNS)
def test_the_order_of_the_source_changes_nothing(run: str) -> None:
    trace = load_trace(truth.sources(run), merge=True)
    spans, logs = list(trace.spans), list(trace.logs)
    random.Random(run).shuffle(spans)
    random.Random(run).shuffle(logs)
    shuffled = assemble(spans, logs)
    result = assembled(run)
    assert shuffled.entries == result.entries
    assert shuffled.nested == result.nested
    assert shuffled.failures == result.failures


@pytest.mark.parametrize("run", RUNS)
def test_validation_changes_no_entry(run: str) -> None:
    result = assembled(run)
    for record in (*result.entries, *result.nested, *result.failures):
        cls: type[CassetteEntry | CassetteFailure] = type(record)
        fields = {name: getattr(record, name) for name in cls.model_fields}
        assert record.source is not None
        fields["source"] = EntrySource.model_validate(record.source.model_dump())
        validated = cls.model_validate(fields)
        assert validated == record
        assert json.loads(json.dumps(validated.request)) == record.request


@pytest.mark.parametrize("run", RUNS)
def test_every_call_span_has_its_line_in_the_report(run: str) -> None:
    trace = load_trace(truth.sources(run), merge=True)
    result = assembled(run)
    operations = {"chat", "generate_content", "embeddings", "execute_tool", "retrieval"}
    spans = {
        s.span_id for s in trace.spans if s.attributes.get("gen_ai.operation.name") in operations
    }
    assert spans <= {line.span_id for line in result.report}
    assert result.report.of("unreadable") == []
    hidden = [line for line in result.report.of("not_replayable") if line.kind != "embedding"]
    assert all(line.remedy or line.response_integrity == "absent" for line in hidden)
