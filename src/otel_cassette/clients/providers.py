"""Which requests go to a model's provider, whether or not a codec reads them.

Lives here: the providers' hosts, the gateways that stand in for them, and the paths of their APIs that
have no codec. Not here: what such a request gets (`http_exchange.py`).
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

_HOSTS = (
    "api.openai.com",
    "openai.azure.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "api.mistral.ai",
    "api.cohere.com",
    "api.groq.com",
    "api.deepseek.com",
    "api.together.xyz",
    "api.x.ai",
    "openrouter.ai",
)
# What SDKs read the address of another server from, a LiteLLM proxy for instance.
_BASE_URLS = (
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "AZURE_OPENAI_ENDPOINT",
    "ANTHROPIC_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
)
# Other servers have paths like these, too: they count at a gateway only.
_PATHS = re.compile(
    r"/(?:completions|edits|moderations|rerank|images/\w+|audio/\w+|videos|batches|files|uploads|"
    r"assistants|threads|vector_stores|fine_tuning/jobs|conversations|responses/\w+|"
    r"messages/(?:count_tokens|batches))$"
    r"|:(?:countTokens|batchGenerateContent|predict|predictLongRunning|rawPredict|streamRawPredict)$"
)
_PORTS = {"http": 80, "https": 443}


def is_provider(host: str) -> bool:
    """Return whether a host serves models and little else."""
    name = host.lower().rstrip(".")
    return name.endswith(_HOSTS) or name.startswith("bedrock-runtime.")


def may_be_for_a_model(host: str, path: str) -> bool:
    """Return whether a POST may go to a model's API: the host is a provider's, or the path is."""
    return is_provider(host) or _PATHS.search(path.partition("?")[0]) is not None


class Gateways:
    """The servers of one session that models were asked at."""

    def __init__(self) -> None:
        self._known: set[tuple[str, int]] = set()

    def note(self, host: str, port: int | None) -> None:
        """Keep in mind that a model was asked at a server."""
        self._known.update((host.lower(), each) for each in _ports(port))

    def is_for_a_model(self, host: str, port: int | None, path: str) -> bool:
        """Return whether a POST goes to a model's API, as far as its address tells.

        Args:
            host: Host name without port.
            port: The port; None where it is the scheme's own.
            path: Path of the URL with its query.
        """
        if is_provider(host) or not may_be_for_a_model(host, path):
            return is_provider(host)
        known = self._known.union(*map(_named, _BASE_URLS))
        return any((host.lower(), each) in known for each in _ports(port))


def _ports(port: int | None) -> tuple[int, ...]:
    return tuple(_PORTS.values()) if port is None else (port,)


def _named(variable: str) -> set[tuple[str, int]]:
    try:
        url = urlsplit(os.environ.get(variable, ""))
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:  # no URL: the SDK says so
        return set()
    return {(url.hostname, port)} if url.hostname and port else set()
