"""The files of several processes as one recording: indexes, parents and failures stay consistent."""

from __future__ import annotations

from otel_cassette import Cassette
from otel_cassette.cli.recorded import join_documents
from otel_cassette.document import Document, parse_document
from otel_cassette.model.entry import CassetteFailure

REQUEST = '{"messages":[{"role":"user","content":"%s"}]}'
ANSWER = '{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}'


def document(name: str) -> Document:
    """One process: a model call, a tool with a model call inside, a failed tool with one inside, a failure."""
    request = REQUEST % name
    return parse_document(
        "\n".join(
            [
                f'{{"kind":"llm","index":0,"request":{request},"response":{ANSWER}}}',
                '{"kind":"tool","index":0,"name":"look","request":{},"response":1}',
                f'{{"kind":"llm","index":0,"request":{request},"response":{ANSWER},"parent":{{"kind":"tool","index":0}}}}',
                '{"kind":"tool","failed":true,"follows":0,"name":"look","request":{},"error":{"type":"E","message":"m"}}',
                f'{{"kind":"llm","index":0,"request":{request},"response":{ANSWER},"parent":{{"kind":"tool","index":0,"failed":true}}}}',
                f'{{"kind":"llm","failed":true,"follows":0,"request":{request},"error":{{"type":"E","message":"m"}}}}',
            ]
        )
    )


def test_two_processes_one_after_the_other():
    _, records = join_documents([document("a"), document("b")])

    seen = [
        (
            record.kind,
            record.follows if isinstance(record, CassetteFailure) else record.index,
            isinstance(record, CassetteFailure),
            None if record.parent is None else (record.parent.index, record.parent.failed),
        )
        for record in records
    ]
    assert sorted(seen, key=str) == sorted(
        [
            ("llm", 0, False, None),
            ("tool", 0, False, None),
            ("llm", 0, False, (0, False)),
            ("tool", 0, True, None),
            ("llm", 0, False, (0, True)),
            ("llm", 0, True, None),
            ("llm", 1, False, None),
            ("tool", 1, False, None),
            ("llm", 0, False, (1, False)),
            ("tool", 1, True, None),
            ("llm", 0, False, (1, True)),
            ("llm", 1, True, None),
        ],
        key=str,
    )
    # Two entries of one place would be refused.
    cassette = Cassette(record for record in records if not isinstance(record, CassetteFailure))
    assert len(cassette.entries) == 4


def test_one_process_is_taken_as_it_is():
    one = document("a")
    _, records = join_documents([one])
    assert sorted(map(id, records)) == sorted(map(id, one.records))


def test_none_is_an_empty_recording():
    header, records = join_documents([])
    assert (header.version, records) == (1, [])
