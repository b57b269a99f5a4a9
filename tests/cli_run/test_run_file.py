"""When a process believes the run file that its environment names, and when it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from otel_cassette.autostart import runfile
from otel_cassette.autostart.runfile import (
    ENV_VAR,
    RunSettings,
    is_alive,
    load_trusted,
    new_folder,
    started_at,
    write_run_file,
)


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setattr(runfile.tempfile, "tempdir", str(tmp_path))
    settings = RunSettings("replay", os.getpid(), started_at(os.getpid()), cassette="x.jsonl")
    made = write_run_file(settings, new_folder())
    monkeypatch.setenv(ENV_VAR, str(made.path))
    return made


def test_ours_and_alive(run):
    assert load_trusted() == run
    assert run.path.stat().st_mode & 0o777 == 0o600
    assert run.folder.stat().st_mode & 0o777 == 0o700


def test_none_named(run, monkeypatch):
    monkeypatch.delenv(ENV_VAR)
    assert load_trusted() is None


def test_gone(run):
    run.path.unlink()
    assert load_trusted() is None


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_that_others_may_touch(run, mode):
    run.path.chmod(mode)
    assert load_trusted() is None


def test_a_folder_that_others_may_enter(run):
    run.folder.chmod(0o755)
    assert load_trusted() is None


def test_of_another_user(run, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert load_trusted() is None


def test_a_link(run):
    real = run.folder / "real.json"
    run.path.rename(real)
    run.path.symlink_to(real)
    assert load_trusted() is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"action": "replay"}', '{"action": "replay", "parent_pid": 1, "more": 1}'],
)
def test_damaged_or_of_another_version(run, text):
    run.path.write_text(text)
    assert load_trusted() is None


def test_a_command_that_has_ended(run):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    data = json.loads(run.path.read_text())
    run.path.write_text(json.dumps({**data, "parent_pid": ended.pid, "parent_started": ""}))
    assert load_trusted() is None


def test_another_process_under_the_same_id(run):
    data = json.loads(run.path.read_text())
    run.path.write_text(json.dumps({**data, "parent_started": "1"}))
    assert load_trusted() is None


@pytest.mark.parametrize("pid", [0, -1])
def test_ids_that_are_no_process(pid):
    assert is_alive(pid) is False


def test_a_stale_variable_starts_nothing(run, bench, program):
    """An environment that outlived its run, with the shim on the path: the program is as without us."""
    run.path.write_text(
        run.path.read_text().replace(f'"parent_pid": {os.getpid()}', '"parent_pid": 999999999')
    )
    from otel_cassette.autostart import shim_folder

    ran = subprocess.run(
        program("plain", "one"),
        env={
            **bench.environment(),
            **bench.provider.env,
            ENV_VAR: str(run.path),
            "PYTHONPATH": str(shim_folder()),
        },
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "Echo: one\n"
    assert ran.stderr == ""
    assert bench.provider.prompts == ["one"]
    assert sorted(p.name for p in run.folder.iterdir()) == ["run.json"]


def test_the_entry_points_import_next_to_nothing_without_a_run():
    """They are called in every auto-instrumented program that has the package installed."""
    code = (
        "import sys; from otel_cassette import autostart; autostart.pre_instrument(); autostart.post_instrument();"
        "print([m for m in sys.modules if m.split('.')[0] in ('pydantic', 'opentelemetry', 'httpx2', 'filelock')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
