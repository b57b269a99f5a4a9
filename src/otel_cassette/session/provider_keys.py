"""Stand-ins for provider keys that are not set, while a replay is open.

Lives here: the environment variables that SDKs refuse to start without, and the mark by which a
transport knows the stand-in again. Not here: the calls themselves (`clients/`).

An SDK asks for its key when its client is made, although a replay sends it nowhere. A variable that
is set is never touched, and only providers of the recording get one: programs choose their provider
by the keys they find. Nothing is set where no transport is there to keep the calls in: without a key
an SDK fails, with a stand-in it would send the prompt.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

DUMMY_KEY = "otel-cassette-replay-no-key"
"""Value of every stand-in; no request that carries it leaves the process."""

_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
}
# Any of these says that the program has its own way to log in.
_OTHER_LOGINS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID"),
    "google": ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
    "azure": ("AZURE_OPENAI_AD_TOKEN",),
}
_ALIASES = {
    "gemini": "google",
    "gcp": "google",
    "vertex": "google",
    "google": "google",
    "claude": "anthropic",
    "anthropic": "anthropic",
    "azure": "azure",
    "openai": "openai",
}
_DEFAULT = ("openai", "anthropic", "google")

_lock = threading.RLock()  # a transport may be collected while it is held
_in_use: Counter[str] = Counter()
_open: list[ProviderKeys] = []
_transports = 0


class ProviderKeys:
    """Sets the missing keys of some providers; the last of several to go down removes them.

    Args:
        providers: `gen_ai.provider.name`s of the recording; what is none of the known ones is
            passed over, and without any known one OpenAI, Anthropic and Google are meant.
    """

    def __init__(self, providers: Iterable[str | None] = ()) -> None:
        known = {family for name in providers if (family := _family(name)) is not None}
        self._families = tuple(sorted(known)) or _DEFAULT
        self._held: tuple[str, ...] = ()

    def up(self) -> None:
        """Set what is missing, as soon as there is a transport that answers."""
        with _lock:
            _open.append(self)
            if _transports:
                self._set()

    def down(self) -> None:
        """Take back what was set, unless another replay still needs it or the program changed it."""
        with _lock:
            if self in _open:
                _open.remove(self)
            for name in self._held:
                _in_use[name] -= 1
                if _in_use[name] <= 0:
                    del _in_use[name]
                    if os.environ.get(name) == DUMMY_KEY:
                        del os.environ[name]
            self._held = ()

    def _set(self) -> None:
        if self._held:
            return
        self._held = tuple(name for family in self._families for name in _missing(family))
        for name in self._held:
            _in_use[name] += 1
            os.environ[name] = DUMMY_KEY


def transport_added(transport: Any = None) -> None:
    """Say that calls are answered from now on.

    Args:
        transport: The explicit transport; it counts as long as it lives. None: until
            `transport_removed`.
    """
    global _transports  # noqa: PLW0603 - one count a process
    with _lock:
        _transports += 1
        for keys in _open:
            keys._set()  # noqa: SLF001 - one module
    if transport is not None:
        weakref.finalize(transport, transport_removed).atexit = False


def transport_removed() -> None:
    """Take one `transport_added` back."""
    global _transports  # noqa: PLW0603 - as above
    with _lock:
        _transports -= 1


def _family(provider: str | None) -> str | None:
    name = (provider or "").lower()
    return next((family for word, family in _ALIASES.items() if word in name), None)


def _missing(family: str) -> Iterable[str]:
    if any(os.environ.get(name) for name in _OTHER_LOGINS.get(family, ())):
        return
    for name in _VARIABLES[family]:
        if os.environ.get(name, "") in ("", DUMMY_KEY):
            yield name
