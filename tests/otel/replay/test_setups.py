"""Replays in the set-ups that users have, each with the real SDK and an independent OTLP receiver.

Where a set-up needs a process of its own, a small program runs in one and sends to oteltap.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.threading import ThreadingInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from replay_setup import MakeTelemetry, llm_entry, openai_body

from otel_cassette import Cassette, CassetteError, ReplaySampler, install
from otel_cassette.otel.processor import CassetteSpanProcessor
from otel_cassette.session import marks

CHAT = {"gen_ai.operation.name": "chat"}
PROGRAM = """
import json, sys
from opentelemetry import trace
from otel_cassette import Cassette, install

done = install()
tracer = trace.get_tracer("app")
cassette = Cassette.load(sys.argv[1])
totals = []
for _ in range(20):
    with cassette.replaying(mode="lenient") as session:
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            cassette.wrap_llm().complete("something else")
    totals.append([session.summary.served, session.summary.diverged])
flush = getattr(trace.get_tracer_provider(), "force_flush", None)
flushed = flush() if flush else None
print(json.dumps({"totals": totals, "notes": done.notes, "flushed": flushed,
                  "sampler": done.sampler is not None}))
"""
OWN_PROVIDER = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
"""


@dataclass(frozen=True)
class Tap:
    """oteltap in a process of its own."""

    url: str
    log: Path

    def spans(self) -> list[dict[str, Any]]:
        found = []
        for line in self.log.read_text(encoding="utf-8").split("\n"):
            with contextlib.suppress(json.JSONDecodeError):
                value = json.loads(line)
                if isinstance(value, dict) and "spanId" in value:
                    found.append(value)
        return found

    def wait_for(self, count: int, name: str, *, after: int = 0) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = [span for span in self.spans()[after:] if span["name"] == name]
            if len(found) >= count:
                return found
            time.sleep(0.05)
        pytest.fail(f"{len(found)} of {count} spans {name!r} came: {self.log.read_text()[-800:]}")


@pytest.fixture(scope="module")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tap]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("tap") / "oteltap.ndjson"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "oteltap", "--port", str(port)],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 30
    while not log.read_text(encoding="utf-8").startswith("Listening"):
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield Tap(f"http://127.0.0.1:{port}", log)
    process.terminate()
    process.wait(10)


def diverged(span: dict[str, Any]) -> bool:
    return {"key": "replay_diverged", "value": {"boolValue": True}} in span["attributes"]


def run_program(
    tmp_path: Path, tap: Tap, source: str, *, instrument: bool = True, **env: str
) -> dict[str, Any]:
    """Run a program, zero-code instrumented, with the cassette; its last line is its report."""
    program = tmp_path / "program.py"
    program.write_text(source, encoding="utf-8")
    file = tmp_path / "recorded.jsonl"
    Cassette([llm_entry(0, "Where is order A-17?", "Shipped.")]).save(file)
    command = [sys.executable, str(program), str(file)]
    if instrument:
        script = Path(sys.executable).with_name("opentelemetry-instrument")
        command = [sys.executable, str(script), *command]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    done = subprocess.run(
        command,
        env={
            **clean,
            "OTEL_EXPORTER_OTLP_ENDPOINT": tap.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            **env,
        },
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    assert report["totals"] == [[1, 1]] * 20
    return report


# -- zero code --------------------------------------------------------------------------------------


def test_opentelemetry_instrument_with_the_distro(tmp_path: Path, tap: Tap) -> None:
    before = len(tap.spans())
    report = run_program(
        tmp_path,
        tap,
        PROGRAM,
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_TRACES_SAMPLER="parentbased_traceidratio",
        OTEL_TRACES_SAMPLER_ARG="0.1",
    )
    assert report["notes"] == []
    for name in ("chat", "cassette.divergence", "cassette.replay"):
        assert len(list(filter(diverged, tap.wait_for(20, name, after=before)))) == 20


def test_the_sampler_by_environment_variable(tmp_path: Path, tap: Tap) -> None:
    """The entry point; nothing is installed by the program."""
    before = len(tap.spans())
    source = PROGRAM.replace("done = install()", "from argparse import Namespace\n").replace(
        '"notes": done.notes', '"notes": []'
    )
    source = source.replace(
        "done.sampler is not None",
        "'ReplaySampler' in str(trace.get_tracer_provider().sampler.get_description())",
    )
    report = run_program(
        tmp_path,
        tap,
        source,
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_TRACES_SAMPLER="cassette_replay",
        OTEL_TRACES_SAMPLER_ARG="0.1",
    )
    assert report["sampler"] is True
    assert len(list(filter(diverged, tap.wait_for(20, "chat", after=before)))) == 20


def test_opentelemetry_instrument_without_a_distro(tmp_path: Path, tap: Tap) -> None:
    """Nothing configures the SDK then: the program does, in its own code."""
    before = len(tap.spans())
    report = run_program(
        tmp_path,
        tap,
        OWN_PROVIDER + PROGRAM,
        OTEL_PYTHON_DISTRO="none",
        OTEL_PYTHON_CONFIGURATOR="none",
        OTEL_TRACES_SAMPLER="parentbased_traceidratio",
        OTEL_TRACES_SAMPLER_ARG="0.1",
    )
    assert report["notes"] == []
    assert len(list(filter(diverged, tap.wait_for(20, "chat", after=before)))) == 20


def test_a_disabled_sdk(tmp_path: Path, tap: Tap) -> None:
    before = len(tap.spans())
    report = run_program(tmp_path, tap, PROGRAM, OTEL_SDK_DISABLED="true")
    (note,) = report["notes"]
    assert "OTEL_SDK_DISABLED" in note
    assert tap.spans()[before:] == []


# -- program-built ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sampler at hand", "install", "no sampler"])
def test_batches_over_otlp_beside_it(tap: Tap, cassette: Cassette, how: str) -> None:
    ratio = ParentBased(TraceIdRatioBased(0.1))
    provider = TracerProvider(
        sampler=ReplaySampler(ratio) if how == "sampler at hand" else ratio, shutdown_on_exit=False
    )
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{tap.url}/v1/traces"))
    )
    if how == "install":
        install(provider)
    else:
        provider.add_span_processor(CassetteSpanProcessor())
        marks.use_provider(provider)
    before = len(tap.spans())
    tracer = provider.get_tracer("app")
    for _ in range(100):
        with (
            cassette.replaying(mode="lenient") as session,
            tracer.start_as_current_span("chat", attributes=CHAT),
        ):
            cassette.wrap_llm().complete(openai_body("Where is order A-18?"))
        assert (session.summary.served, session.summary.diverged) == (1, 1)
    provider.shutdown()
    marks.use_provider(None)
    if how == "no sampler":
        time.sleep(0.5)
        found = [span for span in tap.spans()[before:] if span["name"] == "chat"]
        # The ratio decides, as it does without a replay; what it lets through is marked.
        assert len(found) < 50
    else:
        found = tap.wait_for(100, "chat", after=before)
        assert len(found) == 100
    assert all(diverged(span) for span in found)


# -- threads, tasks, processes ----------------------------------------------------------------------


@pytest.fixture
def _threading_instrumented() -> Iterator[None]:
    ThreadingInstrumentor().instrument()
    yield
    ThreadingInstrumentor().uninstrument()


@pytest.mark.usefixtures("_threading_instrumented")
def test_threads_that_carry_the_context_keep_two_sessions_apart(
    make_telemetry: MakeTelemetry,
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    answers: dict[str, str] = {}

    def call(name: str, cassette: Cassette) -> None:
        with telemetry.tracer.start_as_current_span("chat", attributes=CHAT):
            answers[name] = cassette.wrap_llm().complete(openai_body("Who?")).text

    first = Cassette([llm_entry(0, "Who?", "first")], mode="strict")
    second = Cassette([llm_entry(0, "Who?", "second")], mode="strict")
    barrier = threading.Barrier(2)

    def session(name: str, cassette: Cassette) -> None:
        with cassette.replaying():
            barrier.wait()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(call, name, cassette).result()
            barrier.wait()

    threads = [
        threading.Thread(target=session, args=("first", first)),
        threading.Thread(target=session, args=("second", second)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"first": "first", "second": "second"}
    replays = {span.attributes["cassette.id"] for span in telemetry.all_named("cassette.replay")}
    claims = {span.context.trace_state["cassette"] for span in telemetry.all_named("chat")}
    assert claims == {f"{session_id}.llm.0" for session_id in replays}
    assert len(claims) == 2


def test_a_plain_thread_pool_finds_the_only_session(
    make_telemetry: MakeTelemetry, cassette: Cassette
) -> None:
    telemetry = make_telemetry(ReplaySampler())

    def call() -> str:
        with telemetry.tracer.start_as_current_span("chat", attributes=CHAT):
            return cassette.wrap_llm().complete(openai_body("Where is order A-18?")).text

    with cassette.replaying(mode="lenient") as session, ThreadPoolExecutor(1) as pool:
        assert pool.submit(call).result() == "Shipped."
    (span,) = telemetry.all_named("chat")
    assert span.parent is None, "the context was lost"
    assert span.attributes["replay_diverged"] is True
    assert session.divergences[0].span_id == format(span.context.span_id, "016x")


def test_a_plain_thread_and_two_sessions_are_a_clear_error(cassette: Cassette) -> None:
    llm = cassette.wrap_llm()
    with (
        cassette.replaying(),
        Cassette(mode="strict").replaying(),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(CassetteError, match="2 cassette sessions are open"),
    ):
        pool.submit(llm.complete, openai_body("Refund it.")).result()


def test_tasks_and_executors(make_telemetry: MakeTelemetry, cassette: Cassette) -> None:
    telemetry = make_telemetry(ReplaySampler())
    llm = cassette.wrap_llm()

    def ask(question: str) -> str:
        with telemetry.tracer.start_as_current_span(f"chat {question}", attributes=CHAT):
            return llm.complete(openai_body(question)).text

    async def ask_in_task(question: str) -> str:
        await asyncio.sleep(0)
        return ask(question)

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        return [
            *await asyncio.gather(ask_in_task("Refund it."), asyncio.to_thread(ask, "Cancel it.")),
            await loop.run_in_executor(None, ask, "Where is order A-17?"),
        ]

    with cassette.replaying(mode="lenient") as session:
        answers = asyncio.run(main())
    assert answers[0] == "Done."
    assert answers[2] == "Shipped."
    (divergence,) = session.divergences
    marked = telemetry.named("chat Cancel it.")
    assert divergence.span_id == format(marked.context.span_id, "016x")
    assert "replay_diverged" not in telemetry.named("chat Refund it.").attributes


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_counts_for_itself(
    make_telemetry: MakeTelemetry, cassette: Cassette, tmp_path: Path
) -> None:
    telemetry = make_telemetry(ReplaySampler())
    llm = cassette.wrap_llm()
    report = tmp_path / "child.json"

    def ask(question: str) -> None:
        with telemetry.tracer.start_as_current_span("chat", attributes=CHAT):
            llm.complete(openai_body(question))

    with cassette.replaying(mode="lenient") as session:
        ask("Where is order A-18?")
        child = os.fork()
        if child == 0:
            try:
                ask("Refund it.")
                totals = session.summary
                open_spans = trace.get_current_span().is_recording()
                report.write_text(json.dumps([totals.served, totals.diverged, open_spans]))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert json.loads(report.read_text()) == [1, 0, True]
    assert (session.summary.served, session.summary.diverged) == (1, 1)
