"""Writes docs/attributes.md from the registry of names (otel_cassette.session.names).

python scripts/attributes_page.py            write the page
python scripts/attributes_page.py --check    fail if the page is not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from otel_cassette.session import names

PAGE = Path(__file__).parents[1] / "docs" / "attributes.md"
_HEAD = """# Names on spans

Everything that otel-cassette writes to spans, metrics and `tracestate`. Made from
the registry in `session/names.py` by `scripts/attributes_page.py`: change it there. What to search for, and how, is in
[backends.md](backends.md).
"""
_TAIL = """## Promises

- `replay_diverged` is a boolean and only ever `true`: search for its presence.
- Every string is shorter than {max_bytes:,} bytes: Tempo cuts longer ones at 2,048 without a mark. Lists have at most
  {max_items} items. There are no bytes, no NaN, no maps.
- With `span_content=False`, or where content capture is switched off explicitly in the environment, nothing here
  carries text of a request or an answer: pointers, names of tools, counts and digests only.
- On the session span and on the local root `replay_divergence` is JSON: `kind`, `index`, `reason`, `summary`, and as
  far as they are known `mode`, `fields`, `scope`, `expected_name`, `actual_name`, `expected_key`, `actual_key`,
  `span_id`, `cascade_of`, `note`. Elsewhere it is one line of text.
- Our own spans are never recorded as calls.

## tracestate

Member `{tracestate}`, made by `ReplaySampler`: `<session id>` or `<session id>.<kind>.<index>`, at most 64 characters
of `a-z 0-9 . : -`. A hint which recorded call a span may get; another process ignores it.
"""


def page() -> str:
    """Return the page as it should stand in docs/."""
    parts = [
        _HEAD,
        _section("Attributes", ("name", "type", "on", "says"), _attribute_rows()),
        _section("Spans", ("name", "what it is"), names.SPANS),
        _section("Events", ("name", "what it is"), names.EVENTS),
        _section(
            "Counters",
            ("name", "unit", "counts"),
            [(metric.key, metric.unit, metric.meaning) for metric in names.METRICS],
        ),
        _TAIL.format(
            max_bytes=names.MAX_STRING_BYTES,
            max_items=names.MAX_DIFF_ITEMS,
            tracestate=names.TRACESTATE_KEY,
        ),
    ]
    return "\n".join(parts)


def _attribute_rows() -> list[tuple[str, ...]]:
    return [(each.key, each.type, each.where, each.meaning) for each in names.ATTRIBUTES]


def _section(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"## {title}", "", _row(head), _row(("---",) * len(head))]
    lines += [_row((f"`{first}`", *rest)) for first, *rest in rows]
    return "\n".join([*lines, ""])


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    """Write or check the page; returns the exit code."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        print(f"wrote {PAGE}")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"{PAGE} is not what the registry says: run python scripts/attributes_page.py")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
