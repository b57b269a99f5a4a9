"""Fixtures that start the real backends, and the count of the tests that need them.

What is here: `collector`, `redacting_collector`, `jaeger`, `tap`, `tempo` (session-wide, loopback, free
ports, the configuration files of collector-config/ unchanged); what happens when a binary is missing.
Not here: how a program is found and started (backend_programs.py), what it can be asked
(backend_clients.py).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# Tests are imported by path (--import-mode=importlib), which leaves their folder out of sys.path.
sys.path.insert(0, str(Path(__file__).parent))

from backend_clients import Collector, Jaeger, Tap, Tempo
from backend_programs import (
    COLLECTOR,
    CONFIG_DIR,
    JAEGER,
    TEMPO,
    BackendError,
    answers,
    backends_required,
    find_program,
    free_ports,
    retry_on_taken_port,
    start_program,
)

HERE = Path(__file__).parent
UNDECIDED_WAIT_S = 3
"""For both pipelines: long enough for a trace in two exports, short enough for tests that prove absence."""

NEEDS = {"collector_binary": COLLECTOR, "jaeger_binary": JAEGER, "tempo": TEMPO}
"""Fixture -> the program it cannot do without. A test that has one of them, at whatever remove, is a
real-backend test."""


# --- which tests run, and the proof that all did -------------------------------------------------


@dataclass
class BackendRun:
    """The real-backend tests of this session: how many there are, left out, ran."""

    expected: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    left_out: dict[str, int] = field(default_factory=dict)
    """missing program -> tests"""


RUN = pytest.StashKey[BackendRun]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUN] = BackendRun()


def _programs(item: pytest.Item) -> list[str]:
    """What this test needs; empty for a test of another folder or one that needs no program."""
    if HERE not in item.path.parents:
        return []
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    return [NEEDS[fixture] for fixture in fixtures if fixture in NEEDS]


@pytest.hookimpl(tryfirst=True)  # before -k and -m take tests away: the count is of what there is
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = config.stash.setdefault(RUN, BackendRun())
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        programs = _programs(item)
        if not programs:
            kept.append(item)
            continue
        item.add_marker(pytest.mark.backend)
        missing = next((program for program in programs if find_program(program) is None), None)
        # Tempo is optional everywhere. The others are built by `make backends`; where they are required
        # the test stays, and its fixture says what is missing.
        if missing and (missing == TEMPO or not backends_required()):
            run.left_out[missing] = run.left_out.get(missing, 0) + 1
            left_out.append(item)
        else:
            run.expected.add(item.nodeid)
            kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and not report.skipped:
        run = item.config.stash[RUN]
        if item.nodeid in run.expected:
            run.ran.add(item.nodeid)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    run = session.config.stash[RUN]
    if backends_required() and len(run.ran) < len(run.expected) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    run = config.stash[RUN]
    if run.expected or run.left_out:
        line = f"real-backend tests: {len(run.ran)} of {len(run.expected)} ran"
        if backends_required() and len(run.ran) < len(run.expected):
            line += " - a failure, as OTEL_CASSETTE_REQUIRE_BACKENDS is set"
        terminalreporter.write_line(line)
    for program, count in sorted(run.left_out.items()):
        remedy = "put one on PATH" if program == TEMPO else "run `make backends`"
        terminalreporter.write_line(
            f"not run: real-backend tests ({count}), no {program} binary: {remedy}"
        )


# --- programs ------------------------------------------------------------------------------------


def _need(program: str) -> Path:
    found = find_program(program)
    if found is None:
        msg = f"no {program} on PATH, in OTEL_CASSETTE_BACKENDS_DIR or in .cache/bin: run `make backends`"
        raise BackendError(msg)
    return found


@pytest.fixture(scope="session")
def collector_binary() -> Path:
    return _need(COLLECTOR)


@pytest.fixture(scope="session")
def jaeger_binary() -> Path:
    return _need(JAEGER)


@pytest.fixture(scope="session")
def jaeger(jaeger_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """Jaeger v2 with an empty memory store, shared by the session: use a service name of your own."""
    log_file = tmp_path_factory.mktemp("jaeger") / "jaeger.log"

    def start() -> Jaeger:
        otlp_grpc, otlp_http, query, query_grpc, health, metrics = free_ports(6)
        env = {
            "JAEGER_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{otlp_grpc}",
            "JAEGER_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{otlp_http}",
            "JAEGER_QUERY_ENDPOINT": f"127.0.0.1:{query}",
            "JAEGER_QUERY_GRPC_ENDPOINT": f"127.0.0.1:{query_grpc}",
            "JAEGER_HEALTH_ENDPOINT": f"127.0.0.1:{health}",
            "JAEGER_METRICS_PORT": str(metrics),
        }
        program = start_program(
            JAEGER,
            [jaeger_binary, "--config", CONFIG_DIR / "jaeger.yaml"],
            env=env,
            log_file=log_file,
            is_ready=answers(f"http://127.0.0.1:{health}/status"),
            # It takes 10 s to end by itself, and its memory store has nothing to save.
            stop_grace_s=0.5,
        )
        return Jaeger(
            program,
            grpc_endpoint=f"127.0.0.1:{otlp_grpc}",
            http_endpoint=f"http://127.0.0.1:{otlp_http}",
            query_url=f"http://127.0.0.1:{query}",
        )

    running = retry_on_taken_port(start)
    yield running
    running.program.stop()


@pytest.fixture(scope="session")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tap]:
    """oteltap, an independent OTLP/HTTP receiver; the Collector's Tempo exporter sends to it."""
    if importlib.util.find_spec("oteltap") is None:
        msg = "oteltap is not installed: it is in the `test` dependency group"
        raise BackendError(msg)
    log_file = tmp_path_factory.mktemp("oteltap") / "oteltap.ndjson"

    def start() -> Tap:
        (port,) = free_ports(1)
        program = start_program(
            "oteltap",
            [sys.executable, "-u", "-m", "oteltap", "--port", str(port)],
            env={},
            log_file=log_file,
            is_ready=lambda: log_file.read_text(encoding="utf-8").startswith("Listening"),
        )
        return Tap(program, http_endpoint=f"http://127.0.0.1:{port}")

    running = retry_on_taken_port(start)
    yield running
    running.program.stop()


StartCollector = Callable[..., Collector]


@pytest.fixture(scope="session")
def start_collector(
    collector_binary: Path, jaeger: Jaeger, tap: Tap, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartCollector]:
    """`start_collector(*overlays, **env)`: one more Collector; it ends with the session.

    `overlays` are file names in collector-config/, `env` are the OTELCOL_* variables of collector.yaml.
    """
    started: list[Collector] = []

    def start(*overlays: str, **env: str) -> Collector:
        def once() -> Collector:
            return _start_collector(
                collector_binary,
                [CONFIG_DIR / name for name in ("collector.yaml", *overlays)],
                {
                    "OTELCOL_JAEGER_ENDPOINT": jaeger.grpc_endpoint,
                    "OTELCOL_TEMPO_ENDPOINT": tap.http_endpoint,
                    "OTELCOL_TEMPO_COMPRESSION": "none",  # oteltap answers 400 to gzip
                    **env,
                },
                tmp_path_factory.mktemp("collector"),
            )

        collector = retry_on_taken_port(once)
        started.append(collector)
        return collector

    yield start
    for collector in started:
        collector.program.stop()


def _start_collector(
    binary: Path, configs: list[Path], env: dict[str, str], folder: Path
) -> Collector:
    grpc, http, health, metrics = free_ports(4)
    env = {"OTELCOL_CASSETTE_DIR": str(folder / "cassettes"), **env}
    program = start_program(
        COLLECTOR,
        [binary, *(f"--config={path}" for path in configs)],
        env={
            "OTELCOL_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{grpc}",
            "OTELCOL_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{http}",
            "OTELCOL_HEALTH_ENDPOINT": f"127.0.0.1:{health}",
            "OTELCOL_METRICS_PORT": str(metrics),
            "OTELCOL_CASSETTE_WAIT": f"{UNDECIDED_WAIT_S}s",
            "OTELCOL_UI_WAIT": f"{UNDECIDED_WAIT_S}s",
            **env,
        },
        log_file=folder / "collector.log",
        is_ready=answers(f"http://127.0.0.1:{health}/"),
    )
    return Collector(
        program,
        grpc_endpoint=f"127.0.0.1:{grpc}",
        http_endpoint=f"http://127.0.0.1:{http}",
        metrics_url=f"http://127.0.0.1:{metrics}/metrics",
        cassette_dir=Path(env["OTELCOL_CASSETTE_DIR"]),
        undecided_wait_s=float(UNDECIDED_WAIT_S),
    )


@pytest.fixture(scope="session")
def collector(start_collector: StartCollector) -> Collector:
    """The Collector with collector.yaml as it is, sending to `jaeger` and `tap`."""
    return start_collector()


@pytest.fixture(scope="session")
def redacting_collector(start_collector: StartCollector) -> Collector:
    """The Collector that masks in the cassette files too (collector-redacted.yaml)."""
    return start_collector("collector-redacted.yaml")


@pytest.fixture(scope="session")
def tempo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tempo]:
    """Tempo with tempo.yaml. Only where a `tempo` is found; such tests are left out elsewhere."""
    binary = _need(TEMPO)
    folder = tmp_path_factory.mktemp("tempo")

    def start() -> Tempo:
        http, grpc, otlp_grpc, otlp_http = free_ports(4)
        env = {
            "TEMPO_HTTP_PORT": str(http),
            "TEMPO_GRPC_PORT": str(grpc),
            "TEMPO_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{otlp_grpc}",
            "TEMPO_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{otlp_http}",
            "TEMPO_DATA_DIR": str(folder / "data"),
        }
        program = start_program(
            TEMPO,
            [binary, f"-config.file={CONFIG_DIR / 'tempo.yaml'}", "-config.expand-env=true"],
            env=env,
            log_file=folder / "tempo.log",
            is_ready=answers(f"http://127.0.0.1:{http}/ready"),
        )
        return Tempo(
            program,
            grpc_endpoint=f"127.0.0.1:{otlp_grpc}",
            http_endpoint=f"http://127.0.0.1:{otlp_http}",
            query_url=f"http://127.0.0.1:{http}",
        )

    running = retry_on_taken_port(start)
    yield running
    running.program.stop()
