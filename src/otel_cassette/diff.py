"""How a divergence is described: the bounded diff of two requests, and `ReplayDivergence`.

Lives here: the text and the record of one departure. Not here: finding it (`engine.py`,
`traces.py`) and raising it (`errors.py`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from otel_cassette.keys import CanonicalRequest, llm_request, tool_request
from otel_cassette.model.entry import MODEL_KINDS, EntryKind

DivergenceReason = Literal["request_changed", "tool_changed", "extra_call", "missing_call"]

DIFF_MAX_LINES = 200
DIFF_MAX_LINE_CHARS = 500
_CONTEXT_LINES = 3
_MAX_DIFFED_LINES = 20_000


def request_diff(
    expected: Any,
    actual: Any,
    *,
    expected_label: str = "recorded",
    actual_label: str = "replayed",
    present: tuple[bool, bool] = (True, True),
    max_lines: int = DIFF_MAX_LINES,
    max_line_chars: int = DIFF_MAX_LINE_CHARS,
) -> tuple[str, bool]:
    """Return the unified diff of two requests as pretty JSON, and whether it was cut.

    Args:
        expected: The recorded request, plain JSON.
        actual: The live one.
        expected_label: Name after `---`.
        actual_label: Name after `+++`.
        present: Whether each side has a call at all; one that has none is an empty document.
        max_lines: Longest diff; what is more is counted in a last line.
        max_line_chars: Longest line; longer ones end in `...`. Where two long lines differ only
            after that, both begin with `...` shortly before the difference.

    Returns:
        The diff without a final newline, empty for equal requests; and True where a line or the
        end was cut.
    """
    before = _pretty(expected) if present[0] else []
    after = _pretty(actual) if present[1] else []
    if before == after:
        return "", False
    lines = list(_unified(before, after, expected_label, actual_label))
    starts = _starts(lines[:max_lines], max_line_chars)
    truncated = False
    shown: list[str] = []
    for place, line in enumerate(lines[:max_lines]):
        is_long = len(line) > max_line_chars
        shown.append(_cut(line, starts.get(place, 0), max_line_chars) if is_long else line)
        truncated = truncated or is_long
    if len(lines) > max_lines:
        shown.append(f"... ({len(lines) - max_lines} more diff lines)")
        truncated = True
    return "\n".join(shown), truncated


def _cut(line: str, start: int, max_chars: int) -> str:
    """Return at most *max_chars* of a longer diff line; from *start* on, where it is not 0."""
    if start:
        line = f"{line[0]}...{line[start:]}"
    return line if len(line) <= max_chars else f"{line[: max(0, max_chars - 3)]}..."


def _starts(lines: Sequence[str], max_chars: int) -> dict[int, int]:
    """Say from which character on to show long lines that differ only where they would be cut.

    A prompt is one line of JSON, so its change often stands thousands of characters into it. A run
    of removed lines and the run of added ones behind it are held against each other by place.
    """
    starts: dict[int, int] = {}
    place = 2  # behind the two lines of labels
    while place < len(lines):
        added = _end_of_run(lines, place, "-")
        end = _end_of_run(lines, added, "+")
        for old, new in zip(range(place, added), range(added, end), strict=False):
            if max(len(lines[old]), len(lines[new])) <= max_chars:
                continue
            same = 1 + _common_chars(lines[old][1:], lines[new][1:])
            if same > max_chars // 2:
                starts[old] = starts[new] = same - max_chars // 4
        place = max(end, place + 1)
    return starts


def _end_of_run(lines: Sequence[str], start: int, sign: str) -> int:
    end = start
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return end


def _common_chars(one: str, other: str) -> int:
    """Return the length of the common head; by halves, since texts may have millions of characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _pretty(value: Any) -> list[str]:
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str)
    return text.splitlines()


def _unified(before: list[str], after: list[str], old: str, new: str) -> Sequence[str]:
    """Diff two texts; equal heads and tails are set aside, so that long chats stay cheap."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    start = max(0, head - _CONTEXT_LINES)
    cut_a, cut_b = len(before) - tail + _CONTEXT_LINES, len(after) - tail + _CONTEXT_LINES
    middle_a, middle_b = before[start:cut_a], after[start:cut_b]
    if len(middle_a) + len(middle_b) > _MAX_DIFFED_LINES:
        body = [f"-{line}" for line in middle_a] + [f"+{line}" for line in middle_b]
        return [f"--- {old}", f"+++ {new}", f"@@ -{start + 1} +{start + 1} @@", *body]
    lines = list(difflib.unified_diff(middle_a, middle_b, old, new, lineterm="", n=_CONTEXT_LINES))
    return [_shift(line, start) if line.startswith("@@") else line for line in lines]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _shift(hunk: str, by: int) -> str:
    if not by:
        return hunk
    _, old, new, _ = hunk.split(" ", 3)
    return f"@@ {_shift_range(old, by)} {_shift_range(new, by)} @@"


def _shift_range(text: str, by: int) -> str:
    start, comma, count = text[1:].partition(",")
    return f"{text[0]}{int(start) + by}{comma}{count}"


class ReplayDivergence(BaseModel):
    """One departure of a replay from its recording.

    Attributes:
        kind: `llm`, `tool`, `retrieval` or `embedding`.
        index: 0-based place of the live call in its sequence; of the recorded call when it is missing.
        reason: `request_changed`, `tool_changed`, `extra_call` or `missing_call`.
        mode: Mode of the playback; None for comparisons.
        expected_name, actual_name: Tool or retriever; None for llm and embedding.
        expected_key, actual_key: sha256 keys; None on a side without a call.
        expected_request, actual_request: Plain JSON; None on a side without a call.
        diff: Unified diff of the canonical requests, bounded.
        diff_truncated: The diff was cut.
        span_id: The live span, 16 hex digits; None when untraced.
        fields: JSON pointers (RFC 6901) into the canonical request, where the sides differ.
        scope: Tokens of what was compared; None when no side-by-side comparison was made.
        cascade_of: The call this one only follows from, as `tool#1`; None for a first cause.
        note: What else is known, in a sentence.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    kind: EntryKind
    index: int
    reason: DivergenceReason
    mode: str | None = None
    expected_name: str | None = None
    actual_name: str | None = None
    expected_key: str | None = None
    actual_key: str | None = None
    expected_request: Any = None
    actual_request: Any = None
    diff: str = ""
    diff_truncated: bool = False
    span_id: str | None = None
    fields: tuple[str, ...] = ()
    scope: tuple[str, ...] | None = None
    cascade_of: str | None = None
    note: str | None = None

    @classmethod
    def create(
        cls,
        kind: EntryKind,
        index: int,
        *,
        expected_request: Any = None,
        actual_request: Any = None,
        expected_key: str | None = None,
        actual_key: str | None = None,
        expected_name: str | None = None,
        actual_name: str | None = None,
        mode: str | None = None,
        span_id: str | None = None,
        max_lines: int = DIFF_MAX_LINES,
        max_line_chars: int = DIFF_MAX_LINE_CHARS,
        expected: CanonicalRequest | None = None,
        actual: CanonicalRequest | None = None,
        **facts: Any,
    ) -> ReplayDivergence:
        """Return a divergence with its reason and diff worked out.

        Args:
            kind: Kind of the call.
            index: Its place.
            expected_request: The recorded request, plain JSON.
            actual_request: The live one.
            expected_key: Key of the recorded request; None says that there is no recorded call.
            actual_key: Key of the live request; None says that there is no live call.
            expected_name: Recorded tool or retriever.
            actual_name: Live tool or retriever.
            mode: Mode of the playback.
            span_id: The live span.
            max_lines: Bound of the diff.
            max_line_chars: Bound of its lines.
            expected: The recorded request in canonical form, when it is at hand.
            actual: The live one.
            **facts: `fields`, `scope`, `cascade_of`, `note`.

        Returns:
            The divergence: `missing_call` without a live call, `extra_call` without a recorded
            one, `tool_changed` when the names differ, else `request_changed`.
        """
        present = (expected_key is not None, actual_key is not None)
        if not present[1]:
            reason: DivergenceReason = "missing_call"
        elif not present[0]:
            reason = "extra_call"
        else:
            reason = "tool_changed" if expected_name != actual_name else "request_changed"
        before = expected or (
            _canonical(kind, expected_name, expected_request) if present[0] else None
        )
        after = actual or (_canonical(kind, actual_name, actual_request) if present[1] else None)
        diff, truncated = request_diff(
            before.fields if before and present[0] else None,
            after.fields if after and present[1] else None,
            present=present,
            max_lines=max_lines,
            max_line_chars=max_line_chars,
        )
        return cls(
            kind=kind,
            index=index,
            reason=reason,
            mode=mode,
            expected_name=expected_name,
            actual_name=actual_name,
            expected_key=expected_key,
            actual_key=actual_key,
            expected_request=expected_request if present[0] else None,
            actual_request=actual_request if present[1] else None,
            diff=diff,
            diff_truncated=truncated,
            span_id=span_id,
            **facts,
        )

    @property
    def is_first_cause(self) -> bool:
        """Whether the divergence does not merely follow from an earlier one."""
        return self.cascade_of is None

    def summary(self) -> str:
        """Return one line, e.g. `llm call #2: request differs (messages/3/parts/0/content)`."""
        head = f"{self.kind} call #{self.index}"
        if self.reason == "tool_changed":
            text = f"{head}: {self.expected_name!r} was recorded, {self.actual_name!r} was called"
        elif self.reason == "extra_call":
            name = f" of {self.actual_name!r}" if self.actual_name else ""
            text = f"{head}: extra call{name}, the recording has none"
        elif self.reason == "missing_call":
            name = f" of {self.expected_name!r}" if self.expected_name else ""
            text = f"{head}: missing call{name}, only the recording has it"
        else:
            name = f" of {self.actual_name!r}" if self.actual_name else ""
            text = f"{head}: request{name} differs{self._where()}"
        return f"{text}; follows from {self.cascade_of}" if self.cascade_of else text

    def _where(self) -> str:
        if not self.fields:
            return ""
        shown = ", ".join(pointer.lstrip("/") for pointer in self.fields[:3])
        more = f" and {len(self.fields) - 3} more" if len(self.fields) > 3 else ""
        return f" ({shown}{more})"

    def to_dict(self, *, include_requests: bool = True) -> dict[str, Any]:
        """Return the divergence ready for JSON; without requests it keeps diff and keys."""
        data = self.model_dump(mode="json")
        if not include_requests:
            del data["expected_request"], data["actual_request"]
        return data

    def __str__(self) -> str:
        return f"{self.summary()}\n{self.diff}" if self.diff else self.summary()


def _canonical(kind: EntryKind, name: str | None, request: Any) -> CanonicalRequest:
    if kind in MODEL_KINDS and isinstance(request, dict):
        return llm_request(request, kind=kind)
    return tool_request(name or "", request, kind=kind)
