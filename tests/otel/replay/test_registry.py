"""One registry of names: what code, docs, Collector configuration and dashboards say is in it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_cassette import DIVERGED_ATTR, DIVERGENCE_ATTR
from otel_cassette.session import names

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"(?:cassette\.[a-z_]+(?:\.[a-z_]+)*|replay_diverg[a-z]+)(?![\w(.])")
WHOLE = re.compile(r"cassette\.[a-z_]+(?:\.[a-z_]+)*|replay_diverg[a-z]+")
REGISTERED = {
    *(attribute.key for attribute in names.ATTRIBUTES),
    *(metric.key for metric in names.METRICS),
    *(name for name, _ in names.SPANS),
    *(name for name, _ in names.EVENTS),
}
SHOWN = [
    ROOT / "docs" / "backends.md",
    ROOT / "docs" / "attributes.md",
    ROOT / "docs" / "collector.md",
    *sorted(path for path in (ROOT / "collector-config").rglob("*") if path.is_file()),
]


def strings_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_mandated_names() -> None:
    assert (DIVERGED_ATTR, DIVERGENCE_ATTR) == ("replay_diverged", "replay_divergence")
    assert all(name.startswith(("cassette.", "replay_diverg")) for name in REGISTERED)
    keys = [attribute.key for attribute in names.ATTRIBUTES]
    assert len(keys) == len(set(keys))


def test_every_name_in_code_is_registered() -> None:
    used = {
        text
        for path in (ROOT / "src").rglob("*.py")
        for text in strings_of(path)
        if WHOLE.fullmatch(text)
    }
    assert used - REGISTERED == set()
    assert used >= REGISTERED - {"cassette.divergence"}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_every_name_in_docs_and_configuration_is_registered(path: Path) -> None:
    assert set(NAME.findall(path.read_text(encoding="utf-8"))) - REGISTERED == set()


def test_the_page_is_what_the_registry_says() -> None:
    script = ROOT / "scripts" / "attributes_page.py"
    spec = importlib.util.spec_from_file_location("attributes_page", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "attributes.md").read_text(encoding="utf-8")
    assert page == module.page(), "run python scripts/attributes_page.py"


def test_every_constant_is_used_by_the_registry() -> None:
    constants = {
        value
        for key, value in vars(names).items()
        if key.endswith(("_ATTR", "_METRIC", "_EVENT", "_SPAN"))
    }
    assert constants == REGISTERED
