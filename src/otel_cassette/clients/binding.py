"""A tool's call as plain JSON: arguments by parameter name, results back to their type.

Lives here: signatures, argument binding, conversion with errors that name tool and argument. Not
here: what the call gets (`tools.py`).
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

from pydantic import TypeAdapter

from otel_cassette.errors import CassetteError
from otel_cassette.keys import canonical_json
from otel_cassette.model.plain import to_plain

JSON = Any
Flavour = Literal["sync", "async", "generator", "async_generator"]
_BOUND_NAMES = frozenset({"self", "cls"})


def flavour_of(fn: Callable[..., Any]) -> Flavour:
    """Return how a callable is called: plain, async, or as a generator of either sort."""
    target: Any = fn if inspect.isroutine(fn) else inspect.unwrap(fn)
    while hasattr(target, "func") and not inspect.isroutine(target):
        target = target.func
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__ if callable(target) else target
    if inspect.isasyncgenfunction(target):
        return "async_generator"
    if inspect.isgeneratorfunction(target):
        return "generator"
    return "async" if inspect.iscoroutinefunction(target) else "sync"


def name_of(fn: Callable[..., Any]) -> str:
    """Return the name of a callable: a partial's is its function's, an object's its type's."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


class ToolSignature:
    """How a tool's arguments are told by name.

    Args:
        fn: The tool.
        name: Its name, for errors.
        ignore_args: Parameters that are no arguments (clients, connections).
    """

    def __init__(
        self, fn: Callable[..., Any], name: str, ignore_args: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self._ignored = frozenset(ignore_args)
        self._fn = fn
        try:
            self._signature: inspect.Signature | None = inspect.signature(fn)
        except (
            TypeError,
            ValueError,
        ):  # builtins without a signature: keywords by name, the rest by place
            self._signature = None
        unknown = self._ignored - set(
            self._signature.parameters if self._signature else self._ignored
        )
        if unknown:
            msg = f"ignore_args of tool {name!r}: it has no parameter {', '.join(sorted(unknown))}"
            raise CassetteError(msg)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, JSON]:
        """Return the arguments of a call as plain JSON by parameter name.

        Arguments that were not passed are left out; `*args` is a list under its name, `**kwargs`
        stand beside the others.

        Raises:
            TypeError: When the call does not fit the signature, as the tool itself would.
            CassetteError: When an argument has no JSON form; names the tool and the argument.
        """
        return {name: self._plain(name, value) for name, value in self.bound(args, kwargs).items()}

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by parameter name, as they are."""
        if self._signature is None:
            return {**({"args": list(args)} if args else {}), **kwargs}
        bound = self._signature.bind(*args, **kwargs)
        result: dict[str, Any] = {}
        for place, (name, parameter) in enumerate(self._signature.parameters.items()):
            if name not in bound.arguments or name in self._ignored:
                continue
            if place == 0 and name in _BOUND_NAMES:
                continue
            value = bound.arguments[name]
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                given = {k: v for k, v in value.items() if k not in self._ignored}
                # A keyword may be called like a positional-only parameter; neither may hide the other.
                result.update({name: given} if given.keys() & result.keys() else given)
            else:
                result[name] = value
        return result

    def _plain(self, argument: str, value: Any) -> JSON:
        return checked(value, f"argument {argument!r} of tool {self.name!r}")

    def result(self, value: Any) -> JSON:
        """Return what the tool gave back as plain JSON.

        Raises:
            CassetteError: When it has no JSON form.
        """
        return checked(value, f"the result of tool {self.name!r}")

    def restorer(self) -> Callable[[JSON], Any]:
        """Return what rebuilds a recorded result as the type the tool is annotated to return."""
        hints = typing.get_type_hints(inspect.unwrap(self._fn))
        annotation = hints.get("return")
        if annotation is None:
            msg = f"restore=True of tool {self.name!r} needs a return annotation to rebuild the type of"
            raise CassetteError(msg)
        adapter: TypeAdapter[Any] = TypeAdapter(_item_type(annotation))
        return adapter.validate_python


def _item_type(annotation: Any) -> Any:
    """Return what a generator yields; any other annotation as it is."""
    origin = typing.get_origin(annotation)
    name = getattr(origin, "__name__", "")
    if name in (
        "Iterator",
        "Iterable",
        "Generator",
        "AsyncIterator",
        "AsyncIterable",
        "AsyncGenerator",
    ):
        return typing.get_args(annotation)[0]
    return annotation


def checked(value: Any, what: str) -> JSON:
    """Return *value* as plain JSON.

    Raises:
        CassetteError: When it has no JSON form; *what* names it.
    """
    if isinstance(value, Iterator | AsyncIterator):
        msg = (
            f"{what} is an iterator, which can be read only once: recording it would take its values "
            "away. Give a list, or make the tool a generator function"
        )
        raise CassetteError(msg)
    try:
        plain = to_plain(value)
        if type(plain) is not str:
            canonical_json(plain)
    except ValueError as error:
        hint = "; await it inside the tool" if inspect.isawaitable(value) else ""
        instead = ", or name the parameter in ignore_args" if what.startswith("argument") else ""
        msg = f"{what} has no JSON form: {error}{hint}. Give a model, dataclass or plain value{instead}"
        raise CassetteError(msg) from error
    return plain
