"""Unmodified programs of every sort, recorded and replayed: the answers, and what is said of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from otel_cassette import Cassette

ECHOES = "Echo: one\nEcho: two\n"
INSTRUMENT = str(Path(sys.executable).parent / "opentelemetry-instrument")


def recorded(bench) -> Cassette:
    return Cassette.load(bench.folder / "run.jsonl")


def replayed(bench, command, **kwargs):
    """Replay, and check what holds for every identical replay."""
    ran = bench.replay(*command, **kwargs)
    assert bench.trap.connections == 0
    assert ran.report["verdict"] == "identical", ran.err
    assert ran.report["refused_hosts"] == {}
    assert ran.code == 0
    return ran


@pytest.mark.parametrize("name", ["plain", "claude"])
def test_a_program_without_opentelemetry(bench, program, name):
    command = program(name, "one", "two")

    ran = bench.record(*command)

    assert ran.code == 0, ran.err
    assert ran.out == ECHOES
    assert "recorded 2 calls (2 llm) in run.jsonl" in ran.err
    assert [entry.llm_response.text for entry in recorded(bench).entries] == [
        "Echo: one",
        "Echo: two",
    ]
    bench.provider.prompts.clear()
    again = replayed(bench, command)
    assert again.out == ECHOES
    assert (
        "identical: replay of run.jsonl (strict): served 2, live 0, missed 0, unplayed 0"
        in again.err
    )
    assert bench.provider.prompts == []


@pytest.mark.parametrize("name", ["plain", "claude"])
def test_an_edited_prompt_fails_at_once_and_readably(bench, program, name):
    bench.record(*program(name, "one", "two"))

    ran = bench.replay(*program(name, "uno", "two"))

    assert ran.code == 1  # the program's own: the SDK's error ended it
    assert ran.out == ""
    assert "llm call #0: request differs (messages/0/parts/0/content)" in ran.err
    assert "\n  -one\n  +uno\n" in ran.err
    assert ran.report["verdict"] == "diverged"
    assert (ran.report["served"], ran.report["missed"]) == (
        0,
        1,
    )  # one try, whatever the SDK retries
    assert bench.trap.connections == 0


def test_the_programs_own_provider_is_left_as_it_is(bench, program):
    command = program("own_provider", "0.0", "one", "two")
    bench.record(*command)
    spans = bench.folder / "spans.jsonl"
    assert not spans.exists()  # a ratio of 0: the program exports nothing while it is recorded

    ran = replayed(bench, command)

    # In a replay nothing is dropped: its spans are what shows where it departed.
    assert ran.out == ECHOES
    lines = [json.loads(line) for line in spans.read_text().splitlines()]
    assert [line["name"] for line in lines] == ["agent", "cassette.replay"]
    assert lines[0]["root"] is True
    assert lines[0]["limit"] >= 1000
    assert lines[1]["attributes"]["cassette.served"] == 2
    assert "replay_diverged" not in {**lines[0]["attributes"], **lines[1]["attributes"]}


def test_a_divergence_is_marked_in_the_programs_own_trace(bench, program):
    bench.record(*program("own_provider", "1.0", "one", "two"))
    (bench.folder / "spans.jsonl").unlink()

    ran = bench.replay(
        *program("own_provider", "1.0", "one", "zwei"), options=["--mode", "lenient"]
    )

    assert ran.code == 0
    assert ran.out == ECHOES
    lines = [json.loads(line) for line in (bench.folder / "spans.jsonl").read_text().splitlines()]
    marked = {line["name"]: line["attributes"].get("replay_diverged") for line in lines}
    assert marked == {"cassette.divergence": True, "agent": True, "cassette.replay": True}


@pytest.mark.parametrize("configurator", [None, "none_of_them"])
def test_opentelemetry_instrument_with_and_without_its_distro(bench, program, configurator):
    command = [
        INSTRUMENT,
        "--traces_exporter",
        "none",
        "--metrics_exporter",
        "none",
        "--logs_exporter",
        "none",
    ]
    command += program("instrumented", "one", "two")
    # Without a configurator, as without the distro, nothing sets a provider up.
    env = {"OTEL_PYTHON_CONFIGURATOR": configurator} if configurator else {}
    name = "ProxyTracerProvider" if configurator else "TracerProvider"

    assert bench.record(*command, env=env).out == f"{name}\n{ECHOES}"

    ran = replayed(bench, command, env=env)
    assert ran.out == f"{name}\n{ECHOES}"
    assert [each["started_by"] for each in ran.report["processes"]] == [
        "opentelemetry_pre_instrument"
    ]


def test_a_provider_behind_a_proxy_and_suppressed_instrumentation(bench, program):
    bench.record(*program("proxied", "one", "two"))

    ran = bench.replay(*program("proxied", "one", "zwei"), options=["--mode", "lenient"])

    assert bench.trap.connections == 0
    assert ran.out.splitlines() == [
        "Echo: one",
        "span chat False",
        "span cassette.divergence True",
        "Echo: two",
        "span chat True",
        "span cassette.replay True",
    ] or ran.out.splitlines() == [
        "Echo: one",
        "span chat False",
        "Echo: two",
        "span cassette.divergence True",
        "span chat True",
        "span cassette.replay True",
    ]


def test_spans_of_our_own_go_where_the_programs_own_go(bench, program):
    bench.record(*program("two_providers", "one"))

    ran = bench.replay(*program("two_providers", "uno"), options=["--mode", "lenient"])

    assert ran.out.splitlines() == [
        "program: cassette.divergence",
        "library: inside",
        "program: cassette.replay",
    ]


@pytest.mark.parametrize("launcher", [[], [INSTRUMENT]])
def test_another_sitecustomize_runs_too(bench, program, launcher):
    other = bench.folder / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import os, sys\nsys.stderr.write('another sitecustomize\\n')\nsys.flags_seen = __file__\n"
    )
    env = {
        "PYTHONPATH": str(other),
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "none",
    }
    command = [*launcher, *program("plain", "one", "two")]

    ran = bench.record(*command, env=env)

    assert ran.out == ECHOES
    # `opentelemetry-instrument` itself hides every later sitecustomize from the program, with or
    # without us; there only its own launcher sees the other one.
    assert "another sitecustomize" in ran.err
    assert replayed(bench, command, env=env).out == ECHOES


def test_a_broken_sitecustomize_is_reported_by_python_as_ever(bench, program):
    other = bench.folder / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("raise RuntimeError('not today')\n")

    ran = bench.record(*program("plain", "one", "two"), env={"PYTHONPATH": str(other)})

    assert ran.out == ECHOES
    assert "not today" in ran.err
    assert "recorded 2 calls" in ran.err


def test_the_program_sees_the_path_it_would_have_without_us(bench):
    script = bench.folder / "path.py"
    script.write_text("import sys\nprint([p for p in sys.path if 'autostart' in p])\n")

    ran = bench.command("record", "--", sys.executable, script)

    assert ran.out == "[]\n"


@pytest.mark.parametrize("how", ["forked", "killed", "pool", "spawned"])
def test_workers_have_accounts_of_their_own(bench, program, how):
    command = program("workers", how, "one", "two")

    ran = bench.record(*command)

    assert ran.code == 0, ran.err
    assert ran.out == f"Echo: from the parent\n{ECHOES}"
    texts = sorted(entry.llm_response.text for entry in recorded(bench).entries)
    assert texts == ["Echo: from the parent", "Echo: one", "Echo: two"]
    assert [entry.index for entry in recorded(bench).entries] == [0, 1, 2]

    again = replayed(bench, command)
    assert again.out == ran.out
    assert again.report["served"] == 3
    calls = [each["calls"] for each in again.report["processes"] if each["calls"]]
    assert sum(calls) == 3
    assert len(calls) >= 2
    assert "process " in again.err


def test_what_no_worker_asked_for_is_missing_once(bench, program):
    bench.record(*program("workers", "forked", "one", "two"))

    ran = bench.replay(*program("workers", "forked", "two"), options=["--fail-on-divergence"])

    assert ran.code == 1
    assert (ran.report["served"], ran.report["unplayed"]) == (2, 1)
    assert [each["reason"] for each in ran.report["divergences"]] == ["missing_call"]
    assert "llm call #1: missing call" in ran.err


def test_equal_calls_of_several_workers(bench, program):
    command = program("workers", "forked", "one", "one")
    bench.record(*command)

    assert replayed(bench, command).report["served"] == 3

    # One more than was recorded: each worker is served, but together they ask too often.
    more = bench.replay(
        *program("workers", "forked", "one", "one", "one"), options=["--fail-on-divergence"]
    )
    assert more.code == 1
    assert more.report["repeated"] == ["llm#1"]


def test_threads_that_lost_the_context(bench, program):
    prompts = [f"prompt {number}" for number in range(12)]
    bench.record(*program("threads", *prompts))

    ran = replayed(bench, program("threads", *reversed(prompts)))

    assert ran.out.splitlines() == [f"Echo: {prompt}" for prompt in reversed(prompts)]


def test_a_child_process_takes_part(bench, program):
    command = program("children", "keep", "one", "two")

    assert bench.record(*command).out == ECHOES
    assert replayed(bench, command).out == ECHOES


@pytest.mark.parametrize("how", ["clear", "shell", "pythonpath"])
def test_a_child_with_an_environment_of_its_own_takes_part(bench, program, how):
    bench.record(*program("plain", "one", "two"))

    ran = bench.replay(*program("children", how, "one", "two"))

    assert (ran.code, ran.out) == (0, ECHOES)
    assert (ran.report["verdict"], ran.report["served"]) == ("identical", 2)


@pytest.mark.parametrize("how", ["frozen", "posix_spawn"])
def test_a_child_with_an_environment_that_is_settled_is_out_of_reach(bench, program, how):
    bench.record(*program("plain", "one", "two"))

    ran = bench.replay(*program("children", how, "one", "two"))

    assert ran.code == 1  # no key, and nothing of ours: the SDK refuses to start
    assert "nothing of this run starts in" in ran.err
    assert (ran.report["verdict"], ran.report["served"]) == ("cannot_tell", 0)
