"""A program whose child, a Python of its own, makes the calls. argv: keep or clear the environment, prompts."""

import os
import pathlib
import subprocess
import sys

env = dict(os.environ) if sys.argv[1] == "keep" else {"PATH": os.environ["PATH"]}
plain = pathlib.Path(__file__).with_name("plain.py")
sys.exit(subprocess.call([sys.executable, str(plain), *sys.argv[2:]], env=env))
