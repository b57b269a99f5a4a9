"""`CassetteLLM`: a model client behind a cassette, with or without a real client.

Lives here: complete, acomplete, stream, astream. Not here: provider SDKs (they are answered at the
HTTP layer), the decision (`engine/`).
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from otel_cassette.clients.binding import checked
from otel_cassette.clients.chunks import ChunkTally, chunks_of
from otel_cassette.clients.resolve import playback_for
from otel_cassette.clients.tools import Clock, raise_if_final
from otel_cassette.errors import CassetteError, CassetteMissError
from otel_cassette.keys.text import has_only_finite_numbers, typed_text
from otel_cassette.model.llm import LLMRequest, LLMResponse
from otel_cassette.model.plain import copy_plain
from otel_cassette.session import InsideBlock, Playback, Step, inside
from otel_cassette.session.failures import failure_of

RequestLike = LLMRequest | Mapping[str, Any] | Sequence[Any] | str

_FLAT_FIELDS = frozenset({"choices", "id", "model", "usage"})
_FLAT_CHOICE = frozenset({"message", "finish_reason"})
_FLAT_MESSAGE = frozenset({"role", "parts"})
_SCALARS = frozenset({str, int, float, bool, type(None)})

_SDK_TRANSPORTS = {
    "openai": "the OpenAI SDK",
    "anthropic": "the Anthropic SDK",
    "google.genai": "the Google Gen AI SDK",
    "mistralai": "the Mistral SDK",
    "cohere": "the Cohere SDK",
}


@runtime_checkable
class LLMClient(Protocol):
    """What `wrap_llm` takes: an object with `complete`, or `acomplete`, or both.

    `stream` and `astream` are used where they exist: they yield text, mappings, or `StreamChunk`s.
    """

    def complete(self, request: LLMRequest) -> LLMResponse:
        """Return the model's answer."""
        ...


class CassetteLLM:
    """A model client behind a cassette.

    Args:
        cassette: The cassette; anything with `llm_playback()` and `metadata`.
        client: The real client; needed to record, and for fallthrough misses.
        model: Name of the model; the client's or the recording's by default.
        provider: Name of the provider; likewise.

    Raises:
        TypeError: When *client* is a provider SDK's client, or has neither `complete` nor
            `acomplete`.
    """

    def __init__(
        self,
        cassette: Any,
        client: Any = None,
        *,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        check_client(client)
        self.cassette: Any = cassette
        self.client: Any = client
        self._model = model
        self._provider = provider
        cassette.note_client(self.model, self.provider, real=client is not None)

    @property
    def model(self) -> str | None:
        """Name of the model: the argument, else the client's, else the recording's."""
        return self._model or self._default("model")

    @property
    def provider(self) -> str | None:
        """Name of the provider: the argument, else the client's, else the recording's."""
        return self._provider or self._default("provider")

    def _default(self, field: str) -> str | None:
        value = getattr(self.client, field, None) if self.client is not None else None
        if not isinstance(value, str):
            value = self.cassette.metadata.get(field)
        return value if isinstance(value, str) else None

    def __getattr__(self, name: str) -> Any:
        client = self.__dict__.get("client")
        if client is None or name.startswith("__"):
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(client, name)

    def complete(self, request: RequestLike) -> LLMResponse:
        """Return the recorded answer, or the real client's.

        Args:
            request: An `LLMRequest`, a mapping of its fields, a list of messages, or a prompt.

        Raises:
            CassetteMissError: When the recording has no answer that may be served.
            CassetteError: When the real client is needed and there is none.
        """
        typed = as_request(request)
        step = self._begin(typed)
        if step.action == "play":
            return played(step)
        raise_if_final(step)
        call = self._real("complete")
        clock = Clock()
        try:
            with InsideBlock(step):
                answer = call(typed)
        except Exception as error:
            step.failed(_failure(step, error, clock))
            raise
        return _enter(step, answer, clock)

    async def acomplete(self, request: RequestLike) -> LLMResponse:
        """Return the recorded answer, or that of the real client's `acomplete`; else as `complete`."""
        typed = as_request(request)
        step = self._begin(typed)
        if step.action == "play":
            return played(step)
        raise_if_final(step)
        call = self._real("acomplete")
        clock = Clock()
        try:
            with InsideBlock(step):
                answer = await call(typed)
        except Exception as error:
            step.failed(_failure(step, error, clock))
            raise
        return _enter(step, answer, clock)

    def stream(self, request: RequestLike) -> Iterator[Any]:
        """Yield the recorded pieces of an answer, or the real client's.

        A recording without pieces is cut into small ones. A stream that is left early is recorded
        as such; reading past its recorded end is a miss.
        """
        typed = as_request(request)
        step = self._begin(typed)
        if step.action == "play":
            yield from chunks_of(step.entry)
            end_of_stream(step)
            return
        raise_if_final(step)
        real = self._real("stream")
        tally = ChunkTally(step)
        try:
            with closing(_inside(step, real, typed)) as chunks:
                for chunk in chunks:
                    tally.add(chunk)
                    yield chunk
        except Exception as error:
            tally.broke(error)
            raise
        except BaseException:
            tally.left_early()
            raise
        tally.ended()

    async def astream(self, request: RequestLike) -> AsyncIterator[Any]:
        """Yield the recorded pieces of an answer, or those of the real client's `astream`."""
        typed = as_request(request)
        step = self._begin(typed)
        if step.action == "play":
            for chunk in chunks_of(step.entry):
                yield chunk
            end_of_stream(step)
            return
        raise_if_final(step)
        real = self._real("astream")
        tally = ChunkTally(step)
        try:
            async with aclosing(_ainside(step, real, typed)) as chunks:
                async for chunk in chunks:
                    tally.add(chunk)
                    yield chunk
        except Exception as error:
            tally.broke(error)
            raise
        except BaseException:  # the consumer left, or its task was cancelled
            tally.left_early()
            raise
        tally.ended()

    def _begin(self, request: LLMRequest) -> Step:
        playback: Playback = playback_for(self.cassette.own_playback)
        try:
            if playback.mode == "record":
                plain = checked(request.to_json(), "the request to the model")
                return playback.begin("llm", plain, inside=inside())
            raw = typed_text(request)
            if not has_only_finite_numbers(raw):
                checked(request.to_json(), "the request to the model")
        except ValueError as error:
            msg = f"the request to the model has no JSON form: {error}. Give plain values"
            raise CassetteError(msg) from error
        return playback.begin("llm", request.to_json, raw=raw, inside=inside())

    def _real(self, method: str) -> Callable[[LLMRequest], Any]:
        """Return a method of the real client.

        Raises:
            CassetteError: When there is no real client, or it lacks the method.
        """
        if self.client is None:
            msg = (
                "this call needs the real model client (mode 'record', or a call that 'fallthrough' "
                "lets through): give one, as in cassette.wrap_llm(client)"
            )
            raise CassetteError(msg)
        found = getattr(self.client, method, None)
        if not callable(found):
            msg = f"the model client {type(self.client).__name__!r} has no {method}(); add it, or call what it has"
            raise CassetteError(msg)
        result: Callable[[LLMRequest], Any] = found
        return result


def _inside(
    step: Step, stream: Callable[[LLMRequest], Any], request: LLMRequest
) -> Generator[Any, None, None]:
    """Yield a client's pieces; what it asks of others while it makes one belongs to the call."""
    with InsideBlock(step):
        source = iter(stream(request))
    done = object()
    try:
        while True:
            with InsideBlock(step):
                piece = next(source, done)
            if piece is done:
                return
            yield piece
    finally:
        close = getattr(source, "close", None)
        if callable(close):
            close()


async def _ainside(
    step: Step, stream: Callable[[LLMRequest], Any], request: LLMRequest
) -> AsyncGenerator[Any, None]:
    with InsideBlock(step):
        source = aiter(stream(request))
    try:
        while True:
            with InsideBlock(step):
                try:
                    piece = await anext(source)
                except StopAsyncIteration:
                    return
            yield piece
    finally:
        close = getattr(source, "aclose", None)
        if callable(close):
            await close()


def as_request(request: RequestLike) -> LLMRequest:
    """Return a request given as an `LLMRequest`, a mapping, a list of messages, or a prompt."""
    if isinstance(request, LLMRequest):
        return request
    if isinstance(request, Mapping):
        return LLMRequest.model_validate(request)
    return LLMRequest.model_validate({"messages": request})


def as_response(answer: Any) -> LLMResponse:
    """Return an answer given as an `LLMResponse`, a mapping of its fields, or text."""
    if isinstance(answer, LLMResponse):
        return answer
    if isinstance(answer, str):
        answer = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
    try:
        return LLMResponse.model_validate(answer)
    except ValidationError as error:
        msg = (
            f"the model client answered with a {type(answer).__name__} that is no LLMResponse: give an "
            "LLMResponse, a mapping of its fields, or text"
        )
        raise CassetteError(msg) from error


def played(step: Step) -> LLMResponse:
    """Return the recorded answer; what a caller does to it never reaches the recording.

    Raises:
        CassetteMissError: It is the beginning of a stream, and was asked for as a whole.
    """
    response = step.entry.response or {}
    if response.get("ended_early") and not step.playback.options.allow_partial:
        raise past_the_end(step)
    return LLMResponse.model_validate(response if _is_flat(response) else copy_plain(response))


def _is_flat(response: Mapping[str, Any]) -> bool:
    """Return whether an answer is text alone: the typed view then shares nothing with the recording."""
    if not response.keys() <= _FLAT_FIELDS:
        return False
    # Validation makes a dict of its own of `usage`; what stands in it may not be shared either.
    if any(type(value) not in _SCALARS for value in (response.get("usage") or {}).values()):
        return False
    for choice in response.get("choices", ()):
        message = choice.get("message") or {}
        if not (choice.keys() <= _FLAT_CHOICE and message.keys() <= _FLAT_MESSAGE):
            return False
        for part in message.get("parts", ()):
            if any(type(value) is not str for value in part.values()):
                return False
    return True


def end_of_stream(step: Step) -> None:
    """Raise where a recorded stream ended before its real end, and somebody reads on."""
    if (step.entry.response or {}).get("ended_early"):
        raise past_the_end(step)


def past_the_end(step: Step) -> CassetteMissError:
    """Return the miss of one who wants more than was recorded of a stream."""
    entry = step.entry
    response = entry.response or {}
    if not response.get("ended_early"):
        reason = (
            "the recorded stream did not say why the model stopped: it may not be the whole answer"
        )
    elif entry.error is not None:
        reason = f"the recorded stream broke here: {entry.error.type}: {entry.error.message}"
    else:
        chunks = len(response.get("chunks", ()))
        where = f"after {chunks} chunks" if chunks else "before its end"
        reason = (
            f"the recorded stream was left {where}; what would have come next was never recorded"
        )
    return step.ran_out(reason)


def check_client(client: Any) -> None:
    """Raise TypeError for what cannot be a model client."""
    if client is None or callable(getattr(client, "complete", None)):
        return
    if callable(getattr(client, "acomplete", None)) or callable(getattr(client, "stream", None)):
        return
    module = type(client).__module__
    for prefix, sdk in _SDK_TRANSPORTS.items():
        if module == prefix or module.startswith(f"{prefix}."):
            msg = (
                f"{type(client).__name__} is a client of {sdk}; wrap_llm takes an object with "
                "complete(request). SDK clients are answered at the HTTP layer: replay them with "
                "`with cassette.replaying():` and a transport of otel_cassette.clients"
            )
            raise TypeError(msg)
    msg = (
        f"wrap_llm takes an object with complete(request) or acomplete(request); "
        f"{type(client).__name__!r} has neither"
    )
    raise TypeError(msg)


def _enter(step: Step, answer: Any, clock: Clock) -> LLMResponse:
    response = as_response(answer)
    step.succeeded(
        {
            "request": step.call.plain,
            "response": answer_json(response),
            "latency_ms": clock.elapsed_ms,
        }
    )
    return response


def answer_json(response: LLMResponse) -> Any:
    """Return an answer as plain JSON.

    Raises:
        CassetteError: When something in it has no JSON form.
    """
    try:
        plain = response.to_json()
    except ValueError as error:
        msg = f"the model's answer has no JSON form: {error}"
        raise CassetteError(msg) from error
    return checked(plain, "the model's answer")


def _failure(step: Step, error: Exception, clock: Clock) -> dict[str, Any]:
    return {"request": step.call.plain, "error": failure_of(error), "latency_ms": clock.elapsed_ms}
