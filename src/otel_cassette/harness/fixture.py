"""The document of one recorded session: its steps, query, final output and expectations.

Lives here: `StepType`, `Step`, `Fixture` and their JSON form, `"schema_version": "1.2"`. Not here:
how steps become entries (`document/legacy.py`), recording and replaying.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from otel_cassette.cassette import Cassette
from otel_cassette.document import entry_steps, fixture_records
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.model.llm import LLMRequest, LLMResponse
from otel_cassette.redaction import DEFAULT_RULES, MASK_START, Redactor

SCHEMA_VERSION = "1.2"
_EXTRA_SURVIVES = ConfigDict(extra="allow")


class StepType(str, Enum):
    """What a step calls."""

    TOOL_CALL = "tool_call"
    LLM = "llm"
    RETRIEVAL = "retrieval"


@dataclass(frozen=True, config=_EXTRA_SURVIVES)
class Step:
    """One call of a session that succeeded.

    Attributes:
        type: What was called.
        name: Its name, as the agent bound it.
        args: Arguments by parameter name, plain JSON.
        output: What it returned, plain JSON.
        latency_ms: How long it took, milliseconds.
    """

    type: StepType
    name: str
    args: dict[str, Any]
    output: Any
    latency_ms: int | float = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain JSON, keys that this version does not know included."""
        return {**_with_extra(self), "type": self.type.value}


@dataclass(config=_EXTRA_SURVIVES)
class Fixture:
    """A recorded session.

    Attributes:
        session_id: Its id, and the name of its file.
        query: What the agent was asked.
        steps: Its calls, in the order they began.
        final_output: What the agent answered.
        expected: The evaluators' own.
        schema_version: Of the document.
    """

    session_id: str
    query: str
    steps: list[Step] = dataclasses.field(default_factory=list)
    final_output: Any = None
    expected: dict[str, Any] = dataclasses.field(default_factory=dict)
    schema_version: str = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain JSON, keys that this version does not know included."""
        return {**_with_extra(self), "steps": [step.to_dict() for step in self.steps]}

    def to_json(self) -> str:
        """Return the document as JSON text, indented by 2.

        Raises:
            TypeError: `final_output` or `expected` holds what is not JSON.
        """
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        # Half a surrogate pair (text cut in the middle of a sign) has no UTF-8; escaped it has.
        return text if _is_unicode(text) else json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(
        cls, text: str | bytes | Mapping[str, Any], *, path: object | None = None
    ) -> Fixture:
        """Return the fixture of a document; what is missing takes its default.

        Args:
            text: The document, as text, UTF-8 bytes or already parsed.
            path: Where it came from, for the error.

        Raises:
            CassetteFormatError: It is no such document, or one of a later version.
        """
        document = text if isinstance(text, Mapping) else _parse(text, path)
        _check_version(document, path)
        given = {"session_id": "", "query": "", **document}
        try:
            return _FIXTURE.validate_python(given)
        except ValidationError as error:
            raise CassetteFormatError(reason=_describe(error), path=path) from error

    def to_cassette(self, **options: Any) -> Cassette:
        """Return the session as a cassette.

        Llm steps whose arguments are a model request and whose output is a model response become
        those; others are kept as they are, compared by name and arguments.

        Args:
            **options: Of `Cassette`; `mode` is `strict` and `redact` what the session was recorded
                with, unless they are given.
        """
        metadata, entries = fixture_records({**self.to_dict(), "schema_version": SCHEMA_VERSION})
        rules = getattr(self, "redact", None)
        given = {
            "mode": "strict",
            "redact": DEFAULT_RULES if rules is None else Redactor.from_header(rules).rules,
            **options,
        }
        metadata.update(given.pop("metadata", None) or {})
        return Cassette(
            [e for e in entries if isinstance(e, CassetteEntry)], metadata=metadata, **given
        )

    @classmethod
    def from_cassette(
        cls, cassette: Cassette, *, session_id: str | None = None, query: str | None = None
    ) -> Fixture:
        """Return the top-level calls of a cassette as a session.

        Embedding calls and failed ones are no steps and are left out.

        Args:
            cassette: A cassette; one made by `to_cassette` comes back as the session it was.
            session_id: By default that of the metadata, else the trace id.
            query: By default that of the metadata, else the text of the first user message.

        Raises:
            CassetteError: A recorded answer is cut or missing; a step could not be replayed.
        """
        for entry in cassette.entries:
            if not entry.is_playable:
                msg = (
                    f"{entry.kind} call #{entry.index} has no whole answer ({entry.response_integrity}), and a "
                    "session holds answers only; replay the cassette itself, or record the call again"
                )
                raise CassetteError(msg)
        known = cassette.metadata
        first, last = _conversation(cassette)
        document = {
            **(known.get("fixture_extra") or {}),
            "session_id": session_id or known.get("session_id") or known.get("trace_id") or "",
            "query": query or known.get("query") or first,
            "steps": entry_steps(cassette.entries),
            "final_output": known.get("final_output", last),
            "expected": known.get("expected") or {},
        }
        if cassette.redact != DEFAULT_RULES or MASK_START in json.dumps(document["steps"]):
            document["redact"] = Redactor(cassette.redact).to_header()
        return cls.from_json(document)

    @classmethod
    def from_trace(
        cls,
        trace: Any,
        *,
        trace_id: str | None = None,
        merge: bool = False,
        session_id: str | None = None,
        query: str | None = None,
    ) -> Fixture:
        """Return a recorded trace as a session.

        Args:
            trace: As for `Cassette.from_trace`: a `Trace`, a path, a dict, ...
            trace_id: Which run, of several.
            merge: Take all runs together.
            session_id: As for `from_cassette`.
            query: As for `from_cassette`.
        """
        cassette = Cassette.from_trace(trace, trace_id=trace_id, merge=merge)
        return cls.from_cassette(cassette, session_id=session_id, query=query)


_FIXTURE = TypeAdapter(Fixture)


def _conversation(cassette: Cassette) -> tuple[str, str | None]:
    """Return the first user message and the last answer of the model calls, as text."""
    calls = [entry for entry in cassette.entries_of("llm") if not entry.opaque]
    if not calls:
        return "", None
    messages = LLMRequest.model_validate(calls[0].request or {}).messages
    first = next((message.text for message in messages if message.role == "user"), "")
    return first, LLMResponse.model_validate(calls[-1].response or {}).text or None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_extra(record: Any) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(record)}
    extra = {
        key: value
        for key, value in vars(record).items()
        if key not in names and not key.startswith("_")
    }
    return {**dataclasses.asdict(record), **extra}


def _parse(text: str | bytes, path: object | None) -> Mapping[str, Any]:
    try:
        document = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except json.JSONDecodeError as error:
        reason = (
            f"not JSON: {error.msg} at column {error.colno}; a session fixture is one JSON object"
        )
        raise CassetteFormatError(reason=reason, path=path, line=error.lineno) from error
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: byte {error.start} is {error.object[error.start]:#04x}; save the file as UTF-8"
        raise CassetteFormatError(reason=reason, path=path) from error
    except RecursionError as error:
        reason = "nested too deeply for a session fixture"
        raise CassetteFormatError(reason=reason, path=path) from error
    if not isinstance(document, dict):
        reason = f"a session fixture is one JSON object, this is {type(document).__name__}"
        raise CassetteFormatError(reason=reason, path=path)
    return document


def _check_version(document: Mapping[str, Any], path: object | None) -> None:
    version = document.get("schema_version", SCHEMA_VERSION)
    parts = str(version).split(".")
    if not all(part.isdecimal() for part in parts):
        reason = f"schema_version {version!r} is no version; this package writes {SCHEMA_VERSION!r}"
        raise CassetteFormatError(reason=reason, path=path)
    if tuple(map(int, parts)) > tuple(map(int, SCHEMA_VERSION.split("."))):
        reason = (
            f"schema_version {version!r} is later than {SCHEMA_VERSION!r}, the latest this otel-cassette reads; "
            "install a newer one: pip install -U otel-cassette"
        )
        raise CassetteFormatError(reason=reason, path=path)


def _describe(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    pointer = "".join(f"/{part}" for part in first["loc"])
    return f"not a session fixture: {first['msg']} at {pointer or 'the top'}; correct it, or record the session again"
