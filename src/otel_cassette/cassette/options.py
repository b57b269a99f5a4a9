"""The options of a cassette, checked.

Lives here: which words are allowed, and the errors that say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otel_cassette.errors import CassetteFormatError
from otel_cassette.model.entry import (
    KINDS,
    CassetteEntry,
    CassetteFailure,
    CassetteMode,
    MatchRule,
)

JSON = Any
MODES: tuple[CassetteMode, ...] = ("record", "strict", "lenient", "fallthrough")


def check_mode(mode: Any) -> CassetteMode:
    """Return *mode*, or raise ValueError."""
    if mode not in MODES:
        msg = f"mode={mode!r}: one of {', '.join(MODES)}"
        raise ValueError(msg)
    result: CassetteMode = mode
    return result


def check_match(match: Any) -> MatchRule:
    """Return *match*, or raise ValueError."""
    if match not in ("index", "content"):
        msg = f"match={match!r}: 'index' or 'content'"
        raise ValueError(msg)
    result: MatchRule = match
    return result


def check_kinds(kinds: Iterable[str] | None) -> frozenset[str] | None:
    """Return *kinds* as a set, or raise ValueError."""
    if kinds is None:
        return None
    result = frozenset((kinds,) if isinstance(kinds, str) else kinds)
    unknown = result - set(KINDS)
    if unknown:
        msg = (
            f"kinds={sorted(result)!r}: {', '.join(sorted(unknown))} is none of {', '.join(KINDS)}"
        )
        raise ValueError(msg)
    return result


def check_unique(records: Iterable[CassetteEntry | CassetteFailure]) -> None:
    """Raise CassetteFormatError when two entries share a (parent, kind, index)."""
    seen: set[Any] = set()
    for record in records:
        if not isinstance(record, CassetteEntry):
            continue
        place = (record.parent, record.kind, record.index)
        if place in seen:
            reason = (
                f"two entries of kind {record.kind!r} have index {record.index}; each needs its own"
            )
            raise CassetteFormatError(reason=reason)
        seen.add(place)
