"""Every field of a request counts: where one is changed, the recorded answer is another question's.

The bodies in `tests/data/wire/every_field.json` hold what the providers' references name. Each value in
them is changed, one at a time, and the request sent to a replay. What makes no difference stands in
`NOT_COMPARED`, with its rule in docs/normalisation.md.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from otel_cassette import Cassette
from otel_cassette.clients import CassetteTransport

BODIES: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data/wire/every_field.json").read_text(encoding="utf-8")
)
# Ids are changed alone: the result still belongs to the next open call.
NOT_COMPARED: dict[str, dict[str, int]] = {
    "openai.chat": {
        "/messages/*/role": 4,  # of a message that a call's id makes a result
        "/messages/*/tool_call_id": 11,
        "/messages/*/tool_calls/*/id": 11,
        "/messages/*/content/*/file/filename": 12,
        "/messages/*/content/*/image_url/detail": 12,
        "/tools/*/function/strict": 14,
        "/tool_choice/type": 15,
        "/prompt_cache_key": 16,
        "/stream": 16,
        "/stream_options/include_usage": 16,
        "/messages/*/name": 19,
        "/messages/*/tool_calls/*/type": 21,
    },
    "openai.responses": {
        "/input/*/call_id": 11,
        "/input/*/id": 11,
        "/input/*/status": 11,
        "/input/*/content/*/annotations/*/type": 12,
        "/input/*/content/*/annotations/*/url": 12,
        "/input/*/content/*/detail": 12,
        "/input/*/content/*/filename": 12,
        "/input/*/encrypted_content": 13,
        "/tools/*/strict": 14,
        "/stream": 16,
        "/input/*/type": 21,  # of a message, which its role tells
    },
    "anthropic.messages": {
        "/messages/*/role": 4,  # of a message of tool results
        "/messages/*/content/*/is_error": 5,
        "/messages/*/content/*/id": 11,
        "/messages/*/content/*/tool_use_id": 11,
        "/messages/*/content/*/citations/*/cited_text": 12,
        "/messages/*/content/*/citations/*/type": 12,
        "/messages/*/content/*/citations/enabled": 12,
        "/messages/*/content/*/title": 12,
        "/messages/*/content/*/data": 13,  # reasoning that the provider has sealed
        "/messages/*/content/*/signature": 13,
        "/system/*/cache_control/type": 14,
        "/tools/*/cache_control/type": 14,
        "/tool_choice/disable_parallel_tool_use": 15,
        "/tool_choice/type": 15,
        "/stream": 16,
    },
    "google.generate": {
        "/contents/*/role": 4,
        "/contents/*/parts/*/functionResponse/scheduling": 5,
        "/contents/*/parts/*/functionResponse/willContinue": 5,
        "/contents/*/parts/*/functionResponse/name": 11,
        "/contents/*/parts/*/fileData/mimeType": 12,
        "/contents/*/parts/*/inlineData/displayName": 12,
        "/contents/*/parts/*/thoughtSignature": 13,
    },
    "openai.embeddings": {"/encoding_format": 16},
    "google.embed": {"/requests/*/model": 17},  # the path names it
    "google.embed.one": {},
}


def values(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value that is no mapping and no list."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        yield at
    for step, each in inner:
        yield from values(each, (*at, step))


def changed(body: Any, at: tuple[Any, ...]) -> Any:
    """Return a copy of a body with another value at one place."""
    made = copy.deepcopy(body)
    holder = made
    for step in at[:-1]:
        holder = holder[step]
    value = holder[at[-1]]
    if isinstance(value, bool):
        holder[at[-1]] = not value
    elif isinstance(value, int | float):
        holder[at[-1]] = value + 7
    else:
        holder[at[-1]] = f"{value or ''}Q"
    return made


def pointer(at: tuple[Any, ...]) -> str:
    return "/" + "/".join("*" if isinstance(step, int) else step for step in at)


def is_answered(client: httpx2.Client, cassette: Cassette, path: str, body: Any) -> bool:
    """Return whether a replay takes the request for the recorded one."""
    with cassette.replaying(mode="lenient") as session:
        client.post(path, json=body)
    return not session.divergences


@pytest.mark.parametrize("api", BODIES)
def test_a_changed_value_is_another_request(api: str) -> None:
    path, body = BODIES[api]["path"], BODIES[api]["body"]
    cassette = Cassette()
    transport = CassetteTransport(
        httpx2.MockTransport(lambda _request: httpx2.Response(200, json={"answer": 1}))
    )
    with httpx2.Client(transport=transport, base_url="http://provider") as client:
        with cassette.recording():
            client.post(path, json=body)
        assert is_answered(client, cassette, path, copy.deepcopy(body))
        same = {
            pointer(at)
            for at in values(body)
            if is_answered(client, cassette, path, changed(body, at))
        }
    assert same == set(NOT_COMPARED[api])
