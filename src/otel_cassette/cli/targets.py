"""Where a command writes a cassette: looked at before the work, not after it.

Lives here: what may be replaced. Not here: the writing (`document/`).
"""

from __future__ import annotations

from pathlib import Path

from otel_cassette.document import check_writable
from otel_cassette.errors import CassetteWriteError
from otel_cassette.traces import is_cassette_file


def check_target(path: str) -> None:
    """See that a cassette can be written to *path*, and that nothing else is lost by it.

    Raises:
        CassetteWriteError: It cannot, or a file that is no cassette stands there.
    """
    target = Path(path)
    if target.is_file() and target.stat().st_size and not is_cassette_file(target):
        reason = "what stands there is no cassette and would be lost; choose another path"
        raise CassetteWriteError(path, reason)
    check_writable(target)
