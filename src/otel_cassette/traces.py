"""Recordings out of traces, and two recordings compared.

Lives here: what counts as a recording (a cassette, its file, a trace, anything that holds one),
and `find_divergence`, `find_divergences`, `compare`. The comparison is the engine's own: a replayed
trace is played against the recorded one. Not here: reading files (`formats/`), spans (`assemble/`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from otel_cassette.assemble import Assembly, assemble
from otel_cassette.diff import ReplayDivergence
from otel_cassette.document import read_document
from otel_cassette.engine import Comparer, Engine, LiveCall, Settings
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.formats import load_trace
from otel_cassette.keys import ComparisonRules, scope_of
from otel_cassette.model.entry import CASSETTE_FORMAT, KINDS, CassetteEntry, EntryKind, MatchRule
from otel_cassette.model.span import Trace
from otel_cassette.redaction import Redactor, mask_call

Verdict = Literal["identical", "diverged", "cannot_tell"]
_HEAD_BYTES = 4096
_CASSETTE_HEADS = (f'"{CASSETTE_FORMAT}"'.encode(), b'"agentlens-cassette"', b'"schema_version"')


@dataclass(frozen=True, slots=True)
class Unverified:
    """A pair of calls that could not be compared.

    Attributes:
        kind, index: The replayed call.
        reason: Why, in a sentence.
    """

    kind: EntryKind
    index: int
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} call #{self.index}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two recordings showed.

    Attributes:
        verdict: `identical`, `diverged`, or `cannot_tell`: no divergence was found, but something
            could not be compared, or there was nothing to compare.
        divergences: In the order of the replayed calls, missing calls last.
        unverified: Calls that could not be compared.
        compared: How many pairs of calls were compared.
        scopes: What was compared of each kind: the tokens that every pair had in common.
        warnings: What reading either side had to leave out, with its place.
    """

    verdict: Verdict
    divergences: tuple[ReplayDivergence, ...] = ()
    unverified: tuple[Unverified, ...] = ()
    compared: int = 0
    scopes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def first_divergence(self) -> ReplayDivergence | None:
        """The first divergence that does not follow from another; None without any."""
        first = next((d for d in self.divergences if d.is_first_cause), None)
        return first or next(iter(self.divergences), None)


def assemble_trace(trace: Trace | Sequence[Trace]) -> Assembly:
    """Return what one run holds; several traces are taken as one run."""
    runs = [trace] if isinstance(trace, Trace) else list(trace)
    if len(runs) == 1:
        assembly = assemble(runs[0].spans, runs[0].logs)
    else:
        assembly = assemble([s for t in runs for s in t.spans], [r for t in runs for r in t.logs])
    # runs of one source carry the same warnings
    assembly.report.warnings = tuple(dict.fromkeys(w for t in runs for w in t.warnings))
    return assembly


def read_run(
    source: Any, *, trace_id: str | None = None, merge: bool = False
) -> Trace | list[Trace]:
    """Return the run that *source* holds: traces as they are, anything else through `load_trace`."""
    if isinstance(source, Trace) and trace_id is None:
        return source
    several = isinstance(source, list | tuple) and source
    if several and trace_id is None and all(isinstance(t, Trace) for t in source):
        return list(source)
    return load_trace(source, trace_id, merge=merge)


@dataclass(slots=True)
class _Recording:
    """What is compared: top-level entries, and the rules that were in force when they were made.

    `is_masked`: the entries are a cassette's, masked (or not, on purpose) when it was made.
    """

    entries: list[CassetteEntry]
    rules: ComparisonRules = field(default_factory=ComparisonRules)
    redactor: Redactor | None = None
    is_masked: bool = False
    warnings: tuple[str, ...] = ()


def _recording(
    source: Any, trace_id: str | None, normalize: Iterable[Any], *, merge: bool
) -> _Recording:
    """Return what a cassette, a cassette file, a trace, or a source of one holds.

    Raises:
        CassetteFormatError: When *source* holds neither, or several runs and none is named.
        CassetteError: When a cassette file names a normalising function that was not given.
    """
    entries = getattr(source, "entries", None)
    if isinstance(entries, list):
        return _Recording(entries, source.rules, source.redactor, is_masked=True)
    if not is_cassette_file(source):
        run = read_run(source, trace_id=trace_id, merge=merge)
        assembly = assemble_trace(run)
        return _Recording(assembly.entries, warnings=assembly.report.warnings)
    document = read_document(source)
    header = document.header
    try:
        rules = ComparisonRules.from_header(header.ignore, header.normalize, given=normalize)
    except LookupError as error:
        msg = f"{source}: {error.args[0]}; or compare(..., normalize=[...])"
        raise CassetteError(msg) from error
    top = [r for r in document.records if isinstance(r, CassetteEntry) and r.parent is None]
    redactor = Redactor.from_header(header.redact) if header.redact else None
    return _Recording(top, rules, redactor, is_masked=True)


def _masked(entries: list[CassetteEntry], redactor: Redactor) -> list[CassetteEntry]:
    result = []
    for entry in entries:
        changed, _ = mask_call(redactor, {"request": entry.request, "response": entry.response})
        result.append(entry.model_copy(update=changed) if changed else entry)
    return result


def is_cassette_file(source: Any) -> bool:
    """Whether *source* is the path of a cassette file, of the current shape or an older one; told by content."""
    if not isinstance(source, str | os.PathLike):
        return False
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if b"resourceSpans" in head:
        return False
    first_line = head.split(b"\n", 1)[0]
    has_record = first_line.lstrip().startswith(b"{") and (
        any(mark in first_line for mark in _CASSETTE_HEADS) or b'"kind"' in first_line
    )
    return has_record or _CASSETTE_HEADS[2] in head


def _kinds(kind: EntryKind | None) -> tuple[EntryKind, ...]:
    if kind is None:
        return KINDS
    if kind not in KINDS:
        # One that no call has would compare nothing, which reads as "nothing differs".
        msg = f"kind={kind!r}: one of {', '.join(KINDS)}, or None for all"
        raise ValueError(msg)
    return (kind,)


def find_divergence(
    recorded: Any,
    replayed: Any,
    *,
    kind: EntryKind = "llm",
    trace_id: str | None = None,
    merge: bool = False,
    ignore: Iterable[str] = (),
    normalize: Iterable[Any] = (),
) -> ReplayDivergence | None:
    """Return the first place where two recordings differ, index by index.

    Args:
        recorded: Cassette, cassette file, trace, or anything `read_traces` takes.
        replayed: Likewise.
        kind: Kind of the calls compared.
        trace_id: The recorded run, where *recorded* holds several.
        merge: Take all that a source holds as one run.
        ignore: JSON pointers that are not compared.
        normalize: Rules applied before comparing.

    Returns:
        The divergence, or None where nothing differs *as far as could be compared*: `compare` tells
        the two apart.
    """
    run = _Run.of(recorded, replayed, trace_id, merge, "index", ignore, normalize, _kinds(kind))
    return run.divergences[0] if run.divergences else None


def find_divergences(
    recorded: Any,
    replayed: Any,
    *,
    kind: EntryKind | None = None,
    align: bool = True,
    trace_id: str | None = None,
    merge: bool = False,
    ignore: Iterable[str] = (),
    normalize: Iterable[Any] = (),
) -> list[ReplayDivergence]:
    """Return every place where two recordings differ.

    Args:
        recorded: As for `find_divergence`.
        replayed: Likewise.
        kind: One kind only; None for all.
        align: Align the calls on their keys, so that one inserted call is one `extra_call`; else
            compare index by index.
        trace_id: As for `find_divergence`.
        merge: Likewise.
        ignore: Likewise.
        normalize: Likewise.
    """
    kinds = _kinds(kind)
    rule: MatchRule = "content" if align else "index"
    return _Run.of(recorded, replayed, trace_id, merge, rule, ignore, normalize, kinds).divergences


def compare(
    recorded: Any,
    replayed: Any,
    *,
    kind: EntryKind | None = None,
    align: bool = True,
    trace_id: str | None = None,
    merge: bool = False,
    ignore: Iterable[str] = (),
    normalize: Iterable[Any] = (),
) -> Comparison:
    """Return the verdict on two recordings, with the divergences and what could not be verified.

    The arguments are those of `find_divergences`.
    """
    kinds = _kinds(kind)
    rule: MatchRule = "content" if align else "index"
    run = _Run.of(recorded, replayed, trace_id, merge, rule, ignore, normalize, kinds)
    verdict: Verdict = "identical"
    if run.divergences:
        verdict = "diverged"
    elif run.unverified or not run.compared:
        verdict = "cannot_tell"
    return Comparison(
        verdict,
        tuple(run.divergences),
        tuple(run.unverified),
        run.compared,
        run.scopes,
        run.warnings,
    )


class _Run:
    """One replayed recording played against a recorded one."""

    def __init__(
        self,
        recorded: list[CassetteEntry],
        replayed: list[CassetteEntry],
        match: MatchRule,
        rules: ComparisonRules,
        kinds: tuple[EntryKind, ...],
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.warnings = warnings
        comparer = Comparer(rules)
        settings = Settings(mode="lenient", match=match, allow_partial=True, allow_unverified=True)
        wanted = [e for e in recorded if e.kind in kinds]
        engine = Engine(wanted, settings, comparer)
        for entry in replayed:
            if entry.kind in kinds:
                call = _live(entry)
                engine.live_result(engine.decide(call), entry.response)
        found = [*engine.divergences, *engine.missing]
        self.divergences = [d.model_copy(update={"mode": None}) for d in found]
        self.unverified: list[Unverified] = []
        self.compared = 0
        self.scopes: dict[str, tuple[str, ...]] = {}
        for outcome in engine.calls:
            if outcome.verdict == "cannot_tell":
                reason = "the two sources have no content of the request in common"
                self.unverified.append(Unverified(outcome.kind, outcome.index, reason))
            elif outcome.scope is not None:
                self.compared += 1
                known = self.scopes.get(outcome.kind)
                both = (
                    outcome.scope
                    if known is None
                    else tuple(t for t in known if t in outcome.scope)
                )
                self.scopes[outcome.kind] = both

    @classmethod
    def of(
        cls,
        recorded: Any,
        replayed: Any,
        trace_id: str | None,
        merge: bool,  # noqa: FBT001 - passed on by the public functions, where it is a keyword
        match: MatchRule,
        ignore: Iterable[str],
        normalize: Iterable[Any],
        kinds: tuple[EntryKind, ...],
    ) -> _Run:
        given = ComparisonRules(ignore, normalize)
        before = _recording(recorded, trace_id, given.normalize, merge=merge)
        after = _recording(replayed, None, given.normalize, merge=merge)
        # A trace is masked by the rules of the cassette it is held against, two traces by today's
        # defaults: a secret makes no divergence, and stands in none.
        made = [side for side in (before, after) if side.is_masked]
        redactor = made[0].redactor if made else Redactor()
        if redactor is not None:
            for side in (before, after):
                if not side.is_masked:
                    side.entries = _masked(side.entries, redactor)
        sets = (before.rules, after.rules, given)
        rules = ComparisonRules(
            dict.fromkeys(pointer for one in sets for pointer in one.ignore),
            dict.fromkeys(rule for one in sets for rule in one.normalize),
        )
        warnings = tuple(dict.fromkeys((*before.warnings, *after.warnings)))
        return cls(before.entries, after.entries, match, rules, kinds, warnings)


def _live(entry: CassetteEntry) -> LiveCall:
    """Return a replayed entry as the call it was."""
    source = entry.source
    return LiveCall(
        entry.kind,
        entry.request,
        name=entry.name,
        scope=None if entry.scope is None else scope_of(entry.scope, entry.kind),
        path=source.path if source is not None else (),
        span_id=source.span_id if source is not None else None,
    )


def check_playable(assembly: Assembly, source: object | None) -> None:
    """Raise where a run has calls, and none of them can be played.

    Raises:
        CassetteFormatError: With the report, and the remedies in its text.
    """
    calls = [line for line in assembly.report if line.kind is not None]
    if not calls or any(entry.is_playable for entry in [*assembly.entries, *assembly.nested]):
        return
    if assembly.failures and not assembly.entries:
        return
    remedies = "; ".join(assembly.report.remedies) or "see the report."
    reason = (
        f"none of the {len(calls)} call spans can be played: {remedies} Contents that went into log records "
        "count when their file is given too, or a folder with both"
    )
    raise CassetteFormatError(reason=reason, path=source, report=assembly.report)
