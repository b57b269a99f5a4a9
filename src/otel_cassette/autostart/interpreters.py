"""Which commands are Python interpreters, and which of them run no start-up code.

Lives here: reading a command line. Standard library only. Not here: what is done about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_PYTHON = re.compile(r"(python|pypy)[\d.]*(t|-dbg)?(\.exe)?")
_HIDING = {
    "I": "ignores the environment (-I)",
    "E": "ignores the environment (-E)",
    "S": "runs no start-up code (-S)",
}


def is_python(program: str) -> bool:
    """Return whether a program is a Python interpreter, by its name."""
    return _PYTHON.fullmatch(Path(program).name) is not None


def hiding_flag(command: Sequence[str]) -> str | None:
    """Return what a Python's flags say that keeps start-up code from running in it; None for nothing.

    Args:
        command: The program and its arguments.
    """
    if not command or not is_python(command[0]):
        return None
    arguments = iter(command[1:])
    for argument in arguments:
        if not argument.startswith("-") or argument.startswith("--") or argument == "-":
            return None
        for place, letter in enumerate(argument[1:], start=1):
            if letter in "cm":
                return None
            if letter in "WX":  # with a value, here or in the next argument
                if place == len(argument) - 1:
                    next(arguments, None)
                break
            if letter in _HIDING:
                return _HIDING[letter]
    return None
