"""`otel-cassette replay --tools`: an unchanged agent whose tools must not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = (
    Path(__file__).parents[1]
    / "data/dialects/openinference/openai-agents-openinference/refund__chat.otlp.jsonl"
)
PROGRAM = '''
import agents
from openai import AsyncOpenAI

agents.set_tracing_disabled(True)


@agents.function_tool
def lookup_order(order_id: str) -> dict:
    """Look up an order by id."""
    raise SystemExit(f"lookup_order ran for {order_id}")


@agents.function_tool
def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    raise SystemExit(f"refund ran for {order_id}")


@agents.function_tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    raise SystemExit(f"get_weather ran for {city}")


agent = agents.Agent(
    name="support_agent",
    instructions="You are a support agent for ACME. Use the tools.",
    model=agents.OpenAIChatCompletionsModel("gpt-4o-mini", openai_client=AsyncOpenAI()),
    tools=[lookup_order, refund, get_weather],
)
print(agents.Runner.run_sync(agent, "Please refund my order A-17.").final_output)
'''


def replayed(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "agent.py"
    program.write_text(PROGRAM, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    command = [sys.executable, "-m", "otel_cassette", "replay", str(TRACE), "--merge"]
    return subprocess.run(
        [*command, *options, "--", sys.executable, str(program)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )


def test_tools_are_answered_from_the_recording(tmp_path: Path) -> None:
    done = replayed(tmp_path, "--tools")
    assert done.returncode == 0, done.stderr
    assert "served 5, live 0, missed 0, unplayed 0" in done.stderr
    assert done.stdout.strip()


def test_without_the_option_they_run(tmp_path: Path) -> None:
    done = replayed(tmp_path)
    assert "lookup_order ran for A-17" in done.stderr + done.stdout


@pytest.mark.parametrize("option", ["--tools"])
def test_the_help_names_the_option(option: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "otel_cassette", "replay", "--help"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert option in done.stdout
