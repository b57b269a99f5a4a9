"""Model calls over aiohttp, which is not answered: in a replay they are refused, not sent.

Lives here: the function that the instrumentor puts in front of `aiohttp.ClientSession`'s requests.
Not here: which requests are model calls (`http_exchange.py`).
"""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import urlsplit

from otel_cassette.clients.http_exchange import being_sent, find_exchange

logger: logging.Logger = logging.getLogger("otel_cassette")

_REMEDY = (
    "is made with aiohttp, which is neither answered nor recorded: let the client use httpx2 or httpx "
    "(google-genai: http_options={'httpx_async_client': httpx2.AsyncClient()})"
)


def check(method: str, url: str, options: dict[str, Any]) -> str | None:
    """Return why a request must not be sent; None for one that may.

    Args:
        method: HTTP method.
        url: The whole URL.
        options: Keyword arguments of the request, among them its body as `json` or `data`.
    """
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    exchange = None
    if not being_sent.get():
        exchange = find_exchange(method, parts.hostname or "", path, port=parts.port)
    if exchange is None:
        return None
    body = options.get("json")
    data = options.get("data")
    if body is None and isinstance(data, str | bytes):
        try:
            body = json.loads(data)
        except ValueError:
            body = None
    if not exchange.is_model_call(body):
        return None
    what = f"{method} {parts.hostname}{parts.path} {_REMEDY}"
    if exchange.refuse(what):
        return what
    logger.warning(what)
    return None
