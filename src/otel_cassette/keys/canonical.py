"""Canonical JSON and the digests made of it.

Lives here: one text for one JSON value. Not here: which values of a request are equal in meaning
(`messages.py`, `fields.py`).

The form is RFC 8785 (https://www.rfc-editor.org/rfc/rfc8785): keys sorted by UTF-16 code units, no
space, UTF-8, numbers by value. One departure: integers between 2^53 and 1e21 are written exactly,
where RFC 8785 rounds them to a double, since two ids that differ in their last digit are two ids.
Floats follow the same rule, so that equal numbers always have one text.
"""

from __future__ import annotations

import hashlib
import json
from json.encoder import encode_basestring
from typing import Any

_SAFE_INT = 2**53
_EXPONENT_FROM = 10**21

_dumps = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode


class _OddError(Exception):
    """The value needs the slow writer: a number or key that the C encoder writes differently."""


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of *value*.

    Args:
        value: `None`, `bool`, `int`, `float`, `str`, lists, tuples, and dicts with string keys.

    Returns:
        The text; encode it as UTF-8 with `surrogatepass` to digest it.

    Raises:
        ValueError: For NaN, an infinity, or anything that is not JSON; the message has the JSON
            pointer to it.
    """
    try:
        _check(value)
        return _dumps(value)
    except (_OddError, TypeError, ValueError):
        return _write(value, "")
    except RecursionError:
        msg = "not JSON: nested deeper than the interpreter's stack allows, or it holds itself"
        raise ValueError(msg) from None


def digest(text: str) -> str:
    """Return the sha256 of a canonical text as lower-case hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(value: Any) -> None:
    """Raise _OddError where the C encoder would not write the canonical form."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if kind is int or kind is float:
        _check_number(value)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                raise _OddError
            if type(item) is not str:
                _check(item)
    elif kind is list or kind is tuple:
        for item in value:
            if type(item) is not str:
                _check(item)
    else:
        raise _OddError


def _check_number(value: float) -> None:
    if type(value) is int:
        if not -_EXPONENT_FROM < value < _EXPONENT_FROM:
            raise _OddError
    elif value.is_integer() or "e" in repr(value) or value != value:
        raise _OddError


def _write(value: Any, pointer: str) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, float):
        return _float(float(value), pointer)
    if isinstance(value, list | tuple):
        return f"[{','.join(_write(v, f'{pointer}/{i}') for i, v in enumerate(value))}]"
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                msg = f"not JSON at {pointer or '/'}: an object key is of type {type(key).__name__}, not a string"
                raise ValueError(msg)  # noqa: TRY004 - one error for all that is no JSON
        items = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be", "surrogatepass"))
        inner = ",".join(
            f"{encode_basestring(k)}:{_write(v, f'{pointer}/{escape_pointer(k)}')}"
            for k, v in items
        )
        return f"{{{inner}}}"
    msg = f"not JSON at {pointer or '/'}: a value of type {type(value).__name__}"

    raise ValueError(msg)


def _integer(value: int) -> str:
    if abs(value) >= _EXPONENT_FROM:
        try:
            same = float(value)
        except OverflowError:
            return str(value)
        if int(same) == value:
            return _ecmascript(same)
    return str(value)


def _float(value: float, pointer: str) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        msg = f"not JSON at {pointer or '/'}: {value!r} has no JSON form"
        raise ValueError(msg)
    if value.is_integer() and abs(value) < _EXPONENT_FROM:
        return str(int(value))
    return _ecmascript(value)


def _ecmascript(value: float) -> str:
    """Return a double as ECMAScript's Number::toString writes it (ECMA-262, 6.1.6.1.20)."""
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if count > 1 else ''}{power}"


def escape_pointer(token: str) -> str:
    """Return one reference token of a JSON pointer, escaped (RFC 6901, section 3)."""
    return token.replace("~", "~0").replace("/", "~1")


def unescape_pointer(token: str) -> str:
    """Return one reference token of a JSON pointer, unescaped (RFC 6901, section 4)."""
    return token.replace("~1", "/").replace("~0", "~")
