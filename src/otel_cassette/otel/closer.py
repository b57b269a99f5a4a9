"""The thread that writes runs once they are quiet.

Lives here: its life: started with the first run, gone with the process, made anew after a fork. Not
here: what quiet means (`runs.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_MIN_WAIT_S = 0.02
_MAX_WAIT_S = 5.0


class Closer:
    """Calls *tick* several times a quiet period, from a daemon thread.

    Args:
        tick: What to call; raises nothing.
        quiet_period_s: Seconds.
    """

    def __init__(self, tick: Callable[[], None], quiet_period_s: float) -> None:
        self._tick = tick
        self._wait_s = min(max(quiet_period_s / 4, _MIN_WAIT_S), _MAX_WAIT_S)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs or was stopped."""
        if self._thread is not None or self._stop.is_set():
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="otel-cassette-closer", daemon=True
                )
                self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Stop the thread for good."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def forget(self) -> None:
        """Start over in a forked process, which has no such thread."""
        self._lock = threading.Lock()
        self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(self._wait_s):
            self._tick()
