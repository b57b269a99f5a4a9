"""Terminal and pipe: styles, NO_COLOR, and text that must not reach a terminal as it is."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, CassetteEntry
from otel_cassette.cli.output import Output, printable

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def show(stream: io.StringIO) -> str:
    out = Output.for_stream(stream)
    out.spans(("diverged", "bad"), ": [bold]1 call[/bold] :smile:")
    out.diff("--- recorded\n+++ replayed\n@@ /a @@\n-old\n+new\n same")
    out.line("x" * 300)
    return stream.getvalue()


def test_a_terminal_gets_styles_and_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    piped, styled = show(io.StringIO()), show(Terminal())
    assert "\x1b" not in piped
    assert "\x1b[31m-old" in styled
    assert "\x1b[32m+new" in styled
    assert ESCAPES.sub("", styled) == piped
    assert "[bold]1 call[/bold] :smile:" in piped
    assert "x" * 300 in piped


def test_no_color_wins_over_a_terminal_and_over_force_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in show(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in show(Terminal())
    monkeypatch.setenv("NO_COLOR", "")  # https://no-color.org: when not an empty string
    assert "\x1b" in show(Terminal())


def test_control_characters_are_written_out() -> None:
    assert printable("a\x1b[2Jb\tc\nd\x9b\u202e") == "a\\x1b[2Jb\tc\nd\\x9b\\u202e"


def test_what_a_trace_says_cannot_command_the_terminal(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    Cassette(
        [CassetteEntry(kind="tool", index=0, name="a\x1b[31m", request={"x": "\x1b]0;t\x07"})]
    ).save(path)
    ran = command("show", path)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\\x1b[31m" in ran.out


def test_text_that_the_stream_cannot_encode_is_written_out(process: Any, traces: Path) -> None:
    source = traces / "otel-openai-v2" / "stream.otlp.jsonl"
    ran = process("show", source, PYTHONIOENCODING="ascii")
    assert ran.code == 0, ran.err
    assert "\\u20ac42.50" in ran.out


def test_a_pipe_does_not_wait_for_rich_or_the_sdk(process: Any, tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(
        "import sys\nfrom otel_cassette.cli import main\n"
        "sys.argv = ['otel-cassette', 'show', 'c.jsonl']\nmain()\n"
        "print(sorted(m for m in sys.modules if m in ('rich', 'opentelemetry.exporter.otlp.proto.http')))\n"
    )
    Cassette([CassetteEntry(kind="tool", index=0, name="t", request={})]).save(tmp_path / "c.jsonl")
    import subprocess

    done = subprocess.run(
        [sys.executable, "look.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]"
