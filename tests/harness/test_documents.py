"""The examples of the pages on sessions and redaction run, and print what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["sessions.md", "redaction.md"])
def test_the_examples_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page}
    printed = ""
    shown = 0
    for language, block in re.findall(
        r"^```(\w+)\n(.*?)^```$",
        (DOCS / page).read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    ):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block, page, "exec"), names)
            printed = output.getvalue()
        elif language == "text":
            assert printed == block
            shown += 1
    assert shown


def test_the_page_names_every_rule() -> None:
    from otel_cassette.redaction import DEFAULT_RULES

    page = (DOCS / "redaction.md").read_text(encoding="utf-8")
    assert [rule.name for rule in DEFAULT_RULES if f"`{rule.name}`" not in page] == []
