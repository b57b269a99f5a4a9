"""Stand-ins for provider keys that are not set, while a replay is open.

Lives here: the environment variables that SDKs refuse to start without, and the mark by which a
transport knows the stand-in again. Not here: the calls themselves (`clients/`).

An SDK asks for its key when its client is made, although a replay sends it nowhere. A variable that
is set is never touched, and only providers of the recording get one: programs choose their provider
by the keys they find.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable

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

_lock = threading.Lock()
_in_use: Counter[str] = Counter()


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
        """Set what is missing."""
        with _lock:
            self._held = tuple(name for family in self._families for name in _missing(family))
            for name in self._held:
                _in_use[name] += 1
                os.environ[name] = DUMMY_KEY

    def down(self) -> None:
        """Take back what was set, unless another replay still needs it or the program changed it."""
        with _lock:
            for name in self._held:
                _in_use[name] -= 1
                if _in_use[name] <= 0:
                    del _in_use[name]
                    if os.environ.get(name) == DUMMY_KEY:
                        del os.environ[name]
            self._held = ()


def _family(provider: str | None) -> str | None:
    name = (provider or "").lower()
    return next((family for word, family in _ALIASES.items() if word in name), None)


def _missing(family: str) -> Iterable[str]:
    if any(os.environ.get(name) for name in _OTHER_LOGINS.get(family, ())):
        return
    for name in _VARIABLES[family]:
        if os.environ.get(name, "") in ("", DUMMY_KEY):
            yield name
