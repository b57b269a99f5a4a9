"""Where a command's text goes: coloured in a terminal, plain when piped.

Lives here: styles and streams. Not here: what is printed (`rendering.py`).

`NO_COLOR` (https://no-color.org) takes the colours away, `FORCE_COLOR` keeps them in a pipe. Text out of
traces is untrusted: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import json
import os
import re
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# C0 without tab and newline, DEL, C1, and the characters that turn the direction of text around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

STYLES = {
    "heading": "bold",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "dim": "dim",
    "added": "green",
    "removed": "red",
    "hunk": "cyan",
    "field": "bold cyan",
}


def printable(text: str) -> str:
    """Return *text* with control characters written out."""
    return _CONTROL.sub(
        lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text
    )


class Output:
    """The lines of one command.

    Args:
        stream: Where they go.
        console: A rich console on it; None for plain text.
    """

    def __init__(self, stream: IO[str], console: Console | None = None) -> None:
        self._stream = stream
        self._console = console

    @classmethod
    def for_stream(cls, stream: IO[str]) -> Output:
        """Return the output for *stream*: styled for a terminal, else plain."""
        forced = bool(os.environ.get("FORCE_COLOR"))
        if bool(os.environ.get("NO_COLOR")) or not (stream.isatty() or forced):
            return cls(stream)
        from rich.console import Console  # noqa: PLC0415 - 50 ms that a pipe has no use for

        console = Console(file=stream, highlight=False, emoji=False, markup=False)
        return cls(stream, console if console.is_terminal else None)

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print one line, or several; *style* is a key of `STYLES`."""
        self.spans((text, style))

    def spans(self, *pieces: tuple[str, str | None] | str) -> None:
        """Print one line made of pieces, each with its style."""
        parts = [(piece, None) if isinstance(piece, str) else piece for piece in pieces]
        if self._console is None:
            self._stream.write("".join(printable(text) for text, _ in parts) + "\n")
            return
        from rich.text import Text  # noqa: PLC0415 - only with a console

        text = Text()
        for piece, style in parts:
            text.append(printable(piece), style=STYLES[style] if style else "")
        # Lines are neither wrapped nor cropped: what is copied out of a terminal is what was printed.
        self._console.print(text, soft_wrap=True)

    def diff(self, text: str, indent: str = "") -> None:
        """Print a unified diff."""
        for line in text.splitlines():
            self.line(f"{indent}{line}", _diff_style(line))

    def json(self, value: Any) -> None:
        """Print *value* as JSON; never styled, so that it can be parsed."""
        self._stream.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _diff_style(line: str) -> str | None:
    if line.startswith(("---", "+++")):
        return "heading"
    if line.startswith("@@"):
        return "hunk"
    if line.startswith("-"):
        return "removed"
    return "added" if line.startswith("+") else None
