"""Older shapes of recordings, read into today's records.

Lives here: the header of the older JSON Lines shape, and the session fixture of schema 1.2 both
ways (the harness uses the same mapping). Not here: the current shape (`lines.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from otel_cassette.errors import CassetteFormatError
from otel_cassette.model.entry import CassetteEntry, CassetteFailure, EntryKind
from otel_cassette.model.llm import LLMRequest, LLMResponse

JSON = Any
LEGACY_FORMAT = "agentlens-cassette"
LEGACY_VERSION = 1
FIXTURE_SCHEMA = "1.2"

_KIND_OF_STEP: dict[str, EntryKind] = {"tool_call": "tool", "llm": "llm", "retrieval": "retrieval"}
_STEP_OF_KIND = {kind: step for step, kind in _KIND_OF_STEP.items()}
_FIXTURE_FIELDS = ("session_id", "query", "final_output", "expected")


def is_fixture(text: str) -> dict[str, JSON] | None:
    """Return the session fixture that *text* holds as a single document, or None."""
    head = text.lstrip()
    if not head.startswith("{") or '"schema_version"' not in text:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "schema_version" in document else None


def fixture_records(
    document: Mapping[str, JSON], path: object | None = None
) -> tuple[dict[str, JSON], list[CassetteEntry | CassetteFailure]]:
    """Return a session fixture as header metadata and entries.

    Model steps whose arguments are an `LLMRequest` and whose output is an `LLMResponse` become
    one; others stay as they are (`opaque`).

    Raises:
        CassetteFormatError: For another schema version, or a step that is none.
    """
    version = document.get("schema_version")
    if version != FIXTURE_SCHEMA:
        reason = f"the session fixture is of schema {version!r}; {FIXTURE_SCHEMA!r} is read"
        raise CassetteFormatError(reason=reason, path=path)
    metadata = {k: document[k] for k in _FIXTURE_FIELDS if k in document}
    extra = {
        k: v for k, v in document.items() if k not in (*_FIXTURE_FIELDS, "schema_version", "steps")
    }
    if extra:
        metadata["fixture_extra"] = extra
    counts: dict[str, int] = {}
    records: list[CassetteEntry | CassetteFailure] = []
    steps = document.get("steps") or []
    if not isinstance(steps, list):
        reason = f"steps: a list of steps, this is a {type(steps).__name__}"
        raise CassetteFormatError(reason=reason, path=path)
    for place, step in enumerate(steps):
        kind = _KIND_OF_STEP.get(str(step.get("type"))) if isinstance(step, Mapping) else None
        if kind is None or not isinstance(step.get("name"), str):
            reason = f"steps/{place}: a step has a name and a type of {', '.join(_KIND_OF_STEP)}"
            raise CassetteFormatError(reason=reason, path=path)
        index = counts.get(kind, 0)
        counts[kind] = index + 1
        records.append(step_entry(kind, index, step))
    return metadata, records


def step_entry(kind: EntryKind, index: int, step: Mapping[str, JSON]) -> CassetteEntry:
    """Return one step of a session fixture as an entry."""
    fields: dict[str, JSON] = {
        "kind": kind,
        "index": index,
        "latency_ms": step.get("latency_ms") or None,
    }
    extra = {
        k: v for k, v in step.items() if k not in ("type", "name", "args", "output", "latency_ms")
    }
    if extra:
        fields["step_extra"] = extra
    args, output = step.get("args"), step.get("output")
    if kind != "llm":
        return CassetteEntry(**fields, name=step["name"], request=args, response=output)
    if (
        isinstance(args, Mapping)
        and isinstance(output, Mapping)
        and args.get("messages")
        and output.get("choices")
    ):
        try:
            request, response = LLMRequest.model_validate(args), LLMResponse.model_validate(output)
        except ValidationError:
            pass  # no model request after all: the step is kept as it is, below
        else:
            # Chat-shaped as they may be: an agent that reads the step again reads the shape it wrote.
            given = {"step_args": args, "step_output": output}
            made = {"step_args": request.to_json(), "step_output": response.to_json()}
            fields.update({key: value for key, value in given.items() if value != made[key]})
            fields["step"] = step["name"]
            return CassetteEntry(**fields, request=request, response=response)
    return CassetteEntry(**fields, name=step["name"], request=args, response=output, opaque=True)


def entry_steps(entries: Iterable[CassetteEntry]) -> list[dict[str, JSON]]:
    """Return entries as steps of a session fixture; embeddings have no step and are left out."""
    steps: list[dict[str, JSON]] = []
    for entry in entries:
        if entry.kind not in _STEP_OF_KIND:
            continue
        extra = entry.model_extra or {}
        model = entry.request.get("model") if isinstance(entry.request, dict) else None
        steps.append(
            {
                "type": _STEP_OF_KIND[entry.kind],
                "name": entry.name or extra.get("step") or model or entry.kind,
                "args": _as_given(extra.get("step_args"), entry.request, LLMRequest),
                "output": _as_given(extra.get("step_output"), _output(entry), LLMResponse),
                "latency_ms": _plain_number(entry.latency_ms or 0),
                **(extra.get("step_extra") or {}),
            }
        )
    return steps


def _as_given(given: JSON, now: JSON, model: type[LLMRequest | LLMResponse]) -> JSON:
    """Return a value in the shape the step had, unless the entry was edited since."""
    if given is None:
        return now
    return given if model.model_validate(given).to_json() == now else now


def _output(entry: CassetteEntry) -> JSON:
    """A step has one output: of a generator, the list of what it gave."""
    return entry.response if entry.yields is None else list(entry.yields)


def _plain_number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value
