"""The pieces of a streamed answer, recorded and played back.

Lives here: what a client's chunk is as a record, and how a recording becomes chunks again. Not
here: provider events (`wire/`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from otel_cassette.clients.binding import checked
from otel_cassette.clients.tools import Clock
from otel_cassette.errors import CassetteError
from otel_cassette.model.entry import CassetteEntry
from otel_cassette.model.llm import LLMResponse, StreamChunk
from otel_cassette.model.plain import copy_plain
from otel_cassette.session import Step
from otel_cassette.session.failures import failure_of

PIECE_CHARS = 20
"""Length of the pieces a recording without chunks is cut into."""

Form = Literal["text", "json", "chunk"]


class ChunkTally:
    """The chunks of a live stream as they pass, and how it ended."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._chunks: list[StreamChunk] = []
        self._stored: list[Any] = []
        self._form: Form = "chunk"
        self._clock = Clock()

    def add(self, chunk: Any) -> None:
        """Take note of one chunk: text, a mapping, or a `StreamChunk`."""
        if isinstance(chunk, str):
            self._form = "text"
            self._stored.append(chunk)
        elif isinstance(chunk, StreamChunk):
            self._stored.append(chunk.model_dump(mode="json", exclude_defaults=True))
        else:
            self._form = "json"
            self._stored.append(checked(chunk, "a chunk of the model's answer"))
        try:
            self._chunks.append(as_chunk(self._stored[-1]))
        except ValidationError as error:
            msg = (
                f"the model client streams {type(chunk).__name__} objects that are no chunks: give "
                "text, mappings with `text` or `choices`, or StreamChunk"
            )
            raise CassetteError(msg) from error

    def ended(self) -> None:
        """The stream came to its end."""
        self._enter(ended_early=False)

    def left_early(self) -> None:
        """The consumer left; before the first chunk there is nothing to record."""
        if self._chunks:
            self._enter(ended_early=True)

    def broke(self, error: Exception) -> None:
        """The stream raised: with chunks a partial answer, without any a failed call."""
        if self._chunks:
            self._enter(ended_early=True, error=failure_of(error))
            return
        self._step.failed(
            {
                "request": self._step.call.plain,
                "error": failure_of(error),
                "latency_ms": self._clock.elapsed_ms,
            }
        )

    def _enter(self, *, ended_early: bool, **fields: Any) -> None:
        response = LLMResponse.from_chunks(self._chunks, ended_early=ended_early).to_json()
        response["chunks"] = self._stored
        if self._form != "chunk":
            response["chunk_form"] = self._form
        if ended_early:
            fields["response_integrity"] = "partial"
        self._step.succeeded(
            {
                "request": self._step.call.plain,
                "response": response,
                "latency_ms": self._clock.elapsed_ms,
                **fields,
            }
        )


def as_chunk(value: Any) -> StreamChunk:
    """Return a chunk as a `StreamChunk`; OpenAI-shaped `choices[0].delta` is understood."""
    choices = value.get("choices") if isinstance(value, Mapping) else None
    if not isinstance(choices, list):
        return StreamChunk.model_validate(value)
    choice = choices[0] if choices else {}
    delta = choice.get("delta") or {}
    calls = [
        {"index": call.get("index", place), "id": call.get("id"), **(call.get("function") or {})}
        for place, call in enumerate(delta.get("tool_calls") or ())
    ]
    return StreamChunk(
        text=delta.get("content") or "",
        tool_calls=tuple(calls),
        finish_reason=choice.get("finish_reason"),
        usage=value.get("usage"),
    )


def chunks_of(entry: CassetteEntry) -> Iterator[Any]:
    """Yield the recorded chunks in the form they were recorded in; else small pieces."""
    response = entry.response or {}
    recorded = response.get("chunks")
    if recorded:
        form = response.get("chunk_form", "chunk")
        for chunk in recorded:
            yield StreamChunk.model_validate(chunk) if form == "chunk" else copy_plain(chunk)
        return
    yield from _pieces(entry.llm_response)


def _pieces(response: LLMResponse) -> Iterator[StreamChunk]:
    text = response.text
    for start in range(0, len(text), PIECE_CHARS):
        yield StreamChunk(text=text[start : start + PIECE_CHARS])
    for index, call in enumerate(response.tool_calls):
        arguments = call.arguments
        text = (
            arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        )
        first = {"index": index, "id": call.id, "name": call.name, "arguments": ""}
        yield StreamChunk(tool_calls=(first,))
        for start in range(0, len(text), PIECE_CHARS):
            piece = {"index": index, "arguments": text[start : start + PIECE_CHARS]}
            yield StreamChunk(tool_calls=(piece,))
    yield StreamChunk(finish_reason=response.finish_reason, usage=response.usage)
