"""Vocabularies of span attributes: one file each, told apart by content.

A dialect turns one finished span (and its log records) into a `Reading`. It knows nothing of other
spans; what follows from the tree (duplicates, nesting, order, inference) is `assemble`'s.

A new vocabulary is one file with a `DIALECT`, and its place in `REGISTRY`.
"""

from __future__ import annotations

from typing import Final

from otel_cassette.dialects import native, openinference, otel_genai
from otel_cassette.dialects.protocol import Dialect

REGISTRY: Final[tuple[Dialect, ...]] = tuple(
    sorted(
        (native.DIALECT, openinference.DIALECT, otel_genai.DIALECT),
        key=lambda dialect: dialect.priority,
    )
)
"""All dialects, the one that is asked first at the front."""
