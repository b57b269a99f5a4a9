"""Arguments and values of a session's calls as plain JSON.

Lives here: binding arguments to names, and what becomes of values that are no JSON. Not here: the
strict conversion of cassettes, for which such a value is an error.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

JSON = Any


def jsonable(value: Any) -> JSON:
    """Return *value* as pydantic writes it to JSON; what it cannot write becomes its `str`.

    The result shares nothing with *value*: what the agent changes later is not recorded.
    """
    try:
        return _finite(to_jsonable_python(value, fallback=str))
    except (ValueError, RecursionError):
        # bytes that are no UTF-8, values that hold themselves: of arguments, only that one is lost
        if isinstance(value, Mapping):
            return {
                str(key): str(item) if item is value else _alone(item)
                for key, item in value.items()
            }
        return str(value)


def _alone(value: Any) -> JSON:
    try:
        return _finite(to_jsonable_python(value, fallback=str))
    except (ValueError, RecursionError):
        return str(value)


def _finite(value: JSON) -> JSON:
    """JSON has no NaN and no infinity: they become their text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def bind_to_signature(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by parameter name, without defaults.

    `self` and `cls` are no arguments. Further positional arguments are a list under the name of
    their parameter. Where the function has no signature, or the arguments do not fit it, positional
    ones are `arg0`, `arg1`, ...
    """
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {**{f"arg{i}": value for i, value in enumerate(args)}, **kwargs}
    named: dict[str, Any] = {}
    for place, (name, value) in enumerate(bound.arguments.items()):
        if place == 0 and name in ("self", "cls"):
            continue
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return named


def bind_to_recorded(
    recorded: Mapping[str, JSON], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the ways in which a call's arguments may go by the names of a recorded call.

    A replay does not see the function, but the recording has the names in their order.

    Returns:
        First the one argument a name; then, where a recorded value is a list, with the remaining
        positional arguments as that list.
    """
    names = [name for name in recorded if name not in kwargs]
    one_by_one = {names[i] if i < len(names) else f"arg{i}": value for i, value in enumerate(args)}
    ways = [{**one_by_one, **kwargs}]
    for i, name in enumerate(names[: len(args)]):
        if isinstance(recorded[name], list) and len(recorded[name]) == len(args) - i:
            head = dict(zip(names[:i], args, strict=False))
            ways.append({**head, name: list(args[i:]), **kwargs})
    return ways
