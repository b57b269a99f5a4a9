"""Make `docs/img/demo.svg`, the picture in the README, from what the demo really prints.

    python scripts/make_demo_svg.py [FILE]

A test holds the text of the picture against the demo's, so run this again when the demo changes.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

os.environ.update(FORCE_COLOR="1", COLORTERM="truecolor", TERM="xterm-256color")

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import MONOKAI

from otel_cassette.cli import main

TARGET = Path(__file__).parents[1] / "docs" / "img" / "demo.svg"
WIDTH = 108
TITLE = "otel-cassette demo"
_REMOTE_FONTS = re.compile(r"\s*@font-face \{.*?\n    \}", re.DOTALL)


def demo() -> str:
    """Return what the demo prints, with its colours."""
    shown, real = io.StringIO(), sys.stdout
    sys.stdout = shown
    try:
        code = main(["demo"])
    finally:
        sys.stdout = real
    if code:
        msg = f"the demo exits with {code}"
        raise SystemExit(msg)
    return shown.getvalue()


def picture(text: str) -> str:
    """Return the SVG of coloured terminal text, without fonts from the network."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for line in AnsiDecoder().decode(text.rstrip("\n")):
        console.print(line)
    svg = console.export_svg(title=TITLE, theme=MONOKAI, unique_id="demo")
    return _REMOTE_FONTS.sub("", svg).rstrip() + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.write_text(picture(demo()), encoding="utf-8")
