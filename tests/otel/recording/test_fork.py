"""After a fork each process records for itself: its own spool, its own account."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("fork_program.py")


def run(how: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), how, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_in_a_directory(tmp_path: Path) -> None:
    found = run("directory", tmp_path)
    # One trace in two processes: each writes what it saw, and neither overwrites the other.
    assert sorted(found["own"].values()) == [["before", "parent"], ["child"]]
    assert found["recovered"] == {}
    assert found["left"] == []


def test_in_a_recording(tmp_path: Path) -> None:
    found = run("recording", tmp_path)
    assert found["own"] == {"run.jsonl": ["before", "parent"]}
    # The child was never to save; what it did is still there.
    assert found["recovered"] == {"run-2.jsonl": ["child", "same"]}
    assert found["left"] == []
