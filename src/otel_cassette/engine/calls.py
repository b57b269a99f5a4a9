"""What goes into the engine and what comes out: calls, decisions, outcomes, totals.

Lives here: plain records. Not here: any decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from otel_cassette.diff import ReplayDivergence
from otel_cassette.keys import (
    CanonicalRequest,
    Comparison,
    ComparisonRules,
    Scope,
    llm_request,
    scope_of,
    tool_request,
)
from otel_cassette.model.entry import (
    MODEL_KINDS,
    CassetteEntry,
    CassetteFailure,
    EntryKind,
    ParentRef,
    RecordedCall,
)

Action = Literal["play", "raise", "live", "miss"]
Verdict = Literal["identical", "diverged", "cannot_tell", "recorded"]
"""`recorded`: the call was made for the first time, there was nothing to compare it with."""

Flag = Literal[
    "tie",
    "reordered",
    "masked",
    "unverified",
    "suspect",
    "partial",
    "truncated",
    "redacted",
    "dropped",
    "absent",
    "failure",
    "live",
    "missed",
    "retry",
]


class LiveCall:
    """A call that a program is about to make.

    Attributes:
        kind: `llm`, `tool`, `retrieval` or `embedding`.
        name: Tool or retriever; None for llm and embedding.
        plain: The request as plain JSON; what makes it may be given instead.
        raw: The text of the request (`keys/text.py`), where that is cheap to have: equal texts need
            no further comparison. Where *plain* is what makes it, `typed_text`; else `plain_text`.
        scope: What is known of it; all of it by default.
        parent: The recorded call inside whose live run it is made; None at the top level.
        inside_unknown: It is made inside a call that has no recorded counterpart.
        path: Names from the root of the live span tree to the call, as far as they are known.
        claim: Place of the entry that the call's span claimed, a hint.
        span_id: The live span, 16 hex digits.
        caller: The live span in which the call is made, 16 hex digits.
        task: Which task or thread makes it.
        trace_id: The live trace, 32 hex digits.
    """

    __slots__ = (
        "_canonical",
        "_plain",
        "_supply",
        "caller",
        "claim",
        "inside_unknown",
        "is_typed",
        "kind",
        "name",
        "parent",
        "path",
        "raw",
        "scope",
        "span_id",
        "task",
        "trace_id",
    )

    def __init__(
        self,
        kind: EntryKind,
        plain: Any,
        *,
        name: str | None = None,
        scope: Scope | None = None,
        parent: ParentRef | None = None,
        inside_unknown: bool = False,
        path: tuple[str, ...] = (),
        claim: int | None = None,
        span_id: str | None = None,
        caller: str | None = None,
        task: int | None = None,
        trace_id: str | None = None,
        raw: bytes | None = None,
    ) -> None:
        self.kind: EntryKind = kind
        self._supply: Callable[[], Any] | None = plain if callable(plain) else None
        self._plain = None if callable(plain) else plain
        self.name: str | None = name
        self.scope: Scope | None = scope
        self.parent: ParentRef | None = parent
        self.inside_unknown: bool = inside_unknown
        self.path: tuple[str, ...] = path
        self.claim: int | None = claim
        self.span_id: str | None = span_id
        self.caller: str | None = caller
        self.task: int | None = task
        self.trace_id: str | None = trace_id
        self.raw = raw
        self.is_typed: bool = self._supply is not None
        self._canonical: CanonicalRequest | None = None

    @property
    def plain(self) -> Any:
        """The request as plain JSON; made when first looked at."""
        if self._supply is not None:
            self._plain, self._supply = self._supply(), None
        return self._plain

    def forget(self) -> None:
        """Let go of the request: the call was answered with its equal, nobody asks for it again."""
        self._plain = self._supply = self.raw = self._canonical = None

    def canonical(self, comparer: Comparer) -> CanonicalRequest:
        """Return the call in canonical form, redacted as the recording is; made once."""
        if self._canonical is None:
            self._canonical = comparer.live(self)
        return self._canonical


class Comparer:
    """Brings live calls and recorded ones into the form in which they are compared.

    Args:
        rules: The user's comparison rules.
        redact: Redaction in force at recording, JSON to JSON; None for none.
        may_hold_secret: Quick test whether *redact* could change a text; sound, not exact.
    """

    def __init__(
        self,
        rules: ComparisonRules | None = None,
        redact: Callable[[Any], Any] | None = None,
        may_hold_secret: Callable[[str], bool] | None = None,
    ) -> None:
        self.rules: ComparisonRules = rules or ComparisonRules()
        self._redact = redact
        self._may_hold_secret = may_hold_secret

    def live(self, call: LiveCall) -> CanonicalRequest:
        """Return a live call in canonical form."""
        scope = scope_of(None, call.kind) if call.scope is None else call.scope
        made = self._canonical(call.kind, call.name, call.plain, scope, masks=False)
        if self._redact is None:
            return made
        if self._may_hold_secret is not None and not self._may_hold_secret(made.canonical_text):
            return made
        return self._canonical(call.kind, call.name, self._redact(call.plain), scope, masks=False)

    def masked(self, plain: Any) -> Any:
        """Return a live request as it may be shown: without its secrets."""
        return plain if self._redact is None else self._redact(plain)

    def recorded(self, call: RecordedCall) -> CanonicalRequest:
        """Return a recorded call in canonical form; masks count where a trace was its source."""
        foreign = call.source is not None and call.source.dialect is not None
        scope = scope_of(call.scope, call.kind)
        return self._canonical(call.kind, call.name, call.request, scope, masks=foreign)

    def _canonical(
        self, kind: EntryKind, name: str | None, plain: Any, scope: Scope, *, masks: bool
    ) -> CanonicalRequest:
        rules = self.rules or None
        if kind in MODEL_KINDS and name is None:
            return llm_request(plain or {}, kind=kind, scope=scope, rules=rules, masks=masks)
        return tool_request(name or "", plain, kind=kind, scope=scope, rules=rules, masks=masks)


@dataclass(slots=True)
class Decision:
    """What a call gets.

    Attributes:
        action: `play` this entry, `raise` this failure, make the real call (`live`), or `miss`.
        call: The call decided on.
        index: 0-based arrival of the call in the sequence of its (parent, kind).
        entry: The entry to play, or the one the call was compared with.
        failure: The failure to raise.
        comparison: What the comparison with the entry showed; None where there was none.
        verdict: `identical`, `diverged` or `cannot_tell`.
        flags: See docs/verdicts.md.
        reason: For a miss: why, and what to do.
        departure: The engine's own note of the divergence.
        item: The engine's own handle of the entry or failure.
        failed_place: Place of the failure among the failed calls of its lane.
    """

    action: Action
    call: LiveCall
    index: int
    entry: CassetteEntry | None = None
    failure: CassetteFailure | None = None
    comparison: Comparison | None = None
    verdict: Verdict = "identical"
    flags: list[Flag] = field(default_factory=list)
    reason: str | None = None
    departure: Any = None
    item: Any = None
    failed_place: int = 0

    @property
    def is_final(self) -> bool:
        """Whether nothing can go wrong any more: a partial answer may be read past its end."""
        return self.entry is None or self.entry.response_integrity == "whole"

    @property
    def parent_ref(self) -> ParentRef | None:
        """The recorded call that calls made inside this one belong to; None when there is none."""
        recorded = self.entry or self.failure
        if recorded is None or self.verdict == "cannot_tell":
            return None
        if isinstance(recorded, CassetteFailure):
            return ParentRef(recorded.kind, self.failed_place, recorded.parent, failed=True)
        return ParentRef(recorded.kind, recorded.index, recorded.parent)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of one call of a playback.

    Attributes:
        kind: `llm`, `tool`, `retrieval` or `embedding`.
        index: 0-based arrival in the sequence of its (parent, kind).
        entry: The entry served, or compared with; None where there was none.
        verdict: `identical`, `diverged`, `cannot_tell`, or `recorded`.
        flags: What else to know: `tie`, `reordered`, `masked`, `unverified`, `suspect`, ...;
            `live` and `missed` say what the call got instead of a recorded answer.
        scope: Tokens compared, sorted; None where nothing was compared.
        span_id: The live span, when it is known.
        divergence: The divergence it is part of, if any.
    """

    kind: EntryKind
    index: int
    entry: CassetteEntry | CassetteFailure | None
    verdict: Verdict
    flags: tuple[str, ...] = ()
    scope: tuple[str, ...] | None = None
    span_id: str | None = None
    divergence: ReplayDivergence | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """How a playback went.

    Attributes:
        served: Calls answered from the recording, recorded failures included.
        live: Calls that went to the real thing.
        missed: Calls that got no answer.
        unplayed: Entries of the kinds in play that no call asked for.
        ties: Calls whose entry was chosen among equal ones by recording order alone.
        diverged: Divergences, without the missing calls.
        recorded: Calls recorded.
        masked: Answers with a secret masked: served so, or recorded so.
    """

    served: int = 0
    live: int = 0
    missed: int = 0
    unplayed: int = 0
    ties: int = 0
    diverged: int = 0
    recorded: int = 0
    masked: int = 0

    def since(self, earlier: Totals) -> Totals:
        """Return what was counted after *earlier*; what is still unplayed stays as it is."""
        return Totals(
            served=self.served - earlier.served,
            live=self.live - earlier.live,
            missed=self.missed - earlier.missed,
            unplayed=self.unplayed,
            ties=self.ties - earlier.ties,
            diverged=self.diverged - earlier.diverged,
            recorded=self.recorded - earlier.recorded,
            masked=self.masked - earlier.masked,
        )

    def __str__(self) -> str:
        masked = f", answers with a secret masked {self.masked}" if self.masked else ""
        return (
            f"served {self.served}, live {self.live}, missed {self.missed}, "
            f"unplayed {self.unplayed}, ties {self.ties}{masked}"
        )
