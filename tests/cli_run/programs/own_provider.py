"""An agent that sets OpenTelemetry up itself, and samples nothing; spans go to spans.jsonl."""

import json
import pathlib
import sys

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased


class ToFile(SpanExporter):
    def export(self, spans):
        with pathlib.Path("spans.jsonl").open("a") as stream:
            for span in spans:
                line = {
                    "name": span.name,
                    "root": span.parent is None,
                    "attributes": dict(span.attributes),
                    "limit": SpanLimits().max_span_attributes,
                }
                stream.write(json.dumps(line) + "\n")
        return SpanExportResult.SUCCESS


provider = TracerProvider(sampler=TraceIdRatioBased(float(sys.argv[1])))
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")

client = OpenAI(max_retries=0)
with tracer.start_as_current_span("agent"):
    for prompt in sys.argv[2:]:
        answer = client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
        )
        print(answer.choices[0].message.content)
