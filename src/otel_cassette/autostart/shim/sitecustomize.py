"""Starts a recorded or replayed program; found by Python because the command puts this folder first.

Lives here: the way in for programs that nobody else instruments, and the loading of the
`sitecustomize` that this one hides. Not here: what is started (`otel_cassette.autostart`).

Any Python that the program starts runs this, with the package installed or not: the standard
library only, and a syntax that old versions read.
"""  # noqa: INP001 - a folder for sys.path, no package

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as little as possible is imported
_LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
_ADDRESSED = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getnameinfo": 0}


def _start() -> None:
    path = os.environ.get("OTEL_CASSETTE_RUN_FILE")
    if not path:
        return
    try:
        from otel_cassette import autostart  # noqa: PLC0415 - only in a run
    except ImportError as error:
        _not_here(path, error)
        return
    autostart.start("sitecustomize")


def _not_here(path: str, error: ImportError) -> None:
    """Say that this interpreter lacks the package; in a replay that blocks, block all the same.

    It is no reason to stop: launchers (`poetry run`, `tox`) live in interpreters of their own.
    """
    import json  # noqa: PLC0415 - as above

    try:
        with open(path) as stream:  # noqa: PTH123 - as above
            settings = json.load(stream)
        if os.stat(path).st_uid != os.geteuid() or settings["parent_pid"] <= 0:  # noqa: PTH116 - as above
            return
        os.kill(settings["parent_pid"], 0)
    except Exception:  # noqa: BLE001 - gone, or not ours: not our run
        return
    # Audit hooks came with Python 3.8; an older one cannot be held back.
    can_block = hasattr(sys, "addaudithook")
    blocks = can_block and settings["action"] == "replay" and settings["block_network"]
    name = f"foreign-{os.getpid()}.json"
    with open(os.path.join(os.path.dirname(path), name), "w") as stream:  # noqa: PTH118, PTH120, PTH123
        json.dump({"pid": os.getpid(), "python": sys.executable, "reason": str(error)}, stream)
    sys.stderr.write(
        f"otel-cassette: {sys.executable} cannot import otel_cassette ({error}): the calls of this process are "
        f"not {settings['action']}ed{', and its network is blocked' if blocks else ''}\n"
    )
    if blocks:
        sys.addaudithook(_Blocker(settings["allow_hosts"]))


class _Blocker:
    """Refuses every connection but loopback and the allowed hosts."""

    def __init__(self, allowed: list) -> None:  # type: ignore[type-arg]
        self.allowed = allowed

    def __call__(self, event: str, args: tuple) -> None:  # type: ignore[type-arg]
        if event not in _LOOKUPS and event not in _ADDRESSED:
            return
        place = args if event in _LOOKUPS else args[_ADDRESSED[event]]
        if not isinstance(place, tuple) or not place or place[0] is None:
            return
        host = place[0].decode("ascii", "replace") if isinstance(place[0], bytes) else str(place[0])
        if host in ("", "localhost", "::1") or host.startswith("127.") or host in self.allowed:
            return
        msg = f"connection to {host} refused: otel-cassette replay blocks the network"
        raise ConnectionError(msg)


def _chain() -> None:
    """Run the `sitecustomize` that would have been found without ours."""
    import importlib.machinery  # noqa: PLC0415 - as above
    import importlib.util  # noqa: PLC0415 - as above

    # The program is to see the path it would have without us; processes it starts get the
    # folder through PYTHONPATH again.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_chain()
