"""A line of a trace file that cannot be read: what stands beside it is used, and the loss is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, compare, read_traces


@pytest.fixture
def damaged(traces: Path, tmp_path: Path) -> Path:
    """A recorded run with a broken line after its first one."""
    whole = (traces / "otel-genai-anthropic" / "refund.otlp.jsonl").read_bytes()
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(whole.rstrip() + b'\n{"resourceSpans": [broken\n')
    return path


@pytest.mark.parametrize("name", ["from-trace", "show"])
def test_the_report_names_the_line(command: Any, damaged: Path, name: str) -> None:
    ran = command(name, damaged)
    assert ran.code == 0
    assert f"  warning  {damaged}: line 2 (from byte " in ran.out
    warnings = json.loads(command(name, damaged, "--json").out)["report"]["warnings"]
    assert len(warnings) == 1


def test_a_comparison_names_the_line(command: Any, damaged: Path, traces: Path) -> None:
    whole = traces / "otel-genai-anthropic" / "refund.otlp.jsonl"
    ran = command("diff", whole, damaged)
    assert ran.code == 0
    assert ran.out.count(f"  warning  {damaged}: line 2") == 1
    assert len(json.loads(command("diff", whole, damaged, "--json").out)["warnings"]) == 1
    assert "line 2" in compare(damaged, whole).warnings[0]
    assert compare(whole, whole).warnings == ()


def test_the_cassettes_report_has_it(damaged: Path) -> None:
    report = Cassette.from_trace(damaged).report
    assert "line 2" in report.warnings[0]
    assert report.warnings[0] in str(report)
    assert report.warnings == Cassette.from_trace(list(read_traces(damaged))).report.warnings
