"""Tools without a span: their result stands in the next model request.

Lives here: results found in requests, the calls made of them, and the calls of which no result was
recorded. Client instrumentations see model calls only; the tool's result is then what the model
was told. Not here: joining tool spans (`matching.py`).

Only a call that a recorded answer of this run asked for is inferred. Requests repeat their
history, so that each call's result is met many times; the first one counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from otel_cassette.assemble.calls import Call
from otel_cassette.assemble.matching import AskedCall, AskedCalls, signature_of
from otel_cassette.assemble.report import ReportLine
from otel_cassette.dialects.payload import text_integrity
from otel_cassette.dialects.protocol import Reading
from otel_cassette.dialects.results import result_from_message, unwrap_result
from otel_cassette.keys.messages import canonical_arguments
from otel_cassette.model.entry import Integrity

_FRAMEWORK_ANSWERS: Final = frozenset(
    {
        "Final result processed.",
        "Tool not executed - a final result was already processed.",
        "Output tool not used - a final result was already processed.",
    }
)
"""What pydantic-ai answers to a call of its own output tool, which is no tool of the user."""


@dataclass(slots=True)
class _Index:
    by_id: defaultdict[str, list[AskedCall]] = field(default_factory=lambda: defaultdict(list))
    by_signature: defaultdict[str, list[AskedCall]] = field(
        default_factory=lambda: defaultdict(list)
    )

    by_id_and_signature: defaultdict[tuple[str, str], list[AskedCall]] = field(
        default_factory=lambda: defaultdict(list)
    )
    latest: list[AskedCall] = field(default_factory=list)

    def add(self, asked: AskedCall) -> None:
        if self.latest and self.latest[-1].model_call is not asked.model_call:
            self.latest = []
        self.latest.append(asked)
        if asked.call_id is not None:
            self.by_id[asked.call_id].append(asked)
            self.by_id_and_signature[asked.call_id, asked.signature].append(asked)
        self.by_signature[asked.signature].append(asked)


def find_results(known: AskedCalls, models: Sequence[Call]) -> None:
    """Find in each model request the results of earlier calls, and note them on the calls.

    Args:
        known: The calls the run's answers ask for.
        models: All model calls, failed ones too, by start.
    """
    index = _Index()
    following = 0
    everything = known.everything
    for model in models:
        while (
            following < len(everything)
            and everything[following].model_call.start_ns < model.start_ns
        ):
            index.add(everything[following])
            following += 1
        if not index.by_signature:
            continue
        met: Counter[str] = Counter()
        for part, asked_part, is_new in _results(model.request_messages()):
            asked = _find(index, part, asked_part, met, is_new=is_new)
            if asked is not None and not asked.answered:
                asked.answered = True
                asked.result = part.get("response")
                asked.answered_by = model


def _results(
    messages: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None, bool]]:
    """Yield each tool result of a request, the call of that request it answers, and whether it is new.

    New are those after the last answer of the model: what stands before was sent before.
    """
    open_calls: list[Mapping[str, Any]] = []
    answers = [place for place, each in enumerate(messages) if each.get("role") == "assistant"]
    last_answer = answers[-1] if answers else -1
    for place, message in enumerate(messages):
        for part in message.get("parts") or ():
            kind = part.get("type")
            if kind == "tool_call":
                open_calls.append(part)
            elif kind == "tool_call_response":
                call = _answered_call(open_calls, part)
                if call is not None:
                    open_calls.remove(call)
                if "response" in part:
                    yield part, call, place >= last_answer


def _answered_call(
    open_calls: Sequence[Mapping[str, Any]], result: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The open call with a result's id; where ids do not join, the first of its name, or the first."""
    for key in ("id", "name"):
        for call in open_calls:
            if result.get(key) is not None and call.get(key) == result[key]:
                return call
    return open_calls[0] if open_calls else None


def _find(
    index: _Index,
    part: Mapping[str, Any],
    asked_part: Mapping[str, Any] | None,
    met: Counter[str],
    *,
    is_new: bool,
) -> AskedCall | None:
    for call_id in (part.get("id"), None if asked_part is None else asked_part.get("id")):
        if isinstance(call_id, str) and call_id in index.by_id:
            return _of_one_id(index, call_id, asked_part, met, is_new=is_new)
    if asked_part is None:
        # The provider keeps the history, and the ids of calls and results are of two kinds.
        return next((asked for asked in index.latest if not asked.answered), None)
    name = str(asked_part.get("name") or "")
    signature = signature_of(name, canonical_arguments(asked_part.get("arguments")))
    return _in_turn(index.by_signature.get(signature, []), signature, met, is_new=is_new)


def _in_turn(
    candidates: Sequence[AskedCall], key: str, met: Counter[str], *, is_new: bool
) -> AskedCall | None:
    """Return which of several equal calls a result answers: by its place, a new one the latest open.

    Another conversation may have had the same call, with its result, before.
    """
    place = met[key]
    met[key] += 1
    found = candidates[place] if place < len(candidates) else None
    if not is_new or (found is not None and not found.answered):
        return found
    still_open = [each for each in candidates if not each.answered]
    if not still_open:
        return found
    latest = still_open[-1].model_call
    return next(each for each in still_open if each.model_call is latest)


def _of_one_id(
    index: _Index,
    call_id: str,
    asked_part: Mapping[str, Any] | None,
    met: Counter[str],
    *,
    is_new: bool,
) -> AskedCall | None:
    """Ids repeat where a provider counts them per answer: the call says which, else its place."""
    candidates = index.by_id[call_id]
    if len(candidates) == 1:
        return candidates[0]
    if asked_part is None:
        return next((each for each in reversed(candidates) if not each.answered), None)
    name = str(asked_part.get("name") or "")
    signature = signature_of(name, canonical_arguments(asked_part.get("arguments")))
    same = index.by_id_and_signature[call_id, signature]
    return _in_turn(same, f"{call_id}\0{signature}", met, is_new=is_new)


def infer_tools(known: AskedCalls) -> tuple[list[Call], list[ReportLine]]:
    """Return the calls of tools without a span, and a line for each call without a result.

    A tool span without a result, and without an error, is completed in place.
    """
    calls: list[Call] = []
    missing: list[ReportLine] = []
    for asked in known.everything:
        tool = asked.span_call
        if tool is not None:
            _complete_result(tool, asked)
        elif not asked.answered:
            missing.append(_missing_line(asked))
        elif not _is_framework_answer(asked.result):
            calls.append(_inferred_call(asked))
    return calls, missing


def _is_framework_answer(result: Any) -> bool:
    return isinstance(result, str) and result in _FRAMEWORK_ANSWERS


def _complete_result(tool: Call, asked: AskedCall) -> None:
    reading = tool.reading
    if reading.has_response or reading.error is not None or not asked.answered:
        return
    reading.response, reading.response_integrity = _result(asked)
    reading.has_response = True
    reading.remedy = None
    reading.notes.append("Result taken from the next model request.")
    tool.inferred = True


def _result(asked: AskedCall) -> tuple[Any, Integrity]:
    value = asked.result
    result = result_from_message(value)
    if asked.answered_by is not None and asked.answered_by.reading.results_wrapped:
        result = unwrap_result(result)
    integrity: Integrity = text_integrity(result) if isinstance(result, str) else "whole"
    return result, "whole" if integrity == "suspect" and result != value else integrity


def _inferred_call(asked: AskedCall) -> Call:
    response, integrity = _result(asked)
    arguments = asked.arguments
    named = isinstance(arguments, dict)
    model = asked.model_call
    start_ns = model.end_ns
    if asked.answered_by is not None:
        start_ns = min(start_ns, asked.answered_by.start_ns)
    reading = Reading(
        model.reading.dialect,
        "call",
        kind="tool",
        name=asked.name,
        request=arguments,
        response=response,
        has_request=True,
        has_response=True,
        scope=("arguments",) if named else (),
        request_integrity="whole" if named else "suspect",
        response_integrity=integrity,
        call_id=asked.call_id,
    )
    return Call(
        reading,
        model.span,
        model.position,
        start_ns,
        start_ns,
        depth=model.depth - 1,
        rank=asked.rank,
        inferred=True,
        enclosing=model.enclosing,
    )


def _missing_line(asked: AskedCall) -> ReportLine:
    span = asked.model_call.span
    return ReportLine(
        "missing",
        kind="tool",
        name=asked.name,
        span_name=span.name,
        trace_id=span.trace_id,
        span_id=span.span_id,
        dialect=asked.model_call.reading.dialect,
        reason="The model asked for it, and the run holds neither its span nor its result.",
        remedy="Trace the tool (otel_cassette.wrap_tool), so that it has a span of its own.",
    )
