"""How calls, reports and divergences read for a person.

Lives here: lines of text out of the library's records. Not here: colours and streams (`output.py`),
finding a divergence (`engine/`, `traces.py`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from otel_cassette.assemble import AssemblyReport
from otel_cassette.cli.output import Output
from otel_cassette.diff import DIFF_MAX_LINE_CHARS, DIFF_MAX_LINES, ReplayDivergence
from otel_cassette.engine import CallOutcome
from otel_cassette.formats import TraceCandidate
from otel_cassette.keys import llm_request, tool_request
from otel_cassette.model.entry import MODEL_KINDS, CassetteEntry, CassetteFailure

_PREVIEW_CHARS = 70
_MAX_FIELDS = 3
_GOT = {
    "served": "served from the recording",
    "live": "went live",
    "missed": "missed: no answer",
    "failure": "the recorded failure was raised",
}
_GOOD = frozenset({"replayable"})
_BAD = frozenset({"not_replayable", "missing", "unreadable", "unfinished", "collapsed"})


# -- calls ----------------------------------------------------------------------------------------


def call_label(call: CassetteEntry | CassetteFailure) -> str:
    """Return `llm #2`, or `tool (failed)` for a failed call, which has no index."""
    if isinstance(call, CassetteFailure):
        return f"{call.kind} (failed)"
    return f"{call.kind} #{call.index}"


def call_name(call: CassetteEntry | CassetteFailure) -> str:
    """Return the tool's name, or the model's."""
    if call.name is not None:
        return call.name
    request = call.request if isinstance(call.request, dict) else {}
    return str(request.get("model") or "-")


def call_text(call: CassetteEntry | CassetteFailure) -> str:
    """Return in a few words what was asked and answered."""
    if isinstance(call, CassetteFailure):
        return short(f"{call.error.type}: {call.error.message}")
    answer = answer_text(call)
    if call.kind in MODEL_KINDS:
        return short(answer)
    arguments = call.request if isinstance(call.request, dict) else {"": call.request}
    asked = ", ".join(f"{name}={compact(value)}" for name, value in arguments.items())
    return short(f"({asked}) -> {answer}")


def answer_text(call: CassetteEntry) -> str:
    """Return an answer in one line: a model's text or its tool calls, anything else as JSON."""
    if call.kind == "embedding":
        vectors = (call.response or {}).get("embeddings")
        return f"{len(vectors)} vectors" if isinstance(vectors, list) else "-"
    if call.kind != "llm" or call.opaque:
        return compact(call.response)
    response = call.llm_response
    calls = [f"{tool.name}({_arguments(tool.arguments)})" for tool in response.tool_calls]
    return " ".join([*([response.text] if response.text else []), *calls]) or "-"


def tools_asked_for(entries: Iterable[CassetteEntry]) -> int:
    """Return how many tool calls the models' answers ask for."""
    return sum(
        len(entry.llm_response.tool_calls)
        for entry in entries
        if entry.kind == "llm" and entry.is_playable and not entry.opaque
    )


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def compact(value: Any) -> str:
    """Return plain JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def counted(number: int, noun: str) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short(text: str, limit: int = _PREVIEW_CHARS) -> str:
    """Return *text* as one line of at most *limit* characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def print_calls(
    out: Output, calls: Iterable[CassetteEntry | CassetteFailure], indent: str = "  "
) -> None:
    """Print one line a call: kind and index, name, what was asked and answered, what is doubtful."""
    rows = [
        (call_label(call), call_name(call), call_text(call), ", ".join(doubts(call)))
        for call in calls
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    for label, name, text, doubt in rows:
        out.spans(
            f"{indent}{label:<{widths[0]}}  ",
            (f"{name:<{widths[1]}}", "field"),
            f"  {text}",
            (f"  [{doubt}]" if doubt else "", "warn"),
        )


def print_outcomes(out: Output, outcomes: Iterable[CallOutcome], indent: str = "  ") -> None:
    """Print one line a replayed call: its verdict, and what it got."""
    for outcome in outcomes:
        entry = outcome.entry
        name = "-" if entry is None else call_name(entry)
        got = next(
            (flag for flag in ("live", "missed", "failure") if flag in outcome.flags), "served"
        )
        other = [flag for flag in outcome.flags if flag != got]
        style = "good" if outcome.verdict == "identical" else "bad"
        out.spans(
            f"{indent}{outcome.kind:<4} #{outcome.index}  ",
            (f"{name:<12}", "field"),
            "  ",
            (f"{outcome.verdict.replace('_', ' '):<11}", style),
            f"  {_GOT[got]}",
            (f"  [{', '.join(other)}]" if other else "", "warn"),
        )


def doubts(call: CassetteEntry | CassetteFailure) -> list[str]:
    """Return what a reader has to know of a call: what is cut, inferred, or made inside another."""
    found = []
    if call.request_integrity != "whole":
        found.append(f"request {call.request_integrity}")
    if isinstance(call, CassetteEntry) and call.response_integrity != "whole":
        found.append(f"answer {call.response_integrity}")
    if call.inferred:
        found.append("inferred")
    if call.parent is not None:
        found.append(f"inside {call.parent.kind} #{call.parent.index}")
    return found


# -- reports --------------------------------------------------------------------------------------


def print_report(out: Output, report: AssemblyReport) -> None:
    """Print how many spans can be replayed, why the others cannot, and what to set."""
    counts = ", ".join(
        f"{count} {status.replace('_', ' ')}" for status, count in report.counts.items()
    )
    inferred = sum(line.inferred for line in report)
    more = f" ({inferred} of them inferred from later requests)" if inferred else ""
    out.line(f"{counted(report.spans, 'span')}: {counts or 'no call among them'}{more}")
    print_warnings(out, report.warnings)
    for line in report:
        if line.status in _GOOD and not line.notes:
            continue
        style = "bad" if line.status in _BAD else "dim"
        # What to do is often the same for all of them: it is said once, below.
        out.line(f"  {replace(line, remedy=None)}", style)
    for remedy in report.remedies:
        out.spans(("  to do  ", "warn"), remedy)


def print_warnings(out: Output, warnings: Iterable[str]) -> None:
    """Print what reading a source had to leave out."""
    for warning in warnings:
        out.spans(("  warning  ", "warn"), warning)


def run_line(run: TraceCandidate) -> str:
    """Return one run of a trace file: its id, when it began (UTC), whose it was, and its calls."""
    began = datetime.fromtimestamp(run.start_ns // 10**9, tz=timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%S"
    )
    more = f" and {counted(len(run.trace_ids) - 1, 'trace')} more" if len(run.trace_ids) > 1 else ""
    held = f"{counted(run.calls, 'call')} in {counted(run.spans, 'span')}"
    return f"{run.trace_id}{more}  {began}  {held}  {run.service or '-'}: {short(run.root)}"


# -- divergences ----------------------------------------------------------------------------------


def print_divergences(out: Output, divergences: Sequence[ReplayDivergence]) -> None:
    """Print every first cause with its diff, and one line for each that only follows from one."""
    follow: dict[str, list[ReplayDivergence]] = {}
    seen: dict[str, str] = {}
    for divergence in divergences:
        if divergence.cascade_of is not None:
            follow.setdefault(divergence.cascade_of, []).append(divergence)
            continue
        out.line()
        shown = divergence_diff(divergence)
        body = _changes(shown)
        out.spans(("x ", "bad"), (divergence.summary(), "bad"))
        if divergence.note:
            out.line(f"  {divergence.note}", "dim")
        if body and body in seen:
            out.line(f"  the same change as in {seen[body]}", "dim")
            continue
        seen.setdefault(body, f"{divergence.kind} call #{divergence.index}")
        out.diff(shown, indent="  ")
    for cause, later in follow.items():
        out.line()
        out.spans(
            ("  follows from ", "dim"), (cause, "field"), ("; not causes of their own:", "dim")
        )
        for divergence in later:
            out.line(f"    {divergence.summary().partition('; follows from')[0]}", "dim")


def divergence_diff(divergence: ReplayDivergence) -> str:
    """Return the diff of a divergence as a person reads it.

    A changed text is shown line by line, whatever its place in the request; where a side has no call,
    or what changed is no text, it is the diff of the canonical requests.
    """
    sides = _canonical_sides(divergence)
    if sides is None or not divergence.fields:
        return divergence.diff
    parts: list[str] = []
    for pointer in divergence.fields[:_MAX_FIELDS]:
        before, after = (_at(side, pointer) for side in sides)
        if not (isinstance(before, str) and isinstance(after, str)):
            return divergence.diff
        parts += _text_diff(pointer, before, after)
    if len(divergence.fields) > _MAX_FIELDS:
        parts.append(f"... and {len(divergence.fields) - _MAX_FIELDS} more fields")
    return "\n".join(["--- recorded", "+++ replayed", *parts])


def _canonical_sides(divergence: ReplayDivergence) -> tuple[Any, Any] | None:
    if divergence.reason != "request_changed":
        return None
    sides = []
    for name, request in (
        (divergence.expected_name, divergence.expected_request),
        (divergence.actual_name, divergence.actual_request),
    ):
        if divergence.kind in MODEL_KINDS and name is None:
            if not isinstance(request, dict):
                return None
            sides.append(llm_request(request, kind=divergence.kind).fields)
        else:
            sides.append(tool_request(name or "", request, kind=divergence.kind).fields)
    return sides[0], sides[1]


def _at(value: Any, pointer: str) -> Any:
    """Return what a JSON pointer (RFC 6901) points to; None where there is nothing."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list | tuple) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def _text_diff(pointer: str, before: str, after: str) -> list[str]:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    shown = [
        line if len(line) <= DIFF_MAX_LINE_CHARS else f"{line[: DIFF_MAX_LINE_CHARS - 3]}..."
        for line in lines[:DIFF_MAX_LINES]
    ]
    if len(lines) > DIFF_MAX_LINES:
        shown.append(f"... ({len(lines) - DIFF_MAX_LINES} more diff lines)")
    return [f"@@ {pointer} @@" if line.startswith("@@") else line for line in shown]


def _changes(diff: str) -> str:
    """Return only what was taken out and put in, to know the same change again."""
    lines = diff.splitlines()[2:]
    return "\n".join(line for line in lines if line.startswith(("-", "+")))
