"""Google embedContent and batchEmbedContents.

Lives here: requests and answers of both, which differ only in that the second has a list of the
first's bodies. Not here: Vertex AI's `:predict`, which serves models of every kind.

Source: https://ai.google.dev/api/embeddings
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from otel_cassette.wire import answers
from otel_cassette.wire.base import BaseCodec, checked
from otel_cassette.wire.google_parts import google_error, part_list, snake_keys
from otel_cassette.wire.params import merged_body, request_json, split_params
from otel_cassette.wire.protocol import StreamEvent

_PATH = re.compile(r"(?:^|/)([^/:]+):(?:embedContent|batchEmbedContents)$")
_TAKEN = frozenset({"model", "content", "requests"})


class GoogleEmbed(BaseCodec):
    """Codec of `POST .../models/MODEL:embedContent` and `:batchEmbedContents`."""

    name = "google.embed"
    provider = "gcp.gemini"
    kind: Literal["embedding"] = "embedding"
    _paths = (_PATH,)
    _content_fields = ("content", "requests")

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return False: embeddings are never streamed."""
        return False

    @checked
    def decode_request(self, body: Mapping[str, Any], *, path: str | None = None) -> dict[str, Any]:
        """Return the body as `LLMRequest` JSON: `input` is a text, for a batch a list of texts.

        A content that is more than one text stands there as its parts. Settings are the first
        request's; those of the others, where they differ, are kept in `extra`.
        """
        body = snake_keys(merged_body(body))
        batch = [snake_keys(r) for r in body.get("requests") or ()]
        settings = [split_params(r, _TAKEN) for r in (batch or [body])]
        params, extra = settings[0]
        if any(s != settings[0] for s in settings):
            extra = {**extra, "settings": [{**p, **e} for p, e in settings]}
        in_path = _PATH.search((path or "").partition("?")[0])
        model = in_path.group(1) if in_path else (batch or [body])[0].get("model")
        inputs = [_input(r.get("content")) for r in batch]
        return request_json(
            operation="embeddings",
            provider="gcp.vertex_ai" if "/publishers/" in (path or "") else self.provider,
            model=model.removeprefix("models/") if isinstance(model, str) else None,
            input=inputs if "requests" in body else _input(body.get("content")),
            params=params,
            extra=extra,
        )

    @checked
    def decode_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as `LLMResponse` JSON with a vector per input."""
        found = body.get("embeddings")
        vectors = found if isinstance(found, list) else [body.get("embedding") or {}]
        usage = body.get("usageMetadata") or {}
        return answers.response_json(
            usage=answers.token_counts(input_tokens=usage.get("promptTokenCount")),
            embeddings=[v.get("values") for v in vectors],
            raw=dict(body),
        )

    @checked
    def decode_stream(self, events: Iterable[Any]) -> dict[str, Any]:
        """Return the only payload as a response: embeddings are never streamed."""
        return self.decode_response(next(answers.payloads(events), {}))

    def encode_response(
        self,
        response: Mapping[str, Any],
        *,
        request_body: Mapping[str, Any],
        seed: str,  # noqa: ARG002 - this API's answers have no ids
    ) -> dict[str, Any]:
        """Return the body that answers the request: a list of vectors for a batch, else one."""
        batch = "requests" in request_body
        raw = response.get("raw")
        if isinstance(raw, dict) and isinstance(
            raw.get("embeddings" if batch else "embedding"), list if batch else dict
        ):
            return raw
        vectors = [{"values": v} for v in response.get("embeddings") or ()]
        if batch:
            return {"embeddings": vectors}
        return {"embedding": vectors[0] if vectors else {"values": []}}

    def encode_stream(
        self, response: Mapping[str, Any], *, request_body: Mapping[str, Any], seed: str
    ) -> Iterator[StreamEvent]:
        """Yield the body as the only event: embeddings are never streamed."""
        yield StreamEvent(self.encode_response(response, request_body=request_body, seed=seed))

    def _error_body(self, status: int, message: str) -> dict[str, Any]:
        return google_error(status, message)


def _input(content: Any) -> Any:
    parts = part_list(content.get("parts") if isinstance(content, Mapping) else content)
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["content"]
    return parts


CODEC = GoogleEmbed()
