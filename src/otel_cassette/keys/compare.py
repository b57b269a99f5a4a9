"""Where two requests differ, on what both sources captured.

Lives here: the comparison of two canonical requests. Not here: what is done about a difference
(`engine.py`) and how it is shown (`diff.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from otel_cassette.keys.canonical import canonical_json, escape_pointer
from otel_cassette.keys.fields import same_family
from otel_cassette.keys.masks import CUT, MASKS, MEDIA_TYPES, PLACEHOLDER_PART, masked_equal
from otel_cassette.keys.request import CanonicalRequest, without_ids
from otel_cassette.keys.scope import Scope, intersect, is_empty

JSON = Any
MAX_POINTERS = 50
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two requests showed.

    Attributes:
        scope: What both sources captured; what was compared.
        pointers: Where they differ: JSON pointers into the canonical request; of a list that grew
            or shrank, the first place that only one side has. At most 50.
        masked: They are equal only because masks match any text.
    """

    scope: Scope
    pointers: tuple[str, ...] = ()
    masked: bool = False

    @property
    def cannot_tell(self) -> bool:
        """Whether the comparison had no content to go by."""
        return is_empty(self.scope)

    @property
    def equal(self) -> bool:
        """Whether the requests are equal on the scope, and the scope is not empty."""
        return not self.pointers and not is_empty(self.scope)


def compare(recorded: CanonicalRequest, live: CanonicalRequest) -> Comparison:
    """Return where two requests of one kind differ; masks count on the recorded side only."""
    scope = intersect(recorded.scope, live.scope)
    walk = _Walk(masks=recorded.is_masked, ids="call_ids" in scope)
    if recorded.name != live.name:
        walk.differ("/name")
    for field in sorted(set(recorded.fields) | set(live.fields)):
        if field != "name":
            _compare_field(walk, field, recorded, live, scope)
    return Comparison(scope, tuple(walk.pointers), masked=walk.used_mask and not walk.pointers)


def _compare_field(
    walk: _Walk, field: str, recorded: CanonicalRequest, live: CanonicalRequest, scope: Scope
) -> None:
    a, b = recorded.fields.get(field, _MISSING), live.fields.get(field, _MISSING)
    pointer = f"/{field}"
    if field in scope:
        walk.compare(a, b, pointer)
    elif field == "model" and "model/family" in scope:
        if a is not _MISSING and b is not _MISSING and not same_family(a, b):
            walk.compare(a, b, pointer)
    elif field == "messages" and "messages/tail" in scope:
        _compare_tail(walk, [] if a is _MISSING else a, [] if b is _MISSING else b)
    elif field == "tools" and "tools/names" in scope:
        names_a = [] if a is _MISSING else [t["name"] for t in a]
        names_b = [] if b is _MISSING else [t["name"] for t in b]
        for i in range(max(len(names_a), len(names_b))):
            if names_a[i : i + 1] != names_b[i : i + 1]:
                walk.differ(f"{pointer}/{i}/name")
    elif field == "params":
        known_a = {} if a is _MISSING else a
        known_b = {} if b is _MISSING else b
        for name in sorted(set(known_a) | set(known_b)):
            if f"params/{name}" in scope:
                walk.compare(
                    known_a.get(name, _MISSING),
                    known_b.get(name, _MISSING),
                    f"{pointer}/{escape_pointer(name)}",
                )


def _compare_tail(walk: _Walk, recorded: list[JSON], live: list[JSON]) -> None:
    """Compare the last turns: the recording lost those before, and perhaps part of its first."""
    count = len(recorded) - 1 if len(recorded) > 1 else len(recorded)
    first = len(live) - count
    if first < 0:
        walk.differ("/messages/0")
        return
    for place in range(count):
        a, b = recorded[len(recorded) - count + place], live[first + place]
        walk.compare(without_ids(a), without_ids(b), f"/messages/{first + place}")


class _Walk:
    """One walk over two values; collects pointers, knows whether a mask was needed."""

    def __init__(self, *, masks: bool, ids: bool) -> None:
        self.pointers: list[str] = []
        self.used_mask = False
        self._masks = masks
        self._ids = ids

    def differ(self, pointer: str) -> None:
        if len(self.pointers) < MAX_POINTERS:
            self.pointers.append(pointer)

    def compare(self, a: JSON, b: JSON, pointer: str) -> None:
        if a is b:
            return
        if isinstance(a, dict) and isinstance(b, dict):
            if self._masks and self._is_masked_media(a, b):
                return
            for key in sorted(set(a) | set(b)):
                if key == "id" and not self._ids and "type" in a:
                    continue
                self.compare(
                    a.get(key, _MISSING), b.get(key, _MISSING), f"{pointer}/{escape_pointer(key)}"
                )
        elif isinstance(a, list) and isinstance(b, list):
            for i, (x, y) in enumerate(zip(a, b, strict=False)):
                self.compare(x, y, f"{pointer}/{i}")
            if len(a) != len(b):
                self.differ(f"{pointer}/{min(len(a), len(b))}")
        elif isinstance(a, str) and self._masks and self._matches(a, b):
            self.used_mask = self.used_mask or a != b
        elif not _scalar_equal(a, b):
            self.differ(pointer)

    def _is_masked_media(self, a: JSON, b: JSON) -> bool:
        if a.get("type") == PLACEHOLDER_PART["type"] and b.get("type") in MEDIA_TYPES:
            self.used_mask = True
            return True
        return False

    def _matches(self, a: str, b: JSON) -> bool:
        if isinstance(b, str):
            return masked_equal(a, b)
        if b is _MISSING or not any(mask in a for mask in (*MASKS, CUT)):
            return False
        # Masking broke the JSON of a recorded value; compare the texts, without their spaces.
        texts = (canonical_json(b), json.dumps(b, ensure_ascii=False))
        return any(masked_equal(_squeeze(a), _squeeze(text)) for text in texts)


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _scalar_equal(a: JSON, b: JSON) -> bool:
    """Return whether two values are equal JSON: numbers by value, booleans are no numbers."""
    if a is _MISSING or b is _MISSING:
        return a is b
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)
