"""An adapter for requests, answered or recorded by the session it is called in.

Lives here: `CassetteAdapter`, and the function that the instrumentor puts in place of the library's
own. Not here: what a request gets (`http_exchange.py`).
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_cassette.clients.http_exchange import Answer, NoConnection, StreamBroke, find_exchange
from otel_cassette.clients.http_recording import BodyTally, RealCall
from otel_cassette.session.provider_keys import transport_added

if TYPE_CHECKING:

    class _Base(Any):  # type: ignore[misc]  # instances are adapters of requests
        """What type checkers take for an adapter."""
else:
    _Base = object


def send(adapter: Any, request: Any, real: Callable[[], Any]) -> Any:
    """Answer a prepared request, or send it with *real* and take note of the answer."""
    url = urlsplit(request.url or "")
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    exchange = None
    if not getattr(request, "_otel_cassette", False):
        exchange = find_exchange(request.method or "", url.hostname or "", path, port=url.port)
    outcome = None
    if exchange is not None:
        outcome = exchange.open(_body(request) if exchange.reads else b"", request.headers.get)
    if outcome is None:
        return real()
    if isinstance(outcome, NoConnection):
        raise _exceptions().ConnectionError(outcome.message, request=request)
    if isinstance(outcome, Answer):
        return adapter.build_response(request, _Raw(outcome))
    request._otel_cassette = True  # noqa: SLF001 - adapters may be nested
    try:
        response = real()
    except Exception as error:
        outcome.failed(error)
        raise
    finally:
        del request._otel_cassette  # noqa: SLF001 - as above
    _note(response, outcome)
    return response


def _exceptions() -> Any:
    import requests  # noqa: PLC0415 - an optional extra

    return requests.exceptions


_BLOCK_BYTES = 65_536


def _body(request: Any) -> bytes:
    """Return the body of a request; one that can be read only once is replaced by its bytes."""
    body = request.body
    if body is None or isinstance(body, bytes):
        return body or b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytearray | memoryview):
        whole = bytes(body)
    else:
        pieces = iter(lambda: body.read(_BLOCK_BYTES), b"") if hasattr(body, "read") else body
        whole = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in pieces)
    request.body = whole
    request._body_position = None  # noqa: SLF001 - bytes need no rewinding
    request.headers.pop("Transfer-Encoding", None)
    request.prepare_content_length(whole)
    return whole


class _Raw(io.RawIOBase):
    """What `requests` reads an answer from: the part of urllib3's response that it uses."""

    version = 11
    reason = ""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.status = answer.status
        self.headers = dict(answer.headers)
        if answer.pieces is None:
            self.headers["content-length"] = str(len(answer.body))
        self._pieces = iter((answer.body,)) if answer.pieces is None else answer.pieces
        self._rest = b""

    def stream(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:  # noqa: ARG002, FBT001 - urllib3's signature
        """Yield the pieces as they were recorded, whatever size is asked for."""
        while piece := self._next():
            yield piece

    def read(self, amt: int | None = -1, decode_content: bool | None = None) -> bytes:  # noqa: ARG002, FBT001 - urllib3's signature
        """Return up to *amt* bytes; all without it."""
        if amt is None or amt < 0:
            return b"".join(self.stream())
        piece = self._rest or self._next()
        self._rest = piece[amt:]
        return piece[:amt]

    def _next(self) -> bytes:
        if self._rest:
            piece, self._rest = self._rest, b""
            return piece
        try:
            return next((piece for piece in self._pieces if piece), b"")
        except StreamBroke as error:
            raise _exceptions().ChunkedEncodingError(str(error)) from None

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()
        super().close()

    def release_conn(self) -> None:
        """There is no connection."""


def _note(response: Any, call: RealCall) -> None:
    """Let the body of a real response be noted down while it is read."""
    tally = call.answered(response.status_code, bytes)
    if response._content is not False:  # noqa: SLF001 - read already
        tally.add(response.content)
        tally.ended()
        return
    raw = response.raw
    raw.stream = functools.partial(_tee, raw.stream, tally)
    close = response.close

    def closed() -> None:
        try:
            close()
        finally:
            tally.left_early()

    response.close = closed


def _tee(
    stream: Callable[..., Iterator[bytes]], tally: BodyTally, *args: Any, **kwargs: Any
) -> Iterator[bytes]:
    """Yield a real body as urllib3 decodes it, and note it down."""
    try:
        for piece in stream(*args, **kwargs):
            tally.add(piece)
            yield piece
    except GeneratorExit:
        tally.left_early()
        raise
    except BaseException as error:
        tally.broke(error)
        raise
    tally.ended()


class CassetteAdapter(_Base):
    """An adapter for `requests` sessions that answers from, or records into, a cassette session.

    Args:
        inner: The adapter that makes real requests; `requests.adapters.HTTPAdapter()` by default.

    Example:
        session = requests.Session()
        session.mount("https://", CassetteAdapter())
    """

    def __new__(cls, inner: Any = None) -> Any:  # noqa: ARG004 - the arguments of __init__
        """Make it of a class that is also an adapter of requests."""
        from requests.adapters import BaseAdapter  # noqa: PLC0415 - an optional extra

        return object.__new__(_made(cls, BaseAdapter))

    def __init__(self, inner: Any = None) -> None:
        from requests.adapters import HTTPAdapter  # noqa: PLC0415 - an optional extra

        super().__init__()
        self.inner: Any = HTTPAdapter() if inner is None else inner
        transport_added(self)
        self._builder: Any = inner if hasattr(inner, "build_response") else HTTPAdapter()

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer a request, or send it through the inner adapter."""
        return send(self._builder, request, lambda: self.inner.send(request, *args, **kwargs))

    def close(self) -> None:
        """Close the inner adapter."""
        self.inner.close()


_classes: dict[tuple[Any, Any], Any] = {}


def _made(cls: Any, base: Any) -> Any:
    if issubclass(cls, base):
        return cls
    made = _classes.get((cls, base))
    if made is None:
        made = _classes[cls, base] = type(cls.__name__, (cls, base), {})
    return made
