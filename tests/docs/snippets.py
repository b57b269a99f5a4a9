"""Fenced blocks of a Markdown page, and running them.

    ```python      run, in page order, all blocks of a page sharing their names
    ```console     lines after `$ ` are run in a shell; what follows them is their output
    ```text        directly after a python block: what that block prints
    ```json        parsed: one value, or one a line
    ```mermaid     a diagram
    ```traceql     asked of a real Tempo by tests/backends/test_tempo.py, which takes them from the page

A comment in front of a block changes that:

    <!-- output of: COMMAND -->       a text block: what the command prints
    <!-- shown, not run: REASON -->   anything else; REASON names what tests it, or why nothing can
    <!-- setup: COMMAND -->           anywhere: run in the shell at that place, not shown; $ROOT is
                                      the repository
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"^<!-- (?P<comment>.*?) -->\n+(?=^```)|^```(?P<language>\w*)\n(?P<body>.*?)^```$|^<!-- setup: (?P<setup>.*?) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: `line` is where it begins, `comment` what stands in front of it."""

    page: str
    line: int
    language: str
    body: str
    comment: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    """Return the fenced blocks of a page, set-up comments among them as the language `setup`."""
    text = path.read_text(encoding="utf-8")
    page = path.relative_to(ROOT).as_posix()
    blocks: list[Block] = []
    comment = ""
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["setup"]:
            blocks.append(Block(page, line, "setup", match["setup"]))
        elif match["comment"] is not None:
            comment = match["comment"]
            if comment.startswith("setup: "):
                blocks.append(Block(page, line, "setup", comment.removeprefix("setup: ")))
                comment = ""
        else:
            blocks.append(Block(page, line, match["language"], match["body"], comment))
            comment = ""
    return blocks


def shell(command: str) -> str:
    """Return what a command prints, both streams, with the scripts of this interpreter on PATH."""
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
        ),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ROOT": str(ROOT),
    }
    env.pop("FORCE_COLOR", None)
    # This interpreter's own package, installed or not.
    command = f'otel-cassette() {{ python -m otel_cassette "$@"; }}; {command}'
    done = subprocess.run(
        ["bash", "-c", command],
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def run_page(path: Path) -> list[str]:
    """Run the blocks of a page in the current folder; return what did not come out as it says."""
    names: dict[str, Any] = {"__name__": "__main__"}
    wrong: list[str] = []
    printed: str | None = None
    for block in blocks_of(path):
        if block.comment.startswith("shown, not run: "):
            printed = None
        elif block.language == "setup":
            shell(block.body)
        elif block.language == "python":
            printed = _python(block, names, wrong)
        elif block.language == "console":
            wrong += _console(block)
            printed = None
        elif block.language == "text":
            wanted = block.comment.removeprefix("output of: ")
            if wanted != block.comment:
                printed = shell(wanted)
            if printed is None or printed.strip("\n") != block.body.strip("\n"):
                wrong.append(f"{block.place}: says\n{block.body}\nbut this was printed:\n{printed}")
            printed = None
        elif block.language == "json":
            wrong += _json(block)
        elif block.language not in ("mermaid", "traceql"):
            wrong.append(f"{block.place}: a {block.language or 'nameless'} block that nothing runs")
    return wrong


def _python(block: Block, names: dict[str, Any], wrong: list[str]) -> str | None:
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * block.line + block.body, block.page, "exec"), names)
    except Exception:
        wrong.append(f"{block.place}: {traceback.format_exc()}")
    return output.getvalue()


def _json(block: Block) -> list[str]:
    decoder, rest = json.JSONDecoder(), block.body.strip()
    try:
        while rest:
            _, end = decoder.raw_decode(rest)
            rest = rest[end:].lstrip()
    except ValueError as error:
        return [f"{block.place}: {error}: {rest}"]
    return []


def _console(block: Block) -> list[str]:
    wrong = []
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        got = shell(command)
        if (
            re.sub(r"\d+\.\d\ds", "N s", got).strip()
            != re.sub(r"\d+\.\d\ds", "N s", expected).strip()
        ):
            wrong.append(f"{block.place}: {command}\nshould print\n{expected}\nbut printed\n{got}")
    return wrong


if __name__ == "__main__":
    failures = run_page(Path(sys.argv[1]))
    sys.stderr.write("\n\n".join(failures))
    sys.exit(bool(failures))
