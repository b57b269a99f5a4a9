"""A killed process loses no call that had finished."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kill_program.py")


@pytest.mark.parametrize(("how", "kills"), [("directory", 100), ("path", 100), ("wrapper", 50)])
def test_kills_at_random_moments(how: str, kills: int, tmp_path: Path) -> None:
    seed = 20261129
    done = subprocess.run(
        [sys.executable, str(PROGRAM), how, str(kills), str(seed), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == kills
    for number, row in enumerate(rows):
        finished, recovered = row["finished"], row["recovered"]
        assert recovered[: len(finished)] == finished, f"kill {number}, seed {seed}"
        # One more may have reached the disk before the program could say so.
        assert len(recovered) - len(finished) <= 1
        assert row["left"] == []
    # The kills fell at different moments: early, and after many calls.
    counts = sorted(len(row["finished"]) for row in rows)
    assert counts[0] < 20 < counts[-1]
