"""`install`: cassette parts in a tracer provider that exists already.

Lives here: adding the processor and the sampler, and the account of what a provider did not allow.
Not here: the parts themselves.
"""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field, replace
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import TracerProvider

from otel_cassette.otel.processor import CassetteSpanProcessor
from otel_cassette.otel.sampler import ReplaySampler
from otel_cassette.session import marks

_NO_PROVIDER: Final = (
    "there is no SDK tracer provider to add to (it is a no-op: OpenTelemetry is not set up yet, or "
    "OTEL_SDK_DISABLED=true); sessions and wrappers work, nothing is recorded from spans or marked"
)


@dataclass(frozen=True, slots=True)
class Installation:
    """What `install` could do, and what not.

    Attributes:
        processor: The processor that was added, or was there; None where none could be.
        sampler: The sampler in place; None where the provider does not show its own.
        tracers: Number of tracers got earlier that have the sampler now.
        notes: What could not be done, and what is lost without it; one sentence each.
    """

    processor: CassetteSpanProcessor | None = None
    sampler: ReplaySampler | None = None
    tracers: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def is_complete(self) -> bool:
        """Whether processor and sampler are in place, for all tracers."""
        return self.processor is not None and self.sampler is not None and not self.notes

    def __str__(self) -> str:
        parts = [
            "processor added" if self.processor is not None else "no processor",
            "sampler in place" if self.sampler is not None else "no sampler",
            f"{self.tracers} earlier tracers",
        ]
        return "; ".join([", ".join(parts), *self.notes])


_done: weakref.WeakKeyDictionary[Any, Installation] = weakref.WeakKeyDictionary()


def install(provider: TracerProvider | None = None, *, directory: Any = None) -> Installation:
    """Add the cassette processor and sampler to a tracer provider that exists.

    The processor is added through the provider's public method. The sampler is put around the one
    in use, also for tracers that were got earlier. Doing it again for the same provider changes nothing.

    Args:
        provider: An SDK provider; the global one by default.
        directory: Where runs outside of a session are recorded, one file a run; None records in
            sessions only.

    Returns:
        What was done; `notes` says what could not be.
    """
    found = provider if provider is not None else trace.get_tracer_provider()
    add = getattr(found, "add_span_processor", None)
    if not callable(add):
        return Installation(notes=(_NO_PROVIDER,))
    known = _done.get(found)
    if known is not None:
        return known if directory is None else _without_directory(known)
    if provider is not None and provider is not trace.get_tracer_provider():
        marks.use_provider(provider)
    notes: list[str] = []
    if getattr(found, "_disabled", False):
        notes.append(
            "OTEL_SDK_DISABLED=true: this provider makes no spans; sessions and wrappers work, "
            "nothing is recorded from spans or marked"
        )
    processor = _processor_of(found)
    is_new = processor is None
    if processor is None:
        processor = CassetteSpanProcessor(directory=directory)
        add(processor)
    sampler, tracers = _put_sampler(found, notes)
    done = Installation(processor, sampler, tracers, tuple(notes))
    _done[found] = done
    return done if is_new or directory is None else _without_directory(done)


def _without_directory(done: Installation) -> Installation:
    note = (
        "there is a CassetteSpanProcessor already, so directory= was not used: give it to that one, "
        "or to the first install()"
    )
    return replace(done, notes=(*done.notes, note))


def _processor_of(provider: Any) -> CassetteSpanProcessor | None:
    """Return the cassette processor that a provider has already: two would record every call twice.

    The SDK does not show its processors; where they are not found one is added.
    """
    active = getattr(provider, "_active_span_processor", None)
    added = getattr(active, "_span_processors", ())
    return next((each for each in added if isinstance(each, CassetteSpanProcessor)), None)


def _put_sampler(provider: Any, notes: list[str]) -> tuple[ReplaySampler | None, int]:
    """Put a ReplaySampler around the provider's sampler, and around its tracers'."""
    old = getattr(provider, "sampler", None)
    if not isinstance(old, Sampler):
        notes.append(
            f"{type(provider).__name__} does not show its sampler: give it "
            "ReplaySampler(delegate) when it is made; without it spans that a ratio drops are not "
            "exported, and carry no claim"
        )
        return None, 0
    sampler = old if isinstance(old, ReplaySampler) else ReplaySampler(old)
    provider.sampler = sampler
    count = 0
    for tracer in _tracers_of(provider):
        if getattr(tracer, "sampler", None) is old:
            tracer.sampler = sampler
            count += 1
    return sampler, count


def _tracers_of(provider: Any) -> list[Any]:
    """Return the tracers that a provider handed out.

    Newer SDKs keep them, in a private attribute; else they are looked for among all objects, by
    the provider's own resource. A tracer's `sampler` and `resource` are public.
    """
    kept = getattr(provider, "_tracers", None)
    if isinstance(kept, dict):
        return list(kept.values())
    # type(), not isinstance(): proxies answer for what they stand for, and may raise.
    found = [each for each in gc.get_objects() if issubclass(type(each), Tracer)]
    return [tracer for tracer in found if tracer.resource is provider.resource]
