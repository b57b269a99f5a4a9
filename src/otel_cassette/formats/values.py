"""OTLP attribute values (AnyValue, KeyValue) in JSON, as plain Python values.

Follows proto3's JSON mapping for reading, and what real writers do beside it: snake_case members,
64-bit integers as strings or numbers (`1e+21` too), all members of the oneof present with one not
null, `null` for NaN. An empty value is None; of a repeated key the last wins.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

from otel_cassette.errors import CassetteFormatError
from otel_cassette.formats.limits import MAX_DEPTH


def attributes_of(pairs: object, depth: int = 0) -> dict[str, Any]:
    """Return a list of KeyValue objects as a dict; what is no pair with a string key is left out."""
    found: dict[str, Any] = {}
    if not isinstance(pairs, list):
        return found
    for pair in pairs:
        if isinstance(pair, dict):
            # proto3's JSON leaves out an empty key.
            key = pair.get("key", "" if "value" in pair else None)
            if isinstance(key, str):
                found[key] = any_value(pair.get("value"), depth)
    return found


def any_value(value: object, depth: int = 0) -> Any:
    """Return an AnyValue object as a plain value.

    Raises:
        CassetteFormatError: It is nested deeper than `MAX_DEPTH`.
    """
    if depth > MAX_DEPTH:
        msg = (
            f"an attribute value is nested deeper than {MAX_DEPTH} levels; "
            "no OpenTelemetry SDK writes that (they cut at 64)"
        )
        raise CassetteFormatError(reason=msg)
    if not isinstance(value, dict):
        return None
    found: Any = None
    for member, content in value.items():
        if content is not None:
            read = _MEMBERS.get(member)
            if read is not None:
                found = read(content, depth)
    return found


def integer_of(value: object) -> int | None:
    """Return an integer written as number or string, or None; booleans are no integers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            number = double_of(value)
            return int(number) if number is not None and math.isfinite(number) else None
    return None


def double_of(value: object) -> float | None:
    """Return a double written as number or string (`NaN`, `Infinity`, `-Infinity`), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if isinstance(value, int) and value > 0 else -math.inf
    except ValueError:
        return None


def bytes_of(value: object) -> bytes | None:
    """Return bytes written in standard or URL-safe base64, padded or not, or None."""
    if not isinstance(value, str):
        return None
    text = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _string(value: object, depth: int) -> str | None:
    del depth
    return value if isinstance(value, str) else None


def _boolean(value: object, depth: int) -> bool | None:
    del depth
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value) if isinstance(value, str) else None


def _array(value: object, depth: int) -> list[Any]:
    items = value.get("values") if isinstance(value, dict) else None
    return [any_value(item, depth + 1) for item in items] if isinstance(items, list) else []


def _map(value: object, depth: int) -> dict[str, Any]:
    return attributes_of(value.get("values"), depth + 1) if isinstance(value, dict) else {}


_MEMBERS: Mapping[str, Callable[[object, int], Any]] = {
    "stringValue": _string,
    "string_value": _string,
    "intValue": lambda value, _: integer_of(value),
    "int_value": lambda value, _: integer_of(value),
    "doubleValue": lambda value, _: double_of(value),
    "double_value": lambda value, _: double_of(value),
    "boolValue": _boolean,
    "bool_value": _boolean,
    "bytesValue": lambda value, _: bytes_of(value),
    "bytes_value": lambda value, _: bytes_of(value),
    "arrayValue": _array,
    "array_value": _array,
    "kvlistValue": _map,
    "kvlist_value": _map,
}
