"""The network guard: while it is up, no connection and no name look-up leaves this machine.

Lives here: an audit hook (PEP 578) over the socket events. It sees every client written in Python
or on top of Python sockets; clients with a network stack of their own (gRPC's core) pass it by.
"""

from __future__ import annotations

import ipaddress
import sys
import threading
from collections import Counter
from typing import Any

from otel_cassette.errors import NetworkBlockedError

_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", ""})
_lock = threading.Lock()
_guards: list[NetworkGuard] = []
_installed = False


class NetworkGuard:
    """Refuses connections while it is up; loopback, unix sockets and *allow_hosts* pass.

    Args:
        allow_hosts: Host names or addresses that pass, and the subdomains of a name that starts
            with a dot.

    Attributes:
        refused: How often each host was refused.
    """

    def __init__(self, allow_hosts: tuple[str, ...] = ()) -> None:
        self.allow_hosts: frozenset[str] = frozenset(host.lower() for host in allow_hosts)
        self.refused: Counter[str] = Counter()
        self._resolved: set[str] = set()

    def up(self) -> None:
        """Start to refuse; the audit hook is installed once per process and stays, idle."""
        global _installed  # noqa: PLW0603 - an audit hook cannot be removed, so it is added once
        with _lock:
            _guards.append(self)
            if not _installed:
                sys.addaudithook(_audit)
                _installed = True

    def down(self) -> None:
        """Stop to refuse."""
        with _lock:
            if self in _guards:
                _guards.remove(self)

    def allows(self, host: str) -> bool:
        """Return whether *host* may be reached."""
        name = host.lower().rstrip(".")
        if name in _LOCAL_NAMES or name in self.allow_hosts:
            return True
        if any(h.startswith(".") and name.endswith(h) for h in self.allow_hosts):
            return True
        try:
            address = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified or name in self._resolved

    def resolved(self, host: str) -> None:
        """Let the addresses of an allowed host pass once it is looked up."""
        if host.lower() in self.allow_hosts:
            self._resolved.add(host.lower())


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _guards or not event.startswith("socket."):
        return
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        port = args[1] if len(args) > 1 else None
        _check(args[0], port)
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getnameinfo"):
        address = args[0] if event == "socket.getnameinfo" else args[1]
        if isinstance(address, tuple) and len(address) >= 2:
            _check(address[0], address[1])


def _check(host: Any, port: Any) -> None:
    if host is None:
        return
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    for guard in tuple(_guards):
        if not guard.allows(name):
            guard.refused[name] += 1
            raise NetworkBlockedError(name, port if isinstance(port, int) else None)
