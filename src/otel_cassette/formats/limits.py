"""Limits that keep a hostile or damaged source from eating memory, stack or time.

Only numbers and their reasons live here; who checks them says so in its own error.
"""

from __future__ import annotations

from typing import Final

MAX_VALUE_BYTES: Final = 512 * 1024 * 1024
"""Longest single JSON value or protobuf message; it has to be in memory while it is decoded."""

MAX_UNPACKED_BYTES: Final = 16 * 1024 * 1024 * 1024
"""Most bytes a compressed source may unpack to (they go to a temporary file)."""

RATIO_FREE_BYTES: Final = 64 * 1024 * 1024
"""Below this size the unpacking ratio is not looked at."""

MAX_RATIO: Final = 400
"""Unpacked over packed bytes; repetitive JSON traces reach 100, gzip bombs 1,000, zstd ones far more."""

MAX_DEPTH: Final = 100
"""Deepest nesting of attribute values; the SDKs cut at 64."""

IN_MEMORY_BYTES: Final = 96 * 1024 * 1024
"""Sources up to this size are kept as they are decoded; greater ones are indexed and read again."""

CACHE_BYTES: Final = 8 * 1024 * 1024
"""Raw bytes of decoded chunks kept at hand while a greater source is read again."""

MAX_DAMAGED: Final = 100
"""Damaged places after which the rest of a source is given up."""

MAX_LOOKAHEADS: Final = 4
"""How many of them may cost a look ahead to the end of the source."""

MAX_FILES: Final = 100_000
"""Most files a directory or a glob may name."""
