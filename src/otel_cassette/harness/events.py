"""Scores as `gen_ai.evaluation.result` events.

Lives here: the event and its attributes, by the OTel GenAI semantic conventions
(https://github.com/open-telemetry/semantic-conventions/blob/main/docs/gen-ai/gen-ai-events.md). Not
here: evaluators and what their values mean.
"""

from __future__ import annotations

import json
import math
from typing import Any

from opentelemetry import trace

from otel_cassette.harness.values import jsonable
from otel_cassette.redaction import Redactor
from otel_cassette.session.names import EVALUATION_SPAN

EVALUATION_EVENT = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
SCORE_VALUE = "gen_ai.evaluation.score.value"
SCORE_LABEL = "gen_ai.evaluation.score.label"
EXPLANATION = "gen_ai.evaluation.explanation"

_MAX_CHARS = 480  # at most four bytes each: under the 2,000 bytes that backends show uncut
_REDACTOR = Redactor()


def add_evaluation_event(name: str, value: Any) -> None:
    """Add the event of one score to the current span, or to a span of its own where there is none."""
    attributes = {EVALUATION_NAME: name, **_score_attributes(value)}
    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(EVALUATION_EVENT, attributes)
        return
    with trace.get_tracer("otel_cassette").start_as_current_span(EVALUATION_SPAN) as own:
        own.add_event(EVALUATION_EVENT, attributes)


def _score_attributes(value: Any) -> dict[str, str | float]:
    """A number is a score, a text a label, a truth both; anything else is told as JSON."""
    if isinstance(value, bool):
        return {SCORE_VALUE: float(value), SCORE_LABEL: "true" if value else "false"}
    if isinstance(value, int | float):
        return {SCORE_VALUE: float(value)} if math.isfinite(value) else {SCORE_LABEL: str(value)}
    if value is None:
        return {}
    if isinstance(value, str):
        return {SCORE_LABEL: _short(value)}
    return {EXPLANATION: _short(json.dumps(_REDACTOR.json(jsonable(value)), ensure_ascii=False))}


def _short(text: str) -> str:
    text = _REDACTOR.text(text)
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 3]}..."
