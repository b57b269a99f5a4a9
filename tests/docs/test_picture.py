"""The picture in the README shows what the demo prints today."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "img" / "demo.svg"
_TEXT = re.compile(
    r'<text class="(?P<class>[^"]*)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)"[^>]*>(?P<text>[^<]*)</text>'
)


def lines_of(svg: str) -> list[str]:
    """Return the lines of text in a picture of a terminal, without its title and without spaces."""
    rows: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for match in _TEXT.finditer(svg):
        if "title" not in match["class"]:
            rows[float(match["y"])].append((float(match["x"]), html.unescape(match["text"])))
    return ["".join("".join(t for _, t in sorted(rows[y])).split()) for y in sorted(rows)]


def test_the_picture_is_of_today() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "otel_cassette", "demo"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    printed = ["".join(line.split()) for line in done.stdout.splitlines()]
    shown = lines_of(PICTURE.read_text(encoding="utf-8"))
    again = "run `python scripts/make_demo_svg.py`"
    assert [line for line in shown if line] == [line for line in printed if line], again


def test_the_picture_needs_nothing_from_the_network() -> None:
    addresses = set(re.findall(r"https?://[^\s\"')]+", PICTURE.read_text(encoding="utf-8")))
    assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
