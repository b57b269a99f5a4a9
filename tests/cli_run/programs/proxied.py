"""An agent set up as Logfire does it: a provider behind a proxy, SDK calls with instrumentation suppressed.

`logfire.configure` sets a proxy as the global provider and makes an SDK provider under it;
`logfire.instrument_openai` runs the SDK's own call inside `suppress_instrumentation`.
"""

import sys

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor


class Proxy(trace.TracerProvider):
    def __init__(self, real):
        self.real = real

    def get_tracer(self, *args, **kwargs):
        return self.real.get_tracer(*args, **kwargs)


def one_line(span):
    return f"span {span.name} {dict(span.attributes).get('replay_diverged', False)}\n"


real = TracerProvider(shutdown_on_exit=False)
real.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=one_line)))
trace.set_tracer_provider(Proxy(real))

client = OpenAI(max_retries=0)
for prompt in sys.argv[1:]:
    with trace.get_tracer("shop").start_as_current_span("chat"), suppress_instrumentation():
        answer = client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
        )
        print(answer.choices[0].message.content)
real.shutdown()
