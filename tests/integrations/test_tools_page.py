"""The blocks of docs/tools.md run, in page order, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from otel_cassette.integrations import langchain, pydantic_ai

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_runs_and_prints_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = BLOCK.findall((ROOT / "docs" / "tools.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    said = []
    try:
        for language, body in blocks:
            if language == "text":
                said.append((printed, body))
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "docs/tools.md", "exec"), names)
            printed = out.getvalue()
    finally:
        langchain.uninstrument()
        pydantic_ai.uninstrument()
    assert [actual for actual, _ in said] == [expected for _, expected in said]
    assert len(said) == 2
