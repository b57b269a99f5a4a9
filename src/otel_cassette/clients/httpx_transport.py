"""Transports for httpx and httpx2, answered or recorded by the session they are called in.

Lives here: `CassetteTransport`, `AsyncCassetteTransport`, and the functions that the instrumentor
puts in place of the libraries' own. Not here: what a request gets (`http_exchange.py`).

httpx2 is httpx under another name, with classes of its own. Neither is imported here: the library
is told by the classes of the request or of the transport at hand.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_cassette.clients.http_exchange import (
    Answer,
    NoConnection,
    StreamBroke,
    being_sent,
    find_exchange,
)
from otel_cassette.clients.http_recording import BodyTally, RealCall
from otel_cassette.session.provider_keys import transport_added

LIBRARIES = ("httpx2", "httpx")
_MARK = "otel_cassette"

if TYPE_CHECKING:

    class _Base(Any):  # type: ignore[misc]  # instances are transports of their library
        """What type checkers take for a transport of either library."""
else:
    _Base = object


class Library:
    """The classes of one of the libraries that are needed here, and streams made of them."""

    def __init__(self, name: str) -> None:
        module: Any = sys.modules[name]
        self.module = module
        self.sync_stream: Any = type("Pieces", (_Pieces, module.SyncByteStream), {})
        self.async_stream: Any = type("AsyncPieces", (_AsyncPieces, module.AsyncByteStream), {})
        self.sync_tee: Any = type("Tee", (_Tee, module.SyncByteStream), {})
        self.async_tee: Any = type("AsyncTee", (_AsyncTee, module.AsyncByteStream), {})

    def respond(self, request: Any, answer: Answer | NoConnection, stream: Any) -> Any:
        """Return the response to a request, or raise the library's connect error."""
        if isinstance(answer, NoConnection):
            raise self.module.ConnectError(answer.message, request=request)
        headers = dict(answer.headers)
        if answer.pieces is None:
            headers["content-length"] = str(len(answer.body))
        if answer.pieces is None and stream is self.sync_stream:
            body = self.module.ByteStream(answer.body)
        else:
            pieces = iter((answer.body,)) if answer.pieces is None else answer.pieces
            body = stream(pieces, self.module.RemoteProtocolError, request)
        return self.module.Response(
            answer.status, headers=headers, stream=body, extensions={"http_version": b"HTTP/1.1"}
        )

    def decoder(self, response: Any) -> Callable[[bytes], bytes]:
        """Return what undoes the content encoding of a response, as far as a body was read."""
        headers = [(k, v) for k, v in response.headers.items() if k == "content-encoding"]
        if not headers:
            return bytes

        def decode(data: bytes) -> bytes:
            plain: list[bytes] = []
            copy = self.module.Response(200, headers=headers, stream=_One(data, self))
            try:
                plain.extend(copy.iter_bytes())
            except self.module.DecodingError:
                if not plain:
                    raise
            return b"".join(plain)

        return decode


class _Pieces:
    """A recorded body, piece by piece."""

    def __init__(self, pieces: Iterator[bytes], broke: Any, request: Any) -> None:
        self._pieces = pieces
        self._broke = broke
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except StreamBroke as error:
            raise self._broke(str(error), request=self._request) from None

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


class _AsyncPieces(_Pieces):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Both libraries depend on anyio; a stream without a pause could not be cancelled.
        from anyio.lowlevel import checkpoint  # noqa: PLC0415 - there only where they are

        for piece in _Pieces.__iter__(self):
            yield piece
            await checkpoint()

    async def aclose(self) -> None:
        self.close()


def _One(data: bytes, library: Library) -> Any:  # noqa: N802 - stands for a class of the library
    return library.sync_stream(iter((data,)), library.module.ReadError, None)


class _Tee:
    """A real body that is noted down while it is read."""

    def __init__(self, stream: Any, tally: BodyTally) -> None:
        self._stream = stream
        self._tally = tally

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self._stream:
                self._tally.add(piece)
                yield piece
        except GeneratorExit:
            raise
        except BaseException as error:
            self._tally.broke(error)
            raise
        self._tally.ended()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._tally.left_early()


class _AsyncTee:
    def __init__(self, stream: Any, tally: BodyTally) -> None:
        self._stream = stream
        self._tally = tally

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                self._tally.add(piece)
                yield piece
        except GeneratorExit:
            raise
        except Exception as error:
            self._tally.broke(error)
            raise
        except BaseException:  # cancelled: the consumer left
            self._tally.left_early()
            raise
        self._tally.ended()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._tally.left_early()


@functools.cache
def library_called(name: str) -> Library:
    """Return one of `LIBRARIES`, which is imported already."""
    return Library(name)


def library_of(thing: Any) -> Library:
    """Return the library that a request or transport belongs to.

    Raises:
        TypeError: When it is of neither library.
    """
    # By the classes themselves: the OpenAI SDK renames `__module__` of those that it exports.
    for name in LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and isinstance(
            thing, module.Request | module.BaseTransport | module.AsyncBaseTransport
        ):
            return library_called(name)
    msg = (
        f"{type(thing).__name__!r} is no transport of httpx or httpx2: give one, as in "
        "CassetteTransport(httpx2.HTTPTransport())"
    )
    raise TypeError(msg)


def send(request: Any, real: Callable[[Any], Any]) -> Any:
    """Answer a request, or send it with *real* and take note of the answer."""
    outcome: Any = None
    if not request.extensions.get(_MARK):
        exchange = find_exchange(
            request.method, request.url.host, _path(request), port=request.url.port
        )
        if exchange is not None:
            request.read()
            outcome = exchange.open(request.content, request.headers.get)
    if outcome is None:
        return real(request)
    library = library_of(request)
    if not isinstance(outcome, RealCall):
        return library.respond(request, outcome, library.sync_stream)
    with _Marked(request):
        try:
            response = real(request)
        except Exception as error:
            outcome.failed(error)
            raise
    return _noted(library, outcome, response, library.sync_tee)


async def send_async(request: Any, real: Callable[[Any], Awaitable[Any]]) -> Any:
    """As `send`, for the asynchronous clients."""
    outcome: Any = None
    if not request.extensions.get(_MARK):
        exchange = find_exchange(
            request.method, request.url.host, _path(request), port=request.url.port
        )
        if exchange is not None:
            await request.aread()
            outcome = exchange.open(request.content, request.headers.get)
    if outcome is None:
        return await real(request)
    library = library_of(request)
    if not isinstance(outcome, RealCall):
        return library.respond(request, outcome, library.async_stream)
    with _Marked(request):
        try:
            response = await real(request)
        except asyncio.CancelledError:
            outcome.given_up()
            raise
        except Exception as error:
            outcome.failed(error)
            raise
    return _noted(library, outcome, response, library.async_tee)


def _path(request: Any) -> str:
    path: bytes = request.url.raw_path
    return path.decode("ascii", "replace")


def _noted(library: Library, call: RealCall, response: Any, tee: Any) -> Any:
    """Let the body of a real response be noted down while it is read."""
    if hasattr(response, "_content"):  # given whole, by a transport that stands in for the network
        tally = call.answered(response.status_code, bytes)
        tally.add(response.content)
        tally.ended()
        return response
    tally = call.answered(response.status_code, library.decoder(response))
    response.stream = tee(response.stream, tally)
    return response


class _Marked:
    """While it is sent, a request says that it was looked at: transports may be nested."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._before = request.extensions
        self._token: Any = None

    def __enter__(self) -> None:
        self._request.extensions = {**self._before, _MARK: True}
        self._token = being_sent.set(True)

    def __exit__(self, *_: object) -> None:
        being_sent.reset(self._token)
        self._request.extensions = self._before


class CassetteTransport(_Base):
    """A transport for the clients of httpx and httpx2 that answers from, or records into, a session.

    The session is looked up at each request; without one the inner transport is used as it is.

    Args:
        inner: The transport that makes real requests, such as `httpx2.HTTPTransport()`; its library
            is the transport's own.

    Raises:
        TypeError: When *inner* is no transport of either library.

    Example:
        client = openai.OpenAI(
            http_client=httpx2.Client(transport=CassetteTransport(httpx2.HTTPTransport()))
        )
    """

    def __new__(cls, inner: Any) -> Any:
        """Make it of a class that is also a transport of the library of *inner*."""
        return object.__new__(_made(cls, library_of(inner).module.BaseTransport))

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        transport_added(self)

    def handle_request(self, request: Any) -> Any:
        """Answer a request, or send it through the inner transport."""
        return send(request, self.inner.handle_request)

    def close(self) -> None:
        """Close the inner transport."""
        self.inner.close()

    def __enter__(self) -> Any:
        self.inner.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.inner.__exit__(exc_type, exc_value, traceback)


class AsyncCassetteTransport(_Base):
    """`CassetteTransport` for the asynchronous clients; *inner* is an asynchronous transport."""

    def __new__(cls, inner: Any) -> Any:
        """Make it of a class that is also a transport of the library of *inner*."""
        return object.__new__(_made(cls, library_of(inner).module.AsyncBaseTransport))

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        transport_added(self)

    async def handle_async_request(self, request: Any) -> Any:
        """Answer a request, or send it through the inner transport."""
        return await send_async(request, self.inner.handle_async_request)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()

    async def __aenter__(self) -> Any:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.inner.__aexit__(exc_type, exc_value, traceback)


_classes: dict[tuple[Any, Any], Any] = {}


def _made(cls: Any, base: Any) -> Any:
    """Return the class as one of a library's own transports: SDKs tell the library by it."""
    if issubclass(cls, base):
        return cls
    made = _classes.get((cls, base))
    if made is None:
        made = _classes[cls, base] = type(cls.__name__, (cls, base), {})
    return made
