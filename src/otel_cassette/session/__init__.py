"""A session: one playback or recording, carried by the OpenTelemetry context (API only)."""

from otel_cassette.session.context import (
    InsideBlock,
    Session,
    SessionBlock,
    current_session,
    inside,
    open_sessions,
    session_in,
)
from otel_cassette.session.playback import Playback, PlaybackOptions, Step

__all__ = [
    "InsideBlock",
    "Playback",
    "PlaybackOptions",
    "Session",
    "SessionBlock",
    "Step",
    "current_session",
    "inside",
    "open_sessions",
    "session_in",
]
