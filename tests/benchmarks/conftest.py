"""One table for all benchmarks, printed at the end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figures

_FIGURES = Figures()


@pytest.fixture(scope="session")
def figures() -> Figures:
    return _FIGURES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FIGURES.rows:
        terminalreporter.section("figures")
        for row in _FIGURES.rows:
            terminalreporter.write_line(row)
