"""An agent whose library makes a tracer provider of its own, beside the program's global one."""

import sys

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor


def printing(name):
    provider = TracerProvider(shutdown_on_exit=name == "program")
    formatter = lambda span: f"{name}: {span.name}\n"  # noqa: E731
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=formatter)))
    return provider


trace.set_tracer_provider(printing("program"))
library = printing("library")

with library.get_tracer("library").start_as_current_span("inside"):
    answer = OpenAI(max_retries=0).chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": sys.argv[1]}]
    )
