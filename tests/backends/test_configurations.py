"""The files in collector-config/ are accepted by the programs they are for, and agree with each other.

What is not here: what the configurations do (test_cassette_files.py, test_jaeger.py, test_tempo.py).
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from backend_programs import CONFIG_DIR, REPOSITORY

DASHBOARD = CONFIG_DIR / "grafana" / "dashboards" / "replay-divergences.json"
DATASOURCES = CONFIG_DIR / "grafana" / "provisioning" / "datasources" / "datasources.yaml"


@pytest.mark.parametrize(
    "files",
    [["collector.yaml"], ["collector.yaml", "collector-redacted.yaml"]],
    ids=["collector", "redacted"],
)
def test_the_collector_accepts_its_configuration_with_defaults_only(
    collector_binary: Path, files: list[str]
) -> None:
    command = [
        str(collector_binary),
        "validate",
        *(f"--config={CONFIG_DIR / name}" for name in files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_jaeger_accepts_its_configuration_with_defaults_only(jaeger_binary: Path) -> None:
    command = [str(jaeger_binary), "validate", f"--config={CONFIG_DIR / 'jaeger.yaml'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("config", "pattern"),
    [
        ("collector.yaml", r"\$\{env:(OTELCOL_\w+):-([^}]*)\}"),
        ("jaeger.yaml", r"\$\{env:(JAEGER_\w+):-([^}]*)\}"),
        ("tempo.yaml", r"\$\{(TEMPO_\w+):-([^}]*)\}"),
    ],
)
def test_the_table_at_the_head_of_a_configuration_lists_every_variable_with_its_default(
    config: str, pattern: str
) -> None:
    text = (CONFIG_DIR / config).read_text(encoding="utf-8")
    used = set(re.findall(pattern, text))
    listed = set(re.findall(r"^# +([A-Z]+_[A-Z_]+) +(\S+)", text, flags=re.MULTILINE))
    assert used == listed


def test_the_manifest_has_exactly_the_components_that_the_configurations_use() -> None:
    manifest = (CONFIG_DIR / "ocb-manifest.yaml").read_text(encoding="utf-8")
    built = set(re.findall(r"/(\w+?)(?:receiver|processor|exporter|extension) v", manifest))
    config = (CONFIG_DIR / "collector.yaml").read_text(encoding="utf-8")
    # Components are the keys two spaces deep in the four sections; `type/name`.
    sections = config[: config.index("\nservice:")]
    used = {
        key.replace("_", "")
        for key in re.findall(r"^  ([a-z_]+)(?:/[a-z_]+)?:$", sections, re.MULTILINE)
    }
    # otlp is a receiver; its exporters are otlp_grpc (module otlpexporter) and otlp_http.
    assert {name.replace("otlpgrpc", "otlp") for name in used} == built


def test_every_panel_of_the_dashboard_asks_a_provisioned_data_source() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    uids = set(re.findall(r"^ +uid: (\S+)$", DATASOURCES.read_text(encoding="utf-8"), re.MULTILINE))
    asked = {panel["datasource"]["uid"] for panel in dashboard["panels"] if "datasource" in panel}
    assert asked
    assert asked <= uids


def test_every_query_of_the_dashboard_stands_in_the_documentation() -> None:
    """The TraceQL in docs/backends.md is what test_tempo.py asks a real Tempo, so the panels are covered by it."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    queries = [
        target["query"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        if target.get("queryType") == "traceql"
    ]
    documented = (REPOSITORY / "docs" / "backends.md").read_text(encoding="utf-8")
    assert queries
    assert [query for query in queries if query not in documented] == []


def test_the_compose_file_mounts_only_files_that_are_there() -> None:
    compose = (CONFIG_DIR / "docker-compose.yaml").read_text(encoding="utf-8")
    mounted = re.findall(r"- \./([^:\s]+):", compose)
    assert mounted
    assert [path for path in mounted if not (CONFIG_DIR / path).exists()] == []
