"""Comparing keeps to the rules that a cassette was made with, and shows no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, CassetteEntry, CassetteError, compare

KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 2


def tool_trace(number: int) -> dict[str, Any]:
    """Return a trace of one hand-made tool span whose arguments hold a provider key."""
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "tool_call lookup",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": [
            {"key": "input", "value": {"stringValue": json.dumps({"token": KEY, "page": number})}},
            {"key": "output", "value": {"stringValue": "ok"}},
        ],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def tool_entry(day: str) -> CassetteEntry:
    return CassetteEntry(kind="tool", index=0, name="lookup", request={"day": day}, response="ok")


def test_no_secret_of_a_trace_stands_in_a_divergence() -> None:
    comparison = compare(tool_trace(1), tool_trace(2))
    assert [d.fields for d in comparison.divergences] == [("/arguments/page",)]
    (divergence,) = comparison.divergences
    assert KEY not in json.dumps(divergence.to_dict())
    assert "<redacted:openai-key>" in divergence.diff


def test_redaction_makes_no_divergence_between_a_cassette_and_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    Cassette.from_trace(tool_trace(1)).save(path)
    assert compare(path, tool_trace(1)).verdict == "identical"
    assert compare(tool_trace(1), path).verdict == "identical"
    assert compare(Cassette.load(path), tool_trace(1)).verdict == "identical"


def test_a_cassette_without_redaction_is_compared_without(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    Cassette.from_trace(tool_trace(1), redact=()).save(path)
    assert KEY in path.read_text()
    assert compare(path, tool_trace(1)).verdict == "identical"


@pytest.mark.parametrize(
    "rules",
    [{"ignore": ["/arguments/day"]}, {"normalize": [(r"\d{4}-\d\d-\d\d", "DAY")]}],
    ids=["ignore", "normalize"],
)
def test_rules_of_the_header_are_in_force(
    command: Any, tmp_path: Path, rules: dict[str, Any]
) -> None:
    before, after = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    Cassette([tool_entry("2026-11-28")], **rules).save(before)
    Cassette([tool_entry("2026-11-29")]).save(after)
    assert compare(before, after).verdict == "identical"
    assert compare(after, before).verdict == "identical"
    assert compare(Cassette.load(before), Cassette.load(after)).verdict == "identical"
    assert command("diff", before, after, "--fail-on-divergence").code == 0


def test_a_rule_that_is_a_function_has_to_be_given(command: Any, tmp_path: Path) -> None:
    def without_day(request: dict[str, Any]) -> dict[str, Any]:
        return {**request, "arguments": {}}

    path = tmp_path / "c.jsonl"
    Cassette([tool_entry("2026-11-28")], normalize=[without_day]).save(path)
    ran = command("diff", path, path)
    assert ran.code == 2
    assert f"{path}: the cassette was recorded with the normalizing function" in ran.err
    with pytest.raises(CassetteError, match="without_day"):
        compare(path, path)
    other = Cassette([tool_entry("2026-11-29")])
    assert compare(path, other, normalize=[without_day]).verdict == "identical"
