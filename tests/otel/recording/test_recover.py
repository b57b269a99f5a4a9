"""What becomes of recordings that a process left behind."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.trace import set_span_in_context
from recording_calls import answer_attributes, chat, question_of, request_attributes, tracer_with

from otel_cassette import (
    Cassette,
    CassetteFormatError,
    CassetteSpanProcessor,
    recover,
)


class LeftError(Exception):
    """Leaves a recording block before it is saved."""


def left_behind(source: Path, target: Path) -> list[Path]:
    """Copy the spools in *source*, as a process that is gone would have left them."""
    target.mkdir(parents=True, exist_ok=True)
    copies = []
    for spool in source.glob(".*"):
        copy = target / spool.name
        copy.write_bytes(spool.read_bytes())
        copies.append(copy)
    return copies


def questions(path: Path) -> list[str]:
    return [question_of(e) for e in Cassette.load(path).entries]


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """A directory whose process died with two runs open, three calls in all."""
    processor = CassetteSpanProcessor(directory=tmp_path / "live")
    tracer = tracer_with(processor)
    with tracer.start_as_current_span("agent"):
        chat(tracer, "a1")
        chat(tracer, "a2")
        other = tracer.start_span("agent", context=set_span_in_context(None))  # type: ignore[arg-type]
        attributes = {**request_attributes("b1"), **answer_attributes("yes")}
        tracer.start_span(
            "chat gpt-4o", context=set_span_in_context(other), attributes=attributes
        ).end()
        left_behind(tmp_path / "live", tmp_path / "dead")
    processor.shutdown()
    return tmp_path / "dead"


def test_a_directory(dead: Path) -> None:
    paths = recover(dead)
    assert sorted(map(questions, paths)) == [["a1", "a2"], ["b1"]]
    assert sorted(dead.iterdir()) == sorted(paths)
    assert recover(dead) == []


def test_open_spans_give_recovered_calls_their_place(dead: Path) -> None:
    for path in recover(dead):
        for entry in Cassette.load(path).entries:
            assert entry.source is not None
            assert entry.source.path == ("agent",)


def test_a_line_cut_in_the_middle_costs_that_line_only(dead: Path) -> None:
    (spool,) = dead.glob(".*")
    data = spool.read_bytes()
    spool.write_bytes(data[:-40])
    assert sorted(q for path in recover(dead) for q in questions(path)) == ["a1", "a2"]


@pytest.mark.parametrize("size", [0, 10])
def test_a_spool_of_less_than_its_first_line(dead: Path, size: int) -> None:
    (spool,) = dead.glob(".*")
    spool.write_bytes(spool.read_bytes()[:size])
    assert recover(dead) == []
    assert list(dead.iterdir()) == []


def test_a_damaged_spool_is_an_error_and_stays(dead: Path) -> None:
    (spool,) = dead.glob(".*")
    lines = spool.read_bytes().splitlines(keepends=True)
    spool.write_bytes(b"{ nonsense\n" + b"".join(lines[1:]))
    with pytest.raises(CassetteFormatError, match="damaged") as caught:
        recover(dead)
    assert str(spool.name) in str(caught.value.path)
    assert len(list(dead.glob(".*"))) == 1


def test_a_living_process_keeps_its_spool(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    tracer = tracer_with(processor)
    with tracer.start_as_current_span("agent"):
        chat(tracer, "one")
        (spool,) = tmp_path.glob(".*")
        assert recover(tmp_path) == []
        assert spool.exists()
        chat(tracer, "two")
    processor.shutdown()
    (path,) = tmp_path.glob("*.jsonl")
    assert questions(path) == ["one", "two"]


def test_runs_written_before_are_not_written_again(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path / "live", quiet_period_s=3600)
    tracer = tracer_with(processor)
    open_root = tracer.start_span("agent")
    attributes = {**request_attributes("open"), **answer_attributes("yes")}
    context = set_span_in_context(open_root)
    tracer.start_span("chat gpt-4o", context=context, attributes=attributes).end()
    with tracer.start_as_current_span("agent"):
        chat(tracer, "written")
    runs = processor._runs
    assert runs is not None
    written = [take for take in runs.takes.values() if take.root_ended]
    assert runs._write(written)
    left_behind(tmp_path / "live", tmp_path / "dead")
    assert [questions(path) for path in recover(tmp_path / "dead")] == [["open"]]
    processor.shutdown()


def test_a_recording_with_a_path_that_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.jsonl"
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda n: n + 1, name="next")
    with suppress(LeftError), cassette.recording(path):
        tool(n=1)
        tool(n=2)
        raise LeftError
    assert not path.exists()
    assert "was not saved" in caplog.text
    assert "otel_cassette.recover" in caplog.text
    assert recover(path) == [path]
    assert [e.response for e in Cassette.load(path).entries] == [2, 3]


def test_loading_recovers_what_was_never_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.jsonl"
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda n: n + 1, name="next")
    with suppress(LeftError), cassette.recording(path):
        tool(n=1)
        raise LeftError
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        loaded = Cassette.load(path)
    assert [e.response for e in loaded.entries] == [2]
    assert "never saved" in caplog.text


def test_a_new_recording_replaces_what_an_old_one_left(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda n: n, name="same")
    with suppress(LeftError), cassette.recording(path):
        tool(n=1)
        raise LeftError
    assert len(list(tmp_path.glob(".*"))) == 1
    fresh = Cassette()
    tool = fresh.wrap_tool(lambda n: n, name="same")
    with fresh.recording(path):
        tool(n=2)
    assert [p.name for p in tmp_path.iterdir()] == ["run.jsonl"]


def test_the_spools_of_others_stay(tmp_path: Path) -> None:
    names = ["a.jsonl", "a.jsonl.b", "a.jsonl.b.jsonl"]
    for name in names:
        cassette = Cassette()
        tool = cassette.wrap_tool(lambda n: n, name="same")
        with suppress(LeftError), cassette.recording(tmp_path / name):
            tool(n=1)
            raise LeftError
    with Cassette().recording(tmp_path / "a.jsonl"):
        pass
    assert recover(tmp_path) == [tmp_path / "a.jsonl.b", tmp_path / "a.jsonl.b.jsonl"]


def test_a_cassette_that_stands_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda n: n, name="same")
    with suppress(LeftError), cassette.recording(path):
        tool(n=1)
        raise LeftError
    Cassette().save(path)
    assert recover(path) == [tmp_path / "run-2.jsonl"]
    assert Cassette.load(path).entries == []
    assert len(Cassette.load(tmp_path / "run-2.jsonl").entries) == 1


def test_everything_of_a_wrapped_call_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    cassette = Cassette()

    def numbers(upto: int):  # a generator: what it yields is recorded apart from its result
        yield from range(upto)
        return "done"

    def fails(n: int) -> None:
        raise LookupError(f"no {n}")

    count, broken = cassette.wrap_tool(numbers), cassette.wrap_tool(fails)
    with suppress(LeftError), cassette.recording(path):
        assert list(count(upto=3)) == [0, 1, 2]
        with pytest.raises(LookupError):
            broken(n=1)
        raise LeftError
    recover(path)
    loaded = Cassette.load(path)
    cassette.save(tmp_path / "saved.jsonl")
    saved = Cassette.load(tmp_path / "saved.jsonl")
    assert [e.yields for e in loaded.entries] == [(0, 1, 2)]
    assert loaded.entries == saved.entries
    assert loaded.failures == saved.failures
    assert loaded.failures[0].error.message == "no 1"


def test_nothing_to_recover(tmp_path: Path) -> None:
    assert recover(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="neither a directory"):
        recover(tmp_path / "absent.jsonl")


def test_nothing_is_on_disk_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor())
    with cassette.recording():
        chat(tracer, "in memory")
        assert list(tmp_path.iterdir()) == []
    assert len(cassette.entries) == 1


def test_the_spool_is_its_owners_alone(tmp_path: Path) -> None:
    processor = CassetteSpanProcessor(directory=tmp_path)
    chat(tracer_with(processor), "private")
    (spool,) = tmp_path.glob(".*")
    assert os.stat(spool).st_mode & 0o077 == 0  # noqa: PTH116 - the mode is what is asked for
    processor.shutdown()


def test_rules_by_path_keep_spans_out_of_the_spool(tmp_path: Path) -> None:
    from otel_cassette import RedactionRule

    rule = RedactionRule("model", paths=("/model",))
    cassette = Cassette(redact=(rule,))
    tracer = tracer_with(CassetteSpanProcessor())
    with suppress(LeftError), cassette.recording(tmp_path / "run.jsonl"):
        chat(tracer, "q")
        assert list(tmp_path.glob(".*")) == []
        raise LeftError
    assert cassette.entries[0].request["model"] == "<redacted:model>"
