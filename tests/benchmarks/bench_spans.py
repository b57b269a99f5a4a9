"""What the span processor costs a program, against the SDK's own span and its OTLP JSON encoders.

`pytest tests/benchmarks/bench_spans.py` runs it. The cases take turns in short rounds and each
counts by its best one, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from figures import Figures
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as encode_as_json
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as encode_as_proto
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Tracer, set_span_in_context

from otel_cassette import Cassette, CassetteSpanProcessor, ReplaySampler

ROUNDS = 40
SPANS = 1_000
CALLS = 200
CONTENT_CHARS = 4_000
HTTP = {
    "http.request.method": "GET",
    "url.full": "http://shop.test/orders/17",
    "server.address": "shop.test",
    "server.port": 80,
    "http.response.status_code": 200,
    "network.protocol.version": "1.1",
}
Block = Callable[[], AbstractContextManager[object]]


class Kept(SpanProcessor):
    """Keeps the finished spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def tracer_with(processor: SpanProcessor | None, sampler: Sampler | None = None) -> Tracer:
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    return provider.get_tracer("bench")


class Case:
    """One way to have spans, and the block they are made in."""

    def __init__(
        self,
        processor: SpanProcessor | None,
        block: Block = nullcontext,
        sampler: Sampler | None = None,
    ) -> None:
        self.tracer = tracer_with(processor, sampler)
        self._block = block
        self.best_us = float("inf")

    def round(self, *, roots: bool) -> None:
        """Make spans that are no calls, below a span that stays open or as roots of their own."""
        with self._block():
            parent = self.tracer.start_span("request")
            context = None if roots else set_span_in_context(parent)
            start_span = self.tracer.start_span
            gc.collect()
            start = time.perf_counter()
            for _ in range(SPANS):
                start_span("GET", attributes=HTTP, context=context).end()
            took = time.perf_counter() - start
            parent.end()
        self.best_us = min(self.best_us, took / SPANS * 1e6)


def cases(folder: Path) -> dict[str, Case]:
    return {
        "no processor": Case(None),
        "a processor that does nothing": Case(SpanProcessor()),
        "idle": Case(CassetteSpanProcessor()),
        "recording into a session": Case(CassetteSpanProcessor(), lambda: Cassette().recording()),
        "recording into a cassette": Case(CassetteSpanProcessor(Cassette())),
        "recording into a directory": Case(CassetteSpanProcessor(directory=folder)),
        "replaying": Case(CassetteSpanProcessor(), replaying),
        "idle, with the sampler": Case(CassetteSpanProcessor(), sampler=ReplaySampler()),
        "replaying, with the sampler": Case(CassetteSpanProcessor(), replaying, ReplaySampler()),
    }


def replaying() -> AbstractContextManager[object]:
    """A replay; its own span is no part of what is measured."""
    return Cassette(mode="strict").replaying(span=False)


@pytest.mark.parametrize("roots", [False, True], ids=["child", "root"])
def test_a_span_that_is_no_call(tmp_path: Path, figures: Figures, roots: bool) -> None:
    measured = cases(tmp_path)
    for _ in range(ROUNDS):
        for case in measured.values():
            case.round(roots=roots)
    base = measured.pop("no processor").best_us
    what = "a root span" if roots else "a span"
    figures.note(f"{what} of the SDK, 6 attributes", base)
    for name, case in measured.items():
        if roots or name.endswith("the sampler"):
            # Roots: every span a trace of its own is the dearest there is, and rare. The sampler is
            # optional. No budget is set for either.
            figures.note(f"{what}, {name}: {case.best_us / base:.2f}x", case.best_us)
        else:
            limit = 1.2 if name.startswith(("recording", "replaying")) else 1.08
            figures.add(f"{what}, {name}", case.best_us, base, limit)


def chat(tracer: Tracer, number: int) -> None:
    """One model call of about 4 kB, as the official instrumentations write it."""
    text = "Please refund order A-17, it came damaged. " * 100
    question = [
        {"role": "user", "parts": [{"type": "text", "content": text[: CONTENT_CHARS // 2]}]}
    ]
    answer = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": f"{number} {text[: CONTENT_CHARS // 2]}"}],
            "finish_reason": "stop",
        }
    ]
    tracer.start_span(
        "chat gpt-4o",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.response.id": f"chatcmpl-{number}",
            "gen_ai.usage.input_tokens": 700,
            "gen_ai.usage.output_tokens": 200,
            "gen_ai.input.messages": json.dumps(question),
            "gen_ai.output.messages": json.dumps(answer),
        },
    ).end()


@pytest.fixture(scope="module")
def calls() -> list[ReadableSpan]:
    kept = Kept()
    tracer = tracer_with(kept)
    for number in range(CALLS):
        chat(tracer, number)
    return kept.spans


def blocks(folder: Path) -> Iterator[tuple[str, CassetteSpanProcessor, Block]]:
    yield "in memory", CassetteSpanProcessor(Cassette()), nullcontext
    yield "in a directory", CassetteSpanProcessor(directory=folder / "runs"), nullcontext
    cassette = Cassette()
    yield (
        "in recording(path)",
        CassetteSpanProcessor(cassette),
        lambda: cassette.recording(folder / "run.jsonl"),
    )


def test_the_end_of_a_model_call(
    tmp_path: Path, figures: Figures, calls: list[ReadableSpan]
) -> None:
    best: dict[str, float] = {}

    def timed(name: str, work: Callable[[ReadableSpan], object]) -> None:
        gc.collect()
        start = time.perf_counter()
        for span in calls:
            work(span)
        took = (time.perf_counter() - start) / len(calls) * 1e6
        best[name] = min(best.get(name, took), took)

    json_encoder, proto_encoder = "OpenTelemetry's own JSON", "OpenTelemetry's protobuf as JSON"
    for number in range(10):
        timed(json_encoder, lambda span: encode_as_json([span]).to_json())
        timed(proto_encoder, lambda span: MessageToJson(encode_as_proto([span])))
        for name, processor, block in blocks(tmp_path / str(number)):
            with block():
                timed(name, processor.on_end)
            assert processor.report.calls == CALLS
            assert processor.report.lines == ()
            processor.shutdown()
    as_json, as_proto = best.pop(json_encoder), best.pop(proto_encoder)
    what = "on_end of a model call (4 kB)"
    figures.add(f"{what}, in memory / {json_encoder}", best["in memory"], as_json, 0.5)
    for name, measured in best.items():
        figures.add(f"{what}, {name} / {proto_encoder}", measured, as_proto, 0.5)
        # Written and searched for secrets; no budget was set against this faster, newer encoder.
        figures.note(f"{what}, {name}: {measured / as_json:.2f}x {json_encoder}", measured)
