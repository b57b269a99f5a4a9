"""Other record-and-replay libraries on the same work: a tool of one argument, replayed.

Positions are not compared on features: each is driven as its own documentation says, from its own
recording, and asked for the same calls. Up to 1,000 calls, since some keep one growing file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench_core import best_us
from figures import Figures

from otel_cassette import Cassette

COUNTS = (100, 1_000)
PAYLOAD = {"status": "shipped", "total": 42.5, "items": [{"sku": "x", "qty": 2}] * 4}
Replay = Callable[[], None]


def look_up(order_id: str) -> dict[str, Any]:
    return {"order_id": order_id, **PAYLOAD}


def orders(count: int) -> list[str]:
    return [f"A-{number}" for number in range(count)]


def ours(folder: Path, count: int) -> Replay:
    cassette = Cassette()
    tool = cassette.wrap_tool(look_up)
    for order in orders(count):
        tool(order)
    cassette.save(folder / "ours.jsonl")

    def replay() -> None:
        loaded = Cassette.load(folder / "ours.jsonl", match="content")
        played = loaded.wrap_tool(never)
        check(played, count)

    return replay


def never(order_id: str) -> dict[str, Any]:
    raise AssertionError(order_id)


never.__name__ = "look_up"


def check(tool: Callable[[str], Any], count: int) -> None:
    for order in orders(count):
        assert tool(order)["order_id"] == order


def frozentrace(folder: Path, count: int) -> Replay:
    peer = importlib.import_module("frozentrace")
    path = str(folder / "frozentrace.json")
    tool = peer.intercept(look_up, kind="tool")
    with peer.record(path):
        check(tool, count)

    def replay() -> None:
        with peer.replay(path):
            check(tool, count)

    return replay


def cassette_fn(folder: Path, count: int) -> Replay:
    peer = importlib.import_module("cassette_fn")
    recording = peer.tape(dir=str(folder), name="tape", mode="record")
    check(recording.wrap(look_up), count)
    recording.save()

    def replay() -> None:
        check(peer.tape(dir=str(folder), name="tape", mode="replay").wrap(never), count)

    return replay


def llm_cassette(folder: Path, count: int) -> Replay:
    peer = importlib.import_module("llm_cassette")
    path = str(folder / "llm-cassette.jsonl")
    tool = peer.tool(look_up)
    with peer.cassette(path, mode="record"):
        check(tool, count)

    def replay() -> None:
        with peer.cassette(path, mode="replay"):
            check(tool, count)

    return replay


def agenttape(folder: Path, count: int) -> Replay:
    peer = importlib.import_module("agenttape")
    path = str(folder / "agenttape.yaml")
    tool = peer.tool(look_up)
    with peer.use_cassette(path, mode="record"):
        check(tool, count)

    def replay() -> None:
        with peer.use_cassette(path, mode="none"):
            check(tool, count)

    return replay


PEERS = {f.__name__: f for f in (frozentrace, cassette_fn, llm_cassette, agenttape)}


@pytest.mark.parametrize("count", COUNTS)
def test_replay_beside_the_peers(tmp_path: Path, figures: Figures, count: int) -> None:
    """Load and replay, a call: ours first, then each peer as a multiple of ours."""
    os.environ.pop("CASSETTE_FN_MODE", None)
    mine = best_us(ours(tmp_path, count), count, rounds=3)
    figures.note(f"load and replay {count} tool calls, a call: otel-cassette", mine)
    for name, prepare in PEERS.items():
        folder = tmp_path / name
        folder.mkdir()
        took = best_us(prepare(folder, count), count, rounds=3)
        figures.note(f"  {name} ({took / mine:.1f}x ours)", took)
    assert mine > 0
