"""The parts of a recorded call, masked: request, answer, the pieces of a stream, and how it failed.

Lives here: which parts there are, and that a secret may be cut by the end of a piece. Not here:
the rules and their application to one value (`redactor.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pydantic_core import to_json

from otel_cassette.model.entry import RecordedFailure
from otel_cassette.redaction.redactor import Redactor
from otel_cassette.redaction.rules import MASK_START

JSON = Any
_Path = tuple[str | int, ...]
_write = msgspec.json.Encoder().encode


def holds_mask(value: JSON) -> bool:
    """Return whether plain JSON holds a mask of ours, which stands for a secret."""
    try:
        return MASK_START.encode() in to_json(value, inf_nan_mode="constants")
    except ValueError:  # half a surrogate pair has no UTF-8
        return MASK_START in json.dumps(value)


def mask_call(redactor: Redactor, fields: Mapping[str, Any]) -> tuple[dict[str, Any], Counter[str]]:
    """Return what masking changes in the fields of an entry or of a failed call.

    Args:
        redactor: The rules in force.
        fields: `request`, `response`, `yields` (plain JSON; path rules start at each of the first
            two) and `error` (a `RecordedFailure`), as far as they are there; others are left out.

    Returns:
        The fields that changed, with their new values; and how many secrets each rule masked.
    """
    changed: dict[str, Any] = {}
    hits: Counter[str] = Counter()
    if _is_clean(redactor, fields):
        return changed, hits

    def note(name: str, old: Any, new: Any, found: Counter[str]) -> None:
        hits.update(found)
        if new is not old:
            changed[name] = new

    request, response = fields.get("request"), fields.get("response")
    yields, error = fields.get("yields"), fields.get("error")
    note("request", request, *redactor.json_counted(request))
    note("response", response, *_mask_answer(redactor, response))
    if yields:
        note("yields", yields, *mask_pieces(redactor, yields))
    if isinstance(error, RecordedFailure):
        facts = {"message": error.message, "body": error.body}
        masked, found = redactor.json_counted(facts)
        note("error", error, error if masked is facts else error.model_copy(update=masked), found)
    return changed, hits


def mask_pieces(redactor: Redactor, pieces: Sequence[JSON]) -> tuple[Sequence[JSON], Counter[str]]:
    """Return the pieces of a stream with their secrets masked; the same object when there are none.

    Texts that stand at the same place of each piece are scanned as one text. As many pieces come
    back as were given, and the texts of each place, joined, are the masked text.
    """
    places: dict[_Path, list[int]] = {}
    texts: dict[tuple[int, _Path], str] = {}
    for number, piece in enumerate(pieces):
        for path, text in _texts(piece, ()):
            places.setdefault(path, []).append(number)
            texts[number, path] = text
    hits: Counter[str] = Counter()
    new: dict[tuple[int, _Path], str] = {}
    for path, numbers in places.items():
        old = [texts[number, path] for number in numbers]
        masked = redactor.pieces(old)
        if masked != old:
            hits.update(redactor.text_counted("".join(old))[1])
            new.update({(number, path): text for number, text in zip(numbers, masked, strict=True)})
    result = (
        [_replaced(piece, (), number, new) for number, piece in enumerate(pieces)]
        if new
        else pieces
    )
    # What only one piece shows: members named for a secret, keys.
    rest, found = redactor.json_counted(result)
    hits.update(found)
    if rest is pieces:
        return pieces, hits
    return (tuple(rest) if isinstance(pieces, tuple) else list(rest)), hits


def _is_clean(redactor: Redactor, fields: Mapping[str, Any]) -> bool:
    """One look at the JSON of all parts; not enough where a secret may be cut by the end of a piece."""
    response = fields.get("response")
    if fields.get("yields") or (isinstance(response, Mapping) and response.get("chunks")):
        return False
    parts = [fields.get(name) for name in ("request", "response", "error")]
    try:
        return not redactor.may_match(_json(parts))
    except ValueError:  # half a surrogate pair has no UTF-8
        return False


def _json(parts: list[Any]) -> bytes:
    try:
        return _write(parts)  # a quarter of pydantic's time
    except (TypeError, OverflowError):  # a failure as a model, a number of more than 64 bits
        return to_json(parts)


def _mask_answer(redactor: Redactor, response: JSON) -> tuple[JSON, Counter[str]]:
    chunks = response.get("chunks") if isinstance(response, Mapping) else None
    if not isinstance(chunks, list | tuple) or not chunks:
        return redactor.json_counted(response)
    masked_chunks, hits = mask_pieces(redactor, chunks)
    if masked_chunks is not chunks:
        response = {**response, "chunks": masked_chunks}
    # The answer as a whole holds the same secrets again: they are counted once, here.
    masked, found = redactor.json_counted(response)
    return masked, found | hits


def _texts(value: JSON, path: _Path) -> list[tuple[_Path, str]]:
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, Mapping):
        return [found for key, item in value.items() for found in _texts(item, (*path, key))]
    if isinstance(value, list | tuple):
        return [found for i, item in enumerate(value) for found in _texts(item, (*path, i))]
    return []


def _replaced(value: JSON, path: _Path, number: int, new: Mapping[tuple[int, _Path], str]) -> JSON:
    if isinstance(value, str):
        return new.get((number, path), value)
    if isinstance(value, Mapping):
        return {key: _replaced(item, (*path, key), number, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, (*path, i), number, new) for i, item in enumerate(value)]
    return value
