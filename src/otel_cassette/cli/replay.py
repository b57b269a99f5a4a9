"""`otel-cassette replay`: an unmodified program, answered from a recording."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from otel_cassette.autostart.runfile import RunSettings, new_folder, started_at, write_run_file
from otel_cassette.cassette import Cassette
from otel_cassette.cli.arguments import (
    SOURCE_HELP,
    add_fail_on_divergence,
    add_ignore,
    add_match,
    add_run_choice,
)
from otel_cassette.cli.output import Output
from otel_cassette.cli.run_account import EXIT_CODES, ReplayAccount, account_of
from otel_cassette.cli.run_program import ProgramEnd, run_program
from otel_cassette.cli.run_report import nothing_started, print_account, print_strangers
from otel_cassette.document import check_writable, write_atomically
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.model.entry import KINDS
from otel_cassette.traces import is_cassette_file

EXIT_ERROR = 2
_MODES = ("strict", "lenient", "fallthrough")
_EPILOG = """The program runs unchanged, with its own OpenTelemetry set-up. A provider's key is not needed in the
modes strict and lenient. How it went is said on standard error when it has ended.

exit codes: the program's own; 2 when nothing could be replayed;
with --fail-on-divergence: 1 diverged, 3 cannot tell, and the program's own when identical"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "replay",
        help="run an unmodified program, answered from a recording",
        usage="otel-cassette replay [options] TRACE -- CMD [ARG ...]",
        description="Run a program with the answers of a cassette or an exported trace: no key, no network.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", metavar="TRACE", help=f"cassette file, or {SOURCE_HELP}")
    # Not REMAINDER: it would swallow the options between TRACE and --.
    parser.add_argument("command", nargs="+", metavar="CMD", help="-- and the program")
    parser.add_argument(
        "--mode",
        choices=_MODES,
        default="strict",
        help="what a call gets that departs from the recording: an error (strict, the default), the "
        "recorded answer all the same (lenient), or the real thing (fallthrough)",
    )
    add_match(parser)
    add_ignore(parser)
    parser.add_argument(
        "--kinds",
        type=_kinds,
        metavar="KIND,...",
        help=f"replay these only ({', '.join(KINDS)}), and let the others run for real",
    )
    parser.add_argument(
        "--tools",
        action="store_true",
        help="answer the tools of LangChain, pydantic-ai, OpenAI Agents and MCP sessions too, from "
        "the recording; without it the program's tools run for real",
    )
    _add_allowances(parser)
    parser.add_argument(
        "--report", metavar="FILE", help="also write how it went to this file, as JSON"
    )
    add_run_choice(parser)
    add_fail_on_divergence(parser)
    parser.set_defaults(run=run)


def _add_allowances(parser: argparse.ArgumentParser) -> None:
    """Add what a replay may do beyond the strict: answers it cannot vouch for, hosts it may reach."""
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="serve by place what the recording knows too little of to compare",
    )
    parser.add_argument(
        "--allow-partial",
        action="store_true",
        help="serve answers that were cut or redacted on their way into the trace",
    )
    parser.add_argument(
        "--block-network",
        action=argparse.BooleanOptionalAction,
        help="refuse every connection but those to this machine; on by default, unless --kinds leaves "
        "models or tools live or the mode is fallthrough",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="a host that may be reached all the same, or .DOMAIN; may be repeated",
    )


def _kinds(text: str) -> list[str]:
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        msg = f"{text!r}: must be of {', '.join(KINDS)}, separated by commas"
        raise argparse.ArgumentTypeError(msg)
    return kinds


def run(arguments: argparse.Namespace, _out: Output) -> int:
    """Run the command.

    Raises:
        CassetteFormatError: When TRACE is no recording, or holds several runs and none is named.
        CassetteError: When it holds no call, or the program cannot be run.
        CassetteWriteError: When the report cannot be written.
    """
    cassette = read_recording(arguments)
    folder = new_folder()
    try:
        return _replay(arguments, cassette, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_recording(arguments: argparse.Namespace) -> Cassette:
    """Return the recording that is to be replayed."""
    path = arguments.trace
    names = sorted(p.name for p in Path(path).glob("*.jsonl")) if Path(path).is_dir() else []
    if any(is_cassette_file(Path(path) / name) for name in names):
        msg = f"{path}: a folder of cassettes; name one of them: {', '.join(names[:3])}"
        raise CassetteError(msg + (", ..." if len(names) > 3 else ""))
    if is_cassette_file(path):
        if arguments.trace_id is not None:
            msg = f"{path}: a cassette holds one run; leave --trace-id out"
            raise CassetteError(msg)
        # The rules go into the header of the run's file, and so to every process.
        cassette = Cassette.load(path, ignore=arguments.ignore)
    else:
        try:
            cassette = Cassette.from_trace(
                path, trace_id=arguments.trace_id, merge=arguments.merge, ignore=arguments.ignore
            )
        except CassetteFormatError as error:
            reason = error.reason.replace("Accepted: ", "Accepted: a cassette; ", 1)
            raise CassetteFormatError(
                error.path, error.line, reason, report=error.report
            ) from error
    if not (cassette.entries or cassette.nested or cassette.failures):
        msg = (
            f"{path}: there is no call in it to replay: no LLM, tool, retrieval or embedding span of a known "
            "vocabulary. Was the instrumentation of the model's SDK on, and is it the right file?"
        )
        raise CassetteError(msg)
    return cassette


def _replay(arguments: argparse.Namespace, cassette: Cassette, folder: Path) -> int:
    if arguments.report and not _is_pipe(arguments.report):
        check_writable(arguments.report)
    # One file for all processes: the trace is read once, and nobody changes it meanwhile.
    recording = folder / "recording.jsonl"
    cassette.save(recording)
    settings = RunSettings(
        action="replay",
        parent_pid=os.getpid(),
        parent_started=started_at(os.getpid()),
        cassette=str(recording),
        source=str(cassette.metadata.get("trace_id") or arguments.trace),
        mode=arguments.mode,
        match=arguments.match,
        kinds=arguments.kinds,
        allow_unverified=arguments.allow_unverified,
        allow_partial=arguments.allow_partial,
        block_network=_blocks(arguments),
        allow_hosts=arguments.allow_host,
        tools=arguments.tools,
    )
    end = run_program(arguments.command, write_run_file(settings, folder))
    out = Output.for_stream(sys.stderr)
    if not end.has_started:
        nothing_started(out, end, "replay")
        return EXIT_ERROR
    account = account_of(cassette, end.reports, arguments.kinds)
    print_account(out, account, arguments.trace, settings)
    print_strangers(out, end)
    if arguments.report:
        _write_report(arguments.report, account, end)
    return _exit_code(arguments, account, end)


def _blocks(arguments: argparse.Namespace) -> bool:
    if arguments.block_network is not None:
        return bool(arguments.block_network)
    live = arguments.kinds is not None and not {"llm", "tool"} <= set(arguments.kinds)
    return not live and arguments.mode != "fallthrough"


def _exit_code(arguments: argparse.Namespace, account: ReplayAccount, end: ProgramEnd) -> int:
    if not arguments.fail_on_divergence:
        return end.exit_code
    # A program that fails although its calls are the recorded ones has failed all the same.
    return EXIT_CODES[account.verdict] or end.exit_code


def _write_report(path: str, account: ReplayAccount, end: ProgramEnd) -> None:
    data = {**account.to_json(), "exit_code": end.exit_code}
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if _is_pipe(path):
        Path(path).write_text(text, encoding="utf-8", errors="surrogatepass")
    else:
        write_atomically(path, [text])


def _is_pipe(path: str) -> bool:
    """Return whether a report goes to a pipe or a device, `/dev/stdout` for instance."""
    return Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir())
