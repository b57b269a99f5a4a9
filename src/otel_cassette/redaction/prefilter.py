"""One quick look at a whole text that tells whether any rule could match in it.

Lives here: `Prefilter`, which searches the literals of the rules, not their regexes. Not here: the
regexes (`redactor.py`).

Most texts hold no secret, and nine regexes over 3.5 kB cost ten times what comparing the request
costs. Three looks, cheapest first:

- Tokens (`min_run`) stand in a long unbroken run. One table maps the bytes of a token to `x`, the
  rest to a blank; a search for twenty `x` finds the few runs there are, and only those are searched
  for the literals.
- Literals of rules with `ignore_case` are searched in a folded copy: lower case, and `-` and the
  blank as `_`, so that `API-Key` and `api_key` are one literal. Several that share a word are
  searched only where that word stands.
- The others are searched as they are.

It is exact in one direction: where it says no, no rule changes anything. That holds for a text and
for JSON made of it, as `json.dumps(..., ensure_ascii=False)` writes it: a literal is searched as
written and as JSON escapes it.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Sequence

from otel_cassette.redaction.rules import RedactionRule

_RUN_CHARS = string.ascii_letters + string.digits + "_.+/=-"
_TO_RUN = bytes(ord("x") if chr(b) in _RUN_CHARS else ord(" ") for b in range(256))
_FOLD = bytes(
    ord("_") if chr(b) in "- " else ord(chr(b).lower()) if b < 128 else b for b in range(256)
)
_SHARED_WORDS = (b"key", b"token")
# Searching one byte costs a tenth of searching a word; a word whose byte is absent is not searched.
_RARE_BYTES = b"%@+/~^|`#$&QXZJVKBzqj"
_LONG_RUN_BYTES = 400
_RARE_IN_RUNS = (b"_", b"-", b".")


def encode(text: str) -> bytes:
    """Return *text* as the bytes the pre-filter looks at; lone surrogates are kept."""
    return text.encode("utf-8", "surrogatepass")


def fold(data: bytes) -> bytes:
    """Return *data* in the form in which literals without case are searched."""
    return data.translate(_FOLD)


def fold_name(name: str) -> str:
    """Return the name of an object member with its ASCII letters in lower case."""
    return name.lower() if name.isascii() else name


def escaped_forms(text: str) -> set[str]:
    """Return *text* as it is, and as it stands in JSON."""
    return {text, json.dumps(text, ensure_ascii=False)[1:-1]}


class Literals:
    """The literals of one rule; `hit` says whether its regex is worth running on a text."""

    def __init__(self, rule: RedactionRule) -> None:
        forms = [
            encode(form) for literal in rule.literals for form in sorted(escaped_forms(literal))
        ]
        self._folded = rule.ignore_case
        self._forms = tuple(dict.fromkeys(map(fold, forms))) if rule.ignore_case else tuple(forms)

    def hit(self, data: bytes, folded: bytes) -> bool:
        """Return whether one of the literals stands in the text, or there is none to look for."""
        text = folded if self._folded else data
        return not self._forms or any(form in text for form in self._forms)


class Prefilter:
    """The literals of all rules, arranged for one look.

    Attributes:
        always: Some rule has nothing to look for: no text can be ruled out.
    """

    def __init__(self, rules: Iterable[RedactionRule]) -> None:
        self.always: bool = False
        self._min_run = 0
        exact: dict[bytes, None] = {}
        folded: dict[bytes, None] = {}
        in_runs: dict[bytes, None] = {}
        for rule in rules:
            texts = [form for literal in rule.literals for form in sorted(escaped_forms(literal))]
            if rule.pattern is not None and not texts:
                self.always = True
            elif rule.ignore_case:
                folded.update(dict.fromkeys(fold(encode(text)) for text in texts))
            elif rule.min_run and all(set(text) <= set(_RUN_CHARS) for text in texts):
                self._min_run = min(self._min_run or rule.min_run, rule.min_run)
                in_runs.update(dict.fromkeys(map(encode, texts)))
            else:
                exact.update(dict.fromkeys(map(encode, texts)))
            for name in rule.fields:
                for form in escaped_forms(name):
                    folded[fold(encode(form))] = None
            for path in rule.paths:
                steps = [s for s in pointer_steps(path) if s != "*" and not s.isdecimal()]
                if not steps:
                    self.always = True
                else:
                    exact.update(dict.fromkeys(map(encode, escaped_forms(max(steps, key=len)))))
        self._exact = _with_rare_byte(_without_longer(exact))
        self._run_literals = _without_longer(in_runs)
        self._run_regex = re.compile(b"|".join(map(re.escape, self._run_literals)))
        self._run = b"x" * self._min_run
        plain, self._shared = _group(_without_longer(folded))
        self._plain = _with_rare_byte(plain)

    def may_match(self, data: bytes) -> bool:
        """Return whether a rule could change something in *data* (UTF-8)."""
        if self.always:
            return True
        for rare, literal in self._exact:
            if rare in data and literal in data:
                return True
        if self._min_run and self._in_a_run(data):
            return True
        if not self._plain and not self._shared:
            return False
        folded = data.translate(_FOLD)
        for rare, literal in self._plain:
            if rare in folded and literal in folded:
                return True
        return any(
            word in folded and any(literal in folded for literal in literals)
            for word, literals in self._shared
        )

    def _in_a_run(self, data: bytes) -> bool:
        shape = data.translate(_TO_RUN)
        search = self._run_regex.search
        start = shape.find(self._run)
        while start >= 0:
            end = shape.find(b" ", start)
            if end < 0:
                end = len(data)
            if end - start < _LONG_RUN_BYTES:
                if search(data, start, end):
                    return True
            elif self._in_long_run(data[start:end]):
                return True
            start = shape.find(self._run, end)
        return False

    def _in_long_run(self, run: bytes) -> bool:
        """Base64, as a rule: most literals hold a sign that base64 does not have."""
        absent = [sign for sign in _RARE_IN_RUNS if sign not in run]
        return any(
            literal in run
            for literal in self._run_literals
            if not any(sign in literal for sign in absent)
        )


def pointer_steps(path: str) -> tuple[str, ...]:
    """Return the steps of an RFC 6901 pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])


def _without_longer(literals: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the literals less those that hold another one: finding the shorter is enough."""
    found = sorted(set(literals), key=lambda x: (len(x), x))
    return tuple(x for i, x in enumerate(found) if not any(shorter in x for shorter in found[:i]))


def _with_rare_byte(literals: Iterable[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    """Pair each literal with its rarest byte; with nothing, which stands in every text, if it has none."""
    return tuple(
        (next((bytes([byte]) for byte in _RARE_BYTES if byte in literal), b""), literal)
        for literal in literals
    )


def _group(
    literals: Sequence[bytes],
) -> tuple[tuple[bytes, ...], list[tuple[bytes, tuple[bytes, ...]]]]:
    shared: dict[bytes, list[bytes]] = {}
    plain: list[bytes] = []
    for literal in literals:
        word = next((w for w in _SHARED_WORDS if w in literal), None)
        if word is None:
            plain.append(literal)
        else:
            shared.setdefault(word, []).append(literal)
    return tuple(plain), [(word, tuple(group)) for word, group in shared.items()]
