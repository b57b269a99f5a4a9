"""Tools of LangChain and LangGraph.

Lives here: `BaseTool.run` and `arun` with the tool's own function behind the session, and what such
a function returns as JSON and back. Callbacks run as always, so the spans of instrumentations stay.
Not here: models, retrievers.

LangChain's own extension points do not reach: callbacks cannot answer a call, and `wrap_tool_call`
middleware belongs to the agent's code. So `run` works on a copy of the tool whose `_run` asks the
session first and calls the real tool's `_run` where that is due.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import PydanticSerializationError

from otel_cassette.integrations.driving import ToolCall, is_json, wanted
from otel_cassette.integrations.patching import Patches, framework
from otel_cassette.model.plain import to_plain

JSON = Any
_COMMAND: Final = "langgraph_command"
_COMMAND_FIELDS: Final = ("graph", "update", "resume", "goto")
_WITH_ARTIFACT: Final = frozenset({"content", "artifact"})
_patches = Patches("langchain-core")


def instrument() -> None:
    """Answer tools of LangChain and LangGraph from the open session; twice does nothing.

    Raises:
        CassetteError: When `langchain-core` is not installed; names the extra.
    """
    base = framework("langchain_core.tools", package="langchain-core", extra="langchain").BaseTool
    _patches.apply(
        lambda: [
            _patches.replace(base, "run", _run),
            _patches.replace(base, "arun", _arun),
        ]
    )


def uninstrument() -> None:
    """Take `instrument` back."""
    _patches.revert()


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if not wanted():
            return original(self, tool_input, *args, **kwargs)
        call = _call(self, tool_input, kwargs.get("tool_call_id"))

        @functools.wraps(self._run)
        def played(*a: Any, **k: Any) -> Any:
            return call.run(functools.partial(self._run, *a, **k))

        return original(_stand_in(self, _run=played), tool_input, *args, **kwargs)

    return run


def _arun(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def arun(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if not wanted():
            return await original(self, tool_input, *args, **kwargs)
        call = _call(self, tool_input, kwargs.get("tool_call_id"))

        @functools.wraps(self._arun)
        async def played(*a: Any, **k: Any) -> Any:
            return await call.arun(functools.partial(self._arun, *a, **k))

        return await original(_stand_in(self, _arun=played), tool_input, *args, **kwargs)

    return arun


def _stand_in(tool: Any, **methods: Callable[..., Any]) -> Any:
    """Return a shallow copy of a tool with *methods* of its own; a plain method gives way to them."""
    made = copy.copy(tool)
    made.__dict__.update(methods)
    return made


def _call(tool: Any, tool_input: Any, tool_call_id: str | None) -> ToolCall:
    return ToolCall(
        tool.name,
        _arguments(tool, tool_input),
        encode=functools.partial(_encode, tool=tool, tool_call_id=tool_call_id),
        decode=functools.partial(_decode, tool=tool, tool_call_id=tool_call_id),
        passing=_control_flow(),
    )


def _arguments(tool: Any, tool_input: Any) -> dict[str, Any]:
    """Return the arguments by name without injected ones, as LangChain tells them to callbacks."""
    if isinstance(tool_input, dict):
        filtered: dict[str, Any] = tool_input
        if callable(getattr(tool, "_filter_injected_args", None)):
            filtered = tool._filter_injected_args(tool_input)  # noqa: SLF001 - what callbacks get; public nowhere
        return filtered
    names = list(tool.args)
    return {names[0] if names else "input": tool_input}


def _control_flow() -> tuple[type[BaseException], ...]:
    """Return what LangGraph raises through a tool to stop or leave a graph, where it is imported."""
    import sys  # noqa: PLC0415

    errors = sys.modules.get("langgraph.errors")
    bubble = getattr(errors, "GraphBubbleUp", None)
    return (bubble,) if isinstance(bubble, type) else ()


# -- results ------------------------------------------------------------------------------------


def _encode(result: Any, *, tool: Any, tool_call_id: str | None) -> JSON:
    """Return what a tool's function gave back as JSON: the content, with an artifact both by name."""
    if tool.response_format == "content_and_artifact" and isinstance(result, tuple):
        content, artifact = (*result, None)[:2]
        plain = _encode_content(content, tool_call_id)
        if artifact is None:
            return plain
        return {"content": plain, "artifact": _encode_content(artifact, None)}
    return _encode_content(result, tool_call_id)


def _encode_content(value: Any, tool_call_id: str | None) -> JSON:
    messages = framework("langchain_core.messages", package="langchain-core", extra="langchain")
    if isinstance(value, messages.BaseMessage):
        return messages.message_to_dict(value)
    if type(value).__name__ == "Command" and type(value).__module__.startswith("langgraph."):
        fields = {name: getattr(value, name, None) for name in _COMMAND_FIELDS}
        return {
            "type": _COMMAND,
            **{k: _encode_content(v, None) for k, v in fields.items() if v not in (None, ())},
        }
    if is_json(value):
        return value
    if isinstance(value, dict):
        return {str(k): _encode_content(v, None) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_encode_content(v, None) for v in value]
    if tool_call_id is not None:
        return str(value)  # what LangChain makes of it for the model
    try:
        return to_plain(value)
    except (ValueError, PydanticSerializationError):
        return str(value)


def _decode(response: JSON, *, tool: Any, tool_call_id: str | None) -> Any:
    """Return recorded JSON as what the tool's function gave back.

    Traces hold the content alone: the artifact is None then.
    """
    if tool.response_format != "content_and_artifact":
        return _decode_content(response, tool_call_id)
    if isinstance(response, dict) and response.keys() == _WITH_ARTIFACT:
        content, artifact = response["content"], response["artifact"]
    else:
        content, artifact = response, None
    return _decode_content(content, tool_call_id), _decode_content(artifact, None)


def _decode_content(value: JSON, tool_call_id: str | None) -> Any:
    if isinstance(value, list):
        return [_decode_content(item, tool_call_id) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == _COMMAND:
        command = framework("langgraph.types", package="langgraph", extra="langchain").Command
        return command(
            **{
                name: _decode_content(value[name], tool_call_id)
                for name in _COMMAND_FIELDS
                if name in value
            }
        )
    data = value.get("data")
    if value.keys() == {"type", "data"} and isinstance(data, dict) and "content" in data:
        messages = framework("langchain_core.messages", package="langchain-core", extra="langchain")
        if value["type"] == "tool" and tool_call_id is not None:
            # Ids of calls are new on every run: the answer belongs to the call that is made now.
            value = {**value, "data": {**data, "tool_call_id": tool_call_id}}
        return messages.messages_from_dict([value])[0]
    return {key: _decode_content(item, tool_call_id) for key, item in value.items()}
