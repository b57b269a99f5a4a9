"""A real exchange with a provider, as it is recorded.

Lives here: `RealCall`, one call that a transport really makes, and `BodyTally`, the bytes of its
answer as they pass. Not here: when a call is made for real (`http_exchange.py`), and any HTTP
library (`httpx_transport.py`, `requests_adapter.py`).

Nothing here may disturb the user's call: what fails is logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from otel_cassette.clients.http_retries import Retries
from otel_cassette.clients.tools import Clock
from otel_cassette.errors import CassetteFormatError
from otel_cassette.model.entry import RecordedFailure
from otel_cassette.model.plain import strict_json
from otel_cassette.session import Step
from otel_cassette.session.failures import failure_of
from otel_cassette.wire.protocol import WireCodec

logger: logging.Logger = logging.getLogger("otel_cassette")

_ERROR_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}


class RealCall:
    """One call under way to the real API.

    Args:
        step: The call.
        codec: Its API.
        path: Path and query of the request.
        is_stream: Whether it asks for a stream.
        request: Digest of the request, by which a retry is known.
        retries: The session's memory of failed tries.
    """

    def __init__(
        self,
        step: Step,
        codec: WireCodec,
        *,
        path: str,
        is_stream: bool,
        request: bytes,
        retries: Retries,
    ) -> None:
        self.step = step
        self.codec = codec
        self.path = path
        self.is_stream = is_stream
        self._request = request
        self._retries = retries
        self._clock = Clock()
        # `LiveCall` lets go of its request in places; the record needs it at the end.
        self._plain = step.call.plain

    def answered(self, status: int, decode: Callable[[bytes], bytes]) -> BodyTally:
        """Return what takes the bytes of the answer.

        Args:
            status: HTTP status.
            decode: Undoes the content encoding of what was read; takes a body that was cut off.
        """
        return BodyTally(self, status, decode)

    def failed(self, error: BaseException) -> None:
        """There was no answer."""
        failure = failure_of(error)
        cause = error.__cause__ or error.__context__
        if not failure.message and cause is not None:
            failure = failure.model_copy(update={"message": str(cause)})
        self.enter_failure(failure)

    def given_up(self) -> None:
        """The program did not wait for an answer: there is nothing to record, which is said."""
        text = (
            f"a call of {self.codec.name} was cancelled before its answer came: it is not recorded, and "
            "a replay misses it"
        )
        logger.warning(text)
        if self.step.playback.session is not None:
            self.step.playback.session.faults.append(text)

    def enter_failure(self, failure: RecordedFailure) -> None:
        """Enter a failure, and expect a retry."""
        self._guarded(self.step.failed, error=failure)
        self._retries.remember(self._request, self.step, None)

    def enter(self, response: Any, **fields: Any) -> None:
        """Enter an answer."""
        self._guarded(self.step.succeeded, response=response, **fields)
        self._retries.forget(self._request)

    def _guarded(self, enter: Callable[[dict[str, Any]], None], **fields: Any) -> None:
        record: dict[str, Any] = {
            "request": self._plain,
            "latency_ms": self._clock.elapsed_ms,
            **fields,
        }
        try:
            enter(record)
        except Exception:
            logger.exception(
                "a call of %s could not be recorded; it was not affected", self.codec.name
            )


class BodyTally:
    """The body of a real answer as it passes; every end but the first is ignored."""

    def __init__(self, call: RealCall, status: int, decode: Callable[[bytes], bytes]) -> None:
        self._call = call
        self._status = status
        self._decode = decode
        self._parts: list[bytes] = []
        self._open = True
        self._session: Any = call.step.playback.session
        if self._session is not None:
            self._session.add_unfinished(self.left_early)

    def add(self, data: bytes) -> None:
        """Take note of a piece of the body, as it came."""
        if self._open:
            self._parts.append(data)

    def ended(self) -> None:
        """The body came to its end."""
        self._finish(None, at_end=True)

    def left_early(self) -> None:
        """Nobody reads on."""
        self._finish(None, at_end=False)

    def broke(self, error: BaseException) -> None:
        """The connection broke."""
        self._finish(failure_of(error), at_end=False)

    def _finish(self, error: RecordedFailure | None, *, at_end: bool) -> None:
        if not self._open:
            return
        self._open = False
        if self._session is not None:
            self._session.drop_unfinished(self.left_early)
        call = self._call
        try:
            data = self._decode(b"".join(self._parts))
            self._parts = []
            if 300 <= self._status < 400:
                return  # the library follows, and that request is the call
            if self._status >= 400:
                call.enter_failure(http_failure(self._status, data))
            elif call.is_stream:
                self._enter_stream(data, error, at_end=at_end)
            elif error is not None:
                call.enter_failure(error)
            else:
                self._enter_body(data)
        except Exception:
            logger.exception("an answer of %s could not be recorded", call.codec.name)

    def _enter_body(self, data: bytes) -> None:
        call = self._call
        try:
            response = call.codec.decode_response(strict_json(data))
        except (CassetteFormatError, ValueError) as error:
            logger.warning(
                "an answer of %s is recorded without content: %s", call.codec.name, error
            )
            call.enter(None, response_integrity="absent")
            return
        call.enter(response)

    def _enter_stream(self, data: bytes, error: RecordedFailure | None, *, at_end: bool) -> None:
        call = self._call
        events = call.codec.read_stream(data, path=call.path)
        said = next((e.data for e in events if is_error_event(e.data)), None)
        if said is not None:
            error = error or http_failure(None, json.dumps(said).encode())
            events = [e for e in events if not is_error_event(e.data)]
        try:
            response = call.codec.decode_stream(events)
        except (CassetteFormatError, ValueError) as fault:
            logger.warning("a stream of %s is recorded without content: %s", call.codec.name, fault)
            call.enter(None, response_integrity="absent")
            return
        if error is not None:
            if not response.get("chunks"):
                call.enter_failure(error)
                return
            response["ended_early"] = True
            call.enter(response, response_integrity="partial", error=error)
            return
        # SDKs of Chat Completions leave at this mark, and never see the last byte.
        if at_end or any(each.data == "[DONE]" for each in events):
            response.pop(
                "ended_early", None
            )  # whatever its last event was, the consumer saw the end
        if response.get("ended_early"):
            call.enter(response, response_integrity="partial")
        else:
            call.enter(response)


def is_error_event(data: Any) -> bool:
    """Return whether an event of a stream says that it failed."""
    if not isinstance(data, Mapping):
        return False
    kind = data.get("type")
    if kind == "error":
        return "error" in data or "message" in data
    return bool(data.get("error")) and kind is None


def http_failure(status: int | None, data: bytes) -> RecordedFailure:
    """Return an HTTP error as it is recorded: named as the SDKs name it, with its body."""
    try:
        body: Any = strict_json(data)
    except ValueError:
        body = None
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    message = inner.get("message") if isinstance(inner, Mapping) else None
    if not isinstance(message, str):
        message = data[:2000].decode("utf-8", "replace")
    name = "APIError" if status is None else _ERROR_TYPES.get(status, "InternalServerError")
    return RecordedFailure(
        type=name,
        message=message,
        status=status,
        body=body if isinstance(body, Mapping) else None,
    )
