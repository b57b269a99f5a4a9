"""Every page's examples run and print what the page says; every relative link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNIPPETS = Path(__file__).parent / "snippets.py"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
ALL_PAGES = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
_LINK = re.compile(r"!?\[[^\]\n]*\]\((?P<target>[^)\s]+)\)|<img[^>]*\ssrc=\"(?P<image>[^\"]+)\"")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    # A process of its own: a program sets its tracer provider once.
    folder = tmp_path / "work"
    folder.mkdir()
    # A copy, since the examples write their recordings beside themselves.
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SNIPPETS), str(page)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for match in _LINK.finditer(text):
        target = match["target"] or match["image"]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = page if not path else (page.parent / path).resolve()
        if not found.exists():
            broken.append(target)
        elif anchor and found.suffix == ".md" and anchor not in anchors_of(found):
            broken.append(f"{target} (no such heading)")
    assert broken == []


def test_every_page_can_be_reached_from_the_index() -> None:
    reached = {ROOT / "docs" / "index.md"}
    todo = list(reached)
    while todo:
        page = todo.pop()
        for target in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8")):
            found = (page.parent / target).resolve()
            if found.is_file() and found not in reached and ROOT / "docs" in found.parents:
                reached.add(found)
                todo.append(found)
    everything = set((ROOT / "docs").glob("*.md")) | set((ROOT / "docs" / "decisions").glob("*.md"))
    assert sorted(map(name_of, everything - reached)) == []


def test_what_is_not_run_says_why() -> None:
    for page in PAGES:
        for comment in re.findall(
            r"<!-- (shown, not run:.*?) -->", page.read_text(encoding="utf-8")
        ):
            assert len(comment.removeprefix("shown, not run:").split()) >= 3, f"{page}: {comment}"
