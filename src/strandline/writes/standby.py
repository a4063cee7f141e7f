"""A background thread for work that no caller can do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strandline.locks import Signal, start_thread

#: How long the idle thread waits for more work before it ends.
LINGER_S = 5.0


class Standby:
    """Runs `work` in its own thread, once or more after each `wake`.

    The thread starts when first needed, blocks while there is nothing to do, and ends after
    being idle for a while, or with `close`. Wake-ups during a run are merged into one run.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._woken = Signal()
        #: Identifies the thread that does the work; any other one ends.
        self._serving: object | None = None
        self._is_closed = False

    def wake(self) -> None:
        """Have `work` run after this call. From any thread; does not block."""
        self._woken.set()
        with self._lock:
            if self._serving is not None or self._is_closed:
                return
            serving = object()
            try:
                self._serving = serving
                start_thread(
                    threading.Thread(
                        target=self._run, args=(serving,), name=self._name, daemon=True
                    )
                )
            except BaseException:
                # Interrupted, the thread may have started or not: the next one replaces it.
                self._serving = None
                raise

    def close(self) -> None:
        """End the thread after the current run."""
        self._is_closed = True
        self._woken.set()

    def _run(self, serving: object) -> None:
        try:
            while self._goes_on(serving):
                self._woken.clear()
                self._work()
        except BaseException:
            with self._lock:
                if self._serving is serving:
                    self._serving = None
            if self._woken.is_set():
                # The failed run, or another thread meanwhile, has requested another run.
                self.wake()
            raise

    def _goes_on(self, serving: object) -> bool:
        """Block until there is work; False once this thread is to end."""
        is_woken = self._woken.wait(LINGER_S)
        with self._lock:
            if self._serving is not serving:
                # The wake-up was meant for the thread that replaced this one.
                self._woken.set()
                return False
            if self._is_closed or not (is_woken or self._woken.is_set()):
                self._serving = None
                return False
            return True

    def dismiss(self) -> None:
        """Drop the thread: it does not run in a forked child."""
        self._lock = threading.Lock()
        self._woken = Signal()
        self._serving = None
