"""`otel-cassette record`: an unmodified program, its calls recorded."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from otel_cassette.autostart.recording import PREFIX
from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.autostart.runfile import RunSettings, new_folder, started_at, write_run_file
from otel_cassette.cli.output import Output
from otel_cassette.cli.recorded import join_documents, read_recorded
from otel_cassette.cli.rendering import counted, print_calls, tools_asked_for
from otel_cassette.cli.run_program import ProgramEnd, run_program
from otel_cassette.cli.run_report import nothing_started, print_strangers
from otel_cassette.cli.targets import check_target
from otel_cassette.document import FileClaim, write_atomically, write_lines
from otel_cassette.model.entry import CassetteEntry, CassetteFailure

EXIT_ERROR = 2
_SHOWN_CALLS = 20
_SHOWN_FAILURES = 3
_EPILOG = """The program runs unchanged, with its own OpenTelemetry set-up. What was recorded is said on standard
error when it has ended.

exit codes: the program's own; 2 when nothing was recorded"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "record",
        help="run an unmodified program and record its calls",
        usage="otel-cassette record [-o FILE] -- CMD [ARG ...]",
        description="Run a program and record its calls into a cassette: what passes through httpx2, httpx and "
        "requests to a model's API, and what its OpenTelemetry spans tell.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the cassette; an existing file is replaced. Default: named after the program, in the "
        "current folder, for instance my_agent.cassette.jsonl",
    )
    parser.add_argument("command", nargs="+", metavar="CMD", help="-- and the program")
    parser.set_defaults(run=run)


def default_output(command: Sequence[str]) -> str:
    """Return the cassette's name where none is given: that of the first script, else the program's."""
    script = next((part for part in command if part.endswith(".py")), None)
    if script is None and "-m" in command[:-1]:
        script = command[list(command).index("-m") + 1]
    stem = Path(script or command[0]).name
    return f"{stem.removesuffix('.py')}.cassette.jsonl"


def run(arguments: argparse.Namespace, _out: Output) -> int:
    """Run the command.

    Raises:
        CassetteWriteError: When the file cannot be written.
        CassetteError: When the program cannot be run.
    """
    folder = new_folder()
    try:
        return _record(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _record(arguments: argparse.Namespace, folder: Path) -> int:
    settings = RunSettings(
        action="record", parent_pid=os.getpid(), parent_started=started_at(os.getpid())
    )
    target = arguments.output or default_output(arguments.command)
    run_file = write_run_file(settings, folder)
    out = Output.for_stream(sys.stderr)
    # Before the program runs: what cannot be written, or is written already, is told before it costs money.
    with FileClaim(target):
        check_target(target)
        end = run_program(arguments.command, run_file)
        if not end.has_started:
            nothing_started(out, end, "record")
            return EXIT_ERROR
        header, records = join_documents(read_recorded(run_file, end.reports, PREFIX))
        entries = [each for each in records if isinstance(each, CassetteEntry)]
        if not entries:
            _print_nothing(out, records, end, target)
            return EXIT_ERROR
        write_atomically(target, write_lines(header, records, provenance=True))
    _print_recorded(out, records, end, target)
    return end.exit_code


def _print_recorded(
    out: Output, records: Sequence[CassetteEntry | CassetteFailure], end: ProgramEnd, target: str
) -> None:
    entries = [each for each in records if isinstance(each, CassetteEntry)]
    kinds = Counter(each.kind for each in entries)
    text = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    out.spans(
        "otel-cassette: ",
        (f"recorded {counted(len(entries), 'call')} ({text}) in {target}", "good"),
    )
    print_calls(out, records[:_SHOWN_CALLS])
    if len(records) > _SHOWN_CALLS:
        out.line(f"  ... and {len(records) - _SHOWN_CALLS} more; see otel-cassette show", "dim")
    for warning in gaps(end.reports, records):
        out.line(f"  {warning}", "warn")
    print_strangers(out, end)
    if end.exit_code:
        out.line(f"  the program ended with exit code {end.exit_code}", "warn")


def gaps(
    reports: Sequence[ProcessReport], records: Sequence[CassetteEntry | CassetteFailure]
) -> list[str]:
    """Return what was seen of calls that the recording lacks, one sentence each."""
    found = []
    wire = sum(each.facts.get("at_the_wire", len(each.calls)) for each in reports)
    if wire > len(records):
        found.append(
            f"{counted(wire, 'call')} passed, {len(records)} are recorded: "
            f"{wire - len(records)} are missing from the cassette"
        )
    unread = Counter[str]()
    for each in reports:
        unread.update(each.facts.get("unread", {}))
    found += [
        f"{counted(count, 'request')} to {place} passed unrecorded: no codec reads it"
        for place, count in unread.items()
    ]
    found += _unanswered(records)
    found += _without_result(records)
    for each in reports:
        if each.status == "running":
            found.append(
                f"process {each.pid} was killed or still runs: what it had finished by then is recorded"
            )
        found += each.notes
    if not wire:
        found += _other_clients(reports)
    return found


def _unanswered(records: Sequence[CassetteEntry | CassetteFailure]) -> list[str]:
    found = [each for each in records if isinstance(each, CassetteEntry) and not each.is_playable]
    if not found:
        return []
    why = ", ".join(sorted({each.response_integrity for each in found}))
    text = (
        f"{counted(len(found), 'call')} cannot be replayed: the answer is not known ({why}). Is the content "
        "capture of the instrumentation on?"
    )
    return [text]


def _without_result(records: Sequence[CassetteEntry | CassetteFailure]) -> list[str]:
    tools = [each for each in records if each.kind == "tool"]
    if not all(each.inferred for each in tools):
        return []  # spans or an integration told of them
    asked = tools_asked_for(each for each in records if isinstance(each, CassetteEntry))
    missing = asked - len(tools)
    if missing <= 0:
        return []
    text = (
        f"the model asked for {counted(asked, 'tool call')}, the results of {missing} are not in the "
        "recording: no later request tells of them. In a replay nothing can answer those"
    )
    return [text]


def _other_clients(reports: Sequence[ProcessReport]) -> list[str]:
    hosts = sorted({host for each in reports for host in each.facts.get("hosts", ())})
    if not hosts:
        return []
    names = ", ".join(hosts)
    return [
        f"{names}: reached by another client than httpx2, httpx or requests; recorded is what spans tell of it"
    ]


def _print_nothing(
    out: Output,
    records: Sequence[CassetteEntry | CassetteFailure],
    end: ProgramEnd,
    target: str,
) -> None:
    """Print why there is no recording."""
    out.spans(
        ("otel-cassette: error: ", "bad"),
        f"no call was recorded, and {target} was not written (the program's exit code: {end.exit_code})",
    )
    failures = [each for each in records if isinstance(each, CassetteFailure)]
    if failures:
        out.line(f"  {counted(len(failures), 'call')} failed, none succeeded:", "warn")
        for each in failures[:_SHOWN_FAILURES]:
            out.line(f"    {each.error.type}: {each.error.message}", "warn")
    else:
        out.line(
            "  no request to a model's API passed through httpx2, httpx or requests, and no span of an LLM, "
            "tool, retrieval or embedding call ended",
            "warn",
        )
    spans = sum(each.facts.get("spans", 0) for each in end.reports)
    providers = sum(each.facts.get("providers", 0) for each in end.reports)
    if not providers:
        out.line("  the program made no OpenTelemetry tracer provider", "dim")
    else:
        out.line(f"  of its OpenTelemetry spans {spans} were looked at", "dim")
    for text in gaps(end.reports, records):
        out.line(f"  {text}", "warn")
    print_strangers(out, end)
