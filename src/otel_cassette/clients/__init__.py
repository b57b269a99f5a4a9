"""How calls are made: wrappers behind a cassette, tracing wrappers, HTTP transports.

The transports and the instrumentor are found here; they import no HTTP library until they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_cassette.clients.httpx_transport import AsyncCassetteTransport, CassetteTransport
    from otel_cassette.clients.instrumentor import CassetteInstrumentor
    from otel_cassette.clients.requests_adapter import CassetteAdapter

__all__ = ["AsyncCassetteTransport", "CassetteAdapter", "CassetteInstrumentor", "CassetteTransport"]

_MODULES = {
    "AsyncCassetteTransport": "httpx_transport",
    "CassetteAdapter": "requests_adapter",
    "CassetteInstrumentor": "instrumentor",
    "CassetteTransport": "httpx_transport",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: few programs need all of them."""
    module = _MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
