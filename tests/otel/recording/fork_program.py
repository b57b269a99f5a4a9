"""Forks while recording; prints what each process has. Run by `test_fork.py` as a program."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from recording_calls import chat, question_of, tracer_with

from otel_cassette import Cassette, CassetteSpanProcessor, recover


def in_a_directory(folder: Path) -> None:
    processor = CassetteSpanProcessor(directory=folder)
    tracer = tracer_with(processor)
    with tracer.start_as_current_span("agent"):
        chat(tracer, "before")
        child = os.fork()
        chat(tracer, "child" if child == 0 else "parent")
    if child == 0:
        processor.shutdown()
        assert processor.report.calls == 1, processor.report
        os._exit(0)
    os.waitpid(child, 0)
    processor.shutdown()
    assert processor.report.calls == 2, processor.report


def in_a_recording(folder: Path) -> None:
    cassette = Cassette()
    tracer = tracer_with(CassetteSpanProcessor())
    tool = cassette.wrap_tool(lambda n: n, name="same")
    with cassette.recording(folder / "run.jsonl"):
        chat(tracer, "before")
        child = os.fork()
        if child == 0:
            chat(tracer, "child")
            tool(n=1)
            os._exit(0)
        os.waitpid(child, 0)
        chat(tracer, "parent")


def main() -> None:
    how, folder = sys.argv[1], Path(sys.argv[2])
    (in_a_directory if how == "directory" else in_a_recording)(folder)
    own = {
        p.name: [question_of(e) for e in Cassette.load(p).entries] for p in folder.glob("*.jsonl")
    }
    found = {}
    for path in recover(folder):
        loaded = Cassette.load(path).entries
        found[path.name] = [question_of(e) if e.kind == "llm" else e.name for e in loaded]
    left = [p.name for p in folder.glob(".*")]
    sys.stdout.write(json.dumps({"own": own, "recovered": found, "left": left}))


if __name__ == "__main__":
    main()
