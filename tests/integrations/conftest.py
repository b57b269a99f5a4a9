"""Recorded traces with what really happened, and tools that must not run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from otel_cassette import Cassette
from otel_cassette.integrations import langchain, mcp, openai_agents, pydantic_ai

# The frameworks' releases that are tested need Python 3.11 (group `frameworks` in pyproject.toml).
collect_ignore_glob = ["test_*.py"] if sys.version_info < (3, 11) else []

DATA = Path(__file__).parents[1] / "data"


class Recorded(NamedTuple):
    """A trace as a cassette, the tool calls that were really made, and the agent's last words."""

    cassette: Cassette
    tools: list[dict[str, Any]]
    output: str | None


@pytest.fixture
def recorded() -> Callable[[str], Recorded]:
    def load(scenario: str) -> Recorded:
        truth = json.loads((DATA / f"{scenario}.truth.json").read_text())
        tools = [call for call in truth["calls"] if call["kind"] == "tool"]
        cassette = Cassette.from_trace(DATA / f"{scenario}.otlp.jsonl", merge=True)
        return Recorded(cassette, tools, truth["run"]["output"])

    return load


@pytest.fixture
def ran() -> list[dict[str, Any]]:
    """Arguments of every real run of a tool."""
    return []


@pytest.fixture
def instrument() -> Iterator[Callable[[str], None]]:
    modules = {
        "langchain": langchain,
        "mcp": mcp,
        "openai_agents": openai_agents,
        "pydantic_ai": pydantic_ai,
    }
    used = []

    def switch_on(name: str) -> None:
        modules[name].instrument()
        used.append(modules[name])

    yield switch_on
    for module in used:
        module.uninstrument()
