"""Frameworks instrumented when the program imports them.

Lives here: `instrument_when_imported`, for start-up code that runs before a program it does not
know. Importing every framework there would cost seconds. Not here: what is instrumented.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from otel_cassette.errors import CassetteError
from otel_cassette.integrations import langchain, mcp, openai_agents, pydantic_ai

_logger = logging.getLogger("otel_cassette")

INTEGRATIONS: Final[dict[str, ModuleType]] = {
    "langchain": langchain,
    "mcp": mcp,
    "openai_agents": openai_agents,
    "pydantic_ai": pydantic_ai,
}
# Once this module is imported everything that the integration replaces can be.
_TRIGGERS: Final = {
    "langchain_core.tools": "langchain",
    "mcp": "mcp",
    "agents": "openai_agents",
    "pydantic_ai": "pydantic_ai",
}
_SDK_NAMES: Final = ("FunctionTool", "Runner")
"""`agents` is a name that programs give their own packages too."""


def instrument_when_imported(names: Iterable[str] = tuple(INTEGRATIONS)) -> Callable[[], None]:
    """Instrument frameworks: those imported already now, others when the program imports them.

    A framework that is never imported costs nothing. One whose release cannot be instrumented is
    logged and left alone: the program that imports it did not ask for this.

    Args:
        names: Integrations, as their modules are called; all by default.

    Returns:
        What takes it all back.

    Raises:
        CassetteError: For a name that is none of them.
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    unknown = sorted(set(wanted) - set(INTEGRATIONS))
    if unknown:
        msg = f"no integration {', '.join(unknown)}: one of {', '.join(INTEGRATIONS)}"
        raise CassetteError(msg)
    finder = _Finder({module: name for module, name in _TRIGGERS.items() if name in wanted})
    sys.meta_path.insert(0, finder)
    for module in list(finder.waiting):
        if module in sys.modules and not _is_being_imported(sys.modules[module]):
            finder.imported(module)

    def undo() -> None:
        finder.waiting.clear()
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        for name in wanted:
            INTEGRATIONS[name].uninstrument()

    return undo


class _Finder(MetaPathFinder):
    """Finds nothing itself; has the loader that others found tell when it has run a module."""

    def __init__(self, waiting: dict[str, str]) -> None:
        self.waiting = waiting
        self._lock = threading.Lock()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else _ask(finder, fullname, path, target)
            if spec is not None:
                self._follow(spec.loader, fullname)
                return spec
        return None

    def _follow(self, loader: Any, fullname: str) -> None:
        """Have this one loader tell; it stays of its own class, as tools that look at it expect."""
        run = getattr(loader, "exec_module", None)
        if run is None or not hasattr(loader, "__dict__"):
            return

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            run(module)
            self.imported(fullname)

        loader.exec_module = exec_module

    def imported(self, module: str) -> None:
        """Instrument what waited for *module*."""
        with self._lock:
            name = self.waiting.pop(module, None)
        if name is None or not _is_the_framework(module):
            return
        try:
            INTEGRATIONS[name].instrument()
        except (CassetteError, ImportError) as error:
            _logger.warning("tools of %s are not answered and run for real: %s", name, error)


def _ask(
    finder: Any, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
    return spec


def _is_the_framework(module: str) -> bool:
    found = sys.modules.get(module)
    return module != "agents" or all(hasattr(found, name) for name in _SDK_NAMES)


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
