"""Tool calls of MCP client sessions.

Lives here: `ClientSession.call_tool` behind the session, and `CallToolResult` as JSON and back. The
SDK has no extension point around a call: the method is replaced. Not here: the connection itself;
`initialize` and `list_tools` still talk to the server.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from otel_cassette.integrations.driving import ToolCall, wanted
from otel_cassette.integrations.patching import Patches, framework

JSON = Any
_patches = Patches("mcp")


def instrument() -> None:
    """Answer tool calls of every MCP client session from the open session; twice does nothing.

    Raises:
        CassetteError: When `mcp` is not installed; names the extra.
    """
    types = framework("mcp.types", package="mcp", extra="mcp")
    session = framework("mcp.client.session", package="mcp", extra="mcp").ClientSession
    _patches.apply(lambda: [_patches.replace(session, "call_tool", lambda m: _call_tool(m, types))])


def uninstrument() -> None:
    """Take `instrument` back."""
    _patches.revert()


def _call_tool(original: Callable[..., Any], types: ModuleType) -> Callable[..., Any]:
    @functools.wraps(original)
    async def call_tool(
        self: Any, name: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        real = functools.partial(original, self, name, arguments, *args, **kwargs)
        if not wanted():
            return await real()
        call = ToolCall(
            name, arguments or {}, encode=_encode, decode=functools.partial(_decode, types=types)
        )
        return await call.arun(real)

    return call_tool


def _encode(result: Any) -> JSON:
    """Return a result as it is on the wire."""
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def _decode(response: JSON, *, types: ModuleType) -> Any:
    """Return a recorded response as the SDK's result.

    Recordings of a framework's own tool spans hold what the framework made of the result: text, or
    a JSON value. They become a text block; an object is the structured content too.
    """
    if isinstance(response, dict):
        if response.get("resultType") == "input_required" and hasattr(types, "InputRequiredResult"):
            return types.InputRequiredResult.model_validate(response)
        if isinstance(response.get("content"), list):
            made = _validated(response, types)
            if made is not None:
                return made
    if isinstance(response, list):
        made = _validated({"content": response}, types) if response else None
        if made is not None:
            return made
    text = response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
    fields: dict[str, JSON] = {"content": [{"type": "text", "text": text}]}
    if isinstance(response, dict):
        fields["structuredContent"] = response
    return types.CallToolResult.model_validate(fields)


def _validated(fields: JSON, types: ModuleType) -> Any:
    try:
        return types.CallToolResult.model_validate(fields)
    except ValidationError:
        return None
