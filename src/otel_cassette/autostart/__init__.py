"""Start-up in a program that `otel-cassette record` or `otel-cassette replay` runs, unchanged.

Lives here: the ways in (the shim's `sitecustomize`, the entry points of `opentelemetry-instrument`)
and the question whether there is anything to do. Not here: what is then done (`process.py`), the
command that runs the program (`cli/`).

The entry points are called in every auto-instrumented program that has the package installed, so
until a trusted run file was found (`runfile.py`) only the standard library is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otel_cassette.autostart.runfile import ENV_VAR, RunFile, load_trusted

EXIT_NOT_STARTED = 2
_started = False


def shim_folder() -> Path:
    """Return the folder with our `sitecustomize`; only programs of a run have it on their path."""
    return Path(__file__).parent / "shim"


def add_run(environment: dict[str, str], run: RunFile) -> None:
    """Put a run, and the way to its start-up code, into the environment of a process to come."""
    inherited = environment.get("PYTHONPATH")
    folders = [str(shim_folder()), *([os.fsdecode(inherited)] if inherited else [])]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    environment[ENV_VAR] = str(run.path)


def holds_run(environment: Mapping[Any, Any]) -> bool:
    """Return whether start-up code runs in a process with this environment."""
    found = {os.fsdecode(name): value for name, value in environment.items() if name}
    folders = os.fsdecode(found.get("PYTHONPATH") or "").split(os.pathsep)
    return ENV_VAR in found and str(shim_folder()) in folders


def pre_instrument() -> None:
    """Start before OpenTelemetry's instrumentors do; entry point `opentelemetry_pre_instrument`."""
    start("opentelemetry_pre_instrument")


def post_instrument() -> None:
    """Cover what was set up meanwhile; entry point `opentelemetry_post_instrument`."""
    start("opentelemetry_post_instrument")


def start(how: str) -> None:
    """Open the run's session in this process, once, where a trusted run file says so.

    A run that cannot be started ends the program: it would go on with real calls.

    Args:
        how: Which of the ways in this is; for the report.
    """
    global _started  # noqa: PLW0603 - a process is started once, whichever way in comes first
    if not os.environ.get(ENV_VAR):
        return
    if _started:
        if how != "sitecustomize":
            _cover_providers()
        return
    run = load_trusted()
    if run is None:
        return
    _started = True
    try:
        # Only now: pydantic and the OpenTelemetry SDK are no small import.
        from otel_cassette.autostart.process import ProgramProcess  # noqa: PLC0415 - see above

        ProgramProcess.begin(run, how)
    except Exception as error:  # noqa: BLE001 - whatever it is, the program must not go on live
        _give_up(run, error)
    if how != "sitecustomize":
        _cover_providers()


def _cover_providers() -> None:
    from otel_cassette.autostart.providers import cover_global  # noqa: PLC0415 - loaded already

    cover_global()


def _give_up(run: RunFile, error: Exception) -> None:
    import traceback  # noqa: PLC0415 - only for this end

    reason = f"{type(error).__name__}: {error}"
    run.write_fact("failed", {"pid": os.getpid(), "argv": sys.argv, "reason": reason})
    traceback.print_exc()
    sys.stderr.write(
        f"otel-cassette: error: the {run.settings.action} could not start in process {os.getpid()}: "
        f"{reason}; the program was stopped before it made a call\n"
    )
    sys.stderr.flush()
    os._exit(EXIT_NOT_STARTED)
