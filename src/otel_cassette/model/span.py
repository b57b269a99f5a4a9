"""Finished spans, log records and runs as plain data, whatever file or SDK they came from.

Lives here: the records that `formats/` produces and `assemble.py` reads. Not here: how a file is
read, and what a span means (`dialects/`). Attribute values are plain Python values: `str`, `bool`,
`int`, `float`, `bytes`, `None`, lists, and dicts with string keys.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

EMPTY: Mapping[str, Any] = MappingProxyType({})

StatusCode = Literal["UNSET", "OK", "ERROR"]


@dataclass(frozen=True, slots=True)
class Resource:
    """What emitted a span: the resource attributes and their schema URL."""

    attributes: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    schema_url: str | None = None

    @property
    def service_name(self) -> str | None:
        """The `service.name` attribute, when it is a string."""
        name = self.attributes.get("service.name")
        return name if isinstance(name, str) else None


@dataclass(frozen=True, slots=True)
class Scope:
    """The instrumentation scope that made a span or a log record."""

    name: str = ""
    version: str | None = None
    schema_url: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """One event of a span; `time_ns` is nanoseconds since the Unix epoch."""

    name: str
    time_ns: int = 0
    attributes: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to another span; ids are lower-case hex (32 and 16 digits)."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class SpanRecord(metaclass=ABCMeta):  # noqa: B024 - concrete, and a base to register with
    """A finished (or never finished) span.

    Ids are lower-case hex of 32 and 16 digits; times are nanoseconds since the Unix epoch, `end_ns`
    0 when the span never ended. `attributes` and `events` may be given as a callable: they are
    then decoded at the first look, since most spans of a file are no calls and are never looked at.

    An abstract base class, so that a reader can register its own class of the same attributes:
    objects that a decoder makes in one go cost a third of making these from them.
    """

    __slots__ = (
        "_attributes",
        "_events",
        "_marker",
        "dropped_attributes",
        "dropped_events",
        "dropped_links",
        "end_ns",
        "kind",
        "links",
        "name",
        "parent_span_id",
        "resource",
        "scope",
        "span_id",
        "start_ns",
        "status_code",
        "status_message",
        "trace_id",
        "trace_state",
    )

    def __init__(
        self,
        *,
        trace_id: str,
        span_id: str,
        name: str,
        parent_span_id: str | None = None,
        kind: int = 0,
        start_ns: int = 0,
        end_ns: int = 0,
        attributes: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = EMPTY,
        events: Sequence[SpanEvent] | Callable[[], Sequence[SpanEvent]] = (),
        links: Sequence[SpanLink] = (),
        status_code: StatusCode = "UNSET",
        status_message: str = "",
        resource: Resource | None = None,
        scope: Scope | None = None,
        trace_state: str = "",
        dropped_attributes: int = 0,
        dropped_events: int = 0,
        dropped_links: int = 0,
        marker: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.trace_id: str = trace_id
        self.span_id: str = span_id
        self.parent_span_id: str | None = parent_span_id
        self.name: str = name
        self.kind: int = kind
        self.start_ns: int = start_ns
        self.end_ns: int = end_ns
        self._attributes = attributes
        self._events = events
        self.links: Sequence[SpanLink] = links
        self.status_code: StatusCode = status_code
        self.status_message: str = status_message
        self.resource: Resource = resource or Resource()
        self.scope: Scope = scope or Scope()
        self.trace_state: str = trace_state
        self.dropped_attributes: int = dropped_attributes
        self.dropped_events: int = dropped_events
        self.dropped_links: int = dropped_links
        self._marker = marker

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by key, decoded at the first look."""
        value = self._attributes
        if callable(value):
            value = self._attributes = value()
        return value

    @property
    def events(self) -> Sequence[SpanEvent]:
        """Events in the order they were written, decoded at the first look."""
        value = self._events
        if callable(value):
            value = self._events = value()
        return value

    def may_hold(self, *texts: bytes) -> bool:
        """Return False only if surely none of *texts* stands in an attribute key or value.

        A cheap test on the undecoded bytes where there are any, so that a reader can pass over
        spans that are no calls; True whenever it is not known.
        """
        return True if self._marker is None else any(map(self._marker, texts))

    def __repr__(self) -> str:
        return f"SpanRecord({self.name!r}, trace_id={self.trace_id!r}, span_id={self.span_id!r})"


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record; `event_name` is the field or the older `event.name` attribute."""

    event_name: str = ""
    trace_id: str = ""
    span_id: str = ""
    time_ns: int = 0
    body: Any = None
    attributes: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)


@dataclass(frozen=True, slots=True)
class Trace:
    """A run: the spans and log records of one recording, of one or several trace ids.

    `spans` stand in the order of the source; `warnings` say what the reader had to leave out or
    mend (a cut last line, spans sent twice).
    """

    spans: Sequence[SpanRecord]
    logs: Sequence[LogRecord] = ()
    source: str | None = None
    warnings: Sequence[str] = ()

    @property
    def trace_ids(self) -> tuple[str, ...]:
        """The trace ids of the run, in order of their first span's start."""
        first: dict[str, int] = {}
        for span in self.spans:
            first[span.trace_id] = min(first.get(span.trace_id, span.start_ns), span.start_ns)
        return tuple(sorted(first, key=lambda tid: (first[tid], tid)))

    @property
    def trace_id(self) -> str | None:
        """The first trace id of the run; None for a run without spans."""
        ids = self.trace_ids
        return ids[0] if ids else None

    @property
    def root(self) -> SpanRecord | None:
        """The earliest span without a parent in the run; None for a run without spans."""
        known = {span.span_id for span in self.spans}
        roots = [s for s in self.spans if not s.parent_span_id or s.parent_span_id not in known]
        return min(roots, key=lambda s: (s.start_ns, s.span_id), default=None)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The distinct resources of the run, in order of appearance."""
        return tuple({id(s.resource): s.resource for s in self.spans}.values())

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The distinct instrumentation scopes of the run, in order of appearance."""
        return tuple({(s.scope.name, s.scope.version): s.scope for s in self.spans}.values())
