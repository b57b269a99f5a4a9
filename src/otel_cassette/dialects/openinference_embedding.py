"""OpenInference EMBEDDING spans: the texts and their vectors.

Lives here: the provider's body, the flattened copy, and LlamaIndex's own arguments. Not here: how
the two halves become a reading (`openinference_calls.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_cassette.dialects import openinference_flat as flat
from otel_cassette.dialects import payload
from otel_cassette.dialects.openinference_request import WITHOUT_EXTRA, Request, read_model
from otel_cassette.dialects.openinference_response import Response
from otel_cassette.dialects.openinference_source import Source
from otel_cassette.wire import openai_embeddings


def read_embedding_request(source: Source) -> Request:
    """Return the request of an EMBEDDING span."""
    request = Request()
    value = source.input.value
    if isinstance(value, Mapping) and "input" in value and isinstance(value.get("model"), str):
        request.fields = openai_embeddings.CODEC.decode_request(value)
        request.scope = set(WITHOUT_EXTRA)
        request.integrity, request.has_content = "whole", True
        return request
    texts, _ = flat.read_embeddings(source.attributes)
    given = texts or _embedding_texts(value)
    request.fields = {"operation": "embeddings"}
    read_model(source, request)
    if given:
        request.fields["input"] = given[0] if len(given) == 1 and given[0] else given
        request.scope.add("input")
        request.integrity, request.has_content = "whole", True
    elif source.input.integrity in ("redacted", "truncated"):
        request.integrity = source.input.integrity
    return request


def _embedding_texts(value: Any) -> list[str] | None:
    if isinstance(value, str) and value:
        return None if payload.text_integrity(value) in ("redacted", "truncated") else [value]
    if not isinstance(value, Mapping):
        return None
    for key in ("texts", "text", "query", "q", "input"):
        found = value.get(key)
        if isinstance(found, str) and found:
            return [found]
        if isinstance(found, list) and found and all(isinstance(t, str) for t in found):
            return found
    return None


def read_embedding_response(source: Source) -> Response:
    """Return the vectors of an EMBEDDING span."""
    response = Response()
    body = source.output.value
    fields: dict[str, Any] = {}
    if isinstance(body, Mapping) and isinstance(body.get("data"), list):
        try:
            fields = openai_embeddings.CODEC.decode_response(body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            response.notes.append(f"output.value is no embeddings response ({error}); not used.")
    if not fields.get("embeddings"):
        _, vectors = flat.read_embeddings(source.attributes)
        fields = {**fields, "embeddings": vectors}
    sent = source.input.value
    if isinstance(sent, Mapping) and sent.get("encoding_format") == "base64":
        fields.pop("raw", None)  # the SDK decoded what came as base64
    if not fields.get("usage"):
        fields["usage"] = flat.read_usage(source.attributes)
    if not fields.get("model"):
        fields["model"] = flat.text_of(source.attributes, "embedding.model_name")
    response.fields = payload.without_empty(fields)
    if response.fields.get("embeddings"):
        response.has_content, response.integrity = True, "whole"
    elif source.output.integrity in ("redacted", "truncated"):
        response.integrity = source.output.integrity
    return response
