"""The public surface: what the root lists, where it comes from, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import otel_cassette

ROOT = Path(otel_cassette.__file__)


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(ROOT.read_text("utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If)]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.asname or alias.name for n in imports for alias in n.names}


def test_the_three_lists_of_names_agree() -> None:
    assert set(otel_cassette.__all__) == names_for_type_checkers()
    assert set(otel_cassette.__all__) == set(otel_cassette._MODULE_OF)
    assert len(set(otel_cassette.__all__)) == len(otel_cassette.__all__)


@pytest.mark.parametrize("name", otel_cassette.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    value = getattr(otel_cassette, name)
    assert value is not None
    assert name in dir(otel_cassette)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Casette'"):
        otel_cassette.Casette  # noqa: B018 - the access is the test


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert otel_cassette.__version__ == version("otel-cassette")


def test_importing_the_root_loads_no_part_of_it() -> None:
    program = (
        "import sys, otel_cassette; parts = ('otel_cassette.', 'pydantic', 'opentelemetry'); "
        "print(sorted(m for m in sys.modules if m.startswith(parts)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
