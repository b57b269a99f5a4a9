"""Parts as set-ups by environment variable and configuration file name them (entry points).

Lives here: the exporter for `OTEL_TRACES_EXPORTER=cassette` and for configuration files. Not here:
the sampler's entry point (`sampler.py`), zero-code start-up (`cli/`).
"""

from __future__ import annotations

import os
from typing import Any, Final

from otel_cassette.otel.exporter import CassetteSpanExporter

DIRECTORY_VARIABLE: Final = "OTEL_CASSETTE_DIRECTORY"
_DEFAULT_DIRECTORY: Final = "cassettes"


class EnvironmentSpanExporter(CassetteSpanExporter):
    """A `CassetteSpanExporter` that can be made without arguments, as the SDK makes exporters.

    Args:
        directory: Where the files go; `OTEL_CASSETTE_DIRECTORY`, else `cassettes`, by default.
        **options: Those of `CassetteSpanExporter`, as a configuration file gives them.
    """

    def __init__(self, directory: str | None = None, **options: Any) -> None:
        chosen = directory or os.environ.get(DIRECTORY_VARIABLE) or _DEFAULT_DIRECTORY
        super().__init__(chosen, **options)
