"""Marks that others leave where content was taken out, and how such text matches.

Lives here: the one list of masks and placeholders, and the linear match of a masked text. Not
here: our own `<redacted:RULE>`, which both sides write alike and which is compared exactly.
"""

from __future__ import annotations

import re
from typing import Any

MASKS = ("****", "__REDACTED__", "[REDACTED]", "<elided>")
"""Collector `redaction` processor; OpenInference `OPENINFERENCE_HIDE_*`; strands; google-adk logs."""

CUT = "\ufdd0cut"
"""Ends a text of which only the beginning was captured. A Unicode noncharacter: no text holds it."""

MEDIA_PLACEHOLDERS = ("@@@langfuseMedia:", "mlflow-attachment://", "__REDACTED__", "<elided>")
"""Stand where inline media was taken out; each matches one media part."""

MEDIA_TYPES = frozenset({"blob", "uri", "file"})
PLACEHOLDER_PART = {"type": "media_placeholder"}

_SPLIT = re.compile("|".join(re.escape(mask) for mask in (*MASKS, CUT)))


def holds_mask(text: str) -> bool:
    """Return whether *text* holds a mask, a cut mark or a media placeholder."""
    return "****" in text or any(
        mark in text for mark in ("REDACTED", "<elided>", CUT, "media_placeholder")
    )


def is_whole_mask(text: str) -> bool:
    """Return whether nothing but masks is left of *text*."""
    return bool(text) and not _SPLIT.sub("", text).strip()


def masked_equal(recorded: str, live: str) -> bool:
    """Return whether *live* can be the text of which *recorded* is the masked form.

    Each mask stands for any text; what stands between masks must stand in *live* in that order.
    Linear in the length of both.
    """
    pieces = _SPLIT.split(recorded)
    if len(pieces) == 1:
        return recorded == live
    first, last = pieces[0], pieces[-1]
    if not live.startswith(first) or len(first) + len(last) > len(live):
        return False
    if not live.endswith(last):
        return False
    at, end = len(first), len(live) - len(last)
    for piece in pieces[1:-1]:
        found = live.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def media_placeholder(part: dict[str, Any]) -> bool:
    """Return whether a part stands where inline media was taken out."""
    if str(part.get("type", "")).startswith("anthropic_"):
        return True
    content = part.get("content", part.get("uri"))
    return isinstance(content, str) and content.startswith(MEDIA_PLACEHOLDERS)
