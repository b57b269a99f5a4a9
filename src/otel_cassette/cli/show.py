"""`otel-cassette show`: what a cassette or an exported trace holds."""

from __future__ import annotations

import argparse
import re
from typing import Any

from otel_cassette.assemble import AssemblyReport
from otel_cassette.cassette import Cassette
from otel_cassette.cli.arguments import add_json, add_run_choice
from otel_cassette.cli.output import Output
from otel_cassette.cli.rendering import (
    call_label,
    call_name,
    compact,
    counted,
    doubts,
    print_calls,
    print_report,
    run_line,
)
from otel_cassette.document import Document, read_document
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.formats import candidate_of, read_traces
from otel_cassette.model.entry import KINDS, CassetteEntry, CassetteFailure
from otel_cassette.traces import is_cassette_file

Record = CassetteEntry | CassetteFailure
_CALL = re.compile(rf"(?P<kind>{'|'.join(KINDS)})[ #:]*(?P<index>\d+)")


def add_parser(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "show",
        help="look into a cassette or an exported trace",
        description="List the calls of a cassette or an exported trace; of a trace also say what can be "
        "replayed. A trace file with several runs gives a list of them.",
    )
    parser.add_argument("file", metavar="FILE", help="cassette file or exported trace")
    parser.add_argument(
        "--call", metavar="KIND#N", type=_call, help="one call in full, for instance llm#2"
    )
    add_run_choice(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def _call(text: str) -> tuple[str, int]:
    match = _CALL.fullmatch(text)
    if match is None:
        msg = f"{text!r}: a kind ({', '.join(KINDS)}) and a number, for instance llm#2"
        raise argparse.ArgumentTypeError(msg)
    return match["kind"], int(match["index"])


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Run the command."""
    if is_cassette_file(arguments.file):
        document = read_document(arguments.file)
        if arguments.call is not None:
            _show_call(out, document.records, arguments)
        else:
            _show_cassette(out, document, arguments)
        return 0
    if arguments.trace_id is None and not arguments.merge and _show_runs(out, arguments):
        return 0
    try:
        cassette = Cassette.from_trace(
            arguments.file, trace_id=arguments.trace_id, merge=arguments.merge
        )
    except CassetteFormatError as error:
        if not isinstance(error.report, AssemblyReport) or arguments.call is not None:
            raise
        _show_trace(out, arguments, error.report, [], {})
        return 0
    records: list[Record] = [*cassette.entries, *cassette.nested, *cassette.failures]
    if arguments.call is not None:
        _show_call(out, records, arguments)
    else:
        _show_trace(out, arguments, cassette.report, records, cassette.metadata)
    return 0


def _show_trace(
    out: Output,
    arguments: argparse.Namespace,
    report: AssemblyReport,
    records: list[Record],
    metadata: dict[str, Any],
) -> None:
    if arguments.as_json:
        calls = [_as_json(record) for record in records]
        out.json(
            {"type": "trace", "metadata": metadata, "calls": calls, "report": report.to_json()}
        )
        return
    print_report(out, report)
    print_calls(out, records)


def _show_cassette(out: Output, document: Document, arguments: argparse.Namespace) -> None:
    header = document.header
    if arguments.as_json:
        out.json(
            {
                "type": "cassette",
                "header": header.model_dump(mode="json"),
                "calls": [_as_json(record) for record in document.records],
            }
        )
        return
    count = sum(
        isinstance(record, CassetteEntry) and record.parent is None for record in document.records
    )
    out.line(f"{header.format} version {header.version}: {counted(count, 'call')}")
    for name, value in (
        ("metadata", header.metadata),
        ("ignore", list(header.ignore)),
        ("normalize", list(header.normalize)),
    ):
        if value:
            out.spans((f"  {name}  ", "dim"), compact(value))
    print_calls(out, document.records)


def _show_call(out: Output, records: list[Record], arguments: argparse.Namespace) -> None:
    kind, index = arguments.call
    for record in records:
        if isinstance(record, CassetteEntry) and (record.kind, record.index) == (kind, index):
            break
    else:
        count = sum(record.kind == kind for record in records)
        msg = f"{arguments.file}: there is no call {kind}#{index}; it holds {count} of kind {kind}"
        raise CassetteError(msg)
    if arguments.as_json:
        out.json(_as_json(record))
        return
    out.spans(
        call_label(record),
        "  ",
        (call_name(record), "field"),
        "  ",
        (", ".join(doubts(record)), "warn"),
    )
    out.line("request", "heading")
    out.json(record.request)
    out.line("response", "heading")
    out.json(record.response)


def _as_json(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude_defaults=True)


def _show_runs(out: Output, arguments: argparse.Namespace) -> bool:
    """List the runs of a trace file that holds several; False for a file with one."""
    runs = [candidate_of(trace) for trace in read_traces(arguments.file)]
    if len(runs) == 1:
        return False
    if arguments.call is not None:
        msg = f"holds {len(runs)} runs; choose one with --trace-id, or take all with --merge"
        raise CassetteFormatError(reason=msg, path=arguments.file, report=tuple(runs))
    if arguments.as_json:
        fields = ("trace_id", "trace_ids", "root", "service", "start_ns", "spans", "calls")
        out.json(
            {
                "type": "runs",
                "runs": [{name: getattr(run, name) for name in fields} for run in runs],
            }
        )
        return True
    out.line(f"{len(runs)} runs; see one with --trace-id, or all as one with --merge")
    for one in runs:
        out.line(f"  {run_line(one)}")
    return True
