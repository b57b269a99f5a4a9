"""Recorded failures and misses as HTTP errors.

Lives here: the status of a failure by its type's name, the text without what SDKs put before it,
the error bodies of the providers. Not here: which call fails (`engine`), and the raising of a
library's own connection error (`clients/`).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from otel_cassette.wire.protocol import ErrorAnswer

MISS_STATUS = 409
"""409 with `x-should-retry: false` makes the OpenAI and Anthropic SDKs try once only, and Google's
does not retry it."""

_STATUS: Mapping[str, int] = {
    # classes of the SDKs
    "BadRequestError": 400,
    "InvalidRequestError": 400,
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "ConflictError": 409,
    "RequestTooLargeError": 413,
    "UnprocessableEntityError": 422,
    "RateLimitError": 429,
    "ResourceExhausted": 429,
    "InternalServerError": 500,
    "ServerError": 500,
    "ServiceUnavailableError": 503,
    "OverloadedError": 529,
    "DeadlineExceededError": 504,
    "ClientError": 400,
    "ContextWindowExceededError": 400,
    "ContentPolicyViolationError": 400,
    # error types of the Anthropic API, which its SDK's own spans carry
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # canonical codes of Google's APIs
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}

_RETRIED = frozenset({408, 409, 429})

_CONNECTION = frozenset(
    {
        "APIConnectionError",
        "APITimeoutError",
        "connection_error",
        "ConnectError",
        "ConnectTimeout",
        "ConnectionError",
        "ConnectionRefusedError",
        "ReadTimeout",
        "ReadError",
        "RemoteProtocolError",
        "timeout",
    }
)

_CONNECTION_TEXTS = frozenset({"Connection error.", "Request timed out."})
_TRACEBACK = "Traceback (most recent call last):"
# `Error code: N - ` (OpenAI, Anthropic), `N STATUS. ` (Google), `status_code: N, ... body: `
# (pydantic-ai); anywhere in the text, as frameworks put their own words before it.
_CODES = (
    re.compile(r"\bError code: (\d{3})(?: - )?"),
    re.compile(r"^(\d{3}) (?:[A-Z_]+|None)\. "),
    re.compile(r"\bstatus_code: (\d{3}),.*?\bbody: ", re.DOTALL),
)
_CLASS = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exhausted))(?:: | - )")
_REPR = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)\((.*)\)$", re.DOTALL)


def error_answer(
    failure: Mapping[str, Any],
    body_of: Callable[[int, str], dict[str, Any]],
    *,
    request_id_header: str = "x-request-id",
) -> ErrorAnswer:
    """Return a recorded failure as an HTTP error.

    Args:
        failure: Plain JSON of a `RecordedFailure`: `type`, `message`, `status`, `body`.
        body_of: Makes the provider's error body of a status and a text.
        request_id_header: Where the provider puts its request id.
    """
    message = str(failure.get("message") or "")
    kinds = (_last_name(str(failure.get("type") or "")), _class_in(message))
    text, from_text, body = read_message(message)
    if isinstance(failure.get("body"), Mapping):
        body = dict(failure["body"])
    known = failure.get("status") or from_text
    if known is None and (text in _CONNECTION_TEXTS or any(k in _CONNECTION for k in kinds)):
        return ErrorAnswer(0, {}, {}, text or "Connection error.", connection_error=True)
    status = int(known or next(filter(None, map(_status_of, kinds)), 500))
    headers = {"content-type": "application/json", request_id_header: "req_replayed"}
    if status in _RETRIED or status >= 500:
        headers["retry-after-ms"] = "1"  # else an SDK that tries again sleeps for seconds
    return ErrorAnswer(status, headers, body or body_of(status, text), text)


def miss_answer(
    message: str,
    body_of: Callable[[int, str], dict[str, Any]],
    *,
    request_id_header: str = "x-request-id",
) -> ErrorAnswer:
    """Return the answer to a call that has no recorded answer; no SDK tries again."""
    headers = {
        "content-type": "application/json",
        request_id_header: "req_replayed",
        "x-should-retry": "false",
    }
    return ErrorAnswer(MISS_STATUS, headers, body_of(MISS_STATUS, message), message)


def read_message(message: str) -> tuple[str, int | None, dict[str, Any] | None]:
    """Return `(text, status, body)` of a failure's message as instrumentations write it.

    `Class: text`, `Class('text')`, a traceback behind it, and the forms of `_CODES` are unwrapped;
    a body that is a Python or JSON dict is parsed, and its own message is the text.
    """
    text = message.partition(_TRACEBACK)[0].strip()
    shown = _REPR.match(text)
    inner = _literal(shown.group(2)) if shown else None
    if isinstance(inner, str):
        text = inner
    while found := _CLASS.match(text):
        text = text[found.end() :]
    for pattern in _CODES:
        # The last one: a wrapper's text may repeat that of what it wraps.
        for code in reversed(list(pattern.finditer(text))):
            text, body = _after_code(text[code.end() :], wrapped=code.start() > 0)
            return text, int(code.group(1)), body
    body = _body(text)
    return (_text_of(body) or text), None, body


def _after_code(text: str, *, wrapped: bool) -> tuple[str, dict[str, Any] | None]:
    """Return text and body behind a status; `wrapped` text may end in brackets of what wraps it."""
    rest = text
    while rest:
        body = _body(rest)
        if body is not None:
            return _text_of(body) or rest, body
        if not wrapped or rest[-1] not in ")]}\"'":
            break
        rest = rest[:-1]
    return (rest if wrapped else text), None


def _body(text: str) -> dict[str, Any] | None:
    value = _literal(text) if text.startswith("{") else None
    if not isinstance(value, dict):
        return None
    # The OpenAI SDK's exceptions hold the inner object of its error bodies.
    return {"error": value} if "message" in value and "error" not in value else value


def _text_of(body: dict[str, Any] | None) -> str | None:
    inner = (body or {}).get("error")
    found = inner.get("message") if isinstance(inner, dict) else inner
    return found if isinstance(found, str) else None


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _status_of(name: str) -> int | None:
    if name.isdigit() and len(name) == 3:
        return int(name)
    # Frameworks put a word of theirs before the class of the SDK (`OpenAIInvalidRequestError`).
    return next((status for known, status in _STATUS.items() if name.endswith(known)), None)


def _last_name(kind: str) -> str:
    """Return the class name of a qualified one, or of a class's repr."""
    return kind.removeprefix("<class '").removesuffix("'>").rpartition(".")[2]


def _class_in(message: str) -> str:
    found = _CLASS.match(message.strip()) or _REPR.match(message.partition(_TRACEBACK)[0].strip())
    return found.group(1) if found else ""
