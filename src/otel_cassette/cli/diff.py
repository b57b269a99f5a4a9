"""`otel-cassette diff`: where two recordings depart from each other."""

from __future__ import annotations

import argparse
from typing import Any

from otel_cassette.cli.arguments import (
    add_fail_on_divergence,
    add_ignore,
    add_json,
    add_match,
    add_run_choice,
)
from otel_cassette.cli.output import Output
from otel_cassette.cli.rendering import counted, print_divergences, print_warnings
from otel_cassette.formats import load_trace
from otel_cassette.model.entry import KINDS
from otel_cassette.traces import Comparison, compare, is_cassette_file

EXIT_CODES = {"identical": 0, "diverged": 1, "cannot_tell": 3}
_VERDICTS = {
    "identical": ("identical", "good"),
    "diverged": ("diverged", "bad"),
    "cannot_tell": ("cannot tell", "warn"),
}


def add_parser(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "diff",
        help="compare two recordings: cassettes, or exported traces",
        description="Say where a second recording departs from a first one. Each may be a cassette or an "
        "exported trace; compared is what both captured.",
    )
    parser.add_argument(
        "recorded", metavar="A", help="cassette file or exported trace: the recording"
    )
    parser.add_argument("replayed", metavar="B", help="likewise: what is held against it")
    parser.add_argument("--kind", choices=KINDS, help="compare calls of this kind only")
    add_ignore(parser)
    add_match(parser)
    add_run_choice(parser)
    parser.add_argument(
        "--replayed-trace-id", metavar="ID", help="the run of B; --trace-id is the one of A"
    )
    add_fail_on_divergence(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Run the command."""
    replayed: Any = arguments.replayed
    if arguments.replayed_trace_id is not None:
        replayed = load_trace(replayed, arguments.replayed_trace_id)
    comparison = compare(
        arguments.recorded,
        replayed,
        kind=arguments.kind,
        align=arguments.match == "content",
        trace_id=None if is_cassette_file(arguments.recorded) else arguments.trace_id,
        merge=arguments.merge,
        ignore=arguments.ignore,
    )
    if arguments.as_json:
        out.json(as_json(comparison))
    else:
        print_comparison(out, comparison)
    return EXIT_CODES[comparison.verdict] if arguments.fail_on_divergence else 0


def print_comparison(out: Output, comparison: Comparison) -> None:
    """Print the verdict, what was compared, the divergences, and what could not be verified."""
    verdict, style = _VERDICTS[comparison.verdict]
    causes = sum(divergence.is_first_cause for divergence in comparison.divergences)
    total = len(comparison.divergences)
    found = f", {counted(total, 'divergence')}" if total else ""
    if causes < total:
        found += f", {causes} of them {'a first cause' if causes == 1 else 'first causes'}"
    out.spans((verdict, style), f": {counted(comparison.compared, 'call')} compared{found}")
    for kind, scope in comparison.scopes.items():
        out.line(f"  {kind} compared on: {', '.join(scope)}", "dim")
    print_warnings(out, comparison.warnings)
    for unverified in comparison.unverified:
        out.spans(("  cannot tell  ", "warn"), str(unverified))
    if comparison.verdict == "cannot_tell" and not comparison.unverified:
        out.line("  there was no pair of calls to compare", "warn")
    print_divergences(out, comparison.divergences)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain JSON."""
    return {
        "verdict": comparison.verdict,
        "compared": comparison.compared,
        "scopes": {kind: list(scope) for kind, scope in comparison.scopes.items()},
        "divergences": [divergence.to_dict() for divergence in comparison.divergences],
        "unverified": [
            {"kind": one.kind, "index": one.index, "reason": one.reason}
            for one in comparison.unverified
        ],
        "warnings": list(comparison.warnings),
    }
