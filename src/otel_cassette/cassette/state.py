"""What a cassette holds and how its playback stands.

Lives here: the part of `Cassette` that is looked at. Not here: wrappers, sessions and files
(`facade.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from otel_cassette.cassette.options import check_kinds, check_match, check_mode, check_unique
from otel_cassette.cassette.records import mask_record, with_key
from otel_cassette.diff import ReplayDivergence
from otel_cassette.engine import CallOutcome
from otel_cassette.keys import ComparisonRules
from otel_cassette.keys.rules import NormalizeRule
from otel_cassette.model.entry import (
    CassetteEntry,
    CassetteFailure,
    CassetteMode,
    EntryKind,
    MatchRule,
)
from otel_cassette.otel.spans import WATCHER
from otel_cassette.redaction import DEFAULT_RULES, RedactionRule, Redactor, RuleLike
from otel_cassette.session import Playback, PlaybackOptions, Session
from otel_cassette.store import Journal

JSON = Any


class CassetteState:
    """The recorded calls of a cassette, and the state of its playback; arguments as for `Cassette`."""

    def __init__(
        self,
        entries: Iterable[CassetteEntry] = (),
        *,
        mode: CassetteMode = "record",
        record_new: bool = False,
        metadata: Mapping[str, JSON] | None = None,
        match: MatchRule = "index",
        kinds: Iterable[EntryKind] | None = None,
        ignore: Iterable[str] = (),
        normalize: Iterable[NormalizeRule] = (),
        redact: Iterable[RuleLike] = DEFAULT_RULES,
        record_errors: bool = False,
        allow_unverified: bool = False,
        allow_partial: bool = False,
    ) -> None:
        self.metadata: dict[str, JSON] = dict(metadata or {})
        self.report: Any = None
        self._rules = ComparisonRules(ignore, normalize)
        if redact is None:
            msg = (
                "redact=None: give rules, redact=() for none, or leave it out for the default ones"
            )
            raise TypeError(msg)
        rules = (redact,) if isinstance(redact, str) else tuple(redact)
        self._redactor = Redactor(rules) if rules else None
        self._options = PlaybackOptions(
            mode=check_mode(mode),
            match=check_match(match),
            kinds=check_kinds(kinds),
            record_new=record_new,
            play_failures=record_errors,
            allow_unverified=allow_unverified,
            allow_partial=allow_partial,
        )
        records = self._masked(entries)
        check_unique(records)
        self._journal = Journal(records)
        self._own = self._playback(self._options)
        self._last_session: Session | None = None
        self._header_extra: dict[str, JSON] = {}
        self._lock = threading.Lock()
        self._source: str | None = None

    def __repr__(self) -> str:
        made = self._journal.assembled()
        return f"<Cassette mode={self.mode!r} entries={len(made.entries)} failures={len(made.failures)}>"

    def _playback(self, options: PlaybackOptions) -> Playback:
        return Playback(
            self._journal,
            options,
            rules=self._rules,
            redactor=self._redactor,
            watcher=WATCHER,
        )

    def _masked(
        self, records: Iterable[CassetteEntry | CassetteFailure]
    ) -> list[CassetteEntry | CassetteFailure]:
        if self._redactor is None:
            return list(records)
        return [mask_record(record, self._redactor) for record in records]

    def _set_report(self, report: Any) -> None:
        self.report = report

    # -- what is recorded -----------------------------------------------------------------------

    @property
    def entries(self) -> list[CassetteEntry]:
        """Top-level calls in recording order."""
        return [with_key(entry) for entry in self._journal.assembled().entries]

    def entries_of(self, kind: EntryKind) -> list[CassetteEntry]:
        """Return the top-level calls of one kind by index."""
        return sorted((e for e in self.entries if e.kind == kind), key=lambda e: e.index)

    @property
    def nested(self) -> list[CassetteEntry]:
        """Calls made inside a tool or retrieval, with their `parent`."""
        return [with_key(entry) for entry in self._journal.assembled().nested]

    @property
    def failures(self) -> list[CassetteFailure]:
        """Failed calls with their place."""
        return [with_key(failure) for failure in self._journal.assembled().failures]

    # -- playback -------------------------------------------------------------------------------

    @property
    def mode(self) -> CassetteMode:
        """The mode of the cassette's own wrappers; assigning it keeps the counters."""
        return self._own.mode

    @mode.setter
    def mode(self, mode: CassetteMode) -> None:
        self._own.mode = check_mode(mode)

    @property
    def redact(self) -> tuple[RedactionRule, ...]:
        """The redaction rules in force: of a loaded cassette, those it was recorded with."""
        return () if self._redactor is None else self._redactor.rules

    @property
    def record_new(self) -> bool:
        """Whether `fallthrough` stores what went live."""
        return self._own.options.record_new

    @property
    def match(self) -> str:
        """The match rule of the cassette's own wrappers."""
        return self._own.options.match

    @property
    def rules(self) -> ComparisonRules:
        """The comparison rules in force: `ignore` and `normalize`, the header's among them."""
        return self._rules

    @property
    def redactor(self) -> Redactor | None:
        """The redaction rules in force; None for none."""
        return self._redactor

    @property
    def calls(self) -> list[CallOutcome]:
        """One outcome for each call of the last session, else of the cassette's own wrappers."""
        return self._shown.calls

    @property
    def divergences(self) -> list[ReplayDivergence]:
        """The divergences of the last session, else of the cassette's own wrappers."""
        return self._shown.divergences

    @property
    def first_divergence(self) -> ReplayDivergence | None:
        """The first divergence; None without any."""
        return next(iter(self.divergences), None)

    @property
    def unplayed(self) -> list[CassetteEntry]:
        """Playable entries that no call was answered with or diverged from."""
        return [with_key(entry) for entry in self._shown.unplayed]

    @property
    def _shown(self) -> Session | Playback:
        return self._last_session if self._last_session is not None else self._own

    def rewind(self) -> None:
        """Start over: nothing is played; recording after it replaces by index."""
        self._own.rewind()
        self._last_session = None

    def own_playback(self) -> Playback:
        """Return the playback of the cassette's own wrappers."""
        return self._own
