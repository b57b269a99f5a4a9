"""What an HTTP request to a model's API gets: a recorded answer, an error, or the real thing.

Lives here: `find_exchange` and `Exchange`, between the session and every HTTP library's adapter.
Not here: the libraries (`httpx_transport.py`, `requests_adapter.py`), the provider's shapes
(`wire/`), the recording of a real answer (`http_recording.py`).

An adapter asks `find_exchange` with what it knows before the body is read; None is hands off. With
the body, `Exchange.open` says what to do. It raises nothing: whatever goes wrong is an HTTP answer.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_core import from_json

from otel_cassette.clients.http_recording import RealCall
from otel_cassette.clients.http_retries import RETRY_HEADER, Retries, is_retry
from otel_cassette.clients.llm import past_the_end
from otel_cassette.clients.providers import Gateways, is_provider, may_be_for_a_model
from otel_cassette.clients.recorded_answers import is_begun, no_answer
from otel_cassette.errors import CassetteError, CassetteFormatError, CassetteMissError
from otel_cassette.keys.text import plain_text
from otel_cassette.model.entry import MODEL_KINDS, RecordedFailure
from otel_cassette.model.plain import json_bytes, strict_json
from otel_cassette.session import Session, Step, current_session, inside
from otel_cassette.session.context import open_sessions
from otel_cassette.session.provider_keys import DUMMY_KEY
from otel_cassette.wire import CODECS, find_codec
from otel_cassette.wire.protocol import ErrorAnswer, StreamEvent, WireCodec

logger: logging.Logger = logging.getLogger("otel_cassette")

_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_JSON = {"content-type": "application/json"}
_NO_JSON = object()
# Nobody else has paths like these; `/messages`, `/responses` and `/embeddings` may be anybody's.
_UNMISTAKABLE = frozenset({"openai.chat", "google.generate"})


class StreamBroke(Exception):  # noqa: N818 - no error of ours: the adapter raises its library's own
    """A recorded stream broke off here with a connection error."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer.

    Attributes:
        status: Status code.
        headers: Header fields, names in lower case.
        body: The body; empty for a stream.
        pieces: The pieces of a streamed body, made as they are read; None for a plain one. Reading
            may raise `StreamBroke`.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    pieces: Iterator[bytes] | None = None


@dataclass(frozen=True, slots=True)
class NoConnection:
    """The call failed without an answer: the adapter raises its library's own connect error."""

    message: str


Outcome = Answer | NoConnection | RealCall | None

UNREAD: Counter[str] = Counter()
"""Requests to model providers that no codec read, by host and path: not recorded, or refused."""
being_sent: ContextVar[bool] = ContextVar("otel_cassette_being_sent", default=False)
"""Whether a request that was looked at is being sent: what a library does below is the same call."""

_retries: weakref.WeakKeyDictionary[Session, Retries] = weakref.WeakKeyDictionary()
_gateways: weakref.WeakKeyDictionary[Session, Gateways] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def find_exchange(method: str, host: str, path: str, *, port: int | None = None) -> Exchange | None:
    """Return the exchange of a request that a session may have an answer for; None is hands off.

    Args:
        method: HTTP method.
        host: Host name without port.
        path: Path of the URL with its query.
        port: The port; None where it is the scheme's own.
    """
    if not open_sessions():
        return None
    codec = _codec_of(method, host, path)
    if codec is None and not (method.upper() == "POST" and may_be_for_a_model(host, path)):
        return None
    try:
        session = current_session()
    except CassetteError as error:
        return Exchange(None, codec, host, path, port=port, fault=error)
    return None if session is None else Exchange(session, codec, host, path, port=port)


class Exchange:
    """One request to a model's API inside a session."""

    def __init__(
        self,
        session: Session | None,
        codec: WireCodec | None,
        host: str,
        path: str,
        *,
        port: int | None = None,
        fault: CassetteError | None = None,
    ) -> None:
        self._session = session
        self._codec = codec
        self._host = host
        self._path = path
        self._port = port
        self._fault = fault

    @property
    def reads(self) -> bool:
        """Whether the body of the request says what it gets."""
        return self._codec is not None

    def open(self, body: bytes, header: Callable[[str], str | None]) -> Outcome:
        """Return what the request gets.

        Args:
            body: The whole body.
            header: Gives a header field of the request by its name in lower case.

        Returns:
            An answer, a failed connection, a real call to be made and recorded, or None: it is to
            be sent untouched.
        """
        session, codec = self._session, self._codec
        try:
            payload = _parsed(body)
            if codec is not None and payload is _NO_JSON and self._is_for_this_api(body, header):
                return self._unreadable(codec)
            if codec is None or not isinstance(payload, Mapping) or not codec.accepts(payload):
                return self._unknown()
            if session is None:
                return _error(codec.encode_miss(str(self._fault)))
            if not is_provider(self._host):
                _of(_gateways, session, Gateways).note(self._host, self._port)
            return _Call(session, codec, self._path, payload, header).outcome(body)
        except Exception as error:
            logger.exception("a request to %s%s could not be handled", self._host, self._path)
            if session is not None and session.is_recording:
                return None  # the call goes on, unrecorded
            text = f"otel-cassette could not handle this request: {error!r}"
            self.refuse(text)
            return _error((codec or _ANY).encode_miss(text))

    def is_model_call(self, payload: Any) -> bool:
        """Return whether a body makes this the call of a model."""
        if self._codec is not None and self._codec.accepts(payload):
            return True
        return self._is_for_a_model

    @property
    def _is_for_a_model(self) -> bool:
        known = Gateways() if self._session is None else _of(_gateways, self._session, Gateways)
        return known.is_for_a_model(self._host, self._port, self._path)

    def refuse(self, reason: str) -> bool:
        """Fail a model call that this library cannot be answered for, where none may be sent.

        Returns:
            Whether it is refused; else it may go on.
        """
        session = self._session
        if session is None:
            return self._fault is not None
        if not _plays_models(session):
            return False
        session.poison(
            CassetteMissError(
                kind="llm" if self._codec is None else self._codec.kind,
                index=len(session.calls),
                mode=session.playback.mode,
                expected=None,
                actual_request=None,
                actual_key=None,
                reason=reason,
            )
        )
        return True

    def _is_for_this_api(self, body: bytes, header: Callable[[str], str | None]) -> bool:
        """Return whether a body that is no JSON is that of a model call all the same."""
        if not body or "json" not in (header("content-type") or "").lower():
            return False
        codec = self._codec
        return self._is_for_a_model or (codec is not None and codec.name in _UNMISTAKABLE)

    def _unreadable(self, codec: WireCodec) -> Outcome:
        """A model call, but nobody can say which: it is not sent, and nothing answers it."""
        session = self._session
        place = f"{self._host}{self._path.partition('?')[0]}"
        if session is not None and session.is_recording:
            UNREAD[place] += 1
            return None
        text = f"the body of POST {place} is no JSON that could be compared (is it compressed?)"
        if self.refuse(text):
            return _error(codec.encode_miss(text))
        logger.warning("%s: it is sent, and not in the totals", text)
        return None

    def _unknown(self) -> Outcome:
        """A request that no codec reads: in a strict replay none leaves for a provider."""
        session = self._session
        place = f"{self._host}{self._path.partition('?')[0]}"
        known = self._is_for_a_model
        if session is not None and session.is_recording and (known or self._codec is not None):
            UNREAD[place] += 1
        if session is None or not known or not _plays_models(session):
            return None
        UNREAD[place] += 1
        text = (
            f"a replay has no answer for POST {place}: no codec reads it, and in mode "
            f"{session.playback.mode!r} no request leaves for a model provider"
        )
        logger.warning(text)
        return _error(_ANY.encode_miss(text))


class _Call:
    """One recognised request."""

    def __init__(
        self,
        session: Session,
        codec: WireCodec,
        path: str,
        payload: Mapping[str, Any],
        header: Callable[[str], str | None],
    ) -> None:
        self._session = session
        self._codec = codec
        self._path = path
        self._payload = payload
        self._header = header
        self._body = b""

    @property
    def _digest(self) -> bytes:
        """What a retry of the request is known by."""
        return hashlib.sha256(self._path.encode() + b"\0" + self._body).digest()

    @property
    def _retries(self) -> Retries:
        return _of(_retries, self._session, Retries)

    def outcome(self, body: bytes) -> Outcome:
        """Return what the request gets; raises only what is a fault of ours."""
        session = self._session
        around = inside()
        if around is not None and around.call.kind in MODEL_KINDS:
            return None  # a wrapper has this call already; the request is how it is really made
        if session.poisoned is not None:
            return self._error(self._codec.encode_miss(str(session.poisoned)))
        self._body = body
        if is_retry(self._header(RETRY_HEADER)):
            before = self._retries.find(self._digest)
            if before is not None:
                return self._again(*before)
        step = self._begin(around)
        if step.action == "play":
            return self._play(step)
        if step.action == "raise":
            return self._fail(step)
        if step.action == "live" and self._carries_dummy_key():
            step.refuse(
                "the call would go to the real API, but its key is missing and a stand-in was set "
                "for the replay: set the provider's key, or replay with mode='strict'"
            )
        if step.action == "miss":
            return self._miss(step)
        return self._real(step)

    def _begin(self, around: Step | None) -> Step:
        codec, playback = self._codec, self._session.playback
        try:
            plain = codec.decode_request(self._payload, path=self._path)
        except CassetteFormatError as error:
            logger.warning("a request is compared as it is: %s", error)
            plain = {"extra": dict(self._payload)}
        raw = None if playback.mode == "record" else plain_text(None, plain)
        return playback.begin(codec.kind, plain, raw=raw, inside=around)

    def _again(self, step: Step, answer: Any) -> Outcome:
        if step.decision is not None and "retry" not in step.decision.flags:
            step.decision.flags.append("retry")
        return self._real(step) if answer is None else answer

    def _real(self, step: Step) -> RealCall:
        return RealCall(
            step,
            self._codec,
            path=self._path,
            is_stream=self._codec.is_stream(self._payload, path=self._path),
            request=self._digest,
            retries=self._retries,
        )

    def _miss(self, step: Step) -> Answer:
        return self._missed(step.miss())

    def _missed(self, miss: CassetteMissError) -> Answer:
        self._session.poison(miss)
        return self._error(self._codec.encode_miss(str(miss)))

    def _fail(self, step: Step) -> Answer | NoConnection:
        assert step.decision is not None  # noqa: S101 - only played steps raise
        assert step.decision.failure is not None  # noqa: S101 - as above
        return self._failed(step, step.decision.failure.error)

    def _failed(self, step: Step, recorded: RecordedFailure) -> Answer | NoConnection:
        failure = self._codec.encode_error(recorded.model_dump())
        answer = NoConnection(failure.message) if failure.connection_error else self._error(failure)
        self._retries.remember(self._digest, step, answer)
        return answer

    def _play(self, step: Step) -> Answer | NoConnection:
        codec, payload = self._codec, self._payload
        entry = step.entry
        trace_id = entry.source.trace_id if entry.source is not None else None
        seed = f"{trace_id}/{entry.parent}/{entry.kind}/{entry.index}"
        response = entry.response if isinstance(entry.response, Mapping) else {}
        headers = codec.response_headers(seed)
        if codec.is_stream(payload, path=self._path):
            events = self._events(step, response, seed)
            headers["content-type"] = codec.stream_media_type(self._path)
            return Answer(200, headers, pieces=codec.write_stream(events, path=self._path))
        if is_begun(response) and not self._session.playback.options.allow_partial:
            return self._cut_short(step)
        body = no_answer(response)
        if body is None and not response and step.entry.response_integrity == "whole":
            body = {}  # so it came
        if body is None:
            body = codec.encode_response(response, request_body=payload, seed=seed)
        return Answer(200, {**headers, **_JSON}, body=json_bytes(body))

    def _cut_short(self, step: Step) -> Answer | NoConnection:
        """Return what a request for a whole answer gets where a stream was recorded in part."""
        broken = step.entry.error
        if broken is not None:
            return self._failed(step, broken)
        return self._missed(past_the_end(step))

    def _events(self, step: Step, response: Mapping[str, Any], seed: str) -> Iterator[StreamEvent]:
        """Yield the events of a recorded stream; one that broke off goes on as it did, or misses."""
        codec = self._codec
        as_it_came = no_answer(response)
        if as_it_came is not None:
            yield StreamEvent(as_it_came, "error" if "type" in as_it_came else None)
            return
        if not response.get("choices") and not response.get("chunks"):
            return  # the stream had no event
        try:
            yield from codec.encode_stream(response, request_body=self._payload, seed=seed)
        except (CassetteError, LookupError, TypeError, ValueError) as error:
            logger.exception("a recorded stream could not be written")
            yield self._error_event(codec.encode_miss(f"otel-cassette: {error!r}"))
            return
        if not response.get("ended_early"):
            return
        broken = step.entry.error
        if broken is not None:
            failure = codec.encode_error(broken.model_dump())
            if failure.connection_error:
                raise StreamBroke(failure.message)
            yield self._error_event(failure)
            return
        miss = past_the_end(step)
        self._session.poison(miss)
        yield self._error_event(codec.encode_miss(str(miss)))

    def _error_event(self, error: ErrorAnswer) -> StreamEvent:
        return StreamEvent(error.body, "error" if "type" in error.body else None)

    def _error(self, error: ErrorAnswer) -> Answer:
        return _error(error)

    def _carries_dummy_key(self) -> bool:
        sent = (self._header(name) or "" for name in _KEY_HEADERS)
        return DUMMY_KEY in self._path or any(DUMMY_KEY in value for value in sent)


_ANY = CODECS["openai.chat"]
"""Words the errors of requests that no codec reads; every SDK finds a message in `error.message`."""


_codec_of = functools.lru_cache(maxsize=1024)(find_codec)


def _plays_models(session: Session) -> bool:
    options = session.playback.options
    played = options.kinds is None or bool(MODEL_KINDS & options.kinds)
    return played and options.mode in ("strict", "lenient")


def _parsed(body: bytes) -> Any:
    """Return the JSON that a body holds; `_NO_JSON` where it holds none."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        try:
            return strict_json(body)  # takes escaped lone surrogates, which SDKs send
        except (ValueError, RecursionError):
            return _NO_JSON


def _error(error: ErrorAnswer) -> Answer:
    return Answer(error.status, dict(error.headers), body=json_bytes(error.body))


_Held = TypeVar("_Held")


def _of(
    held: weakref.WeakKeyDictionary[Session, _Held], session: Session, make: Callable[[], _Held]
) -> _Held:
    """Return what is held for a session; made when it is first asked for."""
    with _lock:
        found = held.get(session)
        if found is None:
            found = held[session] = make()
        return found
