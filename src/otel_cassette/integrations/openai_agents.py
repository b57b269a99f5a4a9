"""Tools of the OpenAI Agents SDK.

Lives here: function tools (also those made of agents and of MCP servers) behind the session, and
what they return as JSON and back. Not here: models, hosted tools, which run at the provider.

The SDK's guardrails and hooks see a call but cannot answer it with a value. Tools of `function_tool`
are answered inside the SDK's invoker, so that `failure_error_function` sees recorded failures as it
saw the real ones; tools with an invoker of their own are answered in its place.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from typing import Any, Final

from otel_cassette.integrations.driving import ToolCall, is_json, wanted
from otel_cassette.integrations.patching import Patches, framework

JSON = Any
_INVOKER: Final = "_FailureHandlingFunctionToolInvoker"
_FIELD: Final = "on_invoke_tool"
_CACHE: Final = "_otel_cassette_invoker"
_patches = Patches("openai-agents")


def instrument() -> None:
    """Answer tools of the OpenAI Agents SDK from the open session; twice does nothing.

    Raises:
        CassetteError: When `openai-agents` is not installed; names the extra.
    """
    tools = framework("agents.tool", package="openai-agents", extra="openai-agents")
    invoker = getattr(tools, _INVOKER, None)
    if invoker is None:
        raise _patches.unknown(_INVOKER)

    def patch() -> list[Callable[[], None]]:
        undo = _patches.replace(invoker, "__call__", _invoke)
        tools.FunctionTool.on_invoke_tool = _OwnInvoker(invoker)
        return [undo, functools.partial(delattr, tools.FunctionTool, _FIELD)]

    _patches.apply(patch)


def uninstrument() -> None:
    """Take `instrument` back."""
    _patches.revert()


def _invoke(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def __call__(self: Any, ctx: Any, input: str) -> Any:  # noqa: A002, N807 - the SDK's names
        if not wanted():
            return await original(self, ctx, input)
        real = self._invoke_tool_impl
        call = _call(self._function_tool.name, input)

        async def played(*args: Any) -> Any:
            return await call.arun(functools.partial(real, *args))

        stand_in = copy.copy(self)
        stand_in._invoke_tool_impl = played  # noqa: SLF001 - the copy is ours
        try:
            return await original(stand_in, ctx, input)
        finally:
            if call.missed is not None:  # the SDK tells the model of a tool's error; a miss is none
                raise call.missed

    return __call__


class _OwnInvoker:
    """`FunctionTool.on_invoke_tool`: the tool's invoker; in a session behind it, unless the SDK's.

    Args:
        sdk_invoker: Class of the SDK's invokers, which are answered inside.
    """

    def __init__(self, sdk_invoker: type) -> None:
        self._sdk_invoker = sdk_invoker

    def __get__(self, tool: Any, owner: Any = None) -> Any:
        if tool is None:
            msg = f"type object {owner.__name__!r} has no attribute {_FIELD!r}"
            raise AttributeError(msg)
        try:
            invoker = tool.__dict__[_FIELD]
        except KeyError:
            msg = f"{type(tool).__name__!r} object has no attribute {_FIELD!r}"
            raise AttributeError(msg) from None
        if isinstance(invoker, self._sdk_invoker) or not wanted():
            return invoker
        cached = tool.__dict__.get(_CACHE)  # the SDK compares invokers by identity
        if cached is None or cached[0] is not tool or cached[1] is not invoker:
            cached = tool.__dict__[_CACHE] = (tool, invoker, _behind_session(tool, invoker))
        return cached[2]

    def __set__(self, tool: Any, invoker: Any) -> None:
        cached = tool.__dict__.get(_CACHE)
        if cached is not None and cached[2] is invoker:
            invoker = cached[1]
        tool.__dict__[_FIELD] = invoker


def _behind_session(tool: Any, invoker: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(invoker)
    async def invoke(ctx: Any, input: str) -> Any:  # noqa: A002 - the SDK's name
        return await _call(tool.name, input).arun(functools.partial(invoker, ctx, input))

    return invoke


def _call(name: str, arguments: str) -> ToolCall:
    try:
        given = json.loads(arguments) if arguments else {}
    except ValueError:
        given = arguments
    return ToolCall(
        name,
        given if isinstance(given, dict) else {"input": given},
        encode=_encode,
        decode=_same,
        decode_told=_as_told,
    )


def _encode(result: Any) -> JSON:
    """Return a result as JSON that the SDK shows to the model as it shows the result.

    It writes values as Python's `str` does: what JSON would not give back alike becomes that text.
    """
    if is_json(result):
        return result
    if isinstance(result, list | tuple) and result and all(map(_is_structured, result)):
        return [_plain(item) for item in result]
    return _plain(result) if _is_structured(result) else str(result)


def _is_structured(value: Any) -> bool:
    """Return whether *value* is one of the SDK's outputs: text, image or file."""
    return type(value).__name__.startswith("ToolOutput") and hasattr(value, "model_dump")


def _plain(value: Any) -> JSON:
    return value.model_dump(mode="json", exclude_none=True)


def _same(response: JSON) -> Any:
    return response


def _as_told(response: JSON) -> Any:
    """Return JSON as the text that it was: the SDK would have written a Python value otherwise."""
    items = response if isinstance(response, list) else []
    if any(isinstance(each, dict) and str(each.get("type"))[:6] == "input_" for each in items):
        return response  # pictures and files, which are no text
    return json.dumps(response) if isinstance(response, dict | list) else response
