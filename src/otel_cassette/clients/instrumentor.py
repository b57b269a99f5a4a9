"""`CassetteInstrumentor`: every client of httpx2, httpx and requests, without changing the program.

Lives here: where the libraries are patched, and how that is undone. Not here: what a request gets.

Two places of each library. The real transport's own method, under whatever wraps it already, so
that spans which an instrumentation opens around it stay in a replay. And the choice of a transport
by the client, for transports that are not the library's own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

from otel_cassette.clients import aiohttp_guard, httpx_transport, requests_adapter
from otel_cassette.session.context import open_sessions
from otel_cassette.session.provider_keys import transport_added, transport_removed

logger: logging.Logger = logging.getLogger("otel_cassette")

_OURS = "_otel_cassette_original"
_IN_PROCESS = frozenset(
    {"ASGITransport", "WSGITransport", "_TestClientTransport", "_AsyncTestClientTransport"}
)
"""Transports that call an application in this process: what is asked of it is no model call."""


class CassetteInstrumentor:
    """Makes every client of the installed HTTP libraries answer from, or record into, sessions.

    Shaped as the instrumentors of OpenTelemetry are. Without a call of `instrument` nothing is
    patched; clients that exist already are included.
    """

    _lock = threading.Lock()
    _undo: list[Callable[[], None]] = []  # noqa: RUF012 - the process has one set of patches

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether the libraries are patched."""
        return bool(self._undo)

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what can be instrumented; any of them is enough."""
        return ("httpx2 >= 2.0", "httpx >= 0.25", "requests >= 2.28", "aiohttp >= 3.9")

    def instrument(self, **_options: Any) -> None:
        """Patch the installed libraries; a second call does nothing.

        Args:
            _options: Ignored: those that OpenTelemetry's loader passes.
        """
        with self._lock:
            if self._undo:
                return
            for name, patch in _PATCHES.items():
                if importlib.util.find_spec(name) is None:
                    continue
                try:
                    module = importlib.import_module(name)
                except ImportError as error:  # half installed: the program cannot use it either
                    logger.warning("%s is not instrumented: %s", name, error)
                    continue
                self._undo.extend(patch(module))
            transport_added()
            self._undo.append(transport_removed)

    def uninstrument(self, **_options: Any) -> None:
        """Take the patches back.

        Args:
            _options: Ignored.
        """
        with self._lock:
            while self._undo:
                self._undo.pop()()


def _patch_httpx(module: Any) -> list[Callable[[], None]]:
    if module.__name__ not in httpx_transport.LIBRARIES:
        return []  # an alias of the other one
    return [
        _replace(module.HTTPTransport, "handle_request", _handle_request),
        _replace(module.AsyncHTTPTransport, "handle_async_request", _handle_async_request),
        _replace(
            module.Client,
            "_transport_for_url",
            functools.partial(
                _transport_for_url,
                own=module.HTTPTransport,
                method="handle_request",
                wrap=httpx_transport.CassetteTransport,
            ),
        ),
        _replace(
            module.AsyncClient,
            "_transport_for_url",
            functools.partial(
                _transport_for_url,
                own=module.AsyncHTTPTransport,
                method="handle_async_request",
                wrap=httpx_transport.AsyncCassetteTransport,
            ),
        ),
    ]


def _patch_requests(module: Any) -> list[Callable[[], None]]:
    adapter = importlib.import_module("requests.adapters").HTTPAdapter
    return [
        _replace(adapter, "send", _send),
        _replace(
            module.Session,
            "get_adapter",
            functools.partial(
                _transport_for_url,
                own=adapter,
                method="send",
                wrap=requests_adapter.CassetteAdapter,
            ),
        ),
    ]


def _patch_aiohttp(module: Any) -> list[Callable[[], None]]:
    return [_replace(module.ClientSession, "_request", _aiohttp_request)]


_PATCHES: dict[str, Callable[[Any], list[Callable[[], None]]]] = {
    "httpx2": _patch_httpx,
    "httpx": _patch_httpx,
    "requests": _patch_requests,
    "aiohttp": _patch_aiohttp,
}


def _aiohttp_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        if open_sessions():
            refused = aiohttp_guard.check(method, str(self._build_url(str_or_url)), kwargs)
            if refused is not None:
                raise sys.modules["aiohttp"].ClientError(refused)
        return await original(self, method, str_or_url, **kwargs)

    return request


def _handle_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        return httpx_transport.send(request, functools.partial(original, self))

    return handle_request


def _handle_async_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        return await httpx_transport.send_async(request, functools.partial(original, self))

    return handle_async_request


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        real = functools.partial(original, self, request, *args, **kwargs)
        return requests_adapter.send(self, request, real)

    return send


def _transport_for_url(
    original: Callable[..., Any], *, own: Any, method: str, wrap: Callable[[Any], Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        transport = original(self, *args, **kwargs)
        if not open_sessions() or _is_covered(transport, own, method):
            return transport
        return wrap(transport)

    return chosen


def _is_covered(transport: Any, own: Any, method: str) -> bool:
    """Return whether a request through *transport* comes by one of our patches anyway."""
    if isinstance(
        transport,
        httpx_transport.CassetteTransport
        | httpx_transport.AsyncCassetteTransport
        | requests_adapter.CassetteAdapter,
    ):
        return True
    if type(transport).__name__ in _IN_PROCESS:
        return True
    own_method = vars(transport).get(method) if hasattr(transport, "__dict__") else None
    if own_method is not None:  # one instance was instrumented by itself, before or after us
        return any(hasattr(fn, _OURS) for fn in _chain(own_method))
    return inspect.getattr_static(transport, method, None) is inspect.getattr_static(own, method)


def _chain(fn: Any) -> list[Any]:
    """Return a callable and what it wraps, the outermost first."""
    found = [fn]
    while (fn := getattr(fn, "__wrapped__", None)) is not None and not hasattr(found[-1], _OURS):
        found.append(fn)
    return found


def _replace(
    cls: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[[], None]:
    """Put our function in place of a method, under what wraps it already.

    Returns:
        What takes it back, wherever it is by then.
    """
    holder, inner = _innermost(cls, name)
    ours = make(inner)
    setattr(ours, _OURS, inner)
    _set(cls, name, holder, ours)

    def undo() -> None:
        holder, inner = _innermost(cls, name)
        if inner is ours:
            _set(cls, name, holder, getattr(ours, _OURS))

    return undo


def _innermost(cls: Any, name: str) -> tuple[Any, Any]:
    """Return `(proxy, function)`: the last wrapt proxy around a method, None without any."""
    holder, fn = None, inspect.getattr_static(cls, name)
    while _is_proxy(fn):
        holder, fn = fn, fn.__wrapped__
    return holder, fn


def _set(cls: Any, name: str, holder: Any, fn: Any) -> None:
    if holder is None:
        setattr(cls, name, fn)
    else:
        holder.__wrapped__ = fn


def _is_proxy(fn: Any) -> bool:
    """Return whether *fn* is a proxy of wrapt, with which OpenTelemetry's instrumentations wrap."""
    return any(
        c.__name__ == "ObjectProxy" or c.__module__.startswith("wrapt") for c in type(fn).__mro__
    )
