"""What a redaction rule is, and how it is written in a cassette's header.

Lives here: `RedactionRule`, the short forms a user may give, and the mask text. Not here: the
built-in rules (`builtin.py`) and their application (`redactor.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MASK = re.compile(r"<redacted:[a-z0-9][a-z0-9_-]{0,63}>")
MASK_START = "<redacted:"


@dataclass(frozen=True)
class RedactionRule:
    """One kind of secret and how to find it.

    A secret is replaced by `<redacted:NAME>`. Of a regex match the group whose name starts with
    `secret` is replaced, without such a group the whole match.

    Attributes:
        name: Lower-case letters, digits, `-` and `_`; at most 64 characters.
        pattern: Regex searched in every text and every object key.
        paths: JSON pointers to values to be masked, whatever their type; `*` stands for one step.
            They start at the request or the response.
        fields: Names of object members at any depth whose text or number is masked. ASCII letters
            are compared without case.
        values: Regex that a text found by `paths` or `fields` must match in whole to be masked;
            None masks every value.
        literals: Texts of which at least one stands in whatever `pattern` matches: the pre-filter.
            Empty: the regex is run on every text, which costs tens of microseconds a call.
        ignore_case: ASCII letters of `pattern` and `literals` match in either case. The regex is
            then compiled with `re.ASCII` too, for which the pre-filter is exact.
        min_run: Every match holds a literal inside an unbroken run of at least so many characters
            `A-Z a-z 0-9 _ . + / = -`. 0: no such run is certain. It makes the pre-filter cheaper.
        revision: Of a built-in rule, from 1; 0 marks a rule of the user.

    Raises:
        ValueError: The name, a regex, a path or a literal cannot be used; the text says why.
    """

    name: str
    pattern: str | None = None
    paths: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    values: str | None = None
    literals: tuple[str, ...] = ()
    ignore_case: bool = False
    min_run: int = 0
    revision: int = 0

    def __post_init__(self) -> None:
        for field in ("paths", "fields", "literals"):
            given = getattr(self, field)
            object.__setattr__(self, field, (given,) if isinstance(given, str) else tuple(given))
        if not _NAME.fullmatch(self.name):
            msg = (
                f"redaction rule name {self.name!r} is not 1 to 64 of a-z, 0-9, '-' and '_'; "
                "the name stands in the mask `<redacted:NAME>`"
            )
            raise ValueError(msg)
        if self.pattern is None and not self.paths and not self.fields:
            msg = f"redaction rule {self.name!r} finds nothing: give it a pattern, paths or fields"
            raise ValueError(msg)
        self._check_regexes()
        for path in self.paths:
            if not path.startswith("/"):
                msg = (
                    f"redaction rule {self.name!r}: path {path!r} is no JSON pointer below the root; "
                    "write '/messages/*/name'"
                )
                raise ValueError(msg)
        for literal in self.literals:
            if not literal or any(ord(c) < 32 for c in literal):
                msg = f"redaction rule {self.name!r}: literal {literal!r} is empty or holds a control character"
                raise ValueError(msg)

    def _check_regexes(self) -> None:
        for source in (self.pattern, self.values):
            try:
                compiled = re.compile(source or "x")
            except re.error as error:
                msg = f"redaction rule {self.name!r}: {source!r} is no valid regex: {error}"
                raise ValueError(msg) from error
            if source is self.pattern and compiled.fullmatch(""):
                msg = f"redaction rule {self.name!r}: {source!r} matches the empty text, so it would match everywhere"
                raise ValueError(msg)

    @cached_property
    def mask(self) -> str:
        """The text that takes the place of a secret."""
        return f"{MASK_START}{self.name}>"

    @cached_property
    def regex(self) -> re.Pattern[str] | None:
        """`pattern`, compiled."""
        return None if self.pattern is None else re.compile(self.pattern, self._flags)

    @cached_property
    def value_regex(self) -> re.Pattern[str] | None:
        """`values`, compiled."""
        return None if self.values is None else re.compile(self.values, self._flags)

    @property
    def _flags(self) -> re.RegexFlag:
        return re.IGNORECASE | re.ASCII if self.ignore_case else re.RegexFlag(0)

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain JSON without defaults, as it stands in a header."""
        data: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "name" or value != field.default:
                data[field.name] = list(value) if isinstance(value, tuple) else value
        return data


RuleLike = RedactionRule | tuple[str, str] | str
"""A rule, a `(name, regex)` pair, or a regex; the last is named `custom-1`, `custom-2`, ..."""


def as_rules(given: Iterable[RuleLike]) -> tuple[RedactionRule, ...]:
    """Return the rules that *given* stands for.

    Raises:
        TypeError: *given* is one text, or holds what is no rule.
        ValueError: A rule cannot be used, or two have one name.
    """
    if isinstance(given, str):
        msg = f"redact={given!r} is one text; give a sequence of rules: redact=({given!r},)"
        raise TypeError(msg)
    rules: list[RedactionRule] = []
    plain = 0
    for item in given:
        if isinstance(item, RedactionRule):
            rules.append(item)
        elif isinstance(item, str):
            plain += 1
            rules.append(RedactionRule(f"custom-{plain}", item))
        elif _is_pair(item):
            rules.append(RedactionRule(item[0], item[1]))
        else:
            msg = f"{item!r} is no redaction rule: give a RedactionRule, a (name, regex) pair or a regex"
            raise TypeError(msg)
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            msg = f"two redaction rules are named {name!r}; the mask would not say which one it was"
            raise ValueError(msg)
    return tuple(rules)


def _is_pair(item: object) -> bool:
    return (
        isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(x, str) for x in item)
    )
