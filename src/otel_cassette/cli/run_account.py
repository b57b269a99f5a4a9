"""A replayed program as a whole: the accounts of its processes added up, and the verdict.

Lives here: pure functions over reports. Not here: how they come about (`autostart/`), how they are
printed (`run_report.py`).

Every process plays the whole recording on its own, since none knows what another asks for. What
none of them asked for is missing; what several were given, though it was recorded once, went beyond
the recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_cassette.autostart.interpreters import is_python
from otel_cassette.autostart.replaying import place_of
from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.cassette import Cassette
from otel_cassette.cli.rendering import tools_asked_for
from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import Totals
from otel_cassette.model.entry import MODEL_KINDS, CassetteEntry
from otel_cassette.traces import Verdict

EXIT_CODES: dict[Verdict, int] = {"identical": 0, "diverged": 1, "cannot_tell": 3}


@dataclass(frozen=True)
class ReplayAccount:
    """How a replay went.

    Attributes:
        verdict: `identical`, `diverged`, or `cannot_tell`: nothing differed, but something could not
            be compared, or no call was made. What a program did not come to that was stopped by a
            miss is no difference.
        totals: Of all processes; `unplayed` is what none of them asked for.
        divergences: In call order, process by process.
        missing: A `missing_call` for each unplayed entry.
        repeated: Calls that several processes were given, more often than they were recorded.
        beyond_reach: Recorded tool calls that no integration asked for, by kind: what the
            program ran of them was real. So are those that were read off a request, and that
            nothing asked for.
        without_result: Tool calls that the answers served asked for, where the recording holds none.
        unverified: Calls that could not be compared.
        poisoned: Misses that ended a replay at the wire.
        processes: Those that made calls, or that the command knows too little of.
        refused: Connections that were refused, by host.
        unread: Requests to models that no codec reads and that were refused, by host and path.
        out_of_reach: Python programs that were started without the run in their environment.
    """

    verdict: Verdict
    totals: Totals
    divergences: list[ReplayDivergence] = field(default_factory=list)
    missing: list[ReplayDivergence] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    beyond_reach: dict[str, int] = field(default_factory=dict)
    without_result: int = 0
    unverified: int = 0
    poisoned: list[str] = field(default_factory=list)
    processes: list[ProcessReport] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    out_of_reach: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the account as plain JSON."""
        totals = self.totals
        return {
            "verdict": self.verdict,
            "served": totals.served,
            "live": totals.live,
            "missed": totals.missed,
            "unplayed": totals.unplayed,
            "ties": totals.ties,
            "unverified": self.unverified,
            "divergences": [each.to_dict() for each in (*self.divergences, *self.missing)],
            "repeated": self.repeated,
            "beyond_reach": self.beyond_reach,
            "without_result": self.without_result,
            "refused_hosts": self.refused,
            "unread": self.unread,
            "out_of_reach": self.out_of_reach,
            "processes": [
                {
                    "pid": each.pid,
                    "argv": each.argv,
                    "started_by": each.how,
                    "status": each.status,
                    "calls": len(each.calls),
                }
                for each in self.processes
            ],
        }


def account_of(
    cassette: Cassette, reports: Sequence[ProcessReport], kinds: Iterable[str] | None
) -> ReplayAccount:
    """Add the reports of a program's processes up.

    Args:
        cassette: The recording that was replayed.
        reports: One for each process that started.
        kinds: Kinds in play; None is all.
    """
    entries = {str(place_of(each)): each for each in (*cassette.entries, *cassette.nested)}
    in_play = {
        place: entry
        for place, entry in entries.items()
        if entry.is_playable and (kinds is None or entry.kind in kinds)
    }
    shown = [each for each in reports if each.calls or _is_doubtful(each)]
    calls = [call for each in reports for call in each.calls]
    asked = MODEL_KINDS | {call["kind"] for call in calls}
    unplayed = _unplayed(in_play, reports, asked)
    unseen = [place for place in unplayed if in_play[place].inferred]
    unplayed = [place for place in unplayed if place not in unseen]
    repeats = _repeats(reports)
    _pair_off(unplayed, repeats, entries)
    divergences = [
        ReplayDivergence.model_validate(each) for report in reports for each in _divergences(report)
    ]
    reach = Counter(str(entry.kind) for entry in in_play.values() if entry.kind not in asked)
    reach.update(str(in_play[place].kind) for place in unseen)
    account = ReplayAccount(
        verdict="identical",
        totals=_totals(reports, len(unplayed)),
        divergences=divergences,
        missing=[_missing(in_play[place]) for place in unplayed],
        repeated=sorted(repeats),
        beyond_reach=dict(reach),
        without_result=_without_result(entries, calls),
        unverified=sum(call["verdict"] == "cannot_tell" for call in calls),
        poisoned=[each.poisoned for each in reports if each.poisoned],
        processes=shown,
        refused=_added(reports, "refused"),
        unread=_added(reports, "unread"),
        out_of_reach=[
            name
            for name in dict.fromkeys(
                n for each in reports for n in each.facts.get("unreached", ())
            )
            if is_python(name)
        ],
    )
    return _judged(account, calls)


def _added(reports: Sequence[ProcessReport], fact: str) -> dict[str, int]:
    return dict(sum((Counter(each.facts.get(fact, {})) for each in reports), Counter()))


def _judged(account: ReplayAccount, calls: Sequence[dict[str, Any]]) -> ReplayAccount:
    verdict: Verdict = "identical"
    missing = account.missing and calls and not account.poisoned
    if account.divergences or missing or account.repeated:
        verdict = "diverged"
    elif (
        account.unverified
        or account.totals.missed
        or account.missing
        or account.unread
        or account.out_of_reach
        or not calls
        or any(each.status == "failed" for each in account.processes)
    ):
        verdict = "cannot_tell"
    return ReplayAccount(**{**vars(account), "verdict": verdict})


def _without_result(entries: Mapping[str, CassetteEntry], calls: Sequence[dict[str, Any]]) -> int:
    if any(each.kind == "tool" for each in entries.values()):
        return 0
    if any(call["kind"] == "tool" for call in calls):
        return 0
    served = {call["place"] for call in calls if call["action"] == "play"}
    return tools_asked_for(entry for place, entry in entries.items() if place in served)


def _is_doubtful(report: ProcessReport) -> bool:
    """Return whether it matters that a process without calls gave no (good) account."""
    if report.how == "fork" and report.status == "running":
        return False  # a fork that became another program, as subprocess makes them
    return report.status in ("running", "failed")


def _unplayed(
    in_play: dict[str, CassetteEntry], reports: Sequence[ProcessReport], asked: frozenset[str]
) -> list[str]:
    """Return the places that no process asked for, of the kinds that any could ask for."""
    active = [each for each in reports if each.calls] or list(reports)
    left = {place for place, entry in in_play.items() if entry.kind in asked}
    for report in active:
        reached = MODEL_KINDS | {call["kind"] for call in report.calls}
        if report.has_ended:
            open_places = set(report.unplayed)
        else:
            open_places = set(in_play) - {call["place"] for call in report.calls}
        left = {p for p in left if in_play[p].kind not in reached or p in open_places}
    return [place for place in in_play if place in left]


def _repeats(reports: Sequence[ProcessReport]) -> Counter[str]:
    """Return to how many processes an entry was given beyond the first; within one that is settled."""
    given = Counter(
        place
        for report in reports
        for place in {
            call["place"]
            for call in report.calls
            if call["place"] and call["verdict"] != "diverged"
        }
    )
    return Counter({place: count - 1 for place, count in given.items() if count > 1})


def _pair_off(
    unplayed: list[str], repeats: Counter[str], entries: dict[str, CassetteEntry]
) -> None:
    """Let an entry that was given out twice stand for an equal one that nobody asked for."""
    for place in list(unplayed):
        entry = entries[place]
        twin = next(
            (
                other
                for other in repeats
                if (entries[other].kind, entries[other].key) == (entry.kind, entry.key)
            ),
            None,
        )
        if twin is None:
            continue
        unplayed.remove(place)
        repeats[twin] -= 1
        if not repeats[twin]:
            del repeats[twin]


def _divergences(report: ProcessReport) -> list[dict[str, Any]]:
    if report.has_ended:
        return report.divergences
    return [call["divergence"] for call in report.calls if call["divergence"] is not None]


def _totals(reports: Sequence[ProcessReport], unplayed: int) -> Totals:
    rows = [each.totals or _counted(each.calls) for each in reports]
    sums = {
        name: sum(row.get(name, 0) for row in rows)
        for name in ("served", "live", "missed", "ties", "diverged")
    }
    return Totals(**sums, unplayed=unplayed)


def _counted(calls: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the totals of a process that was killed before it could."""
    actions = Counter(call["action"] for call in calls)
    return {
        "served": actions["play"] + actions["raise"],
        "live": actions["live"],
        "missed": actions["miss"],
        "ties": sum("tie" in call["flags"] for call in calls),
        "diverged": sum(call["divergence"] is not None for call in calls),
    }


def _missing(entry: CassetteEntry) -> ReplayDivergence:
    return ReplayDivergence.create(
        entry.kind,
        entry.index,
        expected_request=entry.request,
        expected_key=entry.key,
        expected_name=entry.name,
    )
