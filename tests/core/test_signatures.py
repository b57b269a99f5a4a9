# ruff: noqa: E501 - one case a row reads better than one a screen
"""Every name and signature of the public API's core."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from typing import Any

import pytest

import otel_cassette
from otel_cassette import harness

EMPTY = inspect.Parameter.empty


def parameters(target: Any) -> list[tuple[str, str, Any]]:
    """Return name, kind (`/`, ``, `*`) and default of each parameter but self and cls."""
    kinds = {
        "POSITIONAL_ONLY": "/",
        "POSITIONAL_OR_KEYWORD": "",
        "KEYWORD_ONLY": "*",
        "VAR_POSITIONAL": "args",
        "VAR_KEYWORD": "kwargs",
    }
    found = inspect.signature(target).parameters.values()
    return [(p.name, kinds[p.kind.name], p.default) for p in found if p.name not in ("self", "cls")]


def test_constants_and_literals() -> None:
    assert typing.get_args(otel_cassette.CassetteMode) == (
        "record",
        "strict",
        "lenient",
        "fallthrough",
    )
    assert typing.get_args(otel_cassette.EntryKind) == ("llm", "tool", "retrieval", "embedding")
    assert typing.get_args(otel_cassette.DivergenceReason) == (
        "request_changed",
        "tool_changed",
        "extra_call",
        "missing_call",
    )
    assert (otel_cassette.CASSETTE_FORMAT, otel_cassette.CASSETTE_VERSION) == ("otel-cassette", 1)
    assert (otel_cassette.DIVERGED_ATTR, otel_cassette.DIVERGENCE_ATTR) == (
        "replay_diverged",
        "replay_divergence",
    )
    assert (otel_cassette.DIFF_MAX_LINES, otel_cassette.DIFF_MAX_LINE_CHARS) == (200, 500)


OPTIONS = [
    ("metadata", None), ("match", "index"), ("kinds", None), ("ignore", ()), ("normalize", ()), ("redact", ...),
    ("record_errors", False), ("allow_unverified", False), ("allow_partial", False),
]  # fmt: skip


def _check(found: list[tuple[str, str, Any]], wanted: list[tuple[str, str, Any]]) -> None:
    """The wanted parameters, in order for positional ones; further keywords are welcome."""
    positional = [p for p in found if p[1] != "*"]
    assert [(n, k) for n, k, _ in positional] == [(n, k) for n, k, _ in wanted if k != "*"]
    by_name = {name: (kind, default) for name, kind, default in found}
    for name, kind, default in wanted:
        assert by_name[name][0] == kind, name
        if default is not ...:
            assert by_name[name][1] == default, name


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("Cassette", [("entries", "", ()), ("mode", "*", "record"), ("record_new", "*", False), *((n, "*", d) for n, d in OPTIONS)]),
        ("Cassette.load", [("path", "", EMPTY), ("mode", "*", "strict"), ("record_new", "*", False), *((n, "*", d) for n, d in OPTIONS)]),
        ("Cassette.from_trace", [("trace", "", EMPTY), ("mode", "*", "strict"), ("record_new", "*", False), ("trace_id", "*", None), ("merge", "*", False), *((n, "*", d) for n, d in OPTIONS)]),
        ("Cassette.save", [("path", "", EMPTY), ("provenance", "*", True)]),
        ("Cassette.entries_of", [("kind", "", EMPTY)]),
        ("Cassette.rewind", []),
        ("Cassette.wrap_llm", [("client", "", None), ("model", "*", None), ("provider", "*", None)]),
        ("Cassette.wrap_tool", [("fn", "/", None), ("name", "*", None), ("restore", "*", False), ("ignore_args", "*", ())]),
        ("Cassette.wrap_retriever", [("fn", "/", None), ("name", "*", None)]),
        ("Cassette.recording", [("path", "", None)]),
        ("Cassette.replaying", [("mode", "*", None), ("match", "*", "content"), ("kinds", "*", None), ("block_network", "*", False), ("allow_hosts", "*", ()), ("span", "*", True)]),
        ("CassetteLLM", [("cassette", "", EMPTY), ("client", "", None), ("model", "*", None), ("provider", "*", None)]),
        ("CassetteLLM.complete", [("request", "", EMPTY)]),
        ("CassetteLLM.acomplete", [("request", "", EMPTY)]),
        ("CassetteLLM.stream", [("request", "", EMPTY)]),
        ("CassetteLLM.astream", [("request", "", EMPTY)]),
        ("ReplayDivergence.create", [
            ("kind", "", EMPTY), ("index", "", EMPTY),
            *((n, "*", None) for n in ("expected_request", "actual_request", "expected_key", "actual_key", "expected_name", "actual_name", "mode", "span_id")),
            ("max_lines", "*", 200), ("max_line_chars", "*", 500), ("facts", "kwargs", EMPTY),
        ]),
        ("ReplayDivergence.summary", []),
        ("ReplayDivergence.to_dict", [("include_requests", "*", True)]),
        ("find_divergence", [("recorded", "", EMPTY), ("replayed", "", EMPTY), ("kind", "*", "llm")]),
        ("find_divergences", [("recorded", "", EMPTY), ("replayed", "", EMPTY), ("kind", "*", None), ("align", "*", True)]),
        ("request_diff", [
            ("expected", "", EMPTY), ("actual", "", EMPTY), ("expected_label", "*", "recorded"), ("actual_label", "*", "replayed"),
            ("present", "*", (True, True)), ("max_lines", "*", 200), ("max_line_chars", "*", 500),
        ]),
        ("tool_key", [("name", "", EMPTY), ("arguments", "", EMPTY)]),
        ("llm_key", [("request", "", EMPTY)]),
        ("CassetteFormatError", [("path", "", None), ("line", "", None), ("reason", "", "")]),
        ("RecordedCallError", [("type", "", EMPTY), ("message", "", EMPTY)]),
        ("CassetteMissError", [
            *((n, "*", EMPTY) for n in ("kind", "index", "mode", "expected", "actual_request", "actual_key")),
            ("actual_name", "*", None), ("divergence", "*", None),
        ]),
        ("wrap_llm", [("client", "", EMPTY), ("include_raw", "*", False)]),
        ("wrap_tool", [("fn", "/", None), ("name", "*", None)]),
    ],
)  # fmt: skip
def test_a_signature(path: str, wanted: list[tuple[str, str, Any]]) -> None:
    target: Any = otel_cassette
    for step in path.split("."):
        target = getattr(target, step)
    _check(parameters(target), wanted)


def test_compare_takes_two_recordings() -> None:
    assert [p[1:] for p in parameters(otel_cassette.compare)][:2] == [("", EMPTY), ("", EMPTY)]
    fields = {f.name for f in dataclasses.fields(otel_cassette.Comparison)}
    assert {"verdict", "divergences", "unverified"} <= fields


@pytest.mark.parametrize(
    "name",
    [
        "mode",
        "record_new",
        "metadata",
        "entries",
        "nested",
        "failures",
        "calls",
        "unplayed",
        "divergences",
        "first_divergence",
        "report",
    ],
)
def test_a_cassette_has(name: str) -> None:
    assert hasattr(otel_cassette.Cassette(), name)


def test_the_fields_of_a_divergence() -> None:
    fields = list(otel_cassette.ReplayDivergence.model_fields)
    assert fields[:13] == [
        "kind",
        "index",
        "reason",
        "mode",
        "expected_name",
        "actual_name",
        "expected_key",
        "actual_key",
        "expected_request",
        "actual_request",
        "diff",
        "diff_truncated",
        "span_id",
    ]
    assert {"fields", "scope", "cascade_of"} <= set(fields)


def test_the_fields_of_an_outcome() -> None:
    fields = [f.name for f in dataclasses.fields(otel_cassette.CallOutcome)]
    assert fields[:6] == ["kind", "index", "entry", "verdict", "flags", "scope"]


def test_the_fields_of_records() -> None:
    for name, wanted in {
        "CassetteEntry": "kind index key name request response error scope request_integrity response_integrity parent inferred latency_ms source",
        "CassetteHeader": "format version normalisation metadata",
        "LLMRequest": "operation provider model system_instructions messages tools tool_choice response_format params previous_response_id extra",
        "LLMResponse": "choices id model usage raw chunks ended_early",
    }.items():
        assert set(wanted.split()) <= set(getattr(otel_cassette, name).model_fields), name
        assert getattr(otel_cassette, name).model_config["frozen"], name


def test_the_family_of_errors() -> None:
    for name in ("CassetteFormatError", "CassetteMissError", "RecordedCallError"):
        assert issubclass(getattr(otel_cassette, name), otel_cassette.CassetteError)
    assert issubclass(otel_cassette.CassetteFormatError, ValueError)
    assert otel_cassette.CassetteError.__bases__ == (Exception,)


def test_sessions() -> None:
    assert issubclass(harness.StepType, str)
    assert issubclass(harness.StepType, enum.Enum)
    assert {s.name: s.value for s in harness.StepType} == {
        "TOOL_CALL": "tool_call",
        "LLM": "llm",
        "RETRIEVAL": "retrieval",
    }
    assert parameters(harness.Step) == [
        ("type", "", EMPTY),
        ("name", "", EMPTY),
        ("args", "", EMPTY),
        ("output", "", EMPTY),
        ("latency_ms", "", 0),
    ]
    fixture = parameters(harness.Fixture)
    assert [p[0] for p in fixture] == [
        "session_id",
        "query",
        "steps",
        "final_output",
        "expected",
        "schema_version",
    ]
    assert harness.Fixture("s", "q") == harness.Fixture("s", "q", [], None, {}, "1.2")
    assert [p[:2] for p in parameters(harness.Recorder)][:2] == [("session_id", ""), ("query", "")]
    for method in ("tool", "llm", "retrieval"):
        assert [p[0] for p in parameters(getattr(harness.Recorder, method))][:2] == ["name", "fn"]
        assert [p[0] for p in parameters(getattr(harness.MockLayer, method))][:1] == ["name"]
    assert parameters(harness.MockLayer)[0][:2] == ("fixture", "")
    assert ("mode", "*", "strict") in parameters(harness.MockLayer)
    assert parameters(harness.ReplayHarness)[0] == ("fixtures_dir", "", "fixtures")
    assert [p[0] for p in parameters(harness.ReplayHarness.replay)][:3] == [
        "session_id",
        "agent_factory",
        "evaluators",
    ]
    assert parameters(harness.ReplayHarness.replay)[2][2] is None
    assert issubclass(harness.ReplayError, RuntimeError)
    for name in ("to_json", "from_json", "from_trace", "to_cassette", "from_cassette"):
        assert callable(getattr(harness.Fixture, name))


def test_every_public_name_is_documented() -> None:
    for name in otel_cassette.__all__:
        target = getattr(otel_cassette, name)
        if inspect.isclass(target) or inspect.isfunction(target):
            assert inspect.getdoc(target), name
