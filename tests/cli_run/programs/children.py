"""A program whose child, a Python of its own, makes the calls. argv: its environment, prompts."""

import os
import pathlib
import subprocess
import sys
import types

how, *prompts = sys.argv[1:]
env = dict(os.environ) if how == "keep" else {"PATH": os.environ["PATH"]}
plain = pathlib.Path(__file__).with_name("plain.py")
command = [sys.executable, str(plain), *prompts]
if how == "shell":
    command = ["sh", "-c", '"$0" "$@"', *command]
if how == "frozen":
    env = types.MappingProxyType(env)
if how == "pythonpath":
    env = {**os.environ, "PYTHONPATH": pathlib.Path("elsewhere")}
if how == "posix_spawn":
    child = os.posix_spawn(sys.executable, command, {"PATH": os.environ["PATH"]})
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(subprocess.call(command, env=env))
