"""Fails when a test run left something out: skipped tests, or real-backend tests that did not run.

Reads the JUnit file that pytest wrote and the node ids that `pytest --collect-only -q` printed for
tests/backends. Not here: failures; pytest's own exit code tells of those.

    python .ci/check_report.py REPORT.xml BACKEND_IDS.txt
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def as_junit(node_id: str) -> tuple[str, str]:
    """Turns `tests/a/test_b.py::TestC::test_d[x]` into JUnit's (classname, name)."""
    head, bracket, parameters = node_id.partition("[")
    path, *scopes, name = head.split("::")
    classname = ".".join([path.removesuffix(".py").replace("/", "."), *scopes])
    return classname, name + bracket + parameters


def main(report: str, backend_ids: str) -> int:
    """Prints what was left out; returns the exit code."""
    ran: set[tuple[str, str]] = set()
    skipped: list[str] = []
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - as above
        key = (case.get("classname", ""), case.get("name", ""))
        skip = case.find("skipped")
        if skip is None:
            ran.add(key)
        else:
            skipped.append(f"{'::'.join(key)}: {skip.get('message')}")
    lines = Path(backend_ids).read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if "::" in line]
    left_out = [node_id for node_id in wanted if as_junit(node_id) not in ran]

    print(f"ci: {len(ran)} tests ran, {len(skipped)} skipped; ", end="")
    print(f"{len(wanted) - len(left_out)} of {len(wanted)} real-backend tests ran")
    for line in skipped:
        print(f"ci: skipped: {line}")
    for node_id in left_out:
        print(f"ci: real-backend test that did not run: {node_id}")
    if not ran:
        print("ci: no test ran")
    return 1 if skipped or left_out or not ran else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
