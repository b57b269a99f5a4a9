"""The table of a benchmark run: what was measured, against what, and the budget."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Figures:
    """Rows of the table; a missed budget fails the test that adds it."""

    rows: list[str] = field(default_factory=list)

    def add(
        self, name: str, measured: float, base: float, budget: float, *, unit: str = "us"
    ) -> None:
        """Enter one ratio and hold it against its budget."""
        ratio = measured / base
        self.rows.append(
            f"{name:<58} {measured:>12,.1f} {unit:<5} / {base:>12,.1f} = {ratio:5.2f}x  (budget {budget}x)"
        )
        assert ratio <= budget, self.rows[-1]

    def note(self, name: str, measured: float, *, unit: str = "us") -> None:
        """Enter a figure without a budget."""
        self.rows.append(f"{name:<58} {measured:>12,.1f} {unit}")
