"""Which playback a wrapper's call belongs to.

Lives here: the session in the context first, the cassette's own wrappers else.
"""

from __future__ import annotations

from collections.abc import Callable

from otel_cassette.session import Playback, current_session


def playback_for(own: Callable[[], Playback]) -> Playback:
    """Return the playback of the session the call belongs to, else the wrapper's own.

    The session is looked up at call time: tools built before it was opened belong to it too.
    """
    session = current_session()
    return session.playback if session is not None else own()
