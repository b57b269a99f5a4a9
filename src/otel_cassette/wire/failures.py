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
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "APITimeoutError": 408,
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

_CODE = re.compile(r"^Error code: (\d{3})(?: - )?", re.DOTALL)
_GOOGLE = re.compile(r"^(\d{3}) ([A-Z_]+|None)\. ", re.DOTALL)
_CLASS = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exhausted)): ", re.DOTALL)
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
    kind = str(failure.get("type") or "").rpartition(".")[2]
    text, from_text, body = read_message(str(failure.get("message") or ""))
    if isinstance(failure.get("body"), Mapping):
        body = dict(failure["body"])
    status = failure.get("status") or from_text or _status_of(kind)
    named = [kind, _class_in(str(failure.get("message") or ""))]
    if not failure.get("status") and from_text is None and any(n in _CONNECTION for n in named):
        return ErrorAnswer(0, {}, {}, text or "Connection error.", connection_error=True)
    status = int(status or _status_of(named[1]) or 500)
    headers = {"content-type": "application/json", request_id_header: "req_replayed"}
    if status == 429:
        headers["retry-after-ms"] = "1"  # else an SDK that tries again sleeps for seconds
    # An SDK whose status attribute disagrees with its body would be told apart by nobody.
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

    `Class: text`, `Error code: N - {body}`, `N STATUS. {body}` (Google) and `Class('text')` are
    unwrapped; a body that is a Python or JSON dict is parsed, and its own message is the text.
    """
    text = message.strip()
    shown = _REPR.match(text)
    if shown:
        inner = _literal(shown.group(2))
        text = inner if isinstance(inner, str) else text
    text = _CLASS.sub("", text, count=1)
    status = None
    code = _CODE.match(text) or _GOOGLE.match(text)
    if code:
        status = int(code.group(1))
        text = text[code.end() :]
    body = _literal(text) if text.startswith("{") else None
    if isinstance(body, dict):
        inner = body.get("error")
        found = inner.get("message") if isinstance(inner, dict) else body.get("message")
        return (found if isinstance(found, str) else text), status, body
    return text, status, None


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
    return _STATUS.get(name)


def _class_in(message: str) -> str:
    found = _CLASS.match(message.strip()) or _REPR.match(message.strip())
    return found.group(1) if found else ""
