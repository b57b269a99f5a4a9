"""LLM requests and responses as typed views over the plain JSON of an entry.

Lives here: `LLMRequest`, `LLMResponse`, their choices, tools and stream chunks, and the dump
without defaults that goes into a cassette. Not here: keys and comparison (`keys/`), provider wire
bodies (`wire/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from otel_cassette.model.chat import content_parts
from otel_cassette.model.messages import Message, Part, Record, ToolCallPart


class ToolDefinition(Record):
    """A tool offered to the model; the provider's own extra fields are kept.

    `{"type": "function", "function": {...}}`, `input_schema` and `inputSchema` are accepted.
    """

    type: str = "function"
    name: str
    description: str | None = None
    parameters: Any = None

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, value: Any) -> Any:
        return unwrap_tool(value) if isinstance(value, Mapping) else value


_SCHEMA_ALIASES = ("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")


def unwrap_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool definition of any provider as `{"type", "name", "description", "parameters"}`."""
    flat = dict(tool)
    for wrapping in ("function", "custom"):
        inner = tool.get(wrapping)
        if isinstance(inner, Mapping):
            del flat[wrapping]
            flat.update(inner)
    for alias in _SCHEMA_ALIASES:
        if alias in flat:
            schema = flat.pop(alias)
            if flat.get("parameters") is None:
                flat["parameters"] = schema
    if "name" not in flat:
        flat["name"] = str(flat.get("type", ""))
    return flat


class LLMRequest(BaseModel):
    """One request to a model.

    Attributes:
        messages: The conversation; chat-shaped dicts are accepted.
        operation: `chat`, `text_completion`, `generate_content` or `embeddings`; carried, not compared.
        provider: The provider's name; carried, not compared.
        model: The requested model.
        system_instructions: Instructions given beside the messages; a string is accepted.
        tools: Tools offered to the model.
        tool_choice: As the provider takes it.
        response_format: As the provider takes it.
        params: Sampling and other parameters by their GenAI names (`temperature`, `max_tokens`, ...).
        previous_response_id: Reference to history that the provider keeps.
        input: For embeddings: the text or texts.
        extra: Whatever else the request held.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", ser_json_inf_nan="constants"
    )

    operation: str | None = None
    provider: str | None = None
    model: str | None = None
    system_instructions: tuple[Part, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: Any = None
    response_format: Any = None
    params: dict[str, Any] = Field(default_factory=dict)
    previous_response_id: str | None = None
    input: Any = None
    extra: dict[str, Any] = Field(default_factory=dict)

    @field_validator("system_instructions", mode="before")
    @classmethod
    def _accept_text(cls, value: Any) -> Any:
        return content_parts(value) if value is None or isinstance(value, str | Mapping) else value

    @field_validator("messages", mode="before")
    @classmethod
    def _accept_prompt(cls, value: Any) -> Any:
        return [{"role": "user", "content": value}] if isinstance(value, str) else value

    def to_json(self) -> dict[str, Any]:
        """Return the request as plain JSON without defaults."""
        return dump_without_defaults(self)


class Choice(Record):
    """One of the answers; `finish_reason` as the source captured it."""

    message: Message
    finish_reason: str | None = None


class StreamChunk(Record):
    """One piece of a streamed answer.

    Attributes:
        text: Text added by the piece.
        tool_calls: Pieces of tool calls: `index`, and `id`, `name`, `arguments` as far as they came.
        finish_reason: Set on the last piece of a choice.
        usage: Token counts, when the piece carries them.
        raw: The provider's own chunk, when it was captured.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    raw: Any = None

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class LLMResponse(BaseModel):
    """One answer of a model.

    Attributes:
        choices: Usually one; chat-shaped messages are accepted.
        id: The provider's response id.
        model: The model that answered.
        usage: Token counts by their GenAI names (`input_tokens`, `output_tokens`, ...).
        embeddings: For embeddings: one vector per input.
        raw: The provider's own payload, when it was captured.
        chunks: For streams: the pieces as they came.
        ended_early: For streams: the consumer left, or the stream broke, before its end.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", ser_json_inf_nan="constants"
    )

    id: str | None = None
    model: str | None = None
    choices: tuple[Choice, ...] = ()
    usage: dict[str, Any] | None = None
    embeddings: Any = None
    raw: Any = None
    chunks: tuple[Any, ...] = ()
    ended_early: bool = False

    @property
    def text(self) -> str:
        """Text of the first choice."""
        return self.choices[0].message.text if self.choices else ""

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """Tool calls of the first choice, in order."""
        return self.choices[0].message.tool_calls if self.choices else ()

    @property
    def finish_reason(self) -> str | None:
        """Why the first choice ended."""
        return self.choices[0].finish_reason if self.choices else None

    def to_json(self) -> dict[str, Any]:
        """Return the response as plain JSON without defaults."""
        return dump_without_defaults(self)

    @classmethod
    def from_chunks(
        cls, chunks: Sequence[StreamChunk], *, ended_early: bool = False
    ) -> LLMResponse:
        """Return the answer that the pieces of a stream add up to, with the pieces kept."""
        calls: dict[Any, dict[str, Any]] = {}
        for chunk in chunks:
            for piece in chunk.tool_calls:
                call = calls.setdefault(
                    piece.get("index", len(calls)), {"name": "", "arguments": ""}
                )
                if piece.get("id"):
                    call["id"] = piece["id"]
                call["name"] += piece.get("name") or ""
                arguments = piece.get("arguments")
                if isinstance(arguments, str):
                    call["arguments"] += arguments
                elif arguments is not None:
                    call["arguments"] = arguments
        message = {
            "role": "assistant",
            "reasoning_content": "".join(c.reasoning for c in chunks),
            "content": "".join(c.text for c in chunks),
            "tool_calls": list(calls.values()),
        }
        finish = next((c.finish_reason for c in reversed(chunks) if c.finish_reason), None)
        usage = next((c.usage for c in reversed(chunks) if c.usage), None)
        return cls.model_validate(
            {
                "choices": [{"message": message, "finish_reason": finish}],
                "usage": usage,
                "chunks": [dump_without_defaults(c) for c in chunks],
                "ended_early": ended_early,
            }
        )


def dump_without_defaults(model: BaseModel) -> dict[str, Any]:
    """Return a model as plain JSON; unset optional fields are left out, part types are kept."""
    data = model.model_dump(mode="json", exclude_none=True, warnings=False)
    declared = type(model).model_fields
    return {k: v for k, v in data.items() if k not in declared or not _is_empty(v)}


def _is_empty(value: Any) -> bool:
    return value is False or (isinstance(value, list | dict | str) and not value)
