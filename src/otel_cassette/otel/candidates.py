"""Which finished spans are worth keeping whole, told in about a microsecond.

Lives here: the test that runs on every span of a program. Not here: what a span really is, which
the dialects say once the run is read (`dialects/`).

Probing `span.attributes` key by key costs a third of a span, so name and keys are taken once, as a
tuple, and the verdict on it is remembered: instrumentations write few different ones.
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
        # By name and keys. True: yes; False: no; None: the values of the kind-saying keys decide.
        self._known: dict[tuple[str, ...], bool | None] = {}

    def __call__(self, span: ReadableSpan) -> bool:
        """Return False only if *span* is surely no call."""
        attributes = span.attributes
        words = (span.name,) if attributes is None else (span.name, *attributes)
        verdict = self._known.get(words, _UNKNOWN)
        if verdict is _UNKNOWN:
            verdict = self._judge(words)
        if verdict is None:
            return attributes is not None and self._in_values(attributes)
        return verdict is True

    def _judge(self, words: tuple[str, ...]) -> bool | None:
        """Return the verdict on a name and keys; None where the values of a key decide."""
        keys = words[1:]
        verdict: bool | None = False
        if any(marker in word for word in words for marker in self._markers) or any(
            part in key for key in keys for part in _SESSION_SAYING
        ):
            verdict = True
        elif any(key.endswith(_KIND_SAYING) for key in keys):
            verdict = None
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[words] = verdict
        return verdict

    def _in_values(self, attributes: Mapping[str, Any]) -> bool:
        values = [
            value
            for key, value in attributes.items()
            if key.endswith(_KIND_SAYING) and isinstance(value, str)
        ]
        return any(marker in value for value in values for marker in self._markers)
