"""What a cassette holds: recorded calls, failed calls, and the header of the file.

Lives here: frozen, typed records with the constants and literals of the file. Not here: keys
(`keys/`), reading and writing (`document.py`), what a replay makes of an entry (`engine.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from otel_cassette.model.llm import LLMRequest, LLMResponse

if TYPE_CHECKING:
    from typing_extensions import Self

CASSETTE_FORMAT = "otel-cassette"
CASSETTE_VERSION = 1
NORMALISATION_VERSION = 1

CassetteMode = Literal["record", "strict", "lenient", "fallthrough"]
EntryKind = Literal["llm", "tool", "retrieval", "embedding"]
MatchRule = Literal["index", "content"]
Integrity = Literal["whole", "partial", "suspect", "truncated", "redacted", "dropped", "absent"]

KINDS: tuple[EntryKind, ...] = ("llm", "tool", "retrieval", "embedding")
MODEL_KINDS = frozenset({"llm", "embedding"})
PLAYABLE: frozenset[Integrity] = frozenset({"whole", "partial", "suspect"})


@dataclass(frozen=True, slots=True)
class ParentRef:
    """The tool or retrieval call inside which a call was made.

    `failed` says that *index* counts the failed calls of the kind, `parent` where that call was
    made itself.
    """

    kind: EntryKind
    index: int
    parent: ParentRef | None = None
    failed: bool = False


class _Stored(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    @classmethod
    def trusted(cls, fields: dict[str, Any]) -> Self:
        """Return a record of fields that are known to be valid; what is left out has its default.

        A quarter of the cost of `model_construct`, which counts where a file has 100,000 calls.
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", {**_defaults(cls), **fields})
        object.__setattr__(made, "__pydantic_fields_set__", set(fields))
        object.__setattr__(made, "__pydantic_extra__", {})
        object.__setattr__(made, "__pydantic_private__", None)
        return made


@cache
def _defaults(cls: type[_Stored]) -> dict[str, Any]:
    """Return the defaults of a record; they are immutable, or made anew by pydantic's own rules."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
        if not field.is_required()
    }


class RecordedFailure(_Stored):
    """How a call failed.

    Attributes:
        type: Name of the exception type, qualified where it was captured.
        message: Its text.
        status: HTTP status of a provider's failure, when it is known.
        body: The provider's error body, when it was captured.
    """

    type: str = "Exception"
    message: str = ""
    status: int | None = None
    body: Any = None


class EntrySource(_Stored):
    """Where an entry was recorded.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        path: Names from the root of the span tree to the call, without the call.
        caller: The span in which the call was made, 16 hex digits.
        strand: Which of the tasks and threads that made calls in that span made this one, by the
            order of their first calls: tasks 1, 2, ..., the first thread 0, others -1, -2, ...
        start_ns: Start, nanoseconds since the Unix epoch.
        dialect: Name of the dialect that read the span.
    """

    trace_id: str | None = None
    span_id: str | None = None
    path: tuple[str, ...] = ()
    caller: str | None = None
    strand: int = 0
    start_ns: int | None = None
    dialect: str | None = None


class RecordedCall(_Stored):
    """What entries and failed calls have in common.

    Attributes:
        kind: `llm`, `tool`, `retrieval` or `embedding`.
        name: Tool or retriever; None for llm and embedding.
        request: Plain JSON: for llm and embedding an `LLMRequest` without defaults, else the
            arguments by parameter name.
        scope: What the source captured of the request; None means all of it (docs/scopes.md).
        request_integrity: Whether the request is whole.
        parent: The call inside which this one was made; None at the top level.
        inferred: The call had no span of its own; it was read off the next model request.
        latency_ms: How long the call took.
        source: Where it was recorded.
    """

    kind: EntryKind
    key: str | None = None
    name: str | None = None
    request: Any = None
    scope: tuple[str, ...] | None = None
    request_integrity: Integrity = "whole"
    parent: ParentRef | None = None
    inferred: bool = False
    latency_ms: float | None = None
    source: EntrySource | None = None

    @model_validator(mode="before")
    @classmethod
    def _validate_payloads(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("kind") not in MODEL_KINDS:
            return value
        if value.get("opaque") is True:
            return value
        value = dict(value)
        if value.get("request") is not None:
            request = value["request"]
            if not isinstance(request, LLMRequest):
                request = LLMRequest.model_validate(request)
            value["request"] = request.to_json()
        if value.get("response") is not None:
            response = value["response"]
            if not isinstance(response, LLMResponse):
                response = LLMResponse.model_validate(response)
            value["response"] = response.to_json()
        return value

    @property
    def llm_request(self) -> LLMRequest:
        """The request as a typed view (llm and embedding entries)."""
        return LLMRequest.model_validate(self.request or {})

    @field_validator("parent", mode="before")
    @classmethod
    def _accept_object(cls, value: Any) -> Any:
        return parent_ref(value)


def parent_ref(value: Any) -> ParentRef | None:
    """Return a parent given as JSON, a tuple or a ParentRef."""
    if value is None or isinstance(value, ParentRef):
        return value
    if isinstance(value, dict):
        return ParentRef(
            value["kind"],
            int(value["index"]),
            parent_ref(value.get("parent")),
            failed=bool(value.get("failed", False)),
        )
    return ParentRef(*value)


def parent_json(parent: ParentRef) -> dict[str, Any]:
    """Return a parent as JSON without defaults."""
    data: dict[str, Any] = {"kind": parent.kind, "index": parent.index}
    if parent.failed:
        data["failed"] = True
    if parent.parent is not None:
        data["parent"] = parent_json(parent.parent)
    return data


class CassetteEntry(RecordedCall):
    """A recorded call that has an answer.

    Attributes:
        index: 0-based rank by start among the successes of one (parent, kind).
        response: Plain JSON; None is a recorded None. Whether it can be played is told by
            `response_integrity`, never by None.
        response_integrity: Whether the response is whole.
        error: A failure that came with partial output.
        yields: For generators: the values they yielded, in order; None for plain calls.
        opaque: A model step of a session fixture that is no `LLMRequest`: request and response are
            kept as they are, and it is compared like a tool call, by its name and arguments.
    """

    index: int = Field(ge=0)
    response: Any = None
    response_integrity: Integrity = "whole"
    error: RecordedFailure | None = None
    yields: tuple[Any, ...] | None = None
    opaque: bool = False

    @property
    def llm_response(self) -> LLMResponse:
        """The response as a typed view (llm and embedding entries)."""
        return LLMResponse.model_validate(self.response or {})

    @property
    def is_playable(self) -> bool:
        """Whether the response may be served without `allow_partial`."""
        return self.response_integrity in PLAYABLE


class CassetteFailure(RecordedCall):
    """A recorded call that failed without output.

    Attributes:
        follows: Index of the success of the same (parent, kind) it came after by start; -1 when
            it came before the first.
        error: How it failed.
    """

    follows: int = Field(default=-1, ge=-1)
    error: RecordedFailure = Field(default_factory=RecordedFailure)
    failed: Literal[True] = True


class CassetteHeader(_Stored):
    """First line of a cassette file.

    Attributes:
        format: `otel-cassette`.
        version: Major version of the file format.
        normalisation: Version of the comparison rules the stored keys were made with.
        metadata: The user's own; `model` and `provider` are defaults for playback.
        ignore: JSON pointers left out of comparison.
        normalize: Names of the normalising functions and regex rules in force.
        redact: Names and patterns of the redaction rules in force.
    """

    format: str = CASSETTE_FORMAT
    version: int = CASSETTE_VERSION
    normalisation: int = NORMALISATION_VERSION
    metadata: dict[str, Any] = Field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    normalize: tuple[Any, ...] = ()
    redact: tuple[Any, ...] = ()
