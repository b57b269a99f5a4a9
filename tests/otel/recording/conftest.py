"""What the tests of recording share: the modules beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported by path (--import-mode=importlib), which leaves their folder out of sys.path.
sys.path.insert(0, str(Path(__file__).parent))
