"""Python values as plain JSON, and copies of plain JSON.

Lives here: the one conversion of arguments and results, a writer of JSON that takes any text, and a
reader that keeps to the standard. Not here: keys, redaction.
"""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

JSON = Any
_SCALARS = (str, int, float, bool, type(None))
_SETS = frozenset((set, frozenset))
_CONTAINERS = _SETS | {dict, list, tuple}


def to_plain(value: Any) -> JSON:
    """Return *value* as plain JSON, as pydantic writes it: models, dataclasses, dates, ...

    Sets, alone and in lists, tuples and dicts, are sorted: the order in which Python iterates over
    one changes from process to process, and a call would not equal its recording.

    Raises:
        ValueError: When pydantic cannot, the message names the type; when two keys of a dict have
            one text, as 1 and "1" have.
    """
    if type(value) in _SCALARS:
        return value
    try:
        plain = to_jsonable_python(value)
        return to_jsonable_python(_sorted_sets(value)) if _has_set(value, plain) else plain
    except (PydanticSerializationError, UnicodeDecodeError, RecursionError) as error:
        text = str(error) or type(error).__name__
        raise ValueError(text) from error


def _has_set(value: Any, plain: JSON) -> bool:
    """Return whether a set stands in *value*, and see that *plain*, made of it, lost no key."""
    kind = type(value)
    if kind in _SETS:
        return True
    if kind is dict:
        if len(plain) < len(value):
            msg = f"two of the keys {list(value)!r:.80} are one in JSON, whose keys are texts"
            raise ValueError(msg)
        value, plain = value.values(), plain.values()
    elif kind is not list and kind is not tuple:
        return False
    found = False
    # The type is asked here, too: most items are scalars, and a call costs more.
    for item, made in zip(value, plain, strict=True):
        if type(item) in _CONTAINERS:
            found = _has_set(item, made) or found
    return found


def _sorted_sets(value: Any) -> Any:
    """Return *value* with lists in place of its sets; there is no cycle in it, pydantic wrote it."""
    kind = type(value)
    if kind in _SETS:
        return sorted((_sorted_sets(item) for item in value), key=_json_text)
    if kind is dict:
        return {name: _sorted_sets(item) for name, item in value.items()}
    if kind is list or kind is tuple:
        return [_sorted_sets(item) for item in value]
    return value


def _json_text(value: Any) -> str:
    return json.dumps(to_jsonable_python(value), sort_keys=True)


def copy_plain(value: JSON) -> JSON:
    """Return a deep copy of plain JSON; what a caller does to it never reaches a recording."""
    if type(value) is dict:
        return {k: v if type(v) is str else copy_plain(v) for k, v in value.items()}
    if type(value) is list:
        return [v if type(v) is str else copy_plain(v) for v in value]
    return value


def json_bytes(value: JSON) -> bytes:
    """Return plain JSON as bytes, in its order; where half a surrogate pair has no UTF-8, escaped."""
    try:
        return to_json(value)
    except ValueError:
        return json.dumps(value).encode("ascii")


def strict_json(text: str | bytes) -> JSON:
    """Return what a JSON text holds.

    Raises:
        ValueError: It is no JSON, or holds a number that has no JSON form: NaN and the infinities,
            and what overflows into one (`1e999`). Python's own reader takes them.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> JSON:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        msg = f"{text} is greater than any number"
        raise ValueError(msg)
    return number
