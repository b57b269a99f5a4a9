"""Record the agent's calls once, into the cassette that the tests replay.

python examples/refund_agent/record.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from agent import QUESTION, StandInModel, lookup_order, refund, refund_agent

from otel_cassette import Cassette

CASSETTE = Path(__file__).parent / "refund.cassette.jsonl"


def record(path: Path) -> int:
    """Run the agent for real, save what it called, and return how many calls that were."""
    cassette = Cassette()  # mode="record": every call is made, and kept
    tools = {"lookup_order": cassette.wrap_tool(lookup_order), "refund": cassette.wrap_tool(refund)}
    refund_agent(QUESTION, cassette.wrap_llm(StandInModel()), tools)
    # Without ids, times and latencies, recording again changes only the lines that mean something.
    return cassette.save(path, provenance=False)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else CASSETTE
    print(f"recorded {record(target)} calls into {target.name}")
