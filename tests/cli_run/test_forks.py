"""What a forked process finds of the session: nothing that only its parent could let go."""

from __future__ import annotations

import subprocess


def test_a_fork_while_a_call_is_decided_leaves_the_child_able_to_ask(program):
    ran = subprocess.run(
        program("fork_in_the_middle"), capture_output=True, text=True, timeout=60, check=False
    )

    assert (ran.returncode, ran.stdout) == (0, "there"), ran.stderr
