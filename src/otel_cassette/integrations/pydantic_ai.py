"""Tools of pydantic-ai agents.

Lives here: `CassetteToolset`, a wrapper toolset as the framework means them, put around the
assembled toolset of every run, and what tools return as JSON and back. Not here: models, output
tools (the run's own answer).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Final

from pydantic import TypeAdapter

from otel_cassette.integrations.driving import ToolCall, wanted
from otel_cassette.integrations.patching import Patches, framework
from otel_cassette.model.entry import CassetteFailure, RecordedFailure
from otel_cassette.model.plain import to_plain
from otel_cassette.session.failures import failure_of, rebuild_failure

JSON = Any
_FILE_KINDS: Final = frozenset(
    {"image-url", "audio-url", "document-url", "video-url", "binary", "uploaded-file"}
)
_DEFERRALS: Final = ("CallDeferred", "ApprovalRequired")
_patches = Patches("pydantic-ai-slim")


def instrument() -> None:
    """Answer tools of every pydantic-ai agent from the open session; twice does nothing.

    Raises:
        CassetteError: When `pydantic-ai` is not installed; names the extra.
    """
    capabilities = _framework("pydantic_ai.capabilities")
    wrapper = toolset_class()
    _patches.apply(
        lambda: [
            _patches.replace(
                capabilities.CombinedCapability,
                "get_wrapper_toolset",
                lambda original: _get_wrapper_toolset(original, wrapper),
            )
        ]
    )


def uninstrument() -> None:
    """Take `instrument` back; runs that have begun keep their toolset."""
    _patches.revert()


def _framework(module: str) -> Any:
    return framework(module, package="pydantic-ai-slim", extra="pydantic-ai")


def _get_wrapper_toolset(original: Callable[..., Any], wrapper: Any) -> Callable[..., Any]:
    """Put ours around the toolset of a run, which pydantic-ai asks its capabilities for."""

    @functools.wraps(original)
    def get_wrapper_toolset(self: Any, toolset: Any) -> Any:
        wrapped = original(self, toolset) or toolset
        return wrapped if isinstance(wrapped, wrapper) else wrapper(wrapped)

    return get_wrapper_toolset


@functools.cache
def toolset_class() -> Any:
    """Return `CassetteToolset`, a `WrapperToolset` whose tools are answered from the open session.

    For one toolset alone, without `instrument`: `Agent(toolsets=[toolset_class()(my_toolset)])`.

    Raises:
        CassetteError: When `pydantic-ai` is not installed; names the extra.
    """
    base = _framework("pydantic_ai.toolsets").WrapperToolset

    class CassetteToolset(base):  # type: ignore[valid-type, misc]  # known at run time only
        """Answers the tools of the wrapped toolset from the open session, or records them."""

        async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
            real = functools.partial(super().call_tool, name, tool_args, ctx, tool)
            if not wanted():
                return await real()
            call = ToolCall(
                name,
                _arguments(tool_args, ctx),
                encode=_encode,
                decode=_decode,
                describe=_describe,
                rebuild=_rebuild,
            )
            return await call.arun(real)

    return CassetteToolset


def _arguments(tool_args: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Return the arguments as the model gave them, which is what the tool's span holds.

    The validated ones (with Python types) serve where the model's call is not in the history.
    """
    for message in reversed(getattr(ctx, "messages", None) or ()):
        for part in getattr(message, "parts", ()):
            if getattr(part, "tool_call_id", None) != ctx.tool_call_id:
                continue
            if getattr(part, "part_kind", "") != "tool-call":
                continue
            given = part.args
            if isinstance(given, str):
                try:
                    given = json.loads(given) if given else {}
                except ValueError:
                    return tool_args
            if given is None or isinstance(given, dict):
                return given or {}
    return tool_args


# -- results and failures -----------------------------------------------------------------------


def _encode(result: Any) -> JSON:
    """Return a result as pydantic-ai writes it for the model, and on its spans."""
    messages = _framework("pydantic_ai.messages")
    if isinstance(result, messages.ToolReturn):
        fields = {
            name: getattr(result, name, None)
            for name in ("return_value", "content", "metadata", "tools")
        }
        return {
            "kind": "tool-return",
            **{k: _encode(v) for k, v in fields.items() if v is not None or k == "return_value"},
        }
    return messages.tool_return_ta.dump_python(result, mode="json", by_alias=True)


def _decode(response: JSON) -> Any:
    """Return recorded JSON as a result: files and `ToolReturn` as what they were, the rest as it is."""
    if isinstance(response, list):
        return [_decode(item) for item in response]
    if not isinstance(response, dict):
        return response
    kind = response.get("kind")
    if kind == "tool-return" and "return_value" in response:
        fields = {k: _decode(v) for k, v in response.items() if k != "kind"}
        return _framework("pydantic_ai.messages").ToolReturn(**fields)
    if kind in _FILE_KINDS:
        return _file_adapter().validate_json(json.dumps(response))
    return {key: _decode(value) for key, value in response.items()}


@functools.cache
def _file_adapter() -> Any:
    files = _framework("pydantic_ai.messages").MultiModalContent
    return TypeAdapter(files)


def _describe(error: BaseException) -> RecordedFailure:
    failure = failure_of(error)
    if type(error).__name__ not in _DEFERRALS:
        return failure
    metadata = getattr(error, "metadata", None)
    return failure.model_copy(update={"message": "", "body": to_plain(metadata)})


def _rebuild(failure: CassetteFailure) -> BaseException:
    """Return the exception of a recorded failure, in the terms a tool may raise.

    Spans tell of `ToolRetryError`, which the framework makes of the tool's `ModelRetry`.
    """
    exceptions = _framework("pydantic_ai.exceptions")
    name = failure.error.type.rpartition(".")[2]
    if name in ("ModelRetry", "ToolRetryError"):
        retry: BaseException = exceptions.ModelRetry(failure.error.message)
        return retry
    if name in ("ToolFailed", "ToolFailedError") and hasattr(exceptions, "ToolFailed"):
        failed: BaseException = exceptions.ToolFailed(failure.error.message)
        return failed
    if name in _DEFERRALS:
        deferral: BaseException = getattr(exceptions, name)(metadata=failure.error.body)
        return deferral
    return rebuild_failure(failure)
