"""What every answer is made of, whatever the API: ids, finish reasons, token counts, pieces.

Lives here: deterministic ids, the tables of finish reasons and of token counts, the cutting of
texts into stream pieces, the reading of a model response's parts. Not here: any provider's shapes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from otel_cassette.model.plain import strict_json
from otel_cassette.wire.protocol import StreamEvent, dumps

CREATED = 1_704_067_200
"""`created` of a synthesised body, seconds since the epoch: no source keeps the real one, and a
clock would make two replays differ. 0 would do, but is taken as absent by some SDK users."""

PIECE_CHARS = 20
"""Length of the pieces that texts and arguments are streamed in, where no boundaries are known."""

_FINISH: Mapping[str, str] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "completed", "eos", "complete"), "stop"),
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"), "length"
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(
        (
            "content_filter",
            "refusal",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "language",
        ),
        "content_filter",
    ),
}

_TOKENS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cache_read.input_tokens": (
        "cache_read.input_tokens",
        "cache_read_input_tokens",
        "cached_tokens",
    ),
    "cache_creation.input_tokens": (
        "cache_creation.input_tokens",
        "cache_creation_input_tokens",
        "cache_write.input_tokens",
        "cache_write_input_tokens",
    ),
    "reasoning.output_tokens": (
        "reasoning.output_tokens",
        "reasoning_output_tokens",
        "reasoning_tokens",
        "details.reasoning_tokens",
    ),
}


def make_id(prefix: str, seed: str, *place: object) -> str:
    """Return an id that is the same for the same entry and place, and differs for any other."""
    text = "\x00".join((seed, *(str(p) for p in place)))
    return prefix + hashlib.sha256(text.encode()).hexdigest()[:24]


def finish_reason(reason: Any, own: Mapping[str, str], *, has_calls: bool) -> str:
    """Return a finish reason in an API's spelling.

    Args:
        reason: As any source spells it; None or unknown to all is told by the calls.
        own: The API's spelling of `stop`, `length`, `tool_calls`, `content_filter`; other values
            that the API knows map to themselves.
        has_calls: Whether the answer asks for tool calls.
    """
    if isinstance(reason, str) and reason:
        if reason in own.values() or reason in own:
            return own.get(reason, reason)
        name = _FINISH.get(reason.lower())
        if name is not None:
            # Google says STOP beside calls too
            return own["tool_calls" if has_calls and reason == "STOP" else name]
    return own["tool_calls" if has_calls else "stop"]


def token_counts(**counts: Any) -> dict[str, int] | None:
    """Return usage by GenAI names, without what is unknown and without details that are zero.

    `input_tokens` includes cached tokens and `output_tokens` includes reasoning, as the GenAI
    attributes `gen_ai.usage.*` say; names of details are theirs, without that prefix.
    """
    names = {k.replace("__", "."): v for k, v in counts.items()}
    kept = {
        k: v
        for k, v in names.items()
        if isinstance(v, int) and (v or k in ("input_tokens", "output_tokens"))
    }
    return kept or None


def tokens(usage: Any, name: str) -> int:
    """Return one count of a response's usage by its GenAI name; 0 where it is not known."""
    if isinstance(usage, Mapping):
        for spelling in _TOKENS[name]:
            value = usage.get(spelling)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return int(value)
    return 0


def choice_parts(response: Mapping[str, Any]) -> list[tuple[list[dict[str, Any]], Any]]:
    """Return `(parts, finish reason)` of each choice; at least one, maybe empty."""
    found = []
    for choice in response.get("choices") or ():
        message = choice.get("message") or {}
        found.append((list(message.get("parts") or ()), choice.get("finish_reason")))
    return found or [([], None)]


def of_type(parts: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the parts of one type, in order."""
    return [p for p in parts if p.get("type") == kind]


def joined(parts: Iterable[Mapping[str, Any]], kind: str) -> str | None:
    """Return the contents of all parts of one type as one text, None where there are none.

    Several are joined by a line break, as the comparison of requests joins them: the text comes
    back in the next request.
    """
    texts = [str(p.get("content") or "") for p in of_type(parts, kind)]
    return "\n".join(texts) if texts else None


def arguments_text(arguments: Any) -> str:
    """Return a call's arguments as JSON text; a text is taken as it is."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return "{}" if arguments is None else dumps(arguments)


def arguments_value(arguments: Any) -> Any:
    """Return a call's arguments as a value; a text that is no JSON stays a text."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, str):
        try:
            return json.loads(arguments)
        except ValueError:
            return arguments
    return arguments


def pieces(text: str, recorded: Sequence[str] = ()) -> list[str]:
    """Return a text in the pieces it was recorded in, else in pieces of about `PIECE_CHARS`."""
    if recorded and "".join(recorded) == text:
        return [piece for piece in recorded if piece]
    return [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]


def recorded_pieces(response: Mapping[str, Any], field: str, choice: int = 0) -> list[str]:
    """Return `text` or `reasoning` of the recorded chunks of one choice."""
    return [
        str(chunk[field])
        for chunk in response.get("chunks") or ()
        if isinstance(chunk, Mapping) and chunk.get(field) and chunk.get("index", 0) == choice
    ]


def recorded_arguments(response: Mapping[str, Any], call: int, choice: int = 0) -> list[str]:
    """Return the pieces of one call's arguments in the recorded chunks of one choice."""
    found = []
    for chunk in response.get("chunks") or ():
        if not isinstance(chunk, Mapping) or chunk.get("index", 0) != choice:
            continue
        found += [
            piece["arguments"]
            for piece in chunk.get("tool_calls") or ()
            if piece.get("index", 0) == call and isinstance(piece.get("arguments"), str)
        ]
    return found


def recorded_events(
    response: Mapping[str, Any], is_event: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]] | None:
    """Return the provider's own events of a recorded stream, None unless all were captured."""
    chunks = response.get("chunks") or ()
    events = [c.get("raw") for c in chunks if isinstance(c, Mapping)]
    if not events or len(events) != len(chunks):
        return None
    own = [e for e in events if isinstance(e, dict) and is_event(e)]
    return own if len(own) == len(events) else None


def payloads(events: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the JSON payloads of stream events given in any of the accepted forms."""
    for event in events:
        data = event.data if isinstance(event, StreamEvent) else event
        if isinstance(data, Mapping) and "data" in data and set(data) <= {"event", "data", "id"}:
            data = data["data"]
        if isinstance(data, bytes):
            data = data.decode("utf-8", "replace")
        if isinstance(data, str):
            if data.strip() in ("", "[DONE]"):
                continue
            data = strict_json(data)
        if isinstance(data, Mapping):
            yield dict(data)


def cut_after_last(
    events: Iterable[StreamEvent], is_piece: Callable[[StreamEvent], bool]
) -> list[StreamEvent]:
    """Return a stream that broke off: nothing after its last piece of content."""
    kept = list(events)
    while len(kept) > 1 and not is_piece(kept[-1]):
        kept.pop()
    return kept


def response_json(
    *,
    choices: list[dict[str, Any]] | None = None,
    usage: dict[str, int] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """Return the plain JSON of an `LLMResponse` without what is empty."""
    fields = {**rest, "choices": choices, "usage": usage}
    return {
        k: v
        for k, v in fields.items()
        if v is not None and v is not False and v not in ([], {}, "")
    }


def choice_json(message: dict[str, Any], reason: Any) -> dict[str, Any]:
    """Return one choice; a finish reason that is not known is left out."""
    return {"message": message, **({"finish_reason": reason} if reason else {})}


def covers(raw: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Return whether a provider payload, decoded, holds every choice, text and call of a response.

    Rebuilt payloads (of streams, by instrumentations) may lack tool calls that the model's parts
    have; a payload that was edited or masked less than the parts must not be served either.
    """
    if not response.get("choices"):
        return True
    ours, theirs = choice_parts(response), choice_parts(raw)
    if len(theirs) < len(ours):
        return False
    for (parts, _), (found, _) in zip(ours, theirs, strict=False):
        if _texts(parts) != _texts(found):
            return False
        if [c.get("name") for c in of_type(parts, "tool_call")] != [
            c.get("name") for c in of_type(found, "tool_call")
        ]:
            return False
    return True


def _texts(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(str(p.get("content") or "") for p in of_type(parts, "text"))
