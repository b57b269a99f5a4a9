"""What the codecs have in common: how a request is recognised, and how streams are framed.

Lives here: defaults for JSON over HTTP with server-sent events. Not here: any provider's shapes.
"""

from __future__ import annotations

import functools
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar, cast

from otel_cassette.errors import CassetteFormatError
from otel_cassette.wire import sse
from otel_cassette.wire.answers import covers, make_id
from otel_cassette.wire.failures import error_answer, miss_answer
from otel_cassette.wire.protocol import ErrorAnswer, StreamEvent

_CONTENT = (str, list, Mapping)
_Method = TypeVar("_Method", bound=Callable[..., Any])


def checked(method: _Method) -> _Method:
    """Make a codec's method raise CassetteFormatError for a body that is not of its API's shape.

    Bodies come from programs, servers and instrumentations: any leaf may be of any type. One
    boundary says so for all of them.
    """

    @functools.wraps(method)
    def wrapper(self: BaseCodec, body: Any, **options: Any) -> Any:
        try:
            return method(self, body, **options)
        except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
            what = method.__name__.partition("_")[2]
            reason = f"this {what} has not the shape of {self.name}: {error}"
            raise CassetteFormatError(reason=reason) from error

    return cast("_Method", wrapper)


class BaseCodec(ABC):
    """Base of the codecs; a subclass names the API and maps its bodies."""

    name: ClassVar[str]
    _paths: ClassVar[tuple[re.Pattern[str], ...]]
    _content_fields: ClassVar[tuple[str, ...]]
    _request_id_header: ClassVar[str] = "x-request-id"

    def matches(self, method: str, host: str, path: str) -> bool:  # noqa: ARG002 - any host
        """Return whether the request goes to this API, whatever base URL stands before it."""
        plain = path.partition("?")[0]
        return method.upper() == "POST" and any(p.search(plain) for p in self._paths)

    def accepts(self, body: Any) -> bool:
        """Return whether a body has one of the fields that carry the content of a request."""
        return isinstance(body, Mapping) and any(
            isinstance(body.get(field), _CONTENT) for field in self._content_fields
        )

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return whether the request asks for a streamed answer."""
        return bool(body.get("stream"))

    def stream_media_type(self, path: str) -> str:  # noqa: ARG002 - Google's depends on it
        """Return the content type of a streamed answer."""
        return "text/event-stream"

    def write_stream(self, events: Iterable[StreamEvent], *, path: str) -> Iterator[bytes]:  # noqa: ARG002
        """Yield a stream's bytes, one event each."""
        return sse.write_sse(events)

    def read_stream(self, data: bytes, *, path: str) -> list[StreamEvent]:  # noqa: ARG002
        """Return the complete events of a streamed body, which may have been cut off."""
        return sse.read_sse(data)

    def response_headers(self, seed: str) -> dict[str, str]:
        """Return the header fields of an answer beside its content type."""
        return {self._request_id_header: make_id("req_", seed)}

    def encode_error(self, failure: Mapping[str, Any]) -> ErrorAnswer:
        """Return a recorded failure as this API's HTTP error."""
        return error_answer(failure, self._error_body, request_id_header=self._request_id_header)

    def encode_miss(self, message: str) -> ErrorAnswer:
        """Return an error that no SDK tries again, with `message` as its text."""
        return miss_answer(message, self._error_body, request_id_header=self._request_id_header)

    @abstractmethod
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a response body as the plain JSON of an `LLMResponse`."""

    def _own_body(
        self, response: Mapping[str, Any], is_body: Callable[[Mapping[str, Any]], bool]
    ) -> dict[str, Any] | None:
        """Return the `raw` of a response where it can be served: of this API, nothing lost."""
        raw = response.get("raw")
        if not isinstance(raw, dict) or not is_body(raw):
            return None
        try:
            return raw if covers(self.decode_response(raw), response) else None
        except CassetteFormatError:
            return None  # rebuilt by an instrumentation: made anew from the parts

    def _error_body(self, status: int, message: str) -> dict[str, Any]:
        """Return the API's error body; this is OpenAI's."""
        kind = _OPENAI_TYPES.get(
            status, "invalid_request_error" if status < 500 else "server_error"
        )
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


_OPENAI_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
