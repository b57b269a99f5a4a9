"""Marks on live spans through the public OpenTelemetry API.

Lives here: what is set on spans when a call departed, where a call stands among the live spans as
far as the API tells (the current span), and the tracer of our own spans. Not here: how the span of
a call is found with a processor's help, and spans of our own (`otel/`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from opentelemetry import trace
from opentelemetry.trace import Span, Tracer, TracerProvider

from otel_cassette.diff import ReplayDivergence
from otel_cassette.model.entry import EntryKind
from otel_cassette.session import names
from otel_cassette.session.callers import NOBODY, Caller

if TYPE_CHECKING:
    from otel_cassette.session.playback import Playback, Step

Attributes = dict[str, "str | int | bool | Sequence[str]"]

_CAPTURE_SWITCHES: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        frozenset({"false", "0", "no", "none", "no_content"}),
    ),
    ("TRACELOOP_TRACE_CONTENT", frozenset({"false", "0", "no"})),
    ("OPENINFERENCE_HIDE_INPUTS", frozenset({"true", "1", "yes"})),
    ("ENABLE_SENSITIVE_DATA", frozenset({"false", "0", "no"})),
)
"""Switches by which users turn content off, and the values that do; unset is no decision."""

_provider: TracerProvider | None = None


@dataclass(slots=True)
class CallSite:
    """Where a call stands among the live spans.

    Attributes:
        path: Names from the root of the live span tree to the call, without the call.
        span_id: The call's span, 16 hex digits; None without one.
        claim: Place of the entry that the call's span claims, a hint.
        spans: Spans to mark when the call departs, the call's own first.
        ancestors: Open spans around it, the nearest first.
        is_of_kind: Whether the first span says that it is a call of the kind; else it is merely
            the one the call runs in.
    """

    path: tuple[str, ...] = ()
    span_id: str | None = None
    claim: int | None = None
    spans: list[Any] = field(default_factory=list)
    ancestors: list[Any] = field(default_factory=list)
    is_of_kind: bool = False


NOWHERE: Final = CallSite()
"""Where no span is."""


class Watcher(Protocol):
    """Knows the live spans of calls: asked before a call is decided, told afterwards."""

    def site(
        self, playback: Playback, kind: EntryKind, name: str | None, caller: Caller
    ) -> CallSite:
        """Return where a call stands that *caller* makes here and now; raises nothing."""
        ...

    def decided(self, step: Step, site: CallSite, divergence: ReplayDivergence | None) -> None:
        """Mark what became of the call; raises nothing."""
        ...


class CurrentSpan:
    """The watcher that needs nothing but the API: a call belongs to the current span."""

    def site(
        self,
        playback: Playback,  # noqa: ARG002 - the current span is all it knows
        kind: EntryKind,  # noqa: ARG002 - as above
        name: str | None,  # noqa: ARG002 - as above
        caller: Caller,
    ) -> CallSite:
        """Return the current span's place."""
        if caller is NOBODY:
            return NOWHERE
        return CallSite(caller.path, caller.span_id, spans=[trace.get_current_span()])

    def decided(self, step: Step, site: CallSite, divergence: ReplayDivergence | None) -> None:
        """Mark the current span as diverged; one that does not record is left alone."""
        if divergence is not None:
            content = may_show_content(step.playback.session)
            for span in site.spans:
                mark_span(span, divergence, content=content)


def use_provider(provider: TracerProvider | None) -> None:
    """Make our own spans with this provider; None is the global one."""
    global _provider  # noqa: PLW0603 - one provider a process, as OpenTelemetry's own
    _provider = provider


def tracer() -> Tracer:
    """Return the tracer of our own spans."""
    return trace.get_tracer("otel_cassette", tracer_provider=_provider)


def content_capture_is_off() -> bool:
    """Return whether the environment switches content capture off explicitly."""
    return any(
        os.environ.get(name, "").strip().lower() in values for name, values in _CAPTURE_SWITCHES
    )


def may_show_content(session: Any) -> bool:
    """Return whether marks may carry text: as the session says, else as the environment does."""
    return not content_capture_is_off() if session is None else bool(session.span_content)


def bounded(text: str, limit_bytes: int = names.MAX_STRING_BYTES) -> str:
    """Return *text* in fewer than *limit_bytes* bytes of UTF-8, ending in `...` where it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) < limit_bytes:
        return data.decode("utf-8")
    return data[: limit_bytes - 4].decode("utf-8", "ignore") + "..."


def diff_items(divergence: ReplayDivergence) -> list[str]:
    """Return the diff as span items: one line an item, at most 60."""
    lines = divergence.diff.splitlines()
    shown = [bounded(line) for line in lines[: names.MAX_DIFF_ITEMS]]
    if len(lines) > names.MAX_DIFF_ITEMS:
        shown[-1] = f"... ({len(lines) - names.MAX_DIFF_ITEMS + 1} more diff lines)"
    return shown


def digests(divergence: ReplayDivergence) -> list[str]:
    """Return the keys of both requests: what can be said of them without their text."""
    return [
        f"recorded {divergence.expected_key or 'absent'}",
        f"replayed {divergence.actual_key or 'absent'}",
    ]


def divergence_attributes(divergence: ReplayDivergence) -> Attributes:
    """Return the attributes of a diverged call's span; plain types, every string bounded."""
    attributes: Attributes = {
        names.DIVERGED_ATTR: True,
        names.DIVERGENCE_ATTR: bounded(divergence.summary()),
        names.KIND_ATTR: divergence.kind,
        names.INDEX_ATTR: divergence.index,
        names.REASON_ATTR: divergence.reason,
    }
    if divergence.fields:
        attributes[names.FIELDS_ATTR] = _items(divergence.fields)
    if divergence.cascade_of:
        attributes[names.CASCADE_ATTR] = divergence.cascade_of
    return attributes


def all_attributes(divergence: ReplayDivergence) -> Attributes:
    """Return what the own span of a divergence carries beside the facts of the session."""
    attributes = divergence_attributes(divergence)
    if divergence.scope:
        attributes[names.SCOPE_ATTR] = _items(divergence.scope)
    attributes[names.DIGEST_ATTR] = digests(divergence)
    return attributes


def _items(texts: Sequence[str]) -> list[str]:
    return [bounded(text) for text in texts[: names.MAX_DIFF_ITEMS]]


def divergence_json(divergence: ReplayDivergence) -> str:
    """Return a divergence as JSON without requests and diff, in fewer than 2,000 bytes.

    Long lists of fields are cut, then left out; what is None is left out.
    """
    data = divergence.to_dict(include_requests=False)
    del data["diff"], data["diff_truncated"]
    data = {key: value for key, value in data.items() if value is not None and value != []}
    data["summary"] = bounded(divergence.summary(), 400)
    for drop in ("", "fields", "scope", "note", "expected_name", "actual_name"):
        if drop in data and len(data[drop]) > 3 and isinstance(data[drop], list):
            data[drop] = [bounded(item, 120) for item in data[drop][:3]]
        elif drop:
            data.pop(drop, None)
        text = json.dumps(data, ensure_ascii=False)
        if len(text.encode("utf-8", "replace")) < names.MAX_STRING_BYTES:
            return text
    return json.dumps({"kind": divergence.kind, "index": divergence.index})


def divergence_event(divergence: ReplayDivergence, *, content: bool) -> Attributes:
    """Return the attributes of the event that holds the diff, or the digests in its place."""
    event: Attributes = {names.DIVERGENCE_ATTR: bounded(divergence.summary())}
    if content:
        event[names.DIFF_ATTR] = diff_items(divergence)
    else:
        event[names.DIGEST_ATTR] = digests(divergence)
    return event


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
    span.add_event(names.DIVERGENCE_EVENT, divergence_event(divergence, content=content))


def mark_root(root: Span, divergence: ReplayDivergence) -> None:
    """Mark a live local root: what diverged first below it, as JSON."""
    root.set_attributes(
        {names.DIVERGED_ATTR: True, names.DIVERGENCE_ATTR: divergence_json(divergence)}
    )
