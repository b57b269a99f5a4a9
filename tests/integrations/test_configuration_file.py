"""The SDK set up by a configuration file: sampler and exporter by name.

In a process of its own, since the SDK is set up once in one. Here, and not with the other set-ups,
because configuration files need a newer SDK than our lowest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from otel_cassette import Cassette, CassetteEntry

PROGRAM = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otel_cassette import Cassette

provider = trace.get_tracer_provider()
exporter = InMemorySpanExporter()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = trace.get_tracer("app")
cassette = Cassette.load(sys.argv[1])
for _ in range(20):
    with cassette.replaying(mode="lenient"):
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            cassette.wrap_llm().complete("something else")
with tracer.start_as_current_span("llm_call", attributes={"input": "2+2?", "output": "4"}):
    pass
flushed = provider.force_flush()
marked = [s.name for s in exporter.get_finished_spans() if s.attributes.get("replay_diverged")]
claims = [s.context.trace_state.get("cassette") for s in exporter.get_finished_spans()]
print(json.dumps({"marked": marked, "claims": claims, "flushed": flushed}))
"""
CONFIGURATION = """
file_format: "1.0"
tracer_provider:
  sampler:
    cassette_replay:
  processors:
    - simple:
        exporter:
          cassette:
            directory: {directory}
"""


def run(tmp_path: Path) -> dict[str, Any]:
    """Run the program as `opentelemetry-instrument` does, with the file; its report."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    config = tmp_path / "otel.yaml"
    config.write_text(CONFIGURATION.format(directory=tmp_path / "runs"), encoding="utf-8")
    recorded = tmp_path / "recorded.jsonl"
    answer = {"choices": [{"message": {"role": "assistant", "content": "Shipped."}}]}
    request = {"messages": [{"role": "user", "content": "Where is order A-17?"}]}
    Cassette([CassetteEntry(kind="llm", index=0, request=request, response=answer)]).save(recorded)
    script = Path(sys.executable).with_name("opentelemetry-instrument")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, str(script), sys.executable, str(program), str(recorded)],
        env={**clean, "OTEL_CONFIG_FILE": str(config)},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def test_sampler_and_exporter_by_name(tmp_path: Path) -> None:
    report = run(tmp_path)
    for name in ("chat", "cassette.divergence", "cassette.replay"):
        assert report["marked"].count(name) == 20
    # The sampler is in place: every span of a replay carries the session, the call its claim.
    assert sum(claim is not None and claim.endswith(".llm.0") for claim in report["claims"]) == 40
    assert report["claims"].count(None) == 1
    # Custom processors cannot be named in a file: the exporter records.
    files = list((tmp_path / "runs").glob("*.jsonl"))
    answers = [entry.llm_response.text for file in files for entry in Cassette.load(file).entries]
    assert "4" in answers
