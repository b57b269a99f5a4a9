"""SDK objects as records: what must stay one and the same."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from otel_cassette.formats import sdk


def test_a_resource_in_use_keeps_its_record_while_others_come() -> None:
    """Runs of bare calls are told by it: a second record would split them."""
    used = TracerProvider(resource=Resource({"service.name": "agent"}), shutdown_on_exit=False)
    tracer = used.get_tracer("test")
    records = []
    for number in range(600):
        span = tracer.start_span("call")
        span.end()
        records.append(sdk.span_of(span))
        sdk._resource(Resource({"service.name": f"other-{number}"}))
    assert len({id(record.resource) for record in records if record is not None}) == 1
