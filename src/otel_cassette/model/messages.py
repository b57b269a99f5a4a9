"""Messages and parts of the OTel GenAI schema as frozen, typed records.

Lives here: the typed view of one message. Not here: whole requests (`llm.py`), the mapping of chat
shapes (`chat.py`), and what makes messages equal (`keys/`). Unknown fields survive.

Source: OTel GenAI semantic conventions, `gen_ai.input.messages` / `gen_ai.output.messages`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, SerializeAsAny, Tag, model_validator

from otel_cassette.model.chat import PART_TYPES, block_parts, message_parts


class Record(BaseModel):
    """Base of the wire-shaped records: frozen, unknown fields are kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", ser_json_inf_nan="constants"
    )


class TextPart(Record):
    """Text sent to or received from the model."""

    type: Literal["text"] = "text"
    content: str


class ToolCallPart(Record):
    """A tool call the model asks for; `arguments` as captured: a JSON string or a value."""

    type: Literal["tool_call"] = "tool_call"
    id: str | None = None
    name: str
    arguments: Any = None

    @property
    def parsed_arguments(self) -> dict[str, Any]:
        """The arguments by name, to call the tool with; the same whichever way they were captured.

        Raises:
            ValueError: When they are no JSON object, as a model now and then writes them.
        """
        given = self.arguments
        if given is None or given == "":
            return {}
        try:
            value = json.loads(given) if isinstance(given, str) else given
        except ValueError as error:
            msg = f"the arguments of the call of {self.name!r} are no JSON: {error}"
            raise ValueError(msg) from error
        if not isinstance(value, dict):
            msg = f"the arguments of the call of {self.name!r} are a {type(value).__name__}, no object"
            raise ValueError(msg)  # noqa: TRY004 - the value is wrong, not the caller's type
        return value


class ToolCallResponsePart(Record):
    """The result of a tool call, given back to the model."""

    type: Literal["tool_call_response"] = "tool_call_response"
    id: str | None = None
    response: Any = None


class ReasoningPart(Record):
    """Reasoning text of the model; a provider's signature may stand beside it."""

    type: Literal["reasoning"] = "reasoning"
    content: str = ""


class BlobPart(Record):
    """Inline media, base64 unless `encoding` says otherwise."""

    type: Literal["blob"] = "blob"
    modality: str | None = None
    mime_type: str | None = None
    content: str


class FilePart(Record):
    """Media by the id of a file uploaded to the provider."""

    type: Literal["file"] = "file"
    modality: str | None = None
    mime_type: str | None = None
    file_id: str


class UriPart(Record):
    """Media by reference."""

    type: Literal["uri"] = "uri"
    modality: str | None = None
    mime_type: str | None = None
    uri: str


class ServerToolCallPart(Record):
    """A tool that the provider ran itself."""

    type: Literal["server_tool_call"] = "server_tool_call"
    id: str | None = None
    name: str | None = None
    server_tool_call: Any = None


class ServerToolCallResponsePart(Record):
    """What a tool that the provider ran itself gave back."""

    type: Literal["server_tool_call_response"] = "server_tool_call_response"
    id: str | None = None
    server_tool_call_response: Any = None


class GenericPart(Record):
    """A part of any other type; its fields are kept as they are."""

    type: str


def _tag(value: Any) -> str:
    # Called for every part that is validated or written; an ABC check would cost more than the rest.
    kind = value.get("type") if type(value) is dict else getattr(value, "type", None)
    return kind if type(kind) is str and kind in PART_TYPES else "generic"


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[ToolCallPart, Tag("tool_call")]
    | Annotated[ToolCallResponsePart, Tag("tool_call_response")]
    | Annotated[ReasoningPart, Tag("reasoning")]
    | Annotated[BlobPart, Tag("blob")]
    | Annotated[FilePart, Tag("file")]
    | Annotated[UriPart, Tag("uri")]
    | Annotated[ServerToolCallPart, Tag("server_tool_call")]
    | Annotated[ServerToolCallResponsePart, Tag("server_tool_call_response")]
    | Annotated[GenericPart, Tag("generic")],
    Discriminator(_tag),
]
"""One part of a message, told apart by its `type`."""

_CHAT_KEYS = frozenset(
    {
        "content",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "refusal",
        "reasoning_content",
        "audio",
    }
)


class Message(Record):
    """One message: a role and its parts.

    Chat-shaped input (`role`, `content`, `tool_calls`, ...) is accepted and becomes parts.
    """

    role: str
    parts: tuple[SerializeAsAny[Part], ...] = ()
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_chat_shape(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        parts = value.get("parts")
        if parts is None:
            rest = {k: v for k, v in value.items() if k not in _CHAT_KEYS}
            return {**rest, "parts": message_parts(value)}
        if isinstance(parts, list | tuple) and any(isinstance(p, str) for p in parts):
            return {**value, "parts": [q for p in parts for q in block_parts(p)]}
        return value

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(p.content for p in self.parts if isinstance(p, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls the message asks for, in order."""
        return tuple(p for p in self.parts if isinstance(p, ToolCallPart))
