"""Tracing wrappers for programs without instrumentation: GenAI spans with content.

Lives here: `wrap_llm` and `wrap_tool` of the package root. Not here: anything about cassettes; a
traced function that is put behind one is unwrapped and traced again (`retrace`).

Spans follow the OTel GenAI semantic conventions (`chat {model}`, `execute_tool {name}`). What the
conventions cannot hold stands without loss in `cassette.request` and `cassette.response`. Secrets
are masked by the default rules.
"""

from __future__ import annotations

import functools
import json
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from otel_cassette.clients.binding import ToolSignature, flavour_of, name_of
from otel_cassette.clients.chunks import as_chunk
from otel_cassette.clients.generators import AsyncRun, drive
from otel_cassette.clients.llm import as_request, as_response, check_client
from otel_cassette.errors import CassetteError
from otel_cassette.model.llm import LLMRequest, LLMResponse, StreamChunk
from otel_cassette.model.plain import to_plain
from otel_cassette.redaction import Redactor
from otel_cassette.session import names
from otel_cassette.session.callers import note_span

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__otel_cassette_traced__"
_REDACTOR = Redactor()

_PARAM_ATTRIBUTES = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
}


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A function behind a tracing wrapper, and the name it is traced by."""

    fn: Callable[..., Any]
    name: str


def traced_function(fn: Any) -> TracedFunction | None:
    """Return what a tracing wrapper of ours wraps; None for any other callable."""
    found = getattr(fn, _MARK, None)
    return found if isinstance(found, TracedFunction) else None


def retrace(
    traced: TracedFunction, fn: Callable[..., Any], *, name: str | None = None
) -> Callable[..., Any]:
    """Return *fn* behind the tracing wrapper that *traced* stood behind."""
    return wrap_tool(fn, name=name or traced.name)


def dump(value: Any) -> str:
    """Return plain JSON, masked, as the text of a span attribute."""
    text = json.dumps(_REDACTOR.json(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")


@overload
def wrap_tool(fn: F, /, *, name: str | None = None) -> F: ...
@overload
def wrap_tool(fn: None = None, /, *, name: str | None = None) -> Callable[[F], F]: ...
def wrap_tool(fn: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Return a tool whose calls are spans `execute_tool {name}`; also a decorator.

    Args:
        fn: Function, coroutine function, generator, or async generator.
        name: Name of the tool; `fn.__name__` by default.
    """
    if fn is None:
        return lambda target: wrap_tool(target, name=name)
    tracing = _ToolTracing(fn, name or name_of(fn))
    make = {
        "sync": tracing.sync,
        "async": tracing.asynchronous,
        "generator": tracing.generator,
        "async_generator": tracing.async_generator,
    }[flavour_of(fn)]
    wrapper = make()
    wrapper.__name__ = tracing.name
    setattr(wrapper, _MARK, TracedFunction(fn, tracing.name))
    return wrapper


class _ToolTracing:
    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.fn = fn
        self.name = name
        self._signature = ToolSignature(fn, name)

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span:
        arguments = {k: _lossy(v) for k, v in self._signature.bound(args, kwargs).items()}
        note_span(trace.get_current_span())
        return trace.get_tracer("otel_cassette").start_span(
            f"execute_tool {self.name}",
            kind=SpanKind.INTERNAL,
            attributes={
                names.SPAN_TYPE_ATTR: "tool_call",
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": self.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": dump(arguments),
                names.REQUEST_ATTR: dump(arguments),
            },
        )

    def sync(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with _ending(self._start(args, kwargs)) as span:
                result = self.fn(*args, **kwargs)
                self.result(span, result)
                return result

        return call

    def asynchronous(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with _ending(self._start(args, kwargs)) as span:
                result = await self.fn(*args, **kwargs)
                self.result(span, result)
                return result

        return call

    def generator(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            span = self._start(args, kwargs)
            try:
                around = functools.partial(_current, span)
                watch = _Values(self, span)
                return (yield from drive(self.fn(*args, **kwargs), around, watch))
            finally:
                span.end()

        return call

    def async_generator(self) -> Callable[..., Any]:
        @functools.wraps(self.fn)
        async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            span = self._start(args, kwargs)
            try:
                around = functools.partial(_current, span)
                run = AsyncRun(self.fn(*args, **kwargs), around, _Values(self, span))
                while await run.advance():
                    try:
                        run.sent((yield run.item))
                    except GeneratorExit:  # noqa: PERF203 - each step may end in it
                        await run.leave()
                        raise
                    except BaseException as error:  # noqa: BLE001 - all that is thrown in goes on
                        run.thrown(error)
            finally:
                span.end()

        return call

    def result(self, span: Span, value: Any, yields: list[Any] | None = None) -> None:
        """Enter what the tool gave; *yields* are a generator's values."""
        plain = _lossy(value)
        span.set_attribute("gen_ai.tool.call.result", dump(plain))
        span.set_attribute(names.RESPONSE_ATTR, dump(plain))
        if yields is not None:
            span.set_attribute(names.YIELDS_ATTR, dump(yields))


class _Values:
    """The values of a traced generator."""

    def __init__(self, tracing: _ToolTracing, span: Span) -> None:
        self._tracing = tracing
        self._span = span
        self._items: list[Any] = []

    def add(self, item: Any) -> None:
        self._items.append(_lossy(item))

    def ended(self, value: Any) -> None:
        self._tracing.result(self._span, value, yields=self._items)

    def left_early(self) -> None:
        """Enter what came before the consumer left; without a result it is no whole answer."""
        self._span.set_attribute(names.YIELDS_ATTR, dump(self._items))

    def broke(self, error: Exception) -> None:  # noqa: ARG002 - the span says it already
        self.left_early()


def _lossy(value: Any) -> Any:
    """Return a value for a span: plain JSON, the repr of what has none. Telemetry raises nothing."""
    try:
        plain = to_plain(value)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        return _shown(repr, value)
    return plain


def _shown(write: Callable[[Any], str], value: Any) -> str:
    """Return `repr` or `str` of a value, its type's name where the value's own code fails at it."""
    try:
        return write(value)
    except Exception:  # noqa: BLE001 - telemetry raises nothing
        return f"<{type(value).__qualname__}>"


@contextmanager
def _current(span: Span) -> Iterator[Span]:
    """Make a span current, and mark it where the block raises; it is not ended.

    The end of an iterator is caught inside the block: it is no failure of the span.
    """
    # Without a provider the span has no context: the one around it must stay current.
    current: AbstractContextManager[Any] = nullcontext()
    if span.get_span_context().is_valid:
        current = trace.use_span(
            span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        )
    with current:
        try:
            yield span
        except Exception as error:
            _failed(span, error)
            raise


@contextmanager
def _ending(span: Span) -> Iterator[Span]:
    try:
        with _current(span):
            yield span
    finally:
        span.end()


def _failed(span: Span, error: Exception) -> None:
    """Mark a span as failed; the text of an exception is masked like all others."""
    if not span.is_recording():
        return
    message = _REDACTOR.text(_shown(str, error))
    trail = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    attributes = {
        "exception.message": message,
        "exception.stacktrace": _REDACTOR.text(trail),
    }
    try:
        span.record_exception(error, attributes=attributes)
    except Exception:  # noqa: BLE001 - the SDK calls `__str__`, which is the user's
        span.add_event("exception", {"exception.type": type(error).__qualname__, **attributes})
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {message}"))


class TracedLLM:
    """A model client whose calls are spans `chat {model}`; see `wrap_llm`."""

    def __init__(self, client: Any, *, include_raw: bool = False) -> None:
        check_client(client)
        self.client: Any = client
        self._include_raw = include_raw

    def __getattr__(self, name: str) -> Any:
        client = self.__dict__.get("client")
        if client is None or name.startswith("__"):
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(client, name)

    def complete(self, request: Any) -> Any:
        """Return the client's answer, in a span."""
        typed = as_request(request)
        with _ending(self._start(typed)) as span:
            answer = self.client.complete(typed)
            self._finish(span, answer)
            return answer

    async def acomplete(self, request: Any) -> Any:
        """Return the answer of the client's `acomplete`, in a span."""
        typed = as_request(request)
        with _ending(self._start(typed)) as span:
            answer = await self.client.acomplete(typed)
            self._finish(span, answer)
            return answer

    def stream(self, request: Any) -> Iterator[Any]:
        """Yield the client's pieces; the span ends with the last one."""
        typed = as_request(request)
        span = self._start(typed)
        chunks: list[StreamChunk] = []
        early = True
        try:
            source = iter(self.client.stream(typed))
            while True:
                with _current(span):
                    try:
                        chunk = next(source)
                    except StopIteration:
                        early = False
                        return
                _note_chunk(chunks, chunk)
                yield chunk
        finally:
            self._finish_stream(span, chunks, early=early)

    async def astream(self, request: Any) -> AsyncIterator[Any]:
        """Yield the pieces of the client's `astream`; the span ends with the last one."""
        typed = as_request(request)
        span = self._start(typed)
        chunks: list[StreamChunk] = []
        early = True
        try:
            source = aiter_of(self.client.astream(typed))
            while True:
                with _current(span):
                    try:
                        chunk = await source.__anext__()
                    except StopAsyncIteration:
                        early = False
                        return
                _note_chunk(chunks, chunk)
                yield chunk
        finally:
            self._finish_stream(span, chunks, early=early)

    def _start(self, request: LLMRequest) -> Span:
        note_span(trace.get_current_span())
        model = request.model or _text(getattr(self.client, "model", None))
        provider = request.provider or _text(getattr(self.client, "provider", None))
        plain = request.to_json()
        attributes: dict[str, Any] = {
            names.SPAN_TYPE_ATTR: "llm_call",
            "gen_ai.operation.name": request.operation or "chat",
            "gen_ai.input.messages": dump(plain.get("messages", [])),
            names.REQUEST_ATTR: dump(plain),
        }
        optional = {
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.system_instructions": _dump_some(plain.get("system_instructions")),
            "gen_ai.tool.definitions": _dump_some(plain.get("tools")),
        }
        for param, key in _PARAM_ATTRIBUTES.items():
            value = request.params.get(param)
            if isinstance(value, int | float):
                attributes[key] = value
        attributes.update({k: v for k, v in optional.items() if v is not None})
        return trace.get_tracer("otel_cassette").start_span(
            f"chat {model}" if model else "chat", kind=SpanKind.CLIENT, attributes=attributes
        )

    def _finish(self, span: Span, answer: Any) -> None:
        if not span.is_recording():
            return
        try:
            response = as_response(answer)
            plain = response.to_json()
        except (CassetteError, ValueError):  # the caller gets the answer as it is
            span.set_attribute(names.RESPONSE_ATTR, dump(_lossy(answer)))
            return
        if not self._include_raw:
            plain.pop("raw", None)
        output = [
            {**choice["message"], "finish_reason": choice.get("finish_reason")}
            for choice in plain.get("choices", ())
        ]
        span.set_attribute("gen_ai.output.messages", dump(output))
        span.set_attribute(names.RESPONSE_ATTR, dump(plain))
        span.set_attributes(_response_attributes(response))

    def _finish_stream(self, span: Span, chunks: list[StreamChunk], *, early: bool) -> None:
        if chunks:
            self._finish(span, LLMResponse.from_chunks(chunks, ended_early=early))
        elif early and span.is_recording():
            span.set_status(Status(StatusCode.ERROR, "the stream ended without a chunk"))
        span.end()


def _note_chunk(chunks: list[StreamChunk], chunk: Any) -> None:
    """Take note of a piece; one that is no chunk is kept as its text."""
    try:
        chunks.append(as_chunk(to_plain(chunk)))
    except (TypeError, ValueError, AttributeError):
        chunks.append(StreamChunk(raw=repr(chunk)))


def aiter_of(source: Any) -> AsyncIterator[Any]:
    """Return the async iterator of *source* (`aiter` is a builtin from Python 3.10)."""
    iterator: AsyncIterator[Any] = source.__aiter__()
    return iterator


def _response_attributes(response: LLMResponse) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if response.id:
        attributes["gen_ai.response.id"] = response.id
    if response.model:
        attributes["gen_ai.response.model"] = response.model
    reasons = [c.finish_reason for c in response.choices if c.finish_reason]
    if reasons:
        attributes["gen_ai.response.finish_reasons"] = reasons
    for name in ("input_tokens", "output_tokens"):
        value = (response.usage or {}).get(name)
        if isinstance(value, int):
            attributes[f"gen_ai.usage.{name}"] = value
    return attributes


def _dump_some(value: Any) -> str | None:
    return dump(value) if value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def wrap_llm(client: Any, *, include_raw: bool = False) -> TracedLLM:
    """Return a model client whose calls are spans `chat {model}` with their content.

    Args:
        client: An object with `complete` and/or `acomplete` (and `stream`, `astream`); also a
            client behind a cassette, whose played-back calls then have spans too.
        include_raw: Also put the provider's own payload on the span.

    Raises:
        TypeError: For anything else.
    """
    return TracedLLM(client, include_raw=include_raw)
