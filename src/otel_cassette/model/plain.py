"""Python values as plain JSON, and copies of plain JSON.

Lives here: the one conversion of arguments and results. Not here: keys, redaction.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

JSON = Any
_SCALARS = (str, int, float, bool, type(None))


def to_plain(value: Any) -> JSON:
    """Return *value* as plain JSON, as pydantic writes it: models, dataclasses, dates, sets, ...

    Raises:
        ValueError: When pydantic cannot; the message names the type.
    """
    if type(value) in _SCALARS:
        return value
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, UnicodeDecodeError, RecursionError) as error:
        text = str(error) or type(error).__name__
        raise ValueError(text) from error


def copy_plain(value: JSON) -> JSON:
    """Return a deep copy of plain JSON; what a caller does to it never reaches a recording."""
    if type(value) is dict:
        return {k: v if type(v) is str else copy_plain(v) for k, v in value.items()}
    if type(value) is list:
        return [v if type(v) is str else copy_plain(v) for v in value]
    return value
