"""The blocks of docs/transports.md run, in page order, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from otel_cassette.clients import CassetteInstrumentor

PAGE = Path(__file__).parents[2] / "docs" / "transports.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_runs_and_prints_what_the_page_says(provider, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    said = []
    try:
        for language, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if language == "text":
                said.append((printed, body))
                continue
            out = io.StringIO()
            before = names.get("client")
            with contextlib.redirect_stdout(out):
                exec(compile(body, PAGE.name, "exec"), names)
            if before is not None and names["client"] is not before:
                before.close()
            printed = out.getvalue()
    finally:
        CassetteInstrumentor().uninstrument()
        names["client"].close()
    assert [actual for actual, _ in said] == [expected for _, expected in said]
    assert len(said) == 3
    assert len(provider.requests) == 1
