"""Cassette records as JSON lines, and back.

Lives here: the order of the fields in a line, what is left out, and the reference of a chat's
history to an earlier line (`messages_from`). Not here: files (`file.py`), older shapes
(`legacy.py`). The format is described in docs/file-format.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from otel_cassette.errors import CassetteFormatError
from otel_cassette.keys import llm_key, tool_key
from otel_cassette.model.entry import (
    MODEL_KINDS,
    CassetteEntry,
    CassetteFailure,
    CassetteHeader,
    ParentRef,
    RecordedCall,
    parent_json,
    parent_ref,
)

JSON = Any
_HEAD = ("kind", "index", "failed", "follows", "key", "name", "parent", "inferred", "opaque")
_BODY = ("request", "messages_from", "yields", "response", "error")
_FACTS = ("scope", "request_integrity", "response_integrity")
_TAIL = ("latency_ms", "source")
_SHARED_FIELDS = (
    "operation",
    "provider",
    "model",
    "system_instructions",
    "tools",
    "tool_choice",
    "response_format",
    "params",
    "extra",
)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair has no UTF-8 form: a line that holds one is written in ASCII."""
_LOOK_BACK = 8
_MIN_PREFIX = 2
MAX_DEPTH = 200


def record_key(record: RecordedCall) -> str:
    """Return the key of a recorded call: `llm_key` or `tool_key` of its request."""
    if record.kind in MODEL_KINDS and record.name is None:
        return llm_key(record.request or {})
    return tool_key(record.name or "", record.request)


def dump_text(value: JSON) -> str:
    """Return *value* as one line of JSON: UTF-8 text, keys in the order they stand in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    if _HALF_PAIR.search(text) is None:
        return text
    return json.dumps(value, allow_nan=False, separators=(", ", ": "))


def header_json(header: CassetteHeader) -> dict[str, JSON]:
    """Return a header as JSON without defaults."""
    data = header.model_dump(mode="json")
    fixed = {k: data.pop(k) for k in ("format", "version", "normalisation")}
    declared = {"redact"} & header.model_fields_set  # no rules is something else than not said
    return {**fixed, **{k: v for k, v in data.items() if v not in ({}, [], None) or k in declared}}


class LineWriter:
    """Turns records into JSON lines; chats refer to the history they share with an earlier line.

    Args:
        provenance: Whether ids, times and latencies are written.
    """

    def __init__(self, *, provenance: bool = True) -> None:
        self._provenance = provenance
        self._earlier: dict[ParentRef | None, list[CassetteEntry]] = {}

    def write(self, record: CassetteEntry | CassetteFailure) -> str:
        """Return the line of one record, without its newline."""
        line: dict[str, JSON] = {"kind": record.kind}
        if isinstance(record, CassetteEntry):
            line["index"] = record.index
        else:
            line.update(failed=True, follows=record.follows)
        shared = self._shared_history(record)
        if shared is None:
            line["key"] = record_key(record)
        if record.name is not None:
            line["name"] = record.name
        if record.parent is not None:
            line["parent"] = parent_json(record.parent)
        if record.inferred:
            line["inferred"] = True
        if isinstance(record, CassetteEntry) and record.opaque:
            line["opaque"] = True
        self._write_body(line, record, shared)
        self._write_facts(line, record)
        if isinstance(record, CassetteEntry) and record.kind == "llm" and record.name is None:
            self._earlier.setdefault(record.parent, []).append(record)
        return dump_text(line)

    def _write_body(
        self,
        line: dict[str, JSON],
        record: CassetteEntry | CassetteFailure,
        shared: tuple[CassetteEntry, int] | None,
    ) -> None:
        if shared is None:
            line["request"] = record.request
        else:
            earlier, count = shared
            fields = [
                f
                for f in _SHARED_FIELDS
                if f in record.request and record.request[f] == earlier.request.get(f)
            ]
            rest = {k: v for k, v in record.request.items() if k not in fields}
            rest["messages"] = record.request["messages"][count:]
            line["request"] = rest
            line["messages_from"] = {"index": earlier.index, "count": count, "fields": fields}
        if isinstance(record, CassetteEntry):
            if record.yields is not None:
                line["yields"] = list(record.yields)
            line["response"] = record.response
        if record.error is not None:
            line["error"] = record.error.model_dump(mode="json", exclude_none=True)

    def _write_facts(self, line: dict[str, JSON], record: CassetteEntry | CassetteFailure) -> None:
        if record.scope is not None:
            line["scope"] = list(record.scope)
        if record.request_integrity != "whole":
            line["request_integrity"] = record.request_integrity
        if isinstance(record, CassetteEntry) and record.response_integrity != "whole":
            line["response_integrity"] = record.response_integrity
        line.update(record.model_extra or {})
        if self._provenance and record.latency_ms is not None:
            line["latency_ms"] = round(record.latency_ms, 3)
        if record.source is not None:
            source = record.source.model_dump(mode="json", exclude_none=True)
            source = {k: v for k, v in source.items() if v not in ([], (), 0)}
            if not self._provenance:
                # What decides in a replay, and is the same in every recording, stays.
                source = {k: source[k] for k in ("path", "dialect") if k in source}
            if source:
                line["source"] = source

    def _shared_history(self, record: RecordedCall) -> tuple[CassetteEntry, int] | None:
        """Return the earlier entry whose messages this one continues, and how many they share."""
        if record.kind != "llm" or record.name is not None or not isinstance(record.request, dict):
            return None
        messages = record.request.get("messages")
        best: tuple[CassetteEntry, int] | None = None
        for earlier in reversed(self._earlier.get(record.parent, [])[-_LOOK_BACK:]):
            theirs = earlier.request.get("messages") if isinstance(earlier.request, dict) else None
            if not messages or not theirs:
                continue
            count = _common_prefix(messages, theirs)
            if count >= _MIN_PREFIX and (best is None or count > best[1]):
                best = (earlier, count)
                if count == len(theirs):
                    break
        return best


def _common_prefix(a: list[JSON], b: list[JSON]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x is not y and x != y:
            break
        count += 1
    return count


class LineReader:
    """Turns JSON lines into records; keeps what later lines refer to.

    Args:
        path: For error messages.
    """

    def __init__(self, path: object | None = None) -> None:
        self._path = path
        self._places: dict[tuple[ParentRef | None, str, int], int] = {}
        self._requests: dict[tuple[ParentRef | None, int], dict[str, JSON]] = {}

    def read(self, data: JSON, line: int) -> CassetteEntry | CassetteFailure:
        """Return the record of one line.

        Raises:
            CassetteFormatError: When the line is no record, or repeats a (parent, kind, index).
        """
        if not isinstance(data, dict):
            msg = f"an entry is a JSON object, this is a {_json_type(data)}"
            raise self._error(msg, line)
        data = dict(data)
        other = None if "kind" in data else _other_thing(data)
        if other:
            raise self._error(other, line)
        try:
            reference = data.pop("messages_from", None)
            if data.get("failed"):
                if "error" not in data:
                    msg = 'the entry has "failed" and no "error" to raise; write one, or take "failed" out'
                    raise self._error(msg, line)
                record: CassetteEntry | CassetteFailure = CassetteFailure.model_validate(
                    self._expand(data, reference, line)
                )
            else:
                if "response" not in data:
                    msg = 'the entry has no "response"; a recorded None is written as null'
                    raise self._error(msg, line)
                record = CassetteEntry.model_validate(self._expand(data, reference, line))
        except ValidationError as error:
            msg = f"not a cassette entry: {first_problem(error)}"
            raise self._error(msg, line) from error
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CassetteFormatError):
                raise
            msg = f"not a cassette entry: {error!r}"
            raise self._error(msg, line) from error
        if isinstance(record, CassetteEntry):
            self._remember(record, line)
        return record

    def _remember(self, record: CassetteEntry, line: int) -> None:
        place = (record.parent, record.kind, record.index)
        if place in self._places:
            where = f", parent {parent_json(record.parent)}" if record.parent else ""
            msg = (
                f"kind {record.kind!r}, index {record.index}{where} stands on line {self._places[place]} "
                "already; remove one of the two, or give it an index of its own"
            )
            raise self._error(msg, line)
        self._places[place] = line
        if record.kind == "llm" and record.name is None and isinstance(record.request, dict):
            self._requests[record.parent, record.index] = record.request

    def _expand(self, data: dict[str, JSON], reference: JSON, line: int) -> dict[str, JSON]:
        if reference is None:
            return data
        from_index, count = reference["index"], reference["count"]
        earlier = self._requests.get((parent_ref(data.get("parent")), from_index))
        if not isinstance(count, int) or count < 0:
            msg = f"messages_from has the count {count!r}; it is a number of messages"
            raise self._error(msg, line)
        if earlier is None or len(earlier.get("messages", ())) < count:
            msg = (
                f"messages_from names {count} messages of llm entry {from_index}, which no earlier line "
                "has; write the messages out in full"
            )
            raise self._error(msg, line)
        request = dict(data["request"])
        request["messages"] = [*earlier["messages"][:count], *request.get("messages", ())]
        for name in reference.get("fields", ()):
            request.setdefault(name, earlier[name])
        return {**data, "request": request}

    def _error(self, reason: str, line: int) -> CassetteFormatError:
        return CassetteFormatError(reason=reason, path=self._path, line=line)


def first_problem(error: ValidationError) -> str:
    """Return what is wrong first, and where; no value of the input is shown."""
    problem = error.errors(include_url=False, include_context=False)[0]
    place = "/".join(str(step) for step in problem["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {problem['msg']}{more}"


def _json_type(value: JSON) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _other_thing(value: dict[str, JSON]) -> str | None:
    """Say what an object without a kind is, where that is known."""
    if "resourceSpans" in value:
        return "this is an exported trace, no cassette: Cassette.from_trace makes one of it"
    if "format" in value:
        return "a header; it is the first line, and there is one: put it there, or remove it"
    return None


def parse_lines(text: str, path: object | None) -> Iterator[tuple[int, JSON]]:
    """Yield the JSON value of each line that is not blank, with its 1-based number.

    Raises:
        CassetteFormatError: At the first line that is no JSON.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line, parse_constant=_reject_constant)
        except RecursionError:
            reason = f"nested deeper than {MAX_DEPTH} levels or so; no cassette is"
            raise CassetteFormatError(reason=reason, path=path, line=number) from None
        except ValueError as error:
            detail = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            reason = f"not JSON{column}: {detail}; the line is damaged or was edited by hand"
            raise CassetteFormatError(reason=reason, path=path, line=number) from error


def _reject_constant(name: str) -> JSON:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def write_lines(
    header: CassetteHeader,
    records: Iterable[CassetteEntry | CassetteFailure],
    *,
    provenance: bool,
) -> Iterator[str]:
    """Yield the lines of a cassette file, each with its newline."""
    yield dump_text(header_json(header)) + "\n"
    writer = LineWriter(provenance=provenance)
    for record in records:
        yield writer.write(record) + "\n"
