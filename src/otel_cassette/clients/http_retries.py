"""Which earlier call an SDK's retry belongs to.

Lives here: the memory of failed tries, by request and by who made it. Not here: what a retry gets
(`http_exchange.py`).

SDKs made by Stainless (OpenAI, Anthropic) say in a header that a request is a retry. It is one call
with the try before it: it gets the same recorded error again, and recorded it makes one entry.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from typing import Any

from otel_cassette.session import Step

RETRY_HEADER = "x-stainless-retry-count"
_MAX_OPEN = 10_000


class Retries:
    """Failed tries of one session that may be repeated; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[bytes, int], tuple[Step, Any]] = OrderedDict()

    def remember(self, request: bytes, step: Step, answer: Any) -> None:
        """Keep a failed try.

        Args:
            request: Digest of the request.
            step: The call.
            answer: What a retry gets; None where it goes to the real API again.
        """
        with self._lock:
            self._open[request, _caller()] = (step, answer)
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)

    def find(self, request: bytes) -> tuple[Step, Any] | None:
        """Return the try that a retry of *request* repeats: the caller's own, else the latest."""
        with self._lock:
            own = self._open.get((request, _caller()))
            if own is not None:
                return own
            same = (held for (digest, _), held in reversed(self._open.items()) if digest == request)
            return next(same, None)

    def forget(self, request: bytes) -> None:
        """The call was answered."""
        with self._lock:
            self._open.pop((request, _caller()), None)


def is_retry(count: str | None) -> bool:
    """Return whether a retry header says that there was a try before."""
    return count is not None and count.strip().isdigit() and int(count) > 0


def _caller() -> int:
    """Return who makes the call: the asyncio task, else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident() if task is None else id(task)
