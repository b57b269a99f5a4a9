"""OpenAI embeddings, and every server that speaks it.

Lives here: requests and answers. Vectors are numbers in the model; the wire has them as base64 of
little-endian float32 too, as the SDK asks for by default.

Source: https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from otel_cassette.wire import answers
from otel_cassette.wire.base import BaseCodec, checked
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.protocol import StreamEvent

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")  # Azure: the model may stand in the path alone
_TAKEN = frozenset({"model", "input"})


class OpenAIEmbeddings(BaseCodec):
    """Codec of `POST .../embeddings`."""

    name = "openai.embeddings"
    provider = "openai"
    kind: Literal["embedding"] = "embedding"
    _paths = (re.compile(r"(?:^|/)embeddings/?$"),)
    _content_fields = ("input",)

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return False: embeddings are never streamed."""
        return False

    @checked
    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON with `input` as it was sent."""
        body = merged_body(body)
        params, extra = split_params(body, _TAKEN)
        deployment = _DEPLOYMENT.search(path or "")
        return request_json(
            operation="embeddings",
            provider=self.provider,
            model=body.get("model") or (deployment.group(1) if deployment else None),
            input=body.get("input"),
            params=params,
            extra=extra,
        )

    @checked
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as `LLMResponse` JSON with a vector of numbers per input."""
        data = sorted(body.get("data") or (), key=lambda d: d.get("index") or 0)
        usage = body.get("usage") or {}
        return answers.response_json(
            model=body.get("model"),
            usage=answers.token_counts(input_tokens=usage.get("prompt_tokens")),
            embeddings=[_numbers(d.get("embedding")) for d in data],
            raw=dict(body),
        )

    @checked
    def decode_stream(self, events: Iterable[Any]) -> dict[str, Any]:
        """Return the only payload as a response: embeddings are never streamed."""
        return self.decode_response(next(answers.payloads(events), {}))

    @checked
    def encode_response(
        self,
        response: Mapping[str, Any],
        *,
        request_body: Mapping[str, Any],
        seed: str,  # noqa: ARG002 - this API's answers have no ids
    ) -> dict[str, Any]:
        """Return the body that answers the request, vectors in the encoding that it asks for."""
        packed = request_body.get("encoding_format") == "base64"
        raw = response.get("raw")
        if isinstance(raw, dict) and _is_body(raw, packed=packed):
            return raw
        vectors = response.get("embeddings") or ()
        read = answers.tokens(response.get("usage"), "input_tokens")
        return {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": _packed(vector) if packed else _numbers(vector),
                }
                for index, vector in enumerate(vectors)
            ],
            "model": response.get("model") or request_body.get("model") or "",
            "usage": {"prompt_tokens": read, "total_tokens": read},
        }

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the body as the only event: embeddings are never streamed."""
        yield StreamEvent(self.encode_response(response, request_body=request_body, seed=seed))


def _numbers(vector: Any) -> Any:
    if not isinstance(vector, str):
        return vector
    try:
        data = base64.b64decode(vector, validate=True)
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    except (binascii.Error, struct.error):
        return vector  # a placeholder of the instrumentation, no vector


def _packed(vector: Any) -> Any:
    if isinstance(vector, str):
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def _is_body(raw: Mapping[str, Any], *, packed: bool) -> bool:
    data = raw.get("data")
    return (
        raw.get("object") == "list"
        and isinstance(raw.get("model"), str)
        and isinstance(data, list)
        and all(isinstance(d, Mapping) for d in data)
        and all(isinstance(d.get("embedding"), str if packed else list) for d in data)
    )


CODEC = OpenAIEmbeddings()
