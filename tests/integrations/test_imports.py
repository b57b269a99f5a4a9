"""Frameworks are instrumented when the program imports them: in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from otel_cassette import CassetteError
from otel_cassette.integrations.imports import instrument_when_imported

REFUND = """
import json, sys
from otel_cassette import Cassette
from otel_cassette.integrations.imports import instrument_when_imported

undo = instrument_when_imported({names})
frameworks = ("langchain_core", "mcp", "agents", "pydantic_ai")
assert not [name for name in frameworks if name in sys.modules]
{program}
"""
LANGCHAIN = """
from langchain_core.tools import BaseTool, tool

@tool
def refund(order_id: str) -> str:
    "Refund."
    print("for real")
    return "refunded " + order_id

cassette = Cassette()
with cassette.recording():
    refund.invoke({"order_id": "A-1"})
with cassette.replaying():
    print(refund.invoke({"order_id": "A-1"}))
undo()
with cassette.replaying():
    refund.invoke({"order_id": "A-1"})
"""


def run(program: str, cwd: Path, names: str = "") -> str:
    text = REFUND.replace("{names}", names).replace("{program}", program)
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", text],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_framework_is_instrumented_when_it_is_imported(tmp_path: Path) -> None:
    assert run(LANGCHAIN, tmp_path).split("\n")[:3] == ["for real", "refunded A-1", "for real"]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("import pydantic_ai", "pydantic_ai.capabilities:CombinedCapability.get_wrapper_toolset"),
        ("from agents import Agent", "agents.tool:FunctionTool.on_invoke_tool"),
        (
            "from mcp.client.session import ClientSession",
            "mcp.client.session:ClientSession.call_tool",
        ),
        ("import langchain.agents", "langchain_core.tools:BaseTool.run"),
    ],
)
def test_each_framework_by_the_import_that_programs_write(
    tmp_path: Path, line: str, place: str
) -> None:
    module, _, path = place.partition(":")
    owner, _, name = path.partition(".")
    out = run(
        f"""
{line}
import importlib
owner = getattr(importlib.import_module({module!r}), {owner!r})
value = vars(owner)[{name!r}]
where = value.__code__.co_filename if hasattr(value, "__code__") else type(value).__module__
print("integrations" in where)
undo()
print(vars(owner).get({name!r}) is value)
""",
        tmp_path,
    )
    assert out.split() == ["True", "False"]


def test_only_what_is_named(tmp_path: Path) -> None:
    out = run(
        'import langchain_core.tools as t\nprint("integrations" in t.BaseTool.run.__code__.co_filename)',
        tmp_path,
        names='["mcp"]',
    )
    assert out.split() == ["False"]


def test_a_package_of_the_programs_own_called_agents_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("planner = 'mine'\n")
    assert run("import agents\nprint(agents.planner)", tmp_path).split() == ["mine"]


def test_a_release_that_cannot_be_instrumented_is_logged_and_works(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("FunctionTool = Runner = object\n")
    (tmp_path / "agents" / "tool.py").write_text("")
    out = run("import agents\nprint(agents.Runner.__name__)", tmp_path)
    assert out.startswith("object\n")
    assert "tools of openai_agents are not answered and run for real" in out


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(CassetteError, match="no integration crewai: one of langchain, mcp"):
        instrument_when_imported(["crewai"])
