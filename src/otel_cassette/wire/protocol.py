"""What every wire codec offers, and the events that a stream is made of.

Lives here: the `WireCodec` protocol, `StreamEvent`, `ErrorAnswer`. Not here: any provider's shapes
(one file per API beside this one) and the transports that send the bytes (`clients/`).

A codec is pure: plain JSON in, plain JSON out, no I/O, no clock, no randomness.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from otel_cassette.model.plain import json_bytes

Json = dict[str, Any]


@dataclass(frozen=True)
class StreamEvent:
    """One event of a streamed answer.

    Attributes:
        data: The JSON payload, or a text that goes out as it is (`[DONE]`).
        event: Name of the server-sent event; None where the API sends none.
    """

    data: Any
    event: str | None = None

    def to_sse(self) -> bytes:
        """Return the event as bytes of a `text/event-stream`."""
        data = self.data.encode() if isinstance(self.data, str) else json_bytes(self.data)
        head = f"event: {self.event}\n" if self.event else ""
        return b"%sdata: %s\n\n" % (head.encode(), data)


@dataclass(frozen=True)
class ErrorAnswer:
    """An HTTP error as its provider would send it.

    Attributes:
        status: HTTP status code; 0 for a failed connection, which has no answer.
        headers: Header fields of the answer, names in lower case.
        body: JSON body of the answer.
        message: The text alone.
        connection_error: The call failed before there was an answer: the transport raises its
            library's own connection error with `message`.
    """

    status: int
    headers: dict[str, str]
    body: Json
    message: str
    connection_error: bool = False


class WireCodec(Protocol):
    """One provider API, both ways."""

    @property
    def name(self) -> str:
        """Name of the API: `openai.chat`, `anthropic.messages`, ..."""

    @property
    def provider(self) -> str:
        """`gen_ai.provider.name` of the API's provider."""

    @property
    def kind(self) -> Literal["llm", "embedding"]:
        """The kind of call that the API makes."""

    def matches(self, method: str, host: str, path: str) -> bool:
        """Return whether an HTTP request goes to this API, whatever base URL stands before it."""

    def accepts(self, body: Any) -> bool:
        """Return whether a body has the fields that every request to this API has.

        Paths end alike (`/responses` is a survey's too): a request is of this API when its path
        matches and its body is accepted.
        """

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:
        """Return whether the request asks for a streamed answer."""

    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> Json:
        """Return a request body as the plain JSON of an `LLMRequest`, defaults left out."""

    def decode_response(self, body: Mapping[str, Any]) -> Json:
        """Return a response body as the plain JSON of an `LLMResponse`, the body under `raw`."""

    def decode_stream(self, events: Iterable[Any]) -> Json:
        """Return a stream's events as the plain JSON of an `LLMResponse` with `chunks`.

        Args:
            events: Payloads, `StreamEvent`s, or `{"event", "data"}` dicts, in the order of arrival.
                A stream that ended before its last event gives `ended_early`.
        """

    def encode_response(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Json:
        """Return the body that answers `request_body` with a recorded response.

        Args:
            response: Plain JSON of an `LLMResponse`. Its `raw` is served where it has this API's
                shape; anything else is synthesised.
            request_body: The live request, for what an answer repeats of it.
            seed: Names the entry: synthesised ids are made of it, equal for equal seeds.
        """

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the events that answer a streaming request; arguments as `encode_response`."""

    def stream_media_type(self, path: str) -> str:
        """Return the content type of a streamed answer to a request of this path and query."""

    def write_stream(self, events: Iterable[StreamEvent], *, path: str) -> Iterator[bytes]:
        """Yield a stream's bytes, one event each."""

    def read_stream(self, data: bytes, *, path: str) -> list[StreamEvent]:
        """Return the complete events of a streamed body, which may have been cut off."""

    def response_headers(self, seed: str) -> dict[str, str]:
        """Return the header fields of an answer beside its content type: the request id."""

    def encode_error(self, failure: Mapping[str, Any]) -> ErrorAnswer:
        """Return a recorded failure (`type`, `message`, `status`) as this API's HTTP error."""

    def encode_miss(self, message: str) -> ErrorAnswer:
        """Return an error that no SDK tries again, with `message` as its text."""


def dumps(value: Any) -> str:
    """Return compact JSON text, non-ASCII kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
