"""Every error the package raises, with its facts as attributes.

    CassetteError(Exception)
    +-- CassetteFormatError(ValueError)   a file or a trace that cannot be read as what it claims
    +-- CassetteWriteError                a cassette could not be written; the old file is untouched
    +-- CassetteMissError                 a replay has no recorded answer for a call
    +-- RecordedCallError                 a failure that was recorded, raised again
    +-- NetworkBlockedError(ConnectionError)  a replay that blocks the network saw a connection

`harness.ReplayError` (a RuntimeError) belongs to session fixtures and lives there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_cassette.diff import ReplayDivergence


class CassetteError(Exception):
    """Base of every error of the package; also raised where no subclass fits."""


class CassetteFormatError(CassetteError, ValueError):
    """A cassette or trace file cannot be read as what it claims to be.

    Attributes:
        path: The file, or None when the content did not come from a file.
        line: 1-based line number, or None when no line is to blame.
        reason: What is wrong and what to do, without the place.
        report: For traces, what was found span by span; otherwise None.
    """

    def __init__(
        self,
        path: object | None = None,
        line: int | None = None,
        reason: str = "",
        *,
        report: Any = None,
    ) -> None:
        self.path: str | None = None if path is None else str(path)
        self.line = line
        self.reason = reason
        self.report = report
        place = self.path or ""
        if line is not None:
            place = f"{place}:{line}" if place else f"line {line}"
        super().__init__(f"{place}: {reason}" if place else reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_format, (self.path, self.line, self.reason, self.report))


def _rebuild_format(
    path: str | None, line: int | None, reason: str, report: Any
) -> CassetteFormatError:
    return CassetteFormatError(path, line, reason, report=report)


class CassetteWriteError(CassetteError):
    """A cassette could not be written; what stood at the path before is unchanged.

    Attributes:
        path: The file.
        reason: Why, and what to do.
    """

    def __init__(self, path: object, reason: str) -> None:
        self.path: str = str(path)
        self.reason = reason
        super().__init__(f"cannot write {self.path}: {reason}; the file there is unchanged")

    def __reduce__(self) -> tuple[Any, ...]:
        return (CassetteWriteError, (self.path, self.reason))


class RecordedCallError(CassetteError):
    """A recorded failure raised again, where the recorded exception type is not at hand.

    The raised object is of a subclass named like the recorded type, so that a traceback reads as
    it did when it was recorded.

    Attributes:
        type: Name of the recorded exception type.
        message: Its text.
        status: HTTP status of a provider's failure, when it is known.
    """

    def __init__(self, type: str, message: str, *, status: int | None = None) -> None:  # noqa: A002 - the contract names the field `type`
        self.type = type
        self.message = message
        self.status = status
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_recorded, (self.type, self.message, self.status))


def recorded_error(type_name: str, message: str, status: int | None = None) -> RecordedCallError:
    """Return a RecordedCallError whose class bears the name of the recorded exception type."""
    short = type_name.rpartition(".")[2] or "RecordedCallError"
    if not short.isidentifier() or short == "RecordedCallError":
        return RecordedCallError(type_name, message, status=status)
    cls = type(short, (RecordedCallError,), {"__module__": RecordedCallError.__module__})
    error: RecordedCallError = cls(type_name, message, status=status)
    return error


def _rebuild_recorded(type_name: str, message: str, status: int | None) -> RecordedCallError:
    return recorded_error(type_name, message, status)


class NetworkBlockedError(CassetteError, ConnectionError):
    """A connection or a name look-up was refused, since a replay blocks the network.

    Attributes:
        host: The host asked for.
        port: The port, or None for a look-up without one.
    """

    def __init__(self, host: str, port: int | None) -> None:
        self.host = host
        self.port = port
        place = host if port is None else f"{host}:{port}"
        super().__init__(
            f"connection to {place} refused: a replay with block_network=True is running; "
            f"allow it with allow_hosts=({host!r},), or record the call"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (NetworkBlockedError, (self.host, self.port))


class CassetteMissError(CassetteError):
    """A call of a replay has no recorded answer that may be served.

    Attributes:
        kind: `llm`, `tool`, `retrieval` or `embedding`.
        index: 0-based place of the call in the sequence of its kind.
        mode: Mode of the playback.
        expected: The entry the call was compared with, or None beyond the recording.
        expected_request: Its request as plain JSON, or None.
        actual_request: The live request as plain JSON.
        actual_key: Its key.
        actual_name: The live tool's or retriever's name, None for llm and embedding.
        divergence: The `ReplayDivergence`, when the call departed from the recording.
    """

    def __init__(
        self,
        *,
        kind: str,
        index: int,
        mode: str,
        expected: Any,
        actual_request: Any,
        actual_key: str | None,
        actual_name: str | None = None,
        divergence: ReplayDivergence | None = None,
        reason: str | None = None,
    ) -> None:
        self.kind = kind
        self.index = index
        self.mode = mode
        self.expected = expected
        self.expected_request: Any = None if expected is None else expected.request
        self.actual_request = actual_request
        self.actual_key = actual_key
        self.actual_name = actual_name
        self.divergence = divergence
        self.reason = reason
        super().__init__(self._message())

    def __reduce__(self) -> tuple[Any, ...]:
        names = (
            "kind",
            "index",
            "mode",
            "expected",
            "actual_request",
            "actual_key",
            "actual_name",
            "divergence",
            "reason",
        )
        return (_rebuild_miss, ({name: getattr(self, name) for name in names},))

    def _message(self) -> str:
        what = f"{self.kind} call #{self.index}"
        if self.actual_name:
            what += f" ({self.actual_name!r})"
        reason = self.reason
        if reason is None and self.divergence is not None:
            reason = self.divergence.summary()
        text = f"{what} has no recorded answer in mode {self.mode!r}: {reason or 'nothing recorded is equal'}"
        if self.divergence is None:
            return text
        lines = [text, self.divergence.diff, self._if_meant(self.divergence)]
        return "\n".join(line for line in lines if line)

    def _if_meant(self, divergence: ReplayDivergence) -> str:
        if self.expected is None:
            return "If it is meant: record again; mode='fallthrough' makes the call for real."
        if self.mode != "strict":
            return "If it is meant, record again."
        ignore = (
            f"ignore=[{divergence.fields[0]!r}] leaves the field out, " if divergence.fields else ""
        )
        return (
            f"If it is meant: record again; {ignore}mode='lenient' goes on with the recorded answers, "
            "flagged."
        )


def _rebuild_miss(facts: dict[str, Any]) -> CassetteMissError:
    return CassetteMissError(**facts)
