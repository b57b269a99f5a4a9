"""What the start of a span tells of its call, and the marks that can be set at once.

Lives here: when start attributes hold a whole request, and whether it departs for certain. Not
here: the sampler (`sampler.py`), how attributes are read (`dialects/`).

A mark cannot be taken back. So a span is marked at its start only where no unplayed entry of the
kind could equal what it shows: the whole request, a tool's name and arguments, or a call when all
recorded ones are played.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from otel_cassette.dialects import REGISTRY
from otel_cassette.dialects.protocol import Reading
from otel_cassette.engine import LiveCall
from otel_cassette.model.entry import EntryKind
from otel_cassette.model.span import SpanRecord
from otel_cassette.otel.kinds import kind_of
from otel_cassette.session import Session, inside
from otel_cassette.session.marks import bounded
from otel_cassette.session.names import (
    DIVERGED_ATTR,
    DIVERGENCE_ATTR,
    KIND_ATTR,
    MODE_ATTR,
    REASON_ATTR,
    REQUEST_ATTR,
)

_ANSWER_KEYS: Final = (
    "gen_ai.response.id",
    "gen_ai.response.model",
    "gen_ai.output.messages",
    "gen_ai.tool.call.result",
    "output.value",
    "langfuse.observation.output",
)
_PROVIDER_REQUEST_KEYS: Final = ("messages", "input", "contents", "prompt")


def is_answered(attributes: Mapping[str, Any]) -> bool:
    """Return whether a span shows an answer when it starts: it was made after its call."""
    return any(key in attributes for key in _ANSWER_KEYS)


def marks(
    session: Session, kind: EntryKind, name: str, attributes: Mapping[str, Any]
) -> dict[str, str | bool]:
    """Return the attributes that mark a new span as diverged; none where that is not certain.

    Args:
        session: The replay.
        kind: Kind of the call that the span stands for.
        name: The span's name.
        attributes: Its attributes at start.
    """
    if kind_of(name, attributes) != kind:
        return {}  # only its name says so: enough for a hint, not for a mark
    engine = session.playback.engine
    if inside() is None and engine.is_exhausted(kind):
        text = f"{kind} call beyond the recording: all recorded {kind} calls are played"
        return _marked(session, kind, "extra_call", text)
    call = _call(kind, name, attributes)
    if call is None or _is_unknown(session, kind):
        return {}
    step = inside()
    if step is not None:
        if step.decision is None or step.playback is not session.playback:
            return {}
        call.parent = step.decision.parent_ref
        call.inside_unknown = call.parent is None
    if engine.peek(call) != "none" or engine.peek(call, anywhere=True) != "none":
        return {}
    what = f" of {call.name!r}" if call.name else ""
    text = f"{kind} call{what}: no recorded call that is not yet played equals its request"
    return _marked(session, kind, "request_changed", text)


def _marked(session: Session, kind: EntryKind, reason: str, text: str) -> dict[str, str | bool]:
    return {
        DIVERGED_ATTR: True,
        DIVERGENCE_ATTR: bounded(text),
        KIND_ATTR: kind,
        MODE_ATTR: session.playback.mode,
        REASON_ATTR: reason,
    }


def _is_unknown(session: Session, kind: EntryKind) -> bool:
    """Return whether the recording has no call of the kind: its source may not have captured any."""
    return session.playback.engine.expected(kind, None) is None


def _call(kind: EntryKind, name: str, attributes: Mapping[str, Any]) -> LiveCall | None:
    """Return the call that start attributes show whole; None where they do not."""
    if kind == "llm" and not _shows_whole_request(attributes):
        return None
    reading = _read(name, attributes)
    if reading is None or reading.role != "call" or reading.kind != kind:
        return None
    if not reading.has_request or reading.request_integrity != "whole":
        return None
    if not reading.arguments_known or (kind in ("tool", "retrieval") and not reading.name):
        return None
    return LiveCall(kind, reading.request, name=reading.name, scope=_scope(reading))


def _scope(reading: Reading) -> frozenset[str] | None:
    return None if reading.scope is None else frozenset(reading.scope)


def _shows_whole_request(attributes: Mapping[str, Any]) -> bool:
    """Return whether the provider's own request stands there, or ours without loss.

    Frameworks' renderings of a request are not enough: they lose fields, and a loss is no
    divergence.
    """
    if REQUEST_ATTR in attributes:
        return True
    value = attributes.get("input.value")
    if not isinstance(value, str) or not value.startswith("{"):
        return False
    try:
        body = json.loads(value)
    except ValueError:
        return False
    return "model" in body and any(key in body for key in _PROVIDER_REQUEST_KEYS)


def _read(name: str, attributes: Mapping[str, Any]) -> Reading | None:
    span = SpanRecord(trace_id="0" * 32, span_id="0" * 16, name=name, attributes=dict(attributes))
    for dialect in REGISTRY:
        if dialect.claims(span):
            return dialect.read(span, ())
    return None
