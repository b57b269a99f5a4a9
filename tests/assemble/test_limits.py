"""A length limit of any size is seen by the run it cut: its values all end at one length."""

from __future__ import annotations

import json
from typing import Any

from spans import chat, span, text, tool

from otel_cassette.assemble import assemble
from otel_cassette.model.span import SpanRecord


def cut(spans: list[SpanRecord], limit: int) -> list[SpanRecord]:
    """The spans as an SDK with a limit on the length of attribute values exports them."""
    for record in spans:
        attributes: dict[str, Any] = dict(record.attributes)
        for key, value in attributes.items():
            if isinstance(value, str):
                attributes[key] = value[:limit]
        record._attributes = attributes
    return spans


def agent_run() -> list[SpanRecord]:
    asked = [text("user", "a question " * 40)]
    return [
        chat("01", 0, 10, input=asked, output=[text("assistant", "short")]),
        span(
            "02",
            "execute_tool look",
            20,
            30,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="look",
            gen_ai__tool__call__arguments="{}",
            gen_ai__tool__call__result="a long report of the tool " * 20,
        ),
        tool("03", "note", 40, 50, arguments={}, result="short"),
    ]


def test_a_tools_text_that_ends_where_json_was_cut_is_not_served_as_whole() -> None:
    result = assemble(cut(agent_run(), 173))
    look, note = result.entries_of("tool")
    assert (look.response_integrity, look.is_playable) == ("truncated", False)
    assert (note.response_integrity, note.is_playable) == ("whole", True)
    assert result.entries_of("llm")[0].request_integrity == "truncated"
    assert result.report.suspected_limit == 173
    assert "values appear cut at 173 characters" in str(result.report)
    assert any("VALUE_LENGTH_LIMIT" in remedy for remedy in result.report.remedies)


def test_texts_of_hand_made_spans_are_only_suspect_where_nothing_proves_the_limit() -> None:
    spans = [
        span(f"0{i}", "llm_call", i * 10, i * 10 + 5, input="hi", output=f"{i} " + "words " * 50)
        for i in range(3)
    ]
    result = assemble(cut(spans, 100))
    assert {e.response_integrity for e in result.entries} == {"suspect"}
    assert result.report.suspected_limit == 100


def test_values_of_one_length_that_are_complete_are_no_limit() -> None:
    # Identical concurrent requests have one length; complete JSON shows that nothing was cut.
    asked = [[text("user", f"question number {i} " * 10)] for i in range(3)]
    spans = [
        chat(f"0{i}", i, 90 + i, input=asked[i], output=[text("assistant", "ok")]) for i in range(3)
    ]
    assert len({len(json.dumps(a)) for a in asked}) == 1
    result = assemble(spans)
    assert result.report.suspected_limit is None
    assert {e.request_integrity for e in result.entries} == {"whole"}


def test_a_run_without_a_limit_says_nothing_of_one() -> None:
    result = assemble(agent_run())
    assert result.report.suspected_limit is None
    assert "suspected_limit" not in result.report.to_json()
    assert {e.response_integrity for e in result.entries} == {"whole"}
