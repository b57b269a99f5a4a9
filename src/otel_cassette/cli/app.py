"""The command line: its parser, and what becomes of errors.

Lives here: the list of commands, exit codes, one-line errors. Not here: what a command does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from otel_cassette.cli import demo, diff, from_trace, record, replay, show
from otel_cassette.cli.output import Output, printable
from otel_cassette.cli.rendering import run_line
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.formats import TraceCandidate

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
_LISTED_RUNS = 20
_EPILOG = """exit codes: 0 done; 2 wrong usage, or a file that cannot be used;
with --fail-on-divergence: 0 identical, 1 diverged, 3 cannot tell"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with every command."""
    parser = argparse.ArgumentParser(
        prog="otel-cassette",
        description="Record the calls of LLM agents, replay them offline, see where they depart.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"otel-cassette {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (demo, record, replay, from_trace, show, diff):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code: 0, 2 for an error, and with `--fail-on-divergence` 1 or 3. Wrong usage leaves
        by SystemExit(2), as argparse does.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # absent where a test or a notebook replaced the stream
            stream.reconfigure(errors="backslashreplace")
    arguments = make_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments, Output.for_stream(sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader left (`| head`). Python flushes stdout once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (CassetteError, OSError) as error:
        print(f"otel-cassette: error: {printable(explain(error))}", file=sys.stderr)  # noqa: T201 - the command's own output
        return EXIT_ERROR
    return code


def explain(error: BaseException) -> str:
    """Return what went wrong in the words of the command line: the place, why, what to do."""
    if isinstance(error, CassetteFormatError):
        candidates = error.report if isinstance(error.report, tuple) else ()
        if candidates and all(isinstance(one, TraceCandidate) for one in candidates):
            return _several_runs(error.path, candidates)
        return str(error)
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file; give a cassette or an exported trace"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    return str(error) or type(error).__name__


def _several_runs(path: str | None, candidates: Sequence[TraceCandidate]) -> str:
    lines = [f"  {run_line(one)}" for one in candidates[:_LISTED_RUNS]]
    if len(candidates) > _LISTED_RUNS:
        lines.append(f"  ... and {len(candidates) - _LISTED_RUNS} more")
    place = path or "the source"
    head = f"{place}: holds {len(candidates)} runs; choose one with --trace-id, or take all with --merge:"
    return "\n".join([head, *lines])


def _version() -> str:
    try:
        return version("otel-cassette")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"
