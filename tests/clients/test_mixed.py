"""A wrapper and an SDK in one session: both are answered from the same recorded calls."""

from __future__ import annotations

import pytest

from otel_cassette import Cassette, CassetteMissError

JOKE = "[count] joke"


def said(answer):
    return answer.choices[0].message.content


@pytest.fixture
def recorded(sdks, ask_chat):
    cassette = Cassette()
    with cassette.recording():
        for _ in range(6):
            ask_chat(sdks, JOKE)
    return cassette


@pytest.mark.parametrize(("match", "ties"), [("content", 6), ("index", 0)])
def test_equal_calls_of_both_get_each_recorded_answer_once(recorded, sdks, ask_chat, match, ties):
    cassette = Cassette(recorded.entries, mode="strict")
    request = cassette.entries[0].request
    wrapper = cassette.wrap_llm()
    with cassette.replaying(match=match) as session:
        answers = [
            answer
            for _ in range(3)
            for answer in (wrapper.complete(request).text, said(ask_chat(sdks, JOKE)))
        ]
    assert answers == [f"Echo: {JOKE} #{n}" for n in range(1, 7)]
    assert str(session.summary) == f"served 6, live 0, missed 0, unplayed 0, ties {ties}"
    assert session.divergences == []


def test_a_wrapper_gets_nothing_that_the_sdk_had(recorded, sdks, ask_chat):
    cassette = Cassette(recorded.entries, mode="lenient")
    wrapper = cassette.wrap_llm()
    with cassette.replaying() as session:
        for _ in range(6):
            ask_chat(sdks, JOKE)
        with pytest.raises(CassetteMissError, match="extra call"):
            wrapper.complete(cassette.entries[0].request)
    assert session.summary.missed == 1
