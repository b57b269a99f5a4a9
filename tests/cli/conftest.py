"""The command, run in this process or as its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_cassette.cli import main

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "data" / "traces"
RUNS = ROOT / "tests" / "data" / "traces-formats" / "runs"


@dataclass(frozen=True)
class Ran:
    """What a command gave."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command in this process; its output is no terminal."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(one) for one in arguments])
        except SystemExit as error:  # how argparse leaves
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Command:
    """Run `python -m otel_cassette` as its own process, in an empty folder."""

    def run(*arguments: str | Path, **env: str) -> Ran:
        inherited = {
            k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "HOME", "LANG")
        }
        done = subprocess.run(
            [sys.executable, "-m", "otel_cassette", *map(str, arguments)],
            cwd=tmp_path,
            env={**inherited, **env},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def traces() -> Path:
    """Recorded traces, one folder an instrumentation."""
    return TRACES


@pytest.fixture
def runs() -> Path:
    """Trace files with several runs each."""
    return RUNS
