"""Which finished spans are worth keeping whole, told in about a microsecond.

Lives here: the test that runs on every span of a program. Not here: what a span really is, which
the dialects say once the run is read (`dialects/`).

Probing `span.attributes` key by key costs a third of a span, so the keys are taken once, as a
tuple, and the verdict on a set of keys is remembered: instrumentations write few different ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

_MAX_KNOWN = 4096
_UNKNOWN: Any = object()
_KIND_SAYING = ("type", "kind")
"""Ends of keys whose value, not name, is the marker (`span.type` = `llm_call`)."""
_SESSION_SAYING = ("session", "conversation")
"""In keys that join traces to runs; spans with one are kept whole, calls or not."""


class CandidateTest:
    """Tells spans that may be calls, or may say more of the run than their name.

    Args:
        markers: Texts of which one stands in a key, a value or the name of every call span.
    """

    def __init__(self, markers: Iterable[str]) -> None:
        self._markers = tuple(dict.fromkeys(markers))
        # True: yes; False: no; None: the values of its kind-saying keys decide.
        self._known: dict[tuple[str, ...], bool | None] = {}

    def __call__(self, span: ReadableSpan) -> bool:
        """Return False only if *span* is surely no call."""
        attributes = span.attributes
        if attributes:
            keys = tuple(attributes)
            verdict = self._known.get(keys, _UNKNOWN)
            if verdict is _UNKNOWN:
                verdict = self._judge(keys)
            if verdict:
                return True
            if verdict is None and self._in_values(attributes):
                return True
        name = span.name
        # A loop: a generator would cost more than the tests themselves.
        for marker in self._markers:  # noqa: SIM110
            if marker in name:
                return True
        return False

    def _judge(self, keys: tuple[str, ...]) -> bool | None:
        text = "\n".join(keys)
        verdict: bool | None = False
        if any(word in text for word in (*self._markers, *_SESSION_SAYING)):
            verdict = True
        elif any(key.endswith(_KIND_SAYING) for key in keys):
            verdict = None
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[keys] = verdict
        return verdict

    def _in_values(self, attributes: Mapping[str, Any]) -> bool:
        values = [
            value
            for key, value in attributes.items()
            if key.endswith(_KIND_SAYING) and isinstance(value, str)
        ]
        return any(marker in value for value in values for marker in self._markers)
