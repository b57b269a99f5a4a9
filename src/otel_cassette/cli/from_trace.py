"""`otel-cassette from-trace`: a cassette out of an exported trace, and what of it can be replayed."""

from __future__ import annotations

import argparse
from typing import Any

from otel_cassette.cassette import Cassette
from otel_cassette.cli.arguments import SOURCE_HELP, add_json, add_run_choice
from otel_cassette.cli.output import Output
from otel_cassette.cli.rendering import counted, print_calls, print_report
from otel_cassette.cli.targets import check_target
from otel_cassette.errors import CassetteFormatError


def add_parser(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "from-trace",
        help="make a cassette of an exported trace",
        description="Make a cassette of the calls in an exported trace, and say of every call span whether it "
        "can be replayed, or why not and what to set. Without -o nothing is written.",
    )
    parser.add_argument("source", nargs="+", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the cassette here; an existing file is replaced",
    )
    parser.add_argument(
        "--no-provenance",
        action="store_false",
        dest="provenance",
        help="leave out ids, times and latencies, which change on every recording",
    )
    add_run_choice(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Run the command.

    Raises:
        CassetteFormatError: When the source is no trace, holds no call span or none that can be played,
            or several runs of which none is named.
    """
    if arguments.output:
        check_target(arguments.output)
    sources = arguments.source
    source = sources[0] if len(sources) == 1 else sources
    cassette = Cassette.from_trace(source, trace_id=arguments.trace_id, merge=arguments.merge)
    report = cassette.report
    if not any(line.kind is not None for line in report):
        reason = (
            f"no call among the {report.spans} spans: no LLM, tool, retrieval or embedding span of a known "
            "vocabulary. Is the instrumentation of the model's SDK on, and was it the right file?"
        )
        raise CassetteFormatError(reason=reason, path=" ".join(sources), report=report)
    if arguments.output:
        cassette.save(arguments.output, provenance=arguments.provenance)
    if arguments.as_json:
        out.json(
            {
                "cassette": arguments.output,
                "entries": len(cassette.entries),
                "report": report.to_json(),
            }
        )
        return 0
    print_report(out, report)
    print_calls(out, [*cassette.entries, *cassette.nested, *cassette.failures])
    if arguments.output:
        out.line(f"{counted(len(cassette.entries), 'call')} in {arguments.output}", "good")
    else:
        out.line("nothing written: add -o FILE for the cassette", "dim")
    return 0
