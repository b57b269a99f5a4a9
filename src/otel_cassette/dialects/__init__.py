"""Vocabularies of span attributes: one file each, told apart by content.

A dialect turns one finished span (and its log records) into a `Reading`. It knows nothing of other
spans; what follows from the tree (duplicates, nesting, order, inference) is `assemble`'s.

A new vocabulary is one file with a `DIALECTS` tuple, and its line in `REGISTRY`.
"""

from __future__ import annotations

from typing import Final

from otel_cassette.dialects import native, otel_genai
from otel_cassette.dialects.protocol import Dialect

REGISTRY: Final[tuple[Dialect, ...]] = tuple(
    sorted(
        (*native.DIALECTS, *otel_genai.DIALECTS),
        key=lambda dialect: dialect.priority,
    )
)
"""All dialects, the one that is asked first at the front."""
