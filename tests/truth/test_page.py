"""docs/corpus.md says what is measured today."""

from __future__ import annotations

from page import PAGE, page


def test_the_page_is_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/truth/page.py"
