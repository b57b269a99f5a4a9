# ruff: noqa: E501 - one case a row reads better than one a screen
"""The cassette file: what is written reads back, in a stable form, and older shapes are read."""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from otel_cassette import (
    CASSETTE_FORMAT,
    CASSETTE_VERSION,
    Cassette,
    CassetteEntry,
    CassetteError,
    CassetteFailure,
    CassetteWriteError,
    llm_key,
    tool_key,
)

DATA = Path(__file__).parents[1] / "data" / "cassettes"
PAGE = (Path(__file__).parents[2] / "docs" / "file-format.md").read_text("utf-8")
_tracer = TracerProvider().get_tracer("test")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def answer(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


# -- golden files -----------------------------------------------------------------------------------


def test_todays_shape_is_kept_to_the_byte(tmp_path: Path) -> None:
    golden = DATA / "current.jsonl"
    cassette = Cassette.load(golden)
    assert cassette.save(tmp_path / "c.jsonl", provenance=False) == 7
    assert (tmp_path / "c.jsonl").read_bytes() == golden.read_bytes()
    assert cassette.save(tmp_path / "c.jsonl") == 7
    assert (tmp_path / "c.jsonl").read_bytes() == golden.read_bytes()


def test_todays_shape_says_what_was_recorded() -> None:
    cassette = Cassette.load(DATA / "current.jsonl")
    assert [(e.kind, e.index, e.name) for e in cassette.entries] == [
        ("llm", 0, None), ("tool", 0, "lookup_order"), ("llm", 1, None), ("tool", 1, "pages"),
        ("llm", 2, None), ("retrieval", 0, "policy"), ("tool", 2, "nothing"),
    ]  # fmt: skip
    assert len(cassette.entries_of("llm")[1].request["messages"]) == 4
    assert cassette.entries_of("llm")[1].request["model"] == "gpt-4o"
    assert cassette.entries_of("tool")[1].yields == ({"page": 0}, {"page": 1})
    assert cassette.entries_of("tool")[2].response is None
    assert [(n.kind, n.index, n.parent) for n in cassette.nested] == [
        ("llm", 0, cassette.nested[0].parent)
    ]
    assert cassette.nested[0].parent is not None
    assert (cassette.nested[0].parent.kind, cassette.nested[0].parent.index) == ("tool", 0)
    failure = cassette.failures[0]
    assert (failure.kind, failure.follows, failure.error.type, failure.error.message) == (
        "llm",
        0,
        "RuntimeError",
        "429: slow down",
    )
    assert failure.request["messages"] == cassette.entries_of("llm")[1].request["messages"]
    assert cassette.metadata["purpose"] == "golden file"


def test_todays_shape_can_be_played() -> None:
    cassette = Cassette.load(DATA / "current.jsonl")
    with cassette.replaying() as session:
        llm = cassette.wrap_llm()
        assert (
            llm.complete(cassette.entries_of("llm")[0].request).tool_calls[0].name == "lookup_order"
        )
        assert (
            cassette.wrap_tool(lambda order_id: None, name="lookup_order")("A-17")["total"] == 12.5
        )
        with pytest.raises(RuntimeError, match="429: slow down"):
            llm.complete(cassette.entries_of("llm")[1].request)
        assert llm.complete(cassette.entries_of("llm")[1].request).text == "Refunded 12.50 € ✓"
        assert list(llm.stream("Say good bye")) == ["Good ", "bye"]
    assert session.divergences == []
    assert (session.summary.served, session.summary.unplayed) == (5, 3)


def test_the_older_json_lines_shape_is_read_and_written_anew(tmp_path: Path) -> None:
    cassette = Cassette.load(DATA / "older.jsonl")
    assert cassette.metadata == {"model": "gpt-4o", "note": "made by an older tool"}
    assert [(e.kind, e.index) for e in cassette.entries] == [("llm", 0), ("tool", 0), ("llm", 1)]
    assert cassette.wrap_llm().complete(cassette.entries[0].request).tool_calls[0].id == "call_1"
    cassette.save(tmp_path / "c.jsonl")
    header, *rest = lines(tmp_path / "c.jsonl")
    assert (header["format"], header["version"], header["tool_version"]) == (
        "otel-cassette",
        1,
        "0.3",
    )
    assert [e["kind"] for e in rest] == ["llm", "tool", "llm"]
    assert rest[1]["key"] == tool_key("lookup_order", {"order_id": "A-17"})
    assert (
        Cassette.load(tmp_path / "c.jsonl").entries == Cassette.load(DATA / "older.jsonl").entries
    )


def test_a_session_fixture_is_read(tmp_path: Path) -> None:
    cassette = Cassette.load(DATA / "session.json")
    assert [(e.kind, e.name, e.request, e.response) for e in cassette.entries] == [
        ("tool", "lookup_order", {"order_id": "A-17"}, {"status": "sent"}),
        ("llm", "summarise", {"text": "sent"}, "It is on its way."),
        ("retrieval", "policy", {"query": "delivery"}, ["Two days."]),
    ]
    assert cassette.metadata["session_id"] == "s-1"
    assert cassette.wrap_tool(lambda order_id: None, name="lookup_order")("A-17") == {
        "status": "sent"
    }
    cassette.save(tmp_path / "c.jsonl")
    assert Cassette.load(tmp_path / "c.jsonl").entries == cassette.entries


# -- what people do to files -------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "stale"])
def test_a_stored_key_never_decides(tmp_path: Path, key: str | None) -> None:
    path = tmp_path / "c.jsonl"
    entry = {"kind": "tool", "index": 0, "name": "add", "request": {"a": 1}, "response": 2}
    path.write_text(json.dumps(entry if key is None else {**entry, "key": key}) + "\n")
    cassette = Cassette.load(path)
    assert cassette.entries[0].key == tool_key("add", {"a": 1})
    assert cassette.wrap_tool(lambda a: None, name="add")(1) == 2
    cassette.save(path)
    assert lines(path)[1]["key"] == tool_key("add", {"a": 1})


def test_the_key_of_a_changed_copy_is_its_own() -> None:
    entry = CassetteEntry(kind="llm", index=0, request={"messages": "one"}, response=answer("x"))
    shown = Cassette([entry]).entries[0]
    changed = shown.model_copy(
        update={"request": {"messages": [{"role": "user", "content": "two"}]}}
    )
    assert Cassette([changed]).entries[0].key == llm_key({"messages": "two"}) != shown.key


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("\ufeff", ""),
        ("\n\n  \n", "\n\n"),
        ('{"format": "otel-cassette", "version": 1}\n', "\n"),
    ],
    ids=["bare", "byte order mark", "blank lines", "header"],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_header_blank_lines_and_line_ends_may_vary(
    tmp_path: Path, before: str, after: str, newline: str
) -> None:
    entries = [
        json.dumps({"kind": "tool", "index": i, "name": "t", "request": {}, "response": i})
        for i in range(2)
    ]
    text = before + "\n\n".join(entries) + after
    (tmp_path / "c.jsonl").write_bytes(text.replace("\n", newline).encode())
    assert [e.response for e in Cassette.load(tmp_path / "c.jsonl").entries] == [0, 1]


def test_a_header_alone_is_an_empty_cassette(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "c.jsonl"
    assert Cassette().save(path) == 0
    assert Cassette.load(path).entries == []
    header = lines(path)[0]
    assert (header["format"], header["version"]) == (CASSETTE_FORMAT, CASSETTE_VERSION)


def test_text_that_looks_like_line_ends_or_has_no_utf8_form_survives(tmp_path: Path) -> None:
    texts = ["a\u2028b\u2029c", "\r", "\x85", "half a pair \ud800", "😀", "\x00"]
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda text: text, name="echo")
    for text in texts:
        tool(text)
    cassette.save(tmp_path / "c.jsonl")
    (tmp_path / "c.jsonl").read_bytes().decode("utf-8")
    loaded = Cassette.load(tmp_path / "c.jsonl")
    played = loaded.wrap_tool(lambda text: None, name="echo")
    assert [played(text) for text in texts] == texts


def test_unknown_fields_survive(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    header = {
        "format": "otel-cassette",
        "version": 1,
        "normalisation": 1,
        "redact": [],
        "reviewed": {"by": "me"},
    }
    llm = {
        "kind": "llm", "index": 0,
        "request": {"messages": [{"role": "user", "parts": [{"type": "text", "content": "hi", "mark": 1}], "mark": 2}],
                    "tools": [{"type": "function", "name": "f", "mark": 3}], "mark": 4},
        "response": {"choices": [{"message": {"role": "assistant", "parts": [{"type": "text", "content": "ho", "mark": 5}]}, "mark": 6}], "mark": 7},
        "mark": {"deep": [None, 8]}, "nothing": None,
        "source": {"trace_id": "a" * 32, "mark": 9},
    }  # fmt: skip
    tool = {
        "kind": "tool",
        "index": 0,
        "name": "t",
        "request": {"x": None},
        "response": {"y": None},
        "mark": True,
    }
    failed = {
        "kind": "tool",
        "failed": True,
        "follows": 0,
        "name": "t",
        "request": {},
        "error": {"type": "E", "message": "m", "mark": 10},
        "mark": 11,
    }
    path.write_text("\n".join(map(json.dumps, (header, llm, tool, failed))) + "\n")
    for _ in range(2):
        Cassette.load(path).save(path)
        saved = lines(path)
        assert saved[0] == header
        for given_line, line in zip((llm, tool, failed), saved[1:], strict=True):
            line.pop("key", None)
            assert line == given_line


def test_the_order_of_fields_is_fixed_and_what_changes_stands_last(tmp_path: Path) -> None:
    cassette = Cassette()
    with _tracer.start_as_current_span("agent"):
        cassette.wrap_tool(lambda b, a: {"z": 1, "a": 2}, name="t")(1, 2)
    cassette.save(tmp_path / "c.jsonl")
    line = lines(tmp_path / "c.jsonl")[1]
    assert list(line) == [
        "kind",
        "index",
        "key",
        "name",
        "request",
        "response",
        "latency_ms",
        "source",
    ]
    assert list(line["request"]) == ["b", "a"], "people read their arguments in their own order"
    assert line["source"]["path"] == ["agent"]


def test_without_provenance_two_recordings_are_the_same_bytes(tmp_path: Path) -> None:
    def record(path: Path) -> bytes:
        cassette = Cassette()
        with _tracer.start_as_current_span("agent"):
            cassette.wrap_tool(lambda a: a, name="t")(1)
            cassette.wrap_llm(_Echo()).complete("hi")
        cassette.save(path, provenance=False)
        return path.read_bytes()

    one, other = record(tmp_path / "a.jsonl"), record(tmp_path / "b.jsonl")
    assert one == other
    for fact in (b"latency_ms", b"trace_id", b"span_id", b"start_ns"):
        assert fact not in one
    assert b'"path": ["agent"]' in one, "it tells equal requests apart, and does not change"


class _Echo:
    def complete(self, request: Any) -> str:
        return f"answer to {request.messages[-1].text}"


def _chat(turns: int, changed: int | None = None) -> Cassette:
    cassette = Cassette()
    llm = cassette.wrap_llm(_Echo(), model="m")
    messages: list[Any] = [{"role": "system", "content": "You are patient. " * 20}]
    for n in range(turns):
        prompt = f"question {n}, " + "which is long enough to weigh something. " * 3
        messages.append({"role": "user", "content": prompt + ("!" if n == changed else "")})
        answered = llm.complete(
            {"model": "m", "messages": messages, "tools": [{"name": "f", "description": "x" * 500}]}
        )
        messages.append(answered.choices[0].message)
    return cassette


def test_a_chat_is_a_file_linear_in_its_turns(tmp_path: Path) -> None:
    sizes = {}
    for turns in (25, 50, 100):
        _chat(turns).save(tmp_path / "c.jsonl", provenance=False)
        sizes[turns] = (tmp_path / "c.jsonl").stat().st_size
    assert sizes[100] < 2.1 * sizes[50] < 2.1 * 2.1 * sizes[25]
    assert sizes[100] < 100 * 1500
    loaded = Cassette.load(tmp_path / "c.jsonl")
    assert len(loaded.entries[99].request["messages"]) == 200
    assert loaded.entries == _loaded(_chat(100), tmp_path).entries


def _loaded(cassette: Cassette, tmp_path: Path) -> Cassette:
    cassette.save(tmp_path / "other.jsonl", provenance=False)
    return Cassette.load(tmp_path / "other.jsonl")


def test_one_changed_prompt_is_one_changed_line(tmp_path: Path) -> None:
    class Fixed:
        def complete(self, _request: Any) -> str:
            return "yes"

    def save(changed: int | None, path: Path) -> list[str]:
        cassette = Cassette()
        llm = cassette.wrap_llm(Fixed())
        messages: list[Any] = [{"role": "system", "content": "Be brief."}]
        for n in range(100):
            messages.append(
                {"role": "user", "content": f"question {n}{'!' if n == changed else ''}"}
            )
            messages.append(llm.complete({"messages": messages}).choices[0].message)
        cassette.save(path, provenance=False)
        return path.read_text("utf-8").splitlines()

    before, after = save(None, tmp_path / "a.jsonl"), save(50, tmp_path / "b.jsonl")
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert len(changed) == 2
    assert all("question 50" in line for line in changed)


def test_a_history_that_branches_is_written_whole_where_it_must_be(tmp_path: Path) -> None:
    requests = [
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": text},
        ]
        for text in "cdc"
    ] + [[{"role": "user", "content": "z"}]]
    cassette = Cassette()
    llm = cassette.wrap_llm(_Echo())
    for messages in requests:
        llm.complete({"messages": messages, "model": "m" if len(messages) > 1 else None})
    cassette.save(tmp_path / "c.jsonl")
    assert Cassette.load(tmp_path / "c.jsonl").entries[1].request == cassette.entries[1].request
    assert [e.request for e in Cassette.load(tmp_path / "c.jsonl").entries] == [
        e.request for e in cassette.entries
    ]


def test_saving_keeps_links_and_permissions(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    Cassette().save(real)
    real.chmod(0o640)
    (tmp_path / "link.jsonl").symlink_to(real)
    cassette = Cassette()
    cassette.wrap_tool(lambda: 1, name="t")()
    cassette.save(tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(Cassette.load(real).entries) == 1
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    old = os.umask(0o027)
    try:
        Cassette().save(tmp_path / "fresh.jsonl")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "fresh.jsonl").stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fresh.jsonl", "link.jsonl", "real.jsonl"]


def test_metadata_goes_with_the_file(tmp_path: Path) -> None:
    class Client(_Echo):
        model = "gpt-4o"
        provider = "openai"

    cassette = Cassette(metadata={"ticket": 7})
    cassette.wrap_llm(Client())
    cassette.save(tmp_path / "c.jsonl")
    loaded = Cassette.load(tmp_path / "c.jsonl", metadata={"run": "two"})
    assert loaded.metadata == {"ticket": 7, "model": "gpt-4o", "provider": "openai", "run": "two"}
    assert (loaded.wrap_llm().model, loaded.wrap_llm().provider) == ("gpt-4o", "openai")
    assert loaded.wrap_llm(model="other").model == "other"


# -- properties -------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"]), "content": st.text(max_size=8)}
    ),
    min_size=1,
    max_size=5,
)
integrity = st.sampled_from(
    ["whole", "partial", "suspect", "truncated", "redacted", "dropped", "absent"]
)


@st.composite
def recordings(draw: Any) -> list[CassetteEntry | CassetteFailure]:
    made: list[CassetteEntry | CassetteFailure] = []
    for index in range(draw(st.integers(0, 4))):
        request = {
            "messages": draw(messages),
            "params": draw(
                st.dictionaries(st.sampled_from(["seed", "top_k"]), st.integers(), max_size=2)
            ),
        }
        made.append(
            CassetteEntry(
                kind="llm",
                index=index,
                request=request,
                response=answer(draw(st.text(max_size=5))),
                response_integrity=draw(integrity),
            )
        )
    for index in range(draw(st.integers(0, 3))):
        yields = draw(st.none() | st.lists(json_values, max_size=2).map(tuple))
        made.append(
            CassetteEntry(
                kind="tool",
                index=index,
                name=draw(st.text(min_size=1, max_size=4)),
                request=draw(arguments),
                response=draw(json_values),
                yields=yields,
                inferred=draw(st.booleans()),
                latency_ms=draw(st.none() | st.integers(0, 10**6)),
            )
        )
        if draw(st.booleans()):
            made.append(
                CassetteEntry(
                    kind="llm",
                    index=0,
                    parent={"kind": "tool", "index": index},
                    request={"messages": draw(messages)},
                    response=answer("in"),
                )
            )  # type: ignore[arg-type]
    for _ in range(draw(st.integers(0, 2))):
        error = {
            "type": draw(st.text(max_size=4)),
            "message": draw(st.text(max_size=4)),
            "status": draw(st.none() | st.just(429)),
        }
        made.append(
            CassetteFailure(
                kind="tool",
                follows=draw(st.integers(-1, 2)),
                name="t",
                request=draw(arguments),
                error=error,
            )
        )  # type: ignore[arg-type]
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(recordings())
def test_what_is_saved_reads_back_and_saves_as_the_same_bytes(
    tmp_path: Path, records: list[Any]
) -> None:
    path = tmp_path / "c.jsonl"
    cassette = Cassette(records, redact=())
    count = cassette.save(path)
    first = path.read_bytes()
    loaded = Cassette.load(path)
    assert count == len(loaded.entries)
    for name in ("entries", "nested", "failures"):
        one = sorted(map(repr, (e.model_dump() for e in getattr(cassette, name))))
        other = sorted(map(repr, (e.model_dump() for e in getattr(loaded, name))))
        assert one == other
    loaded.save(path)
    assert path.read_bytes() == first


def test_the_page_shows_the_golden_file() -> None:
    """Every line that the page shows as an example is one of the golden file's, shortened nowhere."""
    golden = (DATA / "current.jsonl").read_text("utf-8").splitlines()
    shown = [line for line in PAGE.splitlines() if line.startswith('{"kind"')]
    assert len(shown) >= 3
    assert all(line in golden for line in shown)


def test_the_page_names_every_field() -> None:
    named = set(re.findall(r"^\| `([a-z_]+)`", PAGE, re.MULTILINE))
    fields = set(CassetteEntry.model_fields) | set(CassetteFailure.model_fields)
    assert fields | {"messages_from"} <= named


def test_a_lambda_cannot_be_named_by_a_file(tmp_path: Path) -> None:
    """Another lambda would pass for it at the load, and make anything equal."""
    cassette = Cassette(normalize=[lambda request: request])
    with pytest.raises(CassetteError, match="write it as a function"):
        cassette.save(tmp_path / "calls.jsonl")
    assert not (tmp_path / "calls.jsonl").exists()


def test_a_recording_stays_where_it_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (there / "calls.jsonl").write_text("precious notes\n", "utf-8")
    monkeypatch.chdir(here)
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda x: x + 1, name="add")
    with cassette.recording("calls.jsonl"):
        tool(1)
        monkeypatch.chdir(there)
    assert [e.response for e in Cassette.load(here / "calls.jsonl").entries] == [2]
    assert (there / "calls.jsonl").read_text("utf-8") == "precious notes\n"
    assert sorted(p.name for p in here.iterdir()) == ["calls.jsonl"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CassetteWriteError, match="no regular file"):
        Cassette().save(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
