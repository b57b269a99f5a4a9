"""Recorded failures as exceptions again.

Lives here: which class a recorded failure is raised as. Nothing is imported to find it: only
classes that the program has imported already are used.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

from otel_cassette.errors import recorded_error
from otel_cassette.model.entry import CassetteFailure, RecordedFailure


def failure_of(error: BaseException) -> RecordedFailure:
    """Return an exception as it is recorded: qualified type, text, HTTP status where it has one."""
    cls = type(error)
    name = cls.__qualname__
    if cls.__module__ not in ("builtins", "__main__"):
        name = f"{cls.__module__}.{name}"
    status = _read(lambda: getattr(error, "status_code", None) or getattr(error, "status", None))
    return RecordedFailure(
        type=name,
        message=_read(lambda: str(error)) or "",
        status=status if isinstance(status, int) and not isinstance(status, bool) else None,
    )


def _read(part: Callable[[], Any]) -> Any:
    """Return a part of an exception, None where its own code fails: the program is to get that exception."""
    try:
        return part()
    except Exception:  # noqa: BLE001 - a foreign `__str__` or property may raise anything
        return None


def rebuild_failure(failure: CassetteFailure) -> BaseException:
    """Return a recorded failure as the recorded type, else a RecordedCallError of its name.

    The recorded type is used when it is a builtin, or its module is imported, and it takes its
    text as the only argument.
    """
    error = failure.error
    cls = _imported(error.type)
    if cls is not None:
        try:
            made = cls(error.message)
        except Exception:  # noqa: BLE001 - a foreign constructor may raise anything
            made = None
        if made is not None and str(made) == error.message:
            return made
    if cls is KeyError:
        return KeyError(error.message.strip("'\""))
    return recorded_error(error.type, error.message, error.status)


def _imported(qualified: str) -> type[Exception] | None:
    module_name, _, name = qualified.rpartition(".")
    if not module_name:
        for place in (builtins, sys.modules.get("__main__")):
            known = getattr(place, name, None)
            if isinstance(known, type) and issubclass(known, Exception):
                return known
        return None
    parts = module_name.split(".")
    for cut in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is None:
            continue
        found: Any = module
        for step in (*parts[cut:], name):
            found = getattr(found, step, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None
