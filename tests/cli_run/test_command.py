"""What the two commands say and return: options, exit codes, and the errors of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from typing import Any

import pytest

from otel_cassette import Cassette
from otel_cassette.cli.record import default_output
from otel_cassette.cli.run_program import environment, refuse_hiding_flags
from otel_cassette.errors import CassetteError

CHANGED = ["one", "zwei"]


@pytest.fixture
def taped(bench, tape):
    """A bench with the recording of `plain one two`."""
    (bench.folder / "run.jsonl").write_bytes(tape)
    return bench


# -- modes and exit codes -------------------------------------------------------------------------


@pytest.mark.parametrize(("flag", "code"), [([], 0), (["--fail-on-divergence"], 1)])
def test_lenient_serves_what_departed_and_the_flag_decides_the_code(taped, program, flag, code):
    ran = taped.replay(*program("plain", *CHANGED), options=["--mode", "lenient", *flag])

    assert ran.out == "Echo: one\nEcho: two\n"
    assert ran.code == code
    assert (ran.report["served"], ran.report["missed"]) == (2, 0)
    assert [d["reason"] for d in ran.report["divergences"]] == ["request_changed"]
    assert "-two\n" in ran.err
    assert "+zwei\n" in ran.err
    assert taped.trap.connections == 0


def test_fallthrough_makes_the_real_call(taped, program):
    ran = taped.replay(
        *program("plain", *CHANGED), options=["--mode", "fallthrough"], env=taped.provider.env
    )

    assert ran.out == "Echo: one\nEcho: zwei\n"
    assert taped.provider.prompts == ["zwei"]
    assert (ran.report["served"], ran.report["live"]) == (1, 1)


def test_fallthrough_never_sends_a_stand_in_for_a_key(taped, program):
    ran = taped.replay(*program("plain", *CHANGED), options=["--mode", "fallthrough"])

    assert ran.code == 1
    assert taped.trap.connections == 0


@pytest.mark.parametrize("flag", [[], ["--fail-on-divergence"]])
def test_the_programs_own_exit_code_is_passed_on(bench, program, flag):
    assert bench.record(*program("exits", "7")).code == 7

    assert bench.replay(*program("exits", "7"), options=flag).code == 7
    assert bench.replay(*program("exits", "0"), options=flag).code == 0


def test_a_program_ended_by_a_signal(bench):
    script = bench.folder / "dies.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")

    ran = bench.command("record", "--", sys.executable, script)

    assert ran.code == 2  # nothing was recorded, and that comes first
    assert f"exit code: {128 + signal.SIGTERM}" in ran.err


def test_no_call_at_all_cannot_pass_for_identical(taped, program):
    ran = taped.replay(*program("plain"), options=["--fail-on-divergence"])

    assert (ran.code, ran.report["verdict"]) == (3, "cannot_tell")
    assert ran.report["unplayed"] == 2
    assert "no call reached the replay" in ran.err


def test_what_cannot_be_compared_is_cannot_tell(taped, program):
    path = taped.folder / "run.jsonl"
    entries = [
        entry.model_copy(update={"request": {}, "scope": (), "request_integrity": "absent"})
        for entry in Cassette.load(path).entries
    ]
    Cassette(entries).save(path)

    refused = taped.replay(*program("plain", "one", "two"))
    allowed = taped.replay(
        *program("plain", "one", "two"), options=["--allow-unverified", "--fail-on-divergence"]
    )

    stopped = taped.replay(*program("plain", "one", "two"), options=["--fail-on-divergence"])

    assert refused.code == 1
    assert refused.out == ""
    assert (stopped.code, stopped.report["verdict"]) == (3, "cannot_tell")
    assert "; --allow-unverified serves it by place" in stopped.err
    assert allowed.code == 3
    assert allowed.out == "Echo: one\nEcho: two\n"
    assert allowed.report["unverified"] == 2
    assert "2 calls could not be compared" in allowed.err


def test_a_miss_says_what_to_do(taped, program):
    ran = taped.replay(*program("plain", *CHANGED))

    assert "--mode lenient" in ran.err.splitlines()[-1]
    assert "--ignore" in ran.err.splitlines()[-1]
    assert "mode='lenient'" in ran.err  # in the SDK's error


@pytest.mark.parametrize("options", [[], ["--tools"]])
def test_tools_that_nothing_answers_are_told_of(bench, program, options):
    recorded = bench.record(*program("plain", "[tool]"))
    ran = bench.replay(*program("plain", "[tool]"), options=options)

    assert (
        "the model asked for 1 tool call, the results of 1 are not in the recording" in recorded.err
    )
    assert (ran.report["verdict"], ran.report["without_result"]) == ("identical", 1)
    assert "1 tool call that the model asked for has no result in the recording" in ran.err
    assert "what it ran of them was real" in ran.err


def test_a_target_that_cannot_be_written_is_told_before_the_program_runs(bench, program):
    (bench.folder / "folder").mkdir()
    source = bench.folder / "mine.py"
    source.write_text("print('mine')\n")
    for target, says in [("folder", "directory"), ("mine.py", "is no cassette")]:
        ran = bench.command(
            "record", "-o", target, "--", *program("plain", "one"), env=bench.provider.env
        )
        assert ran.code == 2
        assert says in ran.err
        assert (ran.out, bench.provider.prompts) == ("", [])
    assert source.read_text() == "print('mine')\n"
    assert sorted(path.name for path in bench.folder.iterdir()) == ["folder", "mine.py"]


def test_match_index_takes_calls_in_their_order(taped, program):
    swapped = program("plain", "two", "one")

    assert taped.replay(*swapped).report["verdict"] == "identical"
    assert taped.replay(*swapped, options=["--match", "index"]).report["verdict"] == "diverged"


def test_ignored_fields_are_not_compared(taped, program):
    ignore = ["--ignore", "/messages/*/parts/*/content"]

    ran = taped.replay(*program("plain", *CHANGED), options=ignore)

    assert ran.report["verdict"] == "identical"
    assert ran.out == "Echo: one\nEcho: two\n"
    assert taped.replay(*program("plain", "one"), options=["--ignore", "no-pointer"]).code == 2


# -- the network ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "blocked"),
    [
        ([], True),
        (["--no-block-network"], False),
        (["--allow-host", "192.0.2.1"], False),
        (["--kinds", "llm"], False),
        (["--kinds", "llm", "--block-network"], True),
        (["--kinds", "llm,tool"], True),
    ],
)
def test_the_network_is_blocked_unless_tools_are_live(bench, program, options, blocked):
    # 192.0.2.1 is for documentation (RFC 5737): nobody answers there.
    command = program("outward", "192.0.2.1")
    bench.record(*command)

    ran = bench.replay(*command, options=options)

    assert ran.out.splitlines()[0] == "Echo: hello"
    assert ("NetworkBlockedError" in ran.out) is blocked
    assert ran.report["refused_hosts"] == ({"192.0.2.1": 1} if blocked else {})
    assert ("connection to 192.0.2.1 refused (--allow-host 192.0.2.1" in ran.err) is blocked


# -- nothing started ------------------------------------------------------------------------------


def test_a_program_that_is_no_python_is_an_error(taped):
    ran = taped.replay("true")

    assert ran.code == 2
    assert "nothing of otel-cassette started in the program (exit code 0)" in ran.err
    assert ran.report == {}


def test_a_shell_in_between_is_fine(taped, program):
    line = " ".join(program("plain", "one", "two"))

    ran = taped.replay("sh", "-c", f"echo first && {line}")

    assert ran.code == 0
    assert ran.out == "first\nEcho: one\nEcho: two\n"


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-S"], ["-uS"], ["-W", "error", "-I"]])
def test_flags_that_hide_the_start_up_code_are_refused_before_anything_runs(taped, flags):
    ran = taped.replay(sys.executable, *flags, "-c", "print('ran')")

    assert ran.code == 2
    assert ran.out == ""
    assert "leave the flag out" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-u", "-c", "-I"],
        ["python", "a.py", "-S"],
        ["python3.11", "-W", "I", "x.py"],
        ["perl", "-S"],
    ],
)
def test_other_uses_of_those_letters_are_no_flags(command):
    assert refuse_hiding_flags(command) is None


def test_hidden_flags_name_the_command():
    with pytest.raises(CassetteError, match=r"python -S x\.py: this Python runs no start-up code"):
        refuse_hiding_flags(["python", "-S", "x.py"])


def test_an_interpreter_without_the_package_is_named_and_blocked(taped):
    elsewhere = taped.folder / "venv"
    venv.create(elsewhere, with_pip=False, symlinks=True)
    python = elsewhere / "bin" / "python"
    code = "import socket\nprint('runs')\nsocket.create_connection(('192.0.2.1', 9), timeout=2)"

    ran = taped.replay(python, "-c", code)

    assert ran.code == 2
    assert ran.out == "runs\n"
    assert f"{python} cannot import otel_cassette" in ran.err
    assert "connection to 192.0.2.1 refused" in ran.err
    assert "nothing of otel-cassette started" in ran.err


def test_a_launcher_in_another_interpreter_is_fine(taped, program):
    elsewhere = taped.folder / "venv"
    venv.create(elsewhere, with_pip=False, symlinks=True)
    code = f"import subprocess, sys; sys.exit(subprocess.run({program('plain', 'one', 'two')!r}).returncode)"

    ran = taped.replay(elsewhere / "bin" / "python", "-c", code)

    assert ran.code == 0
    assert ran.out == "Echo: one\nEcho: two\n"
    assert ran.report["verdict"] == "identical"


def test_a_program_that_is_not_there(taped):
    ran = taped.replay("no-such-program-here")

    assert ran.code == 2
    assert "no-such-program-here: cannot be run: No such file or directory" in ran.err


def test_a_damaged_installation_stops_the_program_before_its_first_call(taped, program):
    # A module of ours that cannot be imported, in the program only.
    broken = taped.folder / "broken"
    broken.mkdir()
    (broken / "filelock.py").write_text("raise ImportError('filelock is damaged')\n")
    command = ["env", f"PYTHONPATH={broken}:{_shim()}", *program("plain", "one", "two")]

    ran = taped.replay(*command)

    assert ran.code == 2
    assert ran.out == ""
    assert "could not start in process" in ran.err
    assert "filelock is damaged" in ran.err
    assert taped.trap.connections == 0


def _shim() -> str:
    from otel_cassette.autostart import shim_folder

    return str(shim_folder())


# -- the recording --------------------------------------------------------------------------------


def test_a_recording_that_is_not_there(bench, program):
    ran = bench.command("replay", "nowhere.jsonl", "--", *program("plain", "one"))

    assert ran.code == 2
    assert ran.out == ""
    assert "nowhere.jsonl" in ran.err


def test_a_trace_with_several_runs_asks_which(bench, program):
    text = json.dumps(json.loads(TRACE)) + "\n" + TRACE.replace("1" * 32, "2" * 32)
    (bench.folder / "trace.json").write_text(text)
    command = ["--", *program("plain", "one")]

    asks = bench.command("replay", "trace.json", *command)
    chosen = bench.command("replay", "trace.json", "--trace-id", "2" * 32, *command)

    assert asks.code == 2
    assert asks.out == ""
    assert "choose one with --trace-id" in asks.err
    assert "2" * 32 in asks.err
    assert chosen.out == "from the trace\n"


def test_an_exported_trace_is_replayed(bench, program, tmp_path):
    # Written by hand as the GenAI conventions have it; its tool call runs for real in this program.
    bench.record(*program("plain", "one", "two"))
    (tmp_path / "trace.json").write_text(TRACE)

    ran = bench.command(
        "replay",
        "trace.json",
        "--fail-on-divergence",
        "--",
        *program("plain", "one"),
        env=bench.trap.env,
    )

    assert ran.out == "from the trace\n"
    assert ran.code == 0, ran.err
    assert "served 1, live 0, missed 0, unplayed 0" in ran.err
    assert "1 recorded tool call was not asked for" in ran.err
    assert bench.trap.connections == 0


def otlp_span(number: int, name: str, **attributes: str) -> dict[str, Any]:
    """Return a span as OTLP JSON has it; the first one is the root."""
    span: dict[str, Any] = {
        "traceId": "1" * 32,
        "spanId": str(number) * 16,
        "name": name,
        "startTimeUnixNano": str(number * 1000),
        "endTimeUnixNano": str(number * 1000 + 500),
        "attributes": [
            {"key": key.replace("__", "."), "value": {"stringValue": value}}
            for key, value in attributes.items()
        ],
    }
    return span if number == 1 else {**span, "parentSpanId": "1" * 16}


def said(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


SPANS = [
    otlp_span(1, "agent"),
    otlp_span(
        2,
        "chat gpt-4o-mini",
        gen_ai__operation__name="chat",
        gen_ai__provider__name="openai",
        gen_ai__request__model="gpt-4o-mini",
        gen_ai__input__messages=said("user", "one"),
        gen_ai__output__messages=said("assistant", "from the trace"),
    ),
    otlp_span(
        3,
        "execute_tool look",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="look",
        gen_ai__tool__call__arguments="{}",
        gen_ai__tool__call__result="seen",
    ),
]
TRACE = json.dumps(
    {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "shop"}, "spans": SPANS}]}]}
)


# -- record ---------------------------------------------------------------------------------------


def test_record_says_where_it_writes_by_default(bench, program):
    ran = bench.command("record", *program("plain", "one"), env=bench.provider.env)

    assert ran.code == 0
    assert "in plain.cassette.jsonl" in ran.err
    assert len(Cassette.load(bench.folder / "plain.cassette.jsonl").entries) == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "src/my_agent.py", "--x"], "my_agent.cassette.jsonl"),
        (["python", "-m", "shop.agent"], "shop.agent.cassette.jsonl"),
        (["opentelemetry-instrument", "python", "a.py"], "a.cassette.jsonl"),
        (["/usr/bin/my-agent"], "my-agent.cassette.jsonl"),
    ],
)
def test_default_names(command, name):
    assert default_output(command) == name


def test_a_recording_of_nothing_is_an_error_and_no_file(taped, program):
    before = (taped.folder / "run.jsonl").read_bytes()

    ran = taped.record(*program("plain"))

    assert ran.code == 2
    assert "no call was recorded, and run.jsonl was not written" in ran.err
    assert "the program made no OpenTelemetry tracer provider" in ran.err
    assert (taped.folder / "run.jsonl").read_bytes() == before


def test_requests_that_no_codec_reads_are_counted(bench, program):
    script = bench.folder / "batches.py"
    script.write_text(
        "import httpx2\n"
        "answer = httpx2.MockTransport(lambda request: httpx2.Response(200, json={}))\n"
        "client = httpx2.Client(transport=answer)\n"
        "client.post('https://api.openai.com/v1/batches?x=1', json={'input_file_id': 'f'})\n"
    )

    ran = bench.record(sys.executable, script)

    assert ran.code == 2
    assert "1 request to api.openai.com/v1/batches passed unrecorded: no codec reads it" in ran.err


def test_a_launcher_that_loses_us_on_the_way_is_an_error(taped):
    """It was started, but the program that took its place was not."""
    code = "import os, sys; os.execve('/usr/bin/env', ['env', '-i', 'true'], {'PATH': os.environ['PATH']})"

    ran = taped.replay(sys.executable, "-c", code)

    assert ran.code == 2
    assert "nothing of otel-cassette started in the program" in ran.err


def test_a_recording_of_failures_alone_says_what_failed(bench, program):
    ran = bench.record(*program("plain", "[401]"))

    assert ran.code == 2
    assert "1 call failed, none succeeded" in ran.err
    assert "Wrong key" in ran.err
    assert not (bench.folder / "run.jsonl").exists()


def test_secrets_are_not_in_the_file(bench, program):
    key = "sk-proj-" + "Zx9" * 16

    bench.record(*program("plain", f"my key is {key}"), env={"OPENAI_API_KEY": key})

    text = (bench.folder / "run.jsonl").read_text()
    assert key not in text
    assert "my key is <redacted:" in text


def test_an_interrupt_is_the_programs_to_handle(bench):
    """As a server is stopped in a terminal: the whole group is interrupted; the command still reports."""
    script = bench.folder / "server.py"
    script.write_text(
        "import sys, time\nfrom openai import OpenAI\n"
        "OpenAI().chat.completions.create(model='gpt-4o-mini', messages=[{'role': 'user', 'content': 'one'}])\n"
        "try:\n    print('up', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    sys.exit(5)\n"
    )
    running = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "otel_cassette",
            "record",
            "-o",
            "run.jsonl",
            "--",
            sys.executable,
            str(script),
        ],
        cwd=bench.folder,
        env={**bench.environment(), **bench.provider.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "up\n"
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=30)

    assert running.returncode == 5
    assert "recorded 1 call" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_calls_of_a_killed_program_are_kept(bench, number):
    script = bench.folder / "killed.py"
    script.write_text(
        "import os\nfrom openai import OpenAI\n"
        "OpenAI().chat.completions.create(model='gpt-4o-mini', messages=[{'role': 'user', 'content': 'one'}])\n"
        f"os.kill(os.getpid(), {int(number)})\n"
    )

    ran = bench.record(sys.executable, script)

    assert ran.code == 128 + number
    assert [e.llm_response.text for e in Cassette.load(bench.folder / "run.jsonl").entries] == [
        "Echo: one"
    ]
    assert "was killed or still runs" in ran.err


def test_nothing_of_a_run_is_left_behind(taped, program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tmp")

    taped.replay(*program("plain", "one", "two"), env={"TMPDIR": str(folder)})

    assert [p for p in folder.iterdir() if p.name.startswith("otel-cassette-run-")] == []


def test_room_on_spans_is_made_but_never_taken(tmp_path, monkeypatch):
    from otel_cassette.autostart.runfile import RunSettings, write_run_file

    run = write_run_file(RunSettings("replay", os.getpid()), tmp_path)
    for given, expected in (
        (None, "10000"),
        ("128", "10000"),
        ("50000", "50000"),
        ("many", "many"),
    ):
        if given is None:
            monkeypatch.delenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", raising=False)
        else:
            monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", given)
        assert environment(run)["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"] == expected
