"""Fixtures of the replay tests: providers as users set them up, and a small recording."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from otel_cassette import Cassette
from otel_cassette.otel.late import LATE
from otel_cassette.otel.live import LIVE
from otel_cassette.otel.processor import CassetteSpanProcessor
from otel_cassette.session import marks, replay_span

# Tests are imported by path (--import-mode=importlib), which leaves their folder out of sys.path.
sys.path.insert(0, str(Path(__file__).parent))

from replay_setup import MakeTelemetry, Telemetry, llm_entry, tool_entry


@pytest.fixture
def make_telemetry() -> Iterator[MakeTelemetry]:
    """`make_telemetry(sampler=None, processor=True, limits=None)`: a provider of our own spans too."""
    made: list[TracerProvider] = []

    def make(
        sampler: Sampler | None = None,
        *,
        processor: bool = True,
        limits: SpanLimits | None = None,
    ) -> Telemetry:
        provider = TracerProvider(sampler=sampler, span_limits=limits, shutdown_on_exit=False)
        exporter = InMemorySpanExporter()
        if processor:
            provider.add_span_processor(CassetteSpanProcessor())
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        marks.use_provider(provider)
        made.append(provider)
        return Telemetry(provider, exporter)

    yield make
    marks.use_provider(None)
    for provider in made:
        provider.shutdown()


@pytest.fixture(autouse=True)
def _no_limit_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning about the attribute limit comes once a process; its own test resets this."""
    monkeypatch.setattr(replay_span, "_warned_of_limit", True)


@pytest.fixture(autouse=True)
def _no_late_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test waits for, another does not get."""
    monkeypatch.setattr(LIVE, "_late", [])
    monkeypatch.setattr(LATE, "_marks", OrderedDict())


@pytest.fixture
def cassette() -> Cassette:
    """Two chats and two calls of one tool, as they were recorded."""
    return Cassette(
        [
            llm_entry(0, "Where is order A-17?", "Shipped."),
            tool_entry(0, "lookup_order", {"order_id": "A-17"}, {"status": "shipped"}),
            llm_entry(1, "Refund it.", "Done."),
            tool_entry(1, "lookup_order", {"order_id": "B-2"}, {"status": "lost"}),
        ],
        mode="strict",
    )
