"""Methods of a framework, replaced and put back.

Lives here: `Patches`, one for each integration, and the error of a missing or unknown package. Not
here: what the replacements do.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from otel_cassette.errors import CassetteError

Method = Callable[..., Any]


def framework(module: str, *, package: str, extra: str) -> ModuleType:
    """Import a framework's module.

    Args:
        module: The module.
        package: Name of the distribution that has it.
        extra: The extra of this package that installs it.

    Raises:
        CassetteError: When it is not installed; names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the framework is there and lacks something of its own
        msg = (
            f"{package} is not installed, so its tools cannot be answered: "
            f'pip install "otel-cassette[{extra}]"'
        )
        raise CassetteError(msg) from error


class Patches:
    """What one integration has replaced.

    Args:
        package: Name of the framework's distribution, for errors.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._lock = threading.Lock()
        self._undo: list[Callable[[], None]] = []

    def apply(self, patch: Callable[[], list[Callable[[], None]]]) -> None:
        """Replace what *patch* replaces; it returns what takes that back. A second call does nothing."""
        with self._lock:
            if not self._undo:
                self._undo.extend(patch())

    def revert(self) -> None:
        """Put everything back; without anything replaced nothing happens."""
        with self._lock:
            while self._undo:
                self._undo.pop()()

    def replace(
        self, owner: Any, name: str, make: Callable[[Method], Method]
    ) -> Callable[[], None]:
        """Put `make(original)` in place of a method.

        Returns:
            What takes it back. Where others have wrapped it in the meantime their wrapper stays,
            and ours hands on to the original.

        Raises:
            CassetteError: When there is no such method.
        """
        original = getattr(owner, name, None)
        if not callable(original):
            what = f"{getattr(owner, '__name__', owner)}.{name}"
            raise self.unknown(what)
        ours = make(original)
        is_on = True

        @functools.wraps(original)
        def plain(*args: Any, **kwargs: Any) -> Any:
            return (ours if is_on else original)(*args, **kwargs)

        @functools.wraps(original)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await (ours if is_on else original)(*args, **kwargs)

        method = coroutine if inspect.iscoroutinefunction(original) else plain
        inherited = name not in vars(owner)
        setattr(owner, name, method)

        def undo() -> None:
            nonlocal is_on
            is_on = False
            if vars(owner).get(name) is not method:
                return
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

        return undo

    def unknown(self, what: str) -> CassetteError:
        """Return the error of a release of the framework that lacks what is replaced."""
        return CassetteError(
            f"this release of {self._package} has no {what}, which its tools are answered at: "
            "install a release that docs/tools.md names, or wrap the functions with "
            "cassette.wrap_tool"
        )
