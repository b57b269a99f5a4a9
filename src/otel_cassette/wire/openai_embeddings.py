"""OpenAI embeddings, and every server that speaks it.

Lives here: requests. Source: https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_cassette.wire.params import merged_body, request_json, split_params

_PATH = re.compile(r"(?:^|/)embeddings/?$")
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")  # Azure: the model may stand in the path alone
_TAKEN = frozenset({"model", "input"})


class OpenAIEmbeddings:
    """Codec of `POST .../embeddings`."""

    name = "openai.embeddings"
    provider = "openai"
    kind: Literal["embedding"] = "embedding"

    def matches(self, method: str, host: str, path: str) -> bool:  # noqa: ARG002 - any host
        """Return whether the request asks for embeddings, under any base URL."""
        return method.upper() == "POST" and _PATH.search(path.partition("?")[0]) is not None

    def is_stream(self, body: Mapping[str, Any], *, path: str | None = None) -> bool:  # noqa: ARG002
        """Return False: embeddings are never streamed."""
        return False

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


CODEC = OpenAIEmbeddings()
