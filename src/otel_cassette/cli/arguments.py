"""Arguments that several commands share, so that they are spelt and explained alike.

Lives here: their definitions and the checks argparse calls. Not here: what they do.
"""

from __future__ import annotations

import argparse

from otel_cassette.keys import ComparisonRules

SOURCE_HELP = (
    "exported trace: OTLP JSON or protobuf, plain or compressed; a file, a folder or a glob. "
    "Log files (OTLP JSON) are joined when they are given too"
)


def add_run_choice(parser: argparse.ArgumentParser) -> None:
    """Add `--trace-id` and `--merge`: which run of a source with several is meant."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--trace-id", metavar="ID", help="the run, where the trace file holds several"
    )
    group.add_argument(
        "--merge", action="store_true", help="take all that the trace file holds as one run"
    )


def add_match(parser: argparse.ArgumentParser) -> None:
    """Add `--match`."""
    parser.add_argument(
        "--match",
        choices=("content", "index"),
        default="content",
        help="how calls find their recorded ones: any equal one (content, the default), or only the "
        "one at the same place (index)",
    )


def add_ignore(parser: argparse.ArgumentParser) -> None:
    """Add `--ignore`, whose pointers are checked before anything is read."""
    parser.add_argument(
        "--ignore",
        action="append",
        type=_pointer,
        default=[],
        metavar="POINTER",
        help="a field that is not compared: a JSON pointer into the request, * is one step, for instance "
        "/messages/*/parts/*/content; may be repeated",
    )


def _pointer(text: str) -> str:
    try:
        ComparisonRules([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument(
        "--json", action="store_true", dest="as_json", help="print JSON for programs"
    )


def add_fail_on_divergence(parser: argparse.ArgumentParser) -> None:
    """Add `--fail-on-divergence`."""
    parser.add_argument(
        "--fail-on-divergence",
        action="store_true",
        help="exit with 1 when the two differ, 3 when that cannot be told",
    )
