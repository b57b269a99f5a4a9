"""The user's own comparison rules: pointers to ignore, and values to normalise first.

Lives here: `ComparisonRules`, how rules are written to a header and read back. Not here: the rules
that hold for everybody (`messages.py`, `fields.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_cassette.keys.canonical import unescape_pointer

JSON = Any
Normalizer = Callable[[JSON], JSON]
_FLAGS = {re.ASCII: "a", re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
NormalizeRule = str | tuple[str, str] | re.Pattern[str] | Normalizer


@dataclass(frozen=True)
class RegexRule:
    """Replace every match of *pattern* in every text by *replacement*."""

    pattern: str
    replacement: str = "<normalized>"

    def __call__(self, value: JSON) -> JSON:
        """Return *value* with every text in it normalised."""
        return _map_text(value, re.compile(self.pattern), self.replacement)


class ComparisonRules:
    """Rules applied to both sides before they are compared.

    Args:
        ignore: JSON pointers into the canonical request; `*` is any one step. What they name is
            left out.
        normalize: Regular expressions (a pattern, a compiled one, or `(pattern, replacement)`)
            applied to every text; or functions that take the canonical request (a dict; for tools
            `{"name", "arguments"}`) and return it changed. A function is told by its name.

    Raises:
        ValueError: For a pointer that does not start with `/`, or a bad pattern.
        TypeError: For a rule of another type.
    """

    def __init__(self, ignore: Iterable[str] = (), normalize: Iterable[NormalizeRule] = ()) -> None:
        self.ignore: tuple[str] | tuple[str, ...] = (
            (ignore,) if isinstance(ignore, str) else tuple(ignore)
        )
        for pointer in self.ignore:
            if not pointer.startswith("/"):
                msg = f"ignore={pointer!r}: a JSON pointer starts with '/', as in '/messages/*/parts/0/content'"
                raise ValueError(msg)
        self.normalize: tuple[Normalizer, ...] = _normalizers(normalize)
        self._paths = [tuple(map(unescape_pointer, p[1:].split("/"))) for p in self.ignore]

    def __bool__(self) -> bool:
        return bool(self.ignore or self.normalize)

    def apply(self, fields: dict[str, JSON]) -> dict[str, JSON]:
        """Return the canonical request with the rules applied; *fields* is not changed."""
        result: JSON = fields
        for rule in self.normalize:
            result = rule(_copy(result))
            if not isinstance(result, dict):
                msg = f"normalize rule {rule_name(rule)!r} returned {type(result).__name__}, not the request as a dict"
                raise TypeError(msg)
        if self._paths:
            result = _copy(result)
            for path in self._paths:
                _remove(result, path)
        return {k: v for k, v in result.items() if v not in (None, [], {})}

    def to_header(self) -> tuple[JSON, ...]:
        """Return the normalising rules as JSON: patterns in full, functions by name.

        Raises:
            ValueError: For a lambda: every lambda has one name, so a load could not tell which it was.
        """
        for rule in self.normalize:
            if rule_name(rule).endswith("<lambda>"):
                msg = "normalize holds a lambda, which a file cannot name: write it as a function (def)"
                raise ValueError(msg)
        return tuple(
            {"pattern": rule.pattern, "replacement": rule.replacement}
            if isinstance(rule, RegexRule)
            else {"function": rule_name(rule)}
            for rule in self.normalize
        )

    @classmethod
    def from_header(
        cls, ignore: Sequence[str], normalize: Sequence[JSON], given: Iterable[NormalizeRule] = ()
    ) -> ComparisonRules:
        """Return the rules that a header names.

        Args:
            ignore: Pointers of the header.
            normalize: Rules of the header.
            given: The rules passed at load; functions are taken from here by name.

        Raises:
            LookupError: When the header names a function that was not given.
        """
        extra = _normalizers(given)
        functions = {rule_name(rule): rule for rule in extra if not isinstance(rule, RegexRule)}
        rules: list[Normalizer] = []
        for spec in normalize:
            if isinstance(spec, Mapping) and "pattern" in spec:
                rules.append(_regex(spec["pattern"], spec.get("replacement", "<normalized>")))
                continue
            name = spec.get("function") if isinstance(spec, Mapping) else spec
            if name not in functions:
                msg = (
                    f"the cassette was recorded with the normalizing function {name!r}, which was not "
                    f"given: pass it, as in Cassette.load(path, normalize=[{name}])"
                )
                raise LookupError(msg)
            rules.append(functions[name])
        known = {rule_name(rule) for rule in rules}
        rules += [rule for rule in extra if rule_name(rule) not in known]
        return cls(ignore, rules)


def rule_name(rule: Normalizer) -> str:
    """Return the name by which a header knows a rule."""
    if isinstance(rule, RegexRule):
        return f"{rule.pattern} -> {rule.replacement}"
    return getattr(rule, "__qualname__", None) or type(rule).__qualname__


def _normalizers(given: Iterable[NormalizeRule] | NormalizeRule) -> tuple[Normalizer, ...]:
    """Return rules, or the only one, as functions."""
    if isinstance(given, str | re.Pattern) or callable(given):
        return (_normalizer(given),)
    return tuple(_normalizer(rule) for rule in given)


def _normalizer(rule: NormalizeRule) -> Normalizer:
    if isinstance(rule, str):
        return _regex(rule)
    if isinstance(rule, re.Pattern):
        return _regex(rule)
    if isinstance(rule, tuple) and len(rule) == 2:
        pattern, replacement = rule
        return _regex(pattern, replacement)
    if callable(rule):
        return rule
    msg = (
        f"normalize={rule!r}: give a pattern, (pattern, replacement), or a function of the request"
    )
    raise TypeError(msg)


def _regex(pattern: str | re.Pattern[str], replacement: str = "<normalized>") -> RegexRule:
    pattern = _inline_flags(pattern) if isinstance(pattern, re.Pattern) else pattern
    try:
        compiled = re.compile(pattern)
        compiled.sub(replacement, "")
    except (re.error, IndexError, TypeError) as error:
        msg = (
            f"normalize: {pattern!r} with replacement {replacement!r} is no usable pattern: {error}"
        )
        raise ValueError(msg) from error
    return RegexRule(pattern, replacement)


def _inline_flags(pattern: re.Pattern[str]) -> str:
    """Return the text of a compiled pattern with its flags in it: a header holds nothing else."""
    letters = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    return f"(?{letters}){pattern.pattern}" if letters else pattern.pattern


def _map_text(value: JSON, pattern: re.Pattern[str], replacement: str) -> JSON:
    if isinstance(value, str):
        return pattern.sub(replacement, value)
    if isinstance(value, dict):
        return {k: _map_text(v, pattern, replacement) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(v, pattern, replacement) for v in value]
    return value


def _copy(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(v) for v in value]
    return value


def _remove(value: JSON, path: tuple[str, ...]) -> None:
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        keys = list(value) if step == "*" else [step] if step in value else []
        for key in keys:
            if rest:
                _remove(value[key], rest)
            else:
                del value[key]
    elif isinstance(value, list):
        places = range(len(value)) if step == "*" else [int(step)] if step.isdigit() else []
        for place in places:
            if place < len(value):
                if rest:
                    _remove(value[place], rest)
                else:
                    value[place] = None
