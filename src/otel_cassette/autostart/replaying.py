"""The replay of one process: the recording, its session, and the account of it.

Lives here: a cassette whose session covers the whole process, and what it tells of every call. Not
here: when it begins and ends (`process.py`), its files (`reports.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from otel_cassette.autostart.reports import ProcessReport
from otel_cassette.autostart.runfile import RunSettings
from otel_cassette.cassette import Cassette
from otel_cassette.clients.http_exchange import UNREAD
from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import CallOutcome, Totals
from otel_cassette.integrations.imports import instrument_when_imported
from otel_cassette.model.entry import MODEL_KINDS, CassetteEntry, CassetteFailure, ParentRef
from otel_cassette.otel.spans import LiveWatcher
from otel_cassette.session import Playback, PlaybackOptions, Session, SessionBlock, Step
from otel_cassette.session.marks import CallSite
from otel_cassette.session.network import NetworkGuard

_logger = logging.getLogger("otel_cassette")
CallLine = dict[str, Any]


def place_of(record: CassetteEntry | CassetteFailure | None) -> str | None:
    """Return the place of an entry as text, the same in every process; None for a failure."""
    if not isinstance(record, CassetteEntry):
        return None
    return _place(ParentRef(record.kind, record.index, record.parent))


def _place(ref: ParentRef) -> str:
    around = "" if ref.parent is None else f"{_place(ref.parent)}/"
    return f"{around}{ref.kind}#{ref.index}{'!' if ref.failed else ''}"


class ReportingWatcher(LiveWatcher):
    """Tells of every call once it is decided.

    Args:
        tell: Takes the line of a call.
    """

    def __init__(self, tell: Callable[[CallLine], None]) -> None:
        self._tell = tell

    def decided(self, step: Step, site: CallSite, divergence: ReplayDivergence | None) -> None:
        """Mark what became of the call, and tell it."""
        super().decided(step, site, divergence)
        decision = step.decision
        if decision is None:
            return
        line = {
            "kind": step.call.kind,
            "index": decision.index,
            "place": place_of(decision.entry),
            "verdict": decision.verdict,
            "action": step.action,
            "flags": list(decision.flags),
            "divergence": None if divergence is None else divergence.model_dump(mode="json"),
        }
        try:
            self._tell(line)
        except (OSError, ValueError) as error:  # a full disk is no reason to fail the user's call
            _logger.warning("a call could not be told to the command: %s", error)


class ProgramSession(Session):
    """A session of a program that nobody changed.

    Its tools are answered only where an integration asks for them. Without one they run as ever,
    unseen; then their entries are not missing calls. Nor are those that were read off a request:
    it may have told of what no integration sees (a handoff to another agent).
    """

    @property
    def asked_kinds(self) -> frozenset[str]:
        """Kinds that any call was made of."""
        return frozenset(call.kind for call in self.calls)

    @property
    def unplayed(self) -> list[CassetteEntry]:
        """Entries that no call asked for, of the kinds that are within reach."""
        reached = MODEL_KINDS | self.asked_kinds
        return [each for each in super().unplayed if each.kind in reached and not each.inferred]

    @property
    def missing(self) -> list[ReplayDivergence]:
        """A `missing_call` for each of them."""
        reached = {(each.kind, each.index) for each in self.unplayed}
        return [each for each in super().missing if (each.kind, each.index) in reached]

    @property
    def summary(self) -> Totals:
        """The totals; unplayed counts what is within reach."""
        return replace(super().summary, unplayed=len(self.unplayed))


class ProgramCassette(Cassette):
    """The recording of a run, with sessions that report."""

    tell: Callable[[CallLine], None]

    def _playback(self, options: PlaybackOptions) -> Playback:
        return Playback(
            self._journal,
            options,
            rules=self._rules,
            redactor=self._redactor,
            watcher=ReportingWatcher(self._told),
        )

    def _told(self, line: CallLine) -> None:
        self.tell(line)  # looked up at each call: a forked process tells another file

    def _session(self, options: PlaybackOptions) -> Session:
        session = ProgramSession(self, self._playback(options))
        self._last_session = session
        return session


class ProcessReplay:
    """The replay in this process.

    Args:
        settings: Of the run.
        tell: Takes the line of a call.
    """

    def __init__(self, settings: RunSettings, tell: Callable[[CallLine], None]) -> None:
        cassette = ProgramCassette.load(settings.cassette)
        assert isinstance(cassette, ProgramCassette)  # noqa: S101 - `load` makes what it is called on
        cassette.tell = tell
        self._block: SessionBlock = cassette.replaying(
            mode=settings.mode,  # type: ignore[arg-type]  # checked by the command line, and again there
            match=settings.match,  # type: ignore[arg-type]
            kinds=settings.kinds,  # type: ignore[arg-type]
            allow_unverified=settings.allow_unverified,
            allow_partial=settings.allow_partial,
            span=False,  # it would begin before the program has a tracer provider: see `providers.py`
        )
        self.session: Session = self._block.session
        self.session.source = settings.source
        self._calls_before = 0
        self._guard = NetworkGuard(tuple(settings.allow_hosts))
        if settings.tools:
            instrument_when_imported()
        self._block.__enter__()
        if settings.block_network:
            self._guard.up()

    def after_fork(self, tell: Callable[[CallLine], None]) -> None:
        """Count from here on: what was answered before the fork is the parent's."""
        self.session.owner.tell = tell
        self._calls_before = len(self.session.calls)
        self._guard.refused.clear()
        UNREAD.clear()

    def describe(self, report: ProcessReport) -> None:
        """Put into *report* how it went so far."""
        session = self.session
        calls = session.calls[self._calls_before :]
        own = [call.divergence for call in calls if call.divergence is not None]
        report.totals = asdict(session.summary)
        report.calls = [_line(call) for call in calls]
        report.divergences = [each.model_dump(mode="json") for each in own]
        report.unplayed = [place for each in session.unplayed if (place := place_of(each))]
        report.poisoned = None if session.poisoned is None else str(session.poisoned)
        report.notes = list(session.faults)
        report.facts["refused"] = dict(self._guard.refused)
        report.facts["unread"] = dict(UNREAD)


def _line(call: CallOutcome) -> CallLine:
    return {
        "kind": call.kind,
        "index": call.index,
        "place": place_of(call.entry),
        "verdict": call.verdict,
        "action": next((flag for flag in ("live", "missed") if flag in call.flags), "play"),
        "flags": list(call.flags),
        "divergence": None,
    }
