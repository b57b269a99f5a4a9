"""One playback or recording: the engine, the journal, and the account of what happened.

Lives here: `Playback`, which wrappers and transports drive call by call, and `Step`, one call
under way. Not here: the decision itself (`engine/`), how a call is really made (`clients/`), the
context that carries a session (`context.py`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import CallOutcome, Comparer, Decision, Engine, LiveCall, Settings, Totals
from otel_cassette.errors import CassetteMissError
from otel_cassette.keys import ComparisonRules
from otel_cassette.model.entry import (
    CassetteEntry,
    CassetteMode,
    EntryKind,
    EntrySource,
    ParentRef,
)
from otel_cassette.redaction import Redactor, mask_call
from otel_cassette.session.callers import Caller, current_caller
from otel_cassette.session.failures import rebuild_failure
from otel_cassette.session.marks import CallSite, CurrentSpan, Watcher
from otel_cassette.store import Journal, Ticket

JSON = Any
LaneKey = tuple[ParentRef | None, EntryKind]


@dataclass(slots=True)
class PlaybackOptions:
    """What a playback is made with; the words are those of `Cassette`."""

    mode: CassetteMode = "record"
    match: str = "index"
    kinds: frozenset[str] | None = None
    record_new: bool = False
    play_failures: bool = False
    allow_unverified: bool = False
    allow_partial: bool = False


class Step:
    """One call under way.

    Attributes:
        action: `play`, `raise`, `miss`, `live` or `record`.
        call: The live call.
        decision: What the engine said; None while recording.
        ticket: The journal's ticket; None when nothing is recorded.
        site: Where the call stands among the live spans; None while recording.
        source: What a recording keeps of where it stands; None without a span.
    """

    __slots__ = ("action", "call", "decision", "playback", "site", "source", "ticket")

    def __init__(
        self,
        playback: Playback,
        call: LiveCall,
        decision: Decision | None,
        ticket: Ticket | None,
    ) -> None:
        self.playback: Playback = playback
        self.call: LiveCall = call
        self.decision: Decision | None = decision
        self.ticket: Ticket | None = ticket
        self.site: CallSite | None = None
        self.source: EntrySource | None = None
        self.action = "record" if decision is None else decision.action

    @property
    def entry(self) -> CassetteEntry:
        """The entry to play; only for `play`."""
        if self.decision is None or self.decision.entry is None:
            msg = f"{self.call.kind} call has no entry to play"
            raise RuntimeError(msg)
        return self.decision.entry

    def miss(self) -> CassetteMissError:
        """Return the error of a miss."""
        return self.playback.miss_error(self)

    def ran_out(self, reason: str) -> CassetteMissError:
        """Return the error of a reader that goes on where a partial answer ends: a miss after all."""
        decision = self.decision
        if decision is not None and decision.action == "play":
            decision.action, decision.reason = "miss", reason
            decision.flags.append("missed")
        return self.miss()

    def failure(self) -> BaseException:
        """Return the recorded failure, as the recorded type where it is at hand."""
        if self.decision is None or self.decision.failure is None:
            msg = f"{self.call.kind} call has no failure to raise"
            raise RuntimeError(msg)
        return rebuild_failure(self.decision.failure)

    def refuse(self, reason: str) -> None:
        """Make a miss of a call that would go live but cannot; *reason* says why and what to do."""
        if self.decision is None:
            msg = f"{self.call.kind} call is recorded, not played"
            raise RuntimeError(msg)
        self.action = self.decision.action = "miss"
        self.decision.reason = reason
        self.decision.flags = ["missed" if flag == "live" else flag for flag in self.decision.flags]

    def succeeded(self, record: dict[str, Any]) -> None:
        """Enter the answer of a call that was really made; *record* holds the entry's fields."""
        self.playback.finish(self, record, failed=False)

    def failed(self, record: dict[str, Any]) -> None:
        """Enter the failure of a call that was really made."""
        self.playback.finish(self, record, failed=True)


@dataclass(slots=True)
class _Take:
    """Calls recorded in one go.

    Attributes:
        offsets: How many calls of each lane came before.
        steps: The calls, in the order in which they began.
    """

    offsets: dict[LaneKey, int]
    steps: list[Step] = field(default_factory=list)

    def outcomes(self) -> list[CallOutcome]:
        """Return one outcome for each call that has finished."""
        counts: dict[tuple[Any, EntryKind], int] = dict(self.offsets)
        made: list[CallOutcome] = []
        for step in self.steps:
            ticket = step.ticket
            if ticket is None or ticket.record is None:
                continue
            lane = (ticket.parent, ticket.kind)
            index = counts.get(lane, 0)
            failed = bool(ticket.record.get("failed"))
            counts[lane] = index + (not failed)
            flags = ("failure",) if failed else ()
            span_id = step.source.span_id if step.source is not None else None
            made.append(CallOutcome(ticket.kind, index, None, "recorded", flags, span_id=span_id))
        return made


class Playback:
    """Plays from, or records into, one journal.

    Args:
        journal: What is recorded; shared by all playbacks of one cassette.
        options: Mode, match rule and the rest.
        rules: The user's comparison rules.
        redactor: Rules in force; None for none.
        watcher: Finds the live spans of a call, and marks them once it was decided; the current
            span by default.
    """

    def __init__(
        self,
        journal: Journal,
        options: PlaybackOptions,
        *,
        rules: ComparisonRules,
        redactor: Redactor | None,
        watcher: Watcher | None = None,
    ) -> None:
        self.journal = journal
        self.options: PlaybackOptions = options
        self.redactor = redactor
        self.masked: Counter[str] = Counter()
        self._masked_records = 0
        self.comparer: Comparer = Comparer(
            rules,
            None if redactor is None else redactor.json,
            None if redactor is None else redactor.may_match,
        )
        self.session: Any = None
        self._watcher: Watcher = watcher or CurrentSpan()
        self._engine: Engine | None = None
        self._engine_base: dict[LaneKey, int] | None = None
        self._history: list[Engine | _Take] = []
        self._take: _Take | None = None
        self._recorded = 0
        self._lock = threading.RLock()

    # -- mode -----------------------------------------------------------------------------------

    @property
    def mode(self) -> CassetteMode:
        """The mode; assigning it keeps the counters."""
        return self.options.mode

    @mode.setter
    def mode(self, mode: CassetteMode) -> None:
        with self._lock:
            was = self.options.mode
            if mode == was:
                return
            self.options = replace(self.options, mode=mode)
            if mode == "record":
                offsets = self._engine.played() if self._engine is not None else self._engine_base
                self.journal.settle(offsets)
                self._engine = None
                self._begin_take(offsets)
            elif was == "record":
                self._take = None
                self._engine_base = self.journal.taken()
                self.journal.settle()
            elif self._engine is not None:
                self._engine.settings.mode = mode

    def rewind(self) -> None:
        """Start over: nothing is played, no divergence noted; recording replaces by index."""
        with self._lock:
            self.journal.settle()
            self._engine = None
            self._engine_base = None
            self._history = []
            self._take = None
            self._recorded = 0

    def _begin_take(self, offsets: dict[LaneKey, int] | None = None) -> _Take:
        self._take = _Take(dict(offsets or {}))
        self._history.append(self._take)
        return self._take

    @property
    def engine(self) -> Engine:
        """The engine over the recording as it stood when the playback began."""
        with self._lock:
            if self._engine is None:
                options = self.options
                settings = Settings(
                    mode=options.mode,
                    match="content" if options.match == "content" else "index",
                    kinds=options.kinds,
                    allow_unverified=options.allow_unverified,
                    allow_partial=options.allow_partial,
                    play_failures=options.play_failures,
                )
                self._engine = Engine(self.journal.assembled().records, settings, self.comparer)
                if self._engine_base:
                    self._engine.skip(self._engine_base)
                self._history.append(self._engine)
            return self._engine

    # -- calls ----------------------------------------------------------------------------------

    def begin(
        self,
        kind: EntryKind,
        plain: JSON,
        *,
        name: str | None = None,
        raw: bytes | None = None,
        inside: Step | None = None,
        claim: int | None = None,
    ) -> Step:
        """Return what a call gets.

        Args:
            kind: Kind of the call.
            plain: The request as plain JSON; what makes it may be given instead.
            name: Tool or retriever.
            raw: The request's text, where it is at hand (`keys/text.py`).
            inside: The call inside which it is made.
            claim: Place of the entry that the call's span claimed; found by the watcher if None.
        """
        caller = current_caller()
        if self.options.mode == "record":
            return self._record(LiveCall(kind, plain, name=name), caller, inside)
        site = self._watcher.site(self, kind, name, caller)
        call = LiveCall(
            kind,
            plain,
            name=name,
            path=caller.path if len(caller.path) >= len(site.path) else site.path,
            claim=site.claim if claim is None else claim,
            span_id=site.span_id,
            caller=caller.caller,
            task=caller.task,
            trace_id=caller.trace_id,
            raw=raw,
        )
        if inside is not None and inside.playback is self and inside.decision is not None:
            call.parent = inside.decision.parent_ref
            call.inside_unknown = call.parent is None
        decision = self.engine.decide(call)
        ticket = None
        if decision.action == "live" and self.options.record_new and self.mode == "fallthrough":
            ticket = self.journal.begin(kind, self._around(inside) or call.parent)
        step = Step(self, call, decision, ticket)
        if ticket is not None:
            step.source = caller.source()
        step.site = site
        divergence = None if decision.departure is None else self.engine.describe(decision)
        self._watcher.decided(step, site, divergence)
        return step

    def _record(self, call: LiveCall, caller: Caller, inside: Step | None) -> Step:
        """Return the step of a call that is recorded."""
        with self._lock:
            step = Step(self, call, None, self.journal.begin(call.kind, self._around(inside)))
            (self._take or self._begin_take()).steps.append(step)
        step.source = caller.source()
        return step

    def _around(self, inside: Step | None) -> Ticket | None:
        """Return the ticket of the call inside which another one is made."""
        return inside.ticket if inside is not None and inside.playback is self else None

    def finish(self, step: Step, record: dict[str, Any], *, failed: bool) -> None:
        """Enter what a call that was really made answered."""
        record = self._masked({**record, "kind": step.call.kind, "name": step.call.name})
        if step.source is not None:
            record["source"] = step.source
        if step.decision is None:
            assert step.ticket is not None  # noqa: S101 - recording steps always hold a ticket
            self._recorded += step.ticket.record is None  # a retry is the same call
            (self.journal.fail if failed else self.journal.succeed)(step.ticket, record)
            return
        if failed:
            return
        self.engine.live_result(step.decision, record.get("response"))
        if step.ticket is not None:
            self._recorded += 1
            self.journal.patch(step.ticket, step.decision, record)

    def _masked(self, record: dict[str, Any]) -> dict[str, Any]:
        if self.redactor is None:
            return record
        changed, hits = mask_call(self.redactor, record)
        self.masked.update(hits)
        self._masked_records += bool(hits)
        return {**record, **changed}

    def miss_error(self, step: Step) -> CassetteMissError:
        """Return the error that says why a call has no answer."""
        decision = step.decision
        call = step.call
        assert decision is not None  # noqa: S101 - only played steps miss
        shown = call.plain if self.redactor is None else self.redactor.json(call.plain)
        return CassetteMissError(
            kind=call.kind,
            index=decision.index,
            mode=self.options.mode,
            expected=decision.entry,
            actual_request=shown,
            actual_key=call.canonical(self.comparer).key,
            actual_name=call.name,
            divergence=self.engine.describe(decision),
            reason=decision.reason,
        )

    def renew_locks(self) -> None:
        """Have free locks in a forked process: a thread that is gone may have held the old ones."""
        self._lock = threading.RLock()
        self.journal.renew_lock()
        for engine in self._engines():
            engine.renew_lock()

    # -- account --------------------------------------------------------------------------------

    def _engines(self) -> Iterable[Engine]:
        with self._lock:
            return [part for part in self._history if isinstance(part, Engine)]

    @property
    def calls(self) -> list[CallOutcome]:
        """One outcome for each call so far, in call order."""
        with self._lock:
            history = list(self._history)
        parts = [part.calls if isinstance(part, Engine) else part.outcomes() for part in history]
        return [outcome for part in parts for outcome in part]

    @property
    def divergences(self) -> list[ReplayDivergence]:
        """The divergences so far, in call order, as they stand now."""
        return [d for engine in self._engines() for d in engine.divergences]

    @property
    def unplayed(self) -> list[CassetteEntry]:
        """Entries of the kinds in play that no call was answered with or diverged from."""
        return [] if self.options.mode == "record" else self.engine.unplayed

    @property
    def missing(self) -> list[ReplayDivergence]:
        """A `missing_call` for every unplayed entry."""
        return [] if self.options.mode == "record" else self.engine.missing

    def totals(self) -> Totals:
        """Return how it went so far."""
        rows = [engine.totals() for engine in self._engines()]
        return Totals(
            served=sum(t.served for t in rows),
            live=sum(t.live for t in rows),
            missed=sum(t.missed for t in rows),
            unplayed=len(self.unplayed),
            ties=sum(t.ties for t in rows),
            diverged=sum(t.diverged for t in rows),
            recorded=self._recorded,
            masked=sum(t.masked for t in rows) + self._masked_records,
        )
