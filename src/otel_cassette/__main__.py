"""`python -m otel_cassette`: the command, where its script is not on PATH."""

from __future__ import annotations

import sys

from otel_cassette.cli import main

if __name__ == "__main__":
    sys.exit(main())
