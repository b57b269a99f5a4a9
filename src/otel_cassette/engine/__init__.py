"""What a live call of a playback gets. Pure: no I/O, no clock, no OpenTelemetry."""

from otel_cassette.engine.account import Settings
from otel_cassette.engine.calls import (
    CallOutcome,
    Comparer,
    Decision,
    LiveCall,
    Totals,
    Verdict,
)
from otel_cassette.engine.policy import Engine

__all__ = [
    "CallOutcome",
    "Comparer",
    "Decision",
    "Engine",
    "LiveCall",
    "Settings",
    "Totals",
    "Verdict",
]
