"""Writes docs/corpus.md: what the recorded runs of the tests let one compare, measured.

    python tests/truth/page.py

Lives here: the page and its figures. Not here: what they should be (`test_strict_replay.py`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from corpus import FILES, cassette_of, live_call, recorded_truth

from otel_cassette import CassetteFormatError
from otel_cassette.engine import Comparer, Decision, Engine, Settings

PAGE = Path(__file__).parents[2] / "docs" / "corpus.md"
HEAD = """\
# Recorded runs, and what of them can be compared

Every run below is a program with a real instrumentation and a real SDK; what the provider got was written down beside
the spans. The spans are made a cassette (`from_trace`, merged), and the requests that were really sent go through their
wire codec to a strict replay, call after call. `python tests/truth/page.py` measures and writes this page; a test holds
it to what is measured today.

- *same*: the recorded call was found equal, and its answer, or its failure, came back.
- *no answer*: found equal, and the trace does not hold what was answered.
- *cannot tell*: the trace holds nothing of the request, so nothing is compared; strict says so and serves nothing.
- *not recorded*: the instrumentation made no span of the call (a stream that was left, `parse()`), the model never saw
  the tool's result, or a retriever's span has another name than the function that was called.

"""
WITHOUT_CONTENT = """
## Recorded without content

Reading these is an error that says which switch to set; every call of them is *cannot tell*.

"""
SCOPES = """
## Compared on

What all calls of a run had in common of that kind: see [scopes](scopes.md).

"""


@dataclass
class Row:
    """What a replay of one run came to."""

    counts: Counter[str] = field(default_factory=Counter)
    cannot_tell: Counter[str] = field(default_factory=Counter)
    scopes: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, decision: Decision, kind: str) -> None:
        self.counts[_column(decision)] += 1
        if decision.verdict == "cannot_tell":
            self.cannot_tell[kind] += 1
        elif decision.verdict == "identical" and decision.comparison is not None:
            scope = frozenset(decision.comparison.scope)
            self.scopes[kind] = self.scopes.get(kind, scope) & scope


def _column(decision: Decision) -> str:
    if decision.verdict == "cannot_tell":
        return "cannot tell"
    if decision.verdict != "identical":
        return "not recorded"
    return "no answer" if decision.action == "miss" else "same"


def measured() -> tuple[dict[str, Row], dict[str, str]]:
    """Replay every run; return the rows, and the remedy of each run that cannot be read."""
    rows: dict[str, Row] = {}
    unreadable: dict[str, str] = {}
    for run in sorted(FILES):
        try:
            cassette = cassette_of(run)
        except CassetteFormatError as error:
            unreadable[run] = error.report.remedies[0]
            continue
        records = [*cassette.entries, *cassette.nested, *cassette.failures]
        settings = Settings(mode="strict", match="content", play_failures=True)
        engine = Engine(records, settings, Comparer())
        row = rows[run] = Row()
        for call in recorded_truth(run, cassette):
            row.add(engine.decide(live_call(call)), call["kind"])
    return rows, unreadable


def page() -> str:
    """Return the page."""
    rows, unreadable = measured()
    names = _named_scopes(rows)
    columns = ("same", "no answer", "cannot tell", "not recorded")
    lines = [f"| run | {' | '.join(columns)} | compared on |", "|---|" + "---|" * 5]
    for run, row in rows.items():
        cells = [str(row.counts[column] or "") for column in columns]
        if row.cannot_tell:
            cells[2] = ", ".join(f"{n} {kind}" for kind, n in sorted(row.cannot_tell.items()))
        on = " ".join(names[kind, scope] for kind, scope in sorted(row.scopes.items()))
        lines.append(f"| {run} | {' | '.join(cells)} | {on} |")
    total = sum((row.counts for row in rows.values()), Counter[str]())
    lines.append(f"| all | {' | '.join(str(total[column]) for column in columns)} | |")
    without = [f"| {run} | {remedy} |" for run, remedy in unreadable.items()]
    scopes = [f"| {name} | {kind} | {_printed(scope)} |" for (kind, scope), name in names.items()]
    return "".join(
        (
            HEAD,
            "\n".join(lines),
            "\n",
            WITHOUT_CONTENT,
            "\n".join(["| run | to do |", "|---|---|", *without]),
            "\n",
            SCOPES,
            "\n".join(["| | kind | scope |", "|---|---|---|", *scopes]),
            "\n",
        )
    )


def _named_scopes(rows: dict[str, Row]) -> dict[tuple[str, frozenset[str]], str]:
    """Give each scope a short name: L1, L2, ... for model calls, T1 for tools."""
    found = sorted({item for row in rows.values() for item in row.scopes.items()}, key=_order)
    numbers: defaultdict[str, int] = defaultdict(int)
    names = {}
    for kind, scope in found:
        numbers[kind] += 1
        names[kind, scope] = f"{kind[0].upper()}{numbers[kind]}"
    return names


def _order(item: tuple[str, frozenset[str]]) -> tuple[str, int, list[str]]:
    kind, scope = item
    return kind, -len(scope), sorted(scope)


def _printed(scope: frozenset[str]) -> str:
    params = sorted(token.removeprefix("params/") for token in scope if "params/" in token)
    others = sorted(token for token in scope if "params/" not in token)
    named = [f"`params/` {{{', '.join(params)}}}"] if params else []
    return ", ".join([*(f"`{token}`" for token in others), *named])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
