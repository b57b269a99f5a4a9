"""Marks on live spans through the public OpenTelemetry API.

Lives here: what is set on a span when a call departed. Not here: which span it is (the caller
knows), and spans of our own (`otel/`).
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.trace import Span

from otel_cassette.diff import ReplayDivergence
from otel_cassette.session import names


def current_span_id() -> str | None:
    """Return the id of the current span as 16 hex digits; None without one."""
    context = trace.get_current_span().get_span_context()
    return format(context.span_id, "016x") if context.is_valid else None


def current_path() -> tuple[str, ...]:
    """Return what is known of the live span tree without a processor: the current span's name."""
    name = getattr(trace.get_current_span(), "name", None)
    return (name,) if isinstance(name, str) else ()


def bounded(text: str, limit_bytes: int = names.MAX_STRING_BYTES) -> str:
    """Return *text* in at most *limit_bytes* bytes of UTF-8, ending in `...` where it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode("utf-8")
    return data[: limit_bytes - 3].decode("utf-8", "ignore") + "..."


def diff_items(divergence: ReplayDivergence) -> list[str]:
    """Return the diff as span items: one line an item, at most 60."""
    lines = divergence.diff.splitlines()
    shown = [bounded(line) for line in lines[: names.MAX_DIFF_ITEMS]]
    if len(lines) > names.MAX_DIFF_ITEMS:
        shown[-1] = f"... ({len(lines) - names.MAX_DIFF_ITEMS + 1} more diff lines)"
    return shown


def divergence_attributes(divergence: ReplayDivergence) -> dict[str, str | int | bool | Sequence[str]]:
    """Return the attributes of a diverged call's span; plain types, every string bounded."""
    attributes: dict[str, str | int | bool | Sequence[str]] = {
        names.DIVERGED_ATTR: True,
        names.DIVERGENCE_ATTR: bounded(divergence.summary()),
        names.KIND_ATTR: divergence.kind,
        names.INDEX_ATTR: divergence.index,
        names.REASON_ATTR: divergence.reason,
    }
    if divergence.fields:
        attributes[names.FIELDS_ATTR] = [bounded(pointer) for pointer in divergence.fields]
    if divergence.cascade_of:
        attributes[names.CASCADE_ATTR] = divergence.cascade_of
    return attributes


def mark_span(span: Span, divergence: ReplayDivergence, *, content: bool = True) -> None:
    """Mark a live span as diverged: attributes, and the event with the diff.

    Args:
        span: The span; one that does not record is left alone.
        divergence: What departed.
        content: Whether the diff, which holds text of the requests, may be put on the span.
    """
    if not span.is_recording():
        return
    span.set_attributes(divergence_attributes(divergence))
    event: dict[str, str | Sequence[str]] = {names.DIVERGENCE_ATTR: bounded(divergence.summary())}
    if content:
        event[names.DIFF_ATTR] = diff_items(divergence)
    span.add_event(names.DIVERGENCE_EVENT, event)
