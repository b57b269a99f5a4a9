"""Sessions of an agent, recorded as one readable document each, replayed and scored.

Lives here: `Fixture` and `Step` (`fixture.py`), `Recorder` (`recorder.py`), `MockLayer` and
`ReplayError` (`mock.py`), `ReplayHarness` (`replay.py`). Not here: cassettes of spans and of wrapped
clients (`cassette/`); a fixture converts to one and back.
"""

from otel_cassette.harness.fixture import Fixture, Step, StepType
from otel_cassette.harness.mock import MockLayer, ReplayError
from otel_cassette.harness.recorder import Recorder
from otel_cassette.harness.replay import Evaluator, ReplayHarness

__all__ = [
    "Evaluator",
    "Fixture",
    "MockLayer",
    "Recorder",
    "ReplayError",
    "ReplayHarness",
    "Step",
    "StepType",
]
