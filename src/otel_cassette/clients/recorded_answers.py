"""What a recorded response is worth to somebody who asks for a whole answer.

Lives here: pure questions about a response. Not here: what is sent instead (`http_exchange.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_cassette.clients.http_recording import is_error_event


def is_begun(response: Mapping[str, Any]) -> bool:
    """Return whether a response is that of a stream without its end: it is no whole answer.

    A stream may be read to its last byte and have none: no reason why the model stopped.
    """
    if response.get("ended_early"):
        return True
    choices = response.get("choices") or ()
    ended = bool(choices) and all(each.get("finish_reason") for each in choices)
    return bool(response.get("chunks")) and not ended


def no_answer(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the payload of a response that holds no answer: nothing may be made of it.

    Gateways send errors with status 200, and bodies without choices.
    """
    raw = response.get("raw")
    if not isinstance(raw, dict):
        return None
    if response.get("choices") or response.get("embeddings"):
        return raw if is_error_event(raw) and "object" not in raw else None
    return raw
