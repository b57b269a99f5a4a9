"""Rules applied to texts, to the pieces of a stream and to plain JSON.

Lives here: `Redactor`. Not here: the rules (`rules.py`, `builtin.py`).

Masks are stable: a text that was redacted once is not changed again, by these rules in any later
run. For that the rules are applied until nothing changes, and never look inside a mask.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_cassette.errors import CassetteFormatError
from otel_cassette.redaction.builtin import BUILTIN, DEFAULT_RULES
from otel_cassette.redaction.prefilter import (
    Literals,
    Prefilter,
    encode,
    fold,
    fold_name,
    pointer_steps,
)
from otel_cassette.redaction.rules import MASK, MASK_START, RedactionRule, RuleLike, as_rules

_CACHE_MAX_ENTRIES = 16_384
_CACHE_MAX_CHARS = 4_000_000

_Hits = tuple[tuple[str, int], ...]
_Spot = tuple[RedactionRule, tuple[str, ...]]


class Redactor:
    """A set of rules in force, safe to share between threads.

    Args:
        rules: `RedactionRule`s, `(name, regex)` pairs or regexes, applied in this order.

    Attributes:
        rules: The rules as `RedactionRule`s.
    """

    def __init__(self, rules: Iterable[RuleLike] = DEFAULT_RULES) -> None:
        self.rules: tuple[RedactionRule, ...] = as_rules(rules)
        self._prefilter = Prefilter(self.rules)
        self._texts = tuple(
            (rule, Literals(rule)) for rule in self.rules if rule.pattern is not None
        )
        self._spots: tuple[_Spot, ...] = tuple(
            (rule, pointer_steps(path)) for rule in self.rules for path in rule.paths
        )
        self._fields: dict[str, tuple[RedactionRule, ...]] = {}
        for rule in self.rules:
            for name in rule.fields:
                key = fold_name(name)
                self._fields[key] = (*self._fields.get(key, ()), rule)
        # Chats repeat their history: what was scanned once is looked up by the text itself.
        self._cache: dict[str, tuple[str, _Hits]] = {}
        self._cached_chars = 0

    def __repr__(self) -> str:
        return f"Redactor({', '.join(rule.name for rule in self.rules) or 'no rules'})"

    def may_match(self, text: str | bytes) -> bool:
        """Return whether a rule could change something in a text or in the JSON that *text* is.

        Args:
            text: A text, or JSON as `json.dumps(..., ensure_ascii=False)` or msgspec writes it;
                bytes are UTF-8.

        Returns:
            False: `text()` and `json()` would change nothing. True: they may.
        """
        if not self.rules:
            return False
        return self._prefilter.may_match(encode(text) if isinstance(text, str) else text)

    def text(self, text: str) -> str:
        """Return *text* with its secrets masked; the same object when there are none."""
        return self._scan(text)[0]

    def text_counted(self, text: str) -> tuple[str, Counter[str]]:
        """Return the masked text, and how many secrets each rule masked."""
        masked, hits = self._scan(text)
        return masked, Counter(dict(hits))

    def json(self, value: Any) -> Any:
        """Return plain JSON with its secrets masked, in keys too; the same object when there are none."""
        return self.json_counted(value)[0]

    def json_counted(self, value: Any) -> tuple[Any, Counter[str]]:
        """Return the masked JSON, and how many secrets each rule masked."""
        hits: Counter[str] = Counter()
        if not self.rules:
            return value, hits
        return self._walk(value, self._spots, hits), hits

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces of a streamed text with its secrets masked.

        The text is scanned whole, so that a secret cut by a piece's end is found.

        Returns:
            As many pieces as were given; together they are `text("".join(pieces))`. Pieces before
            and after the masked stretch stay as they are; the stretch stands in the piece it
            begins in.
        """
        whole = "".join(pieces)
        masked = self.text(whole)
        if masked is whole or masked == whole:
            return list(pieces)
        head = _common_prefix(whole, masked)
        tail = _common_prefix(whole[head:][::-1], masked[head:][::-1])
        first_after = len(whole) - tail
        cuts: list[int] = []
        end = 0
        for piece in pieces:
            end += len(piece)
            if end <= head:
                cuts.append(end)
            else:
                cuts.append(len(masked) - tail + max(0, end - first_after))
        return [masked[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]

    def to_header(self) -> list[Any]:
        """Return the rules as they stand in a cassette's header.

        Returns:
            `"NAME@REVISION"` for a built-in rule, the whole rule as an object for a user's.
        """
        return [
            f"{rule.name}@{rule.revision}"
            if BUILTIN.get((rule.name, rule.revision)) == rule
            else rule.to_json()
            for rule in self.rules
        ]

    @classmethod
    def from_header(cls, rules: Iterable[Any]) -> Redactor:
        """Return a redactor with the rules that a header names.

        Raises:
            CassetteFormatError: A built-in rule or revision is not known here, or a rule cannot be
                used.
        """
        return cls([_rule_from_header(item) for item in rules])

    # --- text -------------------------------------------------------------------------------

    def _scan(self, text: str) -> tuple[str, _Hits]:
        known = self._cache.get(text)
        if known is None:
            known = self._scan_uncached(text)
            self._remember(text, known)
        return known if known[1] else (text, ())  # the caller's own object, not an equal one

    def _remember(self, text: str, result: tuple[str, _Hits]) -> None:
        # Two threads may both count or both clear: the bound stays right within one text.
        if len(text) > _CACHE_MAX_CHARS // 4:
            return
        if len(self._cache) >= _CACHE_MAX_ENTRIES or self._cached_chars > _CACHE_MAX_CHARS:
            self._cache.clear()
            self._cached_chars = 0
        self._cache[text] = result
        self._cached_chars += len(text)

    def _scan_uncached(self, text: str) -> tuple[str, _Hits]:
        data = encode(text)
        if not self._texts or not self._prefilter.may_match(data):
            return text, ()
        hits: Counter[str] = Counter()
        current = text
        while True:
            before = current
            folded = fold(data)
            for rule, literals in self._texts:
                if literals.hit(data, folded):
                    current = _apply(rule, current, hits)
            if current == before:
                break
            data = encode(current)
        return (text, ()) if current == text else (current, tuple(hits.items()))

    # --- JSON -------------------------------------------------------------------------------

    def _walk(self, value: Any, spots: tuple[_Spot, ...], hits: Counter[str]) -> Any:
        if isinstance(value, str):
            return self._counted(value, hits)
        if isinstance(value, Mapping):
            return self._walk_object(value, spots, hits)
        if isinstance(value, list | tuple):
            items = [self._member(str(i), item, spots, hits) for i, item in enumerate(value)]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        return value

    def _walk_object(
        self, value: Mapping[Any, Any], spots: tuple[_Spot, ...], hits: Counter[str]
    ) -> Any:
        changed = False
        items: list[tuple[Any, Any, Any]] = []
        for key, old in value.items():
            new = old
            new_key = key
            if isinstance(key, str):
                for rule in self._fields.get(fold_name(key), ()):
                    if isinstance(new, str | int | float):
                        new = _mask_value(rule, new, hits)
                new_key = self._counted(key, hits)
            new = self._member(str(key), new, spots, hits)
            changed = changed or new is not old or new_key is not key
            items.append((key, new_key, new))
        if not changed:
            return value
        return _rebuild(items)

    def _member(self, name: str, value: Any, spots: tuple[_Spot, ...], hits: Counter[str]) -> Any:
        below: list[_Spot] = []
        for rule, steps in spots:
            if steps[0] not in ("*", name):
                continue
            if len(steps) > 1:
                below.append((rule, steps[1:]))
            elif value is not None:
                value = _mask_value(rule, value, hits)
        return self._walk(value, tuple(below), hits)

    def _counted(self, text: str, hits: Counter[str]) -> str:
        masked, found = self._scan(text)
        for name, count in found:
            hits[name] += count
        return masked


def _apply(rule: RedactionRule, text: str, hits: Counter[str]) -> str:
    """Return *text* with what *rule* finds outside of masks masked."""
    regex = rule.regex
    assert regex is not None  # noqa: S101 - callers hold rules with a pattern only
    if MASK_START not in text:
        parts, masks = [text], []
    else:
        parts, masks = MASK.split(text), MASK.findall(text)
    done: list[str] = []
    for part in parts:
        last = 0
        for match in regex.finditer(part):
            start, end = _secret_span(match)
            if start == end or start < last:
                continue
            hits[rule.name] += 1
            done += (part[last:start], rule.mask)
            last = end
        done.append(part[last:])
        if masks:
            done.append(masks.pop(0))
    return "".join(done)


def _secret_span(match: re.Match[str]) -> tuple[int, int]:
    """Return the group named `secret...` that took part in the match, else the whole of it."""
    for group in match.re.groupindex:
        if group.startswith("secret") and match.start(group) >= 0:
            return match.span(group)
    return match.span()


def _mask_value(rule: RedactionRule, value: Any, hits: Counter[str]) -> Any:
    if isinstance(value, str) and MASK.fullmatch(value):
        return value
    if rule.value_regex is None:
        hits[rule.name] += 1
        return rule.mask
    # A text that holds a mask was redacted already; looking again could mask more of it.
    if not isinstance(value, str) or MASK_START in value:
        return value
    match = rule.value_regex.fullmatch(value)
    if match is None:
        return value
    start, end = _secret_span(match)
    hits[rule.name] += 1
    return value[:start] + rule.mask + value[end:]


def _rebuild(items: list[tuple[Any, Any, Any]]) -> dict[Any, Any]:
    """Return an object of (old key, new key, value); keys made equal by a mask are numbered."""
    taken = {new for old, new, _ in items if new == old}
    names: dict[Any, Any] = {}
    # By the old key, not by place: both sides of a comparison must number alike.
    for old, new, _ in sorted(
        (item for item in items if item[0] != item[1]), key=lambda item: item[0]
    ):
        name, number = new, 1
        while name in taken:
            number += 1
            name = f"{new}#{number}"
        taken.add(name)
        names[old] = name
    return {names.get(old, old): value for old, _, value in items}


def _common_prefix(a: str, b: str) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def _rule_from_header(item: Any) -> RedactionRule:
    if isinstance(item, str):
        name, _, revision = item.partition("@")
        rule = BUILTIN.get((name, int(revision))) if revision.isdecimal() else None
        if rule is not None:
            return rule
        known = sorted(f"{n}@{r}" for n, r in BUILTIN)
        msg = (
            f"the header names the redaction rule {item!r}, which this version of otel-cassette does not have "
            f"(it has {', '.join(known)}). Without it a live request could not be compared with the recorded one. "
            "Install the version the cassette was recorded with or a newer one: pip install -U otel-cassette"
        )
        raise CassetteFormatError(reason=msg)
    try:
        return RedactionRule(**item)
    except (TypeError, ValueError) as error:
        msg = (
            f"the header holds a redaction rule that cannot be used: {error}; "
            "correct it, or record the cassette again"
        )
        raise CassetteFormatError(reason=msg) from error
