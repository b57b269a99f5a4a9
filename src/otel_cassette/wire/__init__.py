"""Wire codecs: one provider API each, both ways between HTTP bodies and the model's plain JSON.

Lives here: the list of codecs and the search for the one that a request is for.
"""

from __future__ import annotations

from otel_cassette.wire import (
    anthropic_messages,
    google_embed,
    google_generate,
    openai_chat,
    openai_embeddings,
    openai_responses,
)
from otel_cassette.wire.protocol import WireCodec

CODECS: dict[str, WireCodec] = {
    codec.name: codec
    for codec in (
        openai_chat.CODEC,
        openai_responses.CODEC,
        openai_embeddings.CODEC,
        anthropic_messages.CODEC,
        google_generate.CODEC,
        google_embed.CODEC,
    )
}
"""Every codec by its name."""


def find_codec(method: str, host: str, path: str) -> WireCodec | None:
    """Return the codec of the API that an HTTP request goes to, None where there is none.

    Args:
        method: HTTP method.
        host: Host name, without port.
        path: Path of the URL, with or without its query.
    """
    return next((c for c in CODECS.values() if c.matches(method, host, path)), None)
