"""A thread for the work that no caller can be asked to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: How long the thread stays around for more work before it ends.
LINGER_S = 5.0


class Standby:
    """Runs `work` in a thread of its own, once or more after each `wake`.

    The thread starts when first needed, sleeps when there is nothing to do and
    ends after a while of that. Wake-ups that arrive during a run become one run.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._running = False

    def wake(self) -> None:
        """Have `work` run after this call. From any thread, without waiting."""
        with self._lock:
            self._woken.set()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        try:
            while self._woken.wait(LINGER_S) or not self._may_end():
                self._woken.clear()
                self._work()
        except BaseException:
            with self._lock:
                self._running = False
            if self._woken.is_set():
                # The run that failed, or somebody meanwhile, has asked for another.
                self.wake()
            raise

    def _may_end(self) -> bool:
        with self._lock:
            self._running = self._woken.is_set()
            return not self._running

    def dismiss(self) -> None:
        """Forget the thread: in a forked child it is not there."""
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._running = False
