"""The block of `Cassette.recording`.

Lives here: the claim on the file, the spool, and the save at the end.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_cassette.document import (
    FileClaim,
)
from otel_cassette.otel.journaling import SpooledRecording
from otel_cassette.otel.source import CassetteSource
from otel_cassette.session import Session, SessionBlock

if TYPE_CHECKING:
    from otel_cassette.cassette.facade import Cassette

PathLike = Any


class RecordingBlock(SessionBlock):
    """The block of `Cassette.recording`: claims the file, saves at the end."""

    def __init__(
        self, cassette: Cassette, session: Session, path: PathLike | None, *, span: bool
    ) -> None:
        super().__init__(session, span=span, on_exit=self._save)
        self._cassette = cassette
        # Where it is to be written does not change when the program goes to another folder.
        self._path = None if path is None else Path(path).absolute()
        self._claim = None if self._path is None else FileClaim(self._path)
        self._spooled: SpooledRecording | None = None
        self._saved = False

    def __enter__(self) -> Session:
        if self._claim is not None:
            self._claim.__enter__()
        session = super().__enter__()
        # From the first call on, it is noted when and where calls are made.
        CassetteSource.of(session.playback.journal, session.playback.redactor)
        if self._path is not None:
            self._spooled = self._cassette._spooled(self._path)  # noqa: SLF001 - as in _save
            self._spooled.start()
        return session

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(exc_type, exc, traceback)
        finally:
            source = self._cassette._journal.source  # noqa: SLF001 - as in _save
            if source is not None and source.report.spans:
                self._cassette._journal.assembled()  # noqa: SLF001 - joins calls and spans
                self._cassette.report = source.report
            if self._spooled is not None:
                self._spooled.finish(saved=self._saved)
            if self._claim is not None:
                self._claim.__exit__(None, None, None)

    def _save(self, _session: Session) -> None:
        if self._path is not None:
            self._cassette._write(self._path)  # noqa: SLF001 - the block is the cassette's own
            self._saved = True
