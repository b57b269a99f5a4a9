"""Content that is sound JSON of another shape is no message: never an empty answer that looks whole."""

from __future__ import annotations

from typing import Any

import pytest
from spans import span, text

from otel_cassette.assemble import assemble
from otel_cassette.cassette import Cassette
from otel_cassette.errors import CassetteFormatError
from otel_cassette.model.span import SpanRecord, Trace

QUESTION = '[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]'
ODD = ['{"bar": 2}', '[{"bar": 2}]', "[[1, 2]]", "[" * 3000, '{"choices": [{"msg": 1}]}']


def genai(answer: Any, question: Any = QUESTION) -> SpanRecord:
    return span(
        "01",
        "chat m",
        0,
        5,
        gen_ai__operation__name="chat",
        gen_ai__input__messages=question,
        gen_ai__output__messages=answer,
    )


def by_hand(answer: Any) -> SpanRecord:
    return span("01", "llm_call", 0, 5, input="hi", output=answer)


@pytest.mark.parametrize("made", [genai, by_hand])
@pytest.mark.parametrize("answer", [*ODD[:3], ODD[4]])
def test_an_answer_without_a_message_cannot_be_played(made: Any, answer: str) -> None:
    (line,) = assemble([made(answer)]).report
    assert (line.status, line.response_integrity) == ("not_replayable", "absent")
    assert line.notes == ("Its content could not be read as messages.",)
    assert "shape" in str(line.remedy)
    with pytest.raises(CassetteFormatError, match="none of the 1 call spans") as caught:
        Cassette.from_trace(Trace([made(answer)]))
    assert caught.value.report is not None


@pytest.mark.parametrize("question", ODD[:4])
def test_a_request_without_a_message_is_not_compared(question: str) -> None:
    (entry,) = assemble([genai([text("assistant", "hello")], question)]).entries
    assert "messages" not in entry.request
    assert entry.request_integrity != "whole"
    assert entry.is_playable
