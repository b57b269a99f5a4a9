"""What is said at the end of a recorded or replayed program, on standard error.

Lives here: its lines. Not here: adding up (`run_account.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.autostart.runfile import RunSettings
from otel_cassette.cli.output import Output
from otel_cassette.cli.rendering import counted, print_divergences, short
from otel_cassette.cli.run_account import ReplayAccount
from otel_cassette.cli.run_program import ProgramEnd
from otel_cassette.diff import ReplayDivergence

_MAX_CAUSES = 10
_MAX_MISSING = 20
_WHY_NOTHING = (
    "is it a Python program at all, and is otel-cassette installed for the Python that runs it?",
    "is the environment cleared on the way (env -i, sudo, tox, a container)?",
    "is Python started with -I, -E or -S somewhere?",
    "was otel-cassette installed anew since (opentelemetry-instrument finds it by its entry points)?",
)
_IF_CHANGED = (
    "if the change is meant: record again, leave a field out with --ignore POINTER, or see what else departs "
    "with --mode lenient"
)
_IF_EXTRA = "if the call is meant: record again, or let what is not recorded go live with --mode fallthrough"
_IF_EXTRA_TOOL = "; without --tools the program's tools run for real"
_OPTIONS = {
    "allow_unverified=True": "--allow-unverified",
    "allow_partial=True": "--allow-partial",
    "mode='strict'": "--mode strict",
}
"""What messages of the library call an argument is an option here."""
_VERDICTS = {
    "identical": ("identical", "good"),
    "diverged": ("diverged", "bad"),
    "cannot_tell": ("cannot tell", "warn"),
}


def print_account(out: Output, account: ReplayAccount, trace: str, settings: RunSettings) -> None:
    """Print how a replay went: the verdict, the totals, each process, each first cause."""
    mode = settings.mode
    verdict, style = _VERDICTS[account.verdict]
    totals = account.totals
    out.spans(
        "otel-cassette: ",
        (verdict, style),
        f": replay of {trace} ({mode}): served {totals.served}, live {totals.live}, "
        f"missed {totals.missed}, unplayed {totals.unplayed}, ties {totals.ties}",
    )
    if not any(each.calls for each in account.processes):
        out.line(
            "  no call reached the replay: the program made none through httpx2, httpx or requests, "
            "nor through a cassette's wrapper",
            "warn",
        )
    _print_processes(out, account.processes)
    _print_doubts(out, account)
    _print_tools(out, account, answered=settings.tools)
    causes = [each for each in account.divergences if each.is_first_cause]
    shown = {id(each) for each in causes[:_MAX_CAUSES]}
    print_divergences(
        out, [each for each in account.divergences if not each.is_first_cause or id(each) in shown]
    )
    if len(causes) > _MAX_CAUSES:
        out.line(f"... and {len(causes) - _MAX_CAUSES} more divergences", "dim")
    _print_missing(out, account)
    if mode == "strict" and causes:
        out.line(f"  {_if_meant(causes)}", "dim")


def _if_meant(causes: Sequence[ReplayDivergence]) -> str:
    if any(each.reason != "extra_call" for each in causes):
        return _IF_CHANGED
    tools = any(each.kind == "tool" for each in causes)
    return f"{_IF_EXTRA}{_IF_EXTRA_TOOL if tools else ''}"


def _print_missing(out: Output, account: ReplayAccount) -> None:
    if account.poisoned and account.missing:
        # The program was stopped by a miss: these are what it did not come to.
        out.line(f"  {counted(len(account.missing), 'recorded call')} not reached after it", "dim")
        return
    for missing in account.missing[:_MAX_MISSING]:
        out.spans(("x ", "bad"), (missing.summary(), "bad"))
    if len(account.missing) > _MAX_MISSING:
        out.line(f"... and {len(account.missing) - _MAX_MISSING} more missing calls", "dim")


def _print_processes(out: Output, processes: Iterable[ProcessReport]) -> None:
    """Print a line for each process, where there are several or one gave no account."""
    rows = list(processes)
    if len(rows) == 1 and rows[0].status != "running":
        return
    for each in rows:
        name = short(" ".join(each.argv) or each.python, 40)
        how = "forked" if each.how == "fork" else "started"
        text = f"  process {each.pid} ({how}, {name}): {counted(len(each.calls), 'call')}"
        if each.status == "running":
            out.line(f"{text}; killed or still running: these are the calls it had made", "warn")
        else:
            out.line(text, "dim")


def _print_doubts(out: Output, account: ReplayAccount) -> None:
    if account.unverified:
        out.line(
            f"  {counted(account.unverified, 'call')} could not be compared: the recording lacks what "
            "was asked there",
            "warn",
        )
    told = [each.summary() for each in account.divergences]
    for text in account.poisoned:
        if any(summary in text for summary in told):
            continue  # it stands below, with its diff
        line = text.splitlines()[0]
        for argument, option in _OPTIONS.items():
            line = line.replace(argument, option)
        out.line(f"  stopped: {line}", "bad")
    for place in account.repeated:
        out.line(
            f"  x {place} was asked for by several processes, more often than it was recorded",
            "bad",
        )
    for place, count in account.unread.items():
        out.line(
            f"  {counted(count, 'request')} to {place} refused: no codec reads it, so no recording has "
            "its answer (--kinds without llm, or --mode fallthrough, lets it pass)",
            "warn",
        )
    for host, count in account.refused.items():
        out.line(
            f"  {counted(count, 'connection')} to {host} refused (--allow-host {host}, or "
            "--no-block-network, lets it pass)",
            "dim",
        )
    for note in (note for each in account.processes for note in each.notes):
        out.line(f"  {note}", "warn")


def _print_tools(out: Output, account: ReplayAccount, *, answered: bool) -> None:
    """Print which tools nothing answered."""
    hint = "" if answered else "; --tools answers those of known frameworks"
    for kind, count in account.beyond_reach.items():
        out.line(
            f"  {count} recorded {kind} {'call was' if count == 1 else 'calls were'} not asked for: "
            f"nothing answers a program's own tools, what it ran of them was real{hint}",
            "dim",
        )
    if account.without_result:
        out.line(
            f"  {counted(account.without_result, 'tool call')} that the model asked for "
            f"{'has' if account.without_result == 1 else 'have'} no result in the recording: nothing answered "
            "the program's own tools, what it ran of them was real",
            "warn",
        )


def print_strangers(out: Output, end: ProgramEnd) -> None:
    """Print which processes of the program were out of reach."""
    for each in end.foreign:
        out.line(
            f"  {each.get('python')} has no otel_cassette ({each.get('reason')}): what it called is not in "
            "this account",
            "warn",
        )
    for each in end.failed:
        out.line(f"  process {each.get('pid')} could not be started: {each.get('reason')}", "warn")
    unreached = [name for each in end.reports for name in each.facts.get("unreached", ())]
    for name in dict.fromkeys(unreached):
        out.line(
            f"  nothing of this run starts in {name} (its environment, or a flag like -I): what it called is "
            "not in this account, and was real",
            "warn",
        )


def nothing_started(out: Output, end: ProgramEnd, action: str) -> None:
    """Print that nothing of ours ran in the program, and why that may be."""
    if end.failed:
        out.spans(("otel-cassette: error: ", "bad"), f"the {action} could not start")
        print_strangers(out, end)
        return
    done = "replayed" if action == "replay" else "recorded"
    out.spans(
        ("otel-cassette: error: ", "bad"),
        f"nothing of otel-cassette started in the program (exit code {end.exit_code}): its calls, if it made "
        f"any, were real and were not {done}",
    )
    print_strangers(out, end)
    for reason in () if end.foreign else _WHY_NOTHING:
        out.line(f"  {reason}", "dim")
