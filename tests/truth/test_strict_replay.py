"""Strict replays of real recordings with the requests that were really sent.

The truth files hold what the provider saw; each request goes through its wire codec to the engine.
What comes out is held against a table of the losses that the instrumentations are known for.
"""

from __future__ import annotations

from collections import Counter

import pytest
from corpus import FILES, cassette_of, live_call, recorded_truth

from otel_cassette import CassetteFormatError
from otel_cassette.engine import Comparer, Engine, Settings

NOTHING_TO_PLAY = {
    "anthropic-sdk-native/refund--default",
    "langchain-openinference/refund__hidden",
    "openai-agents-openinference/refund__hidden",
    "openinference-openai/refund--hidden",
    "otel-genai-openai/error--no_content",
    "otel-openai-v2/refund--legacy_default",
    "pydantic-ai/refund__nocontent",
}
"""Recorded without content: reading them is an error that names the switch to set."""

CANNOT_TELL = {
    # no instrumentation of the official family writes the input of embeddings
    "otel-genai-openai/extras": Counter(embedding=2),
    "otel-openai-v2/extras--legacy_events": Counter(embedding=2),
    "otel-util-genai/extras": Counter(embedding=2),
    # JSON attributes cut at 200 characters
    "otel-genai-openai/refund--valuelimit200": Counter(llm=3),
    # content over the SDK's own limit is left out
    "anthropic-sdk-native/unicode--max4000": Counter(llm=1),
    # these keep no input of a call that failed
    "openai-agents-openinference/llm_error": Counter(llm=1),
    "pydantic-ai/llm_error__v6": Counter(llm=1),
}
NO_ANSWER = {
    # raw streams of the Anthropic SDK have no output on their span; so the tool call they asked for
    # cannot be known either
    "anthropic-sdk-native/error": Counter(llm=1),
    "anthropic-sdk-native/stream": Counter(llm=3, tool=1),
    # the tool's result was never sent back to the model
    "openinference-anthropic/stream": Counter(tool=1),
    # the consumer raised, and the span was never exported
    "otel-openai-v2/error": Counter(llm=1),
    "otel-openai-v2/error--legacy_events": Counter(llm=1),
    # `parse()` is not instrumented
    "otel-openai-v2/extras": Counter(llm=1),
    "otel-openai-v2/extras--legacy_events": Counter(llm=1),
}
OTHER_NAME = {
    # the retriever's span is named by its data source, or by its Python function
    "otel-util-genai/extras": Counter(retrieval=1),
    "openinference-openai-manual/extras": Counter(retrieval=1),
}
PLAYABLE = sorted(set(FILES) - NOTHING_TO_PLAY)


@pytest.mark.parametrize("run", sorted(NOTHING_TO_PLAY & set(FILES)))
def test_a_recording_without_content_says_which_switch_to_set(run: str) -> None:
    with pytest.raises(
        CassetteFormatError, match=r"none of the .* call spans can be played"
    ) as caught:
        cassette_of(run)
    assert caught.value.report.remedies


@pytest.mark.parametrize("run", PLAYABLE)
def test_what_was_sent_is_answered_and_nothing_diverges(run: str) -> None:
    cassette = cassette_of(run)
    records = [*cassette.entries, *cassette.nested, *cassette.failures]
    engine = Engine(
        records, Settings(mode="strict", match="content", play_failures=True), Comparer()
    )
    found: dict[str, Counter[str]] = {"cannot_tell": Counter(), "missed": Counter()}
    for call in recorded_truth(run, cassette):
        decision = engine.decide(live_call(call))
        if decision.verdict == "cannot_tell":
            found["cannot_tell"][call["kind"]] += 1
        elif decision.action == "miss":
            found["missed"][call["kind"]] += 1
        elif decision.action == "play":
            assert decision.entry is not None
            assert decision.entry.is_playable
    assert found["cannot_tell"] == CANNOT_TELL.get(run, Counter())
    allowed = NO_ANSWER.get(run, Counter()) + OTHER_NAME.get(run, Counter())
    assert found["missed"] == allowed, [d.summary() for d in engine.divergences]
    diverged = {"llm"} & {d.kind for d in engine.divergences}
    assert not diverged or run in NO_ANSWER, [str(d) for d in engine.divergences]
