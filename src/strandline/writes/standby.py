"""A thread for the work that no caller can do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strandline.locks import Signal, start_thread

#: How long the thread stays around for more work before it ends.
LINGER_S = 5.0


class Standby:
    """Runs `work` in a thread of its own, once or more after each `wake`.

    The thread starts when first needed, blocks when there is nothing to do and ends after
    a while of that, or with `close`. Wake-ups that arrive during a run become one run.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._woken = Signal()
        #: Stands for the thread that does the work; any other one ends.
        self._serving: object | None = None
        self._is_closed = False

    def wake(self) -> None:
        """Have `work` run after this call. From any thread, without waiting."""
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
                # Interrupted, it may have started or not: the next one takes its place.
                self._serving = None
                raise

    def close(self) -> None:
        """Have the thread end after the run that it is in, and begin no other."""
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
                # The run that failed, or another thread meanwhile, has requested another.
                self.wake()
            raise

    def _goes_on(self, serving: object) -> bool:
        """Block until there is work; False once this thread is to end."""
        is_woken = self._woken.wait(LINGER_S)
        with self._lock:
            if self._serving is not serving:
                # A thread that has taken its place was woken by the same signal.
                self._woken.set()
                return False
            if self._is_closed or not (is_woken or self._woken.is_set()):
                self._serving = None
                return False
            return True

    def dismiss(self) -> None:
        """Drop the thread: in a forked child it does not run."""
        self._lock = threading.Lock()
        self._woken = Signal()
        self._serving = None
