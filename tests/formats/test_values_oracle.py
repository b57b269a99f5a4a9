"""Random spans through the official encoder: what is read equals the message they were made from."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_cassette.formats import load_trace

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=4
        ),
    ),
    max_leaves=12,
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def message_of(value: Any) -> AnyValue:
    message = AnyValue()
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int):
        message.int_value = value
    elif isinstance(value, float):
        message.double_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, bytes):
        message.bytes_value = value
    elif isinstance(value, list):
        message.array_value.SetInParent()
        message.array_value.values.extend(map(message_of, value))
    elif isinstance(value, dict):
        message.kvlist_value.SetInParent()
        for key, item in value.items():
            message.kvlist_value.values.add(key=key, value=message_of(item))
    return message


def export_of(attributes: dict[str, Any]) -> TracesData:
    export = TracesData()
    span = (
        export.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=b"\x01" * 16, span_id=b"\x02" * 8, name="chat", start_time_unix_nano=2**63 + 1
        )
    )
    event = span.events.add(name="event")
    for key, value in attributes.items():
        span.attributes.add(key=key, value=message_of(value))
        event.attributes.add(key=key, value=message_of(value))
    return export


def with_hex_ids(plain: Any) -> Any:
    """protobuf's own JSON writes ids in base64, OTLP's in hex."""
    for group in plain["resourceSpans"]:
        for part in group["scopeSpans"]:
            for span in part["spans"]:
                for key in ("traceId", "spanId"):
                    span[key] = base64.b64decode(span[key]).hex()
    return plain


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_any_attribute_tree_reads_back(
    attributes: dict[str, Any], snake_case: bool, hex_ids: bool, indent: int | None
) -> None:
    export = export_of(attributes)
    plain = MessageToDict(export, preserving_proto_field_name=snake_case)
    if hex_ids and not snake_case:
        plain = with_hex_ids(plain)
    text = json.dumps(plain, indent=indent).encode()
    for source in (text, plain, export, export.SerializeToString()):
        (span,) = load_trace(source).spans
        assert repr(dict(span.attributes)) == repr(attributes)
        assert repr(dict(span.events[0].attributes)) == repr(attributes)
        assert (span.trace_id, span.span_id, span.start_ns) == ("01" * 16, "02" * 8, 2**63 + 1)
