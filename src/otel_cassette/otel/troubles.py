"""What went wrong in callbacks of a replay: counted, logged once, told in the session's report.

Lives here: the account of sampler and marks. Not here: the recording side's (`guard.py` has the
class, each processor its own).
"""

from __future__ import annotations

from typing import Final

from otel_cassette.otel.guard import Troubles
from otel_cassette.session import Session

REPLAY_TROUBLES: Final = Troubles("replaying")
_MAX_FAULTS = 100


def note(where: str, error: BaseException, *, lost: str, session: Session | None = None) -> None:
    """Note that *where* raised *error*: the user's call goes on, without what *lost* says."""
    REPLAY_TROUBLES.raised(where, error, lost=lost)
    if session is None:
        return
    line = f"{where} failed ({type(error).__name__}: {error}); {lost}"
    if line not in session.faults and len(session.faults) < _MAX_FAULTS:
        session.faults.append(line)
