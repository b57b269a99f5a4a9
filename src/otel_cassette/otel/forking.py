"""Starting afresh in a forked process: its parent's recordings are its parent's.

Lives here: how an object is told of a fork for as long as it lives.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable


def after_fork(method: Callable[[], None]) -> None:
    """Call a bound method in every forked child; the object is not kept alive by this."""
    if not hasattr(os, "register_at_fork"):  # Windows has no fork
        return
    reference = weakref.WeakMethod(method)

    def in_child() -> None:
        found = reference()
        if found is not None:
            found()

    os.register_at_fork(after_in_child=in_child)
