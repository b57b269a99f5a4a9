"""Fails when a name that users import has a type that is unknown or that type checkers may infer differently.

`pyright --verifytypes` looks at every module without a leading underscore; this keeps of its findings those on
the names in `__all__` of the public modules, and on their members. The inner modules are mypy's (`--strict`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
from typing import Any

PACKAGE = "otel_cassette"
PUBLIC_MODULES = (PACKAGE, f"{PACKAGE}.harness", f"{PACKAGE}.testing")


def public_names() -> set[str]:
    """The full names, where they are defined, of everything that the public modules export."""
    names: set[str] = set()
    for module_name in PUBLIC_MODULES:
        if importlib.util.find_spec(module_name) is None:
            continue  # comes with a later step
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            home = getattr(value, "__module__", None)
            names.add(f"{module_name}.{name}")
            if isinstance(home, str) and home.split(".")[0] == PACKAGE:
                names.add(f"{home}.{getattr(value, '__qualname__', name)}")
    return names


def verified_symbols() -> list[dict[str, Any]]:
    """What pyright says of every symbol of the package."""
    pyright = shutil.which("pyright")
    if pyright is None:
        message = "pyright is not on PATH; run `make lint`, which installs it and puts it there"
        raise FileNotFoundError(message)
    # Exit code 1 means findings, in modules that may not be ours to judge here: read, not raised.
    run = subprocess.run(
        [pyright, "--ignoreexternal", "--outputjson", "--verifytypes", PACKAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in {0, 1}:
        message = f"pyright ended with {run.returncode}: {run.stderr or run.stdout}"
        raise RuntimeError(message)
    symbols: list[dict[str, Any]] = json.loads(run.stdout)["typeCompleteness"]["symbols"]
    return symbols


def main() -> int:
    """Prints the findings; returns the exit code."""
    public = public_names()
    checked = 0
    faults: list[str] = []
    for symbol in verified_symbols():
        name = symbol["name"]
        if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in public):
            continue
        checked += 1
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]:
            reasons = "; ".join(finding["message"] for finding in symbol["diagnostics"])
            faults.append(f"{name}: {reasons}")
    for fault in faults:
        print(fault)
    print(
        f"{checked} public symbols of {len(public)} exported names, {len(faults)} without a clear type"
    )
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
