"""How long a test waits before it calls that a bug, on a machine that may be busy."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

COLLECTED_S = 20.0


def wait_collected(condition: Callable[[], object]) -> None:
    """Collect garbage until `condition` holds.

    Once is not enough where another thread collects at the same time, or still has
    what is garbage in a variable.
    """
    deadline = time.monotonic() + COLLECTED_S
    while not condition():
        assert time.monotonic() < deadline, "something holds on to it"
        gc.collect()
        time.sleep(0.001)


class Patience:
    """So many seconds in which a process had a core, or was blocked, and did not report.

    What it waits for a core of a busy machine is not counted.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid = pid
        self._seconds = seconds
        self._queued_ns: dict[str, int] = {}
        self.renew()

    def renew(self) -> None:
        """Count from now on."""
        self._since = time.monotonic()
        self._queued_before_s = self._queued_s()

    def left_s(self) -> float:
        """Return how much is left at least; 0 or less once it is over."""
        left_s = self._seconds - (time.monotonic() - self._since)
        return left_s if left_s > 0 else left_s + self._queued_s() - self._queued_before_s

    def _queued_s(self) -> float:
        """Return how long the threads of the process have been runnable and did not run."""
        for thread in Path(f"/proc/{self._pid}/task").glob("*"):
            try:
                _, queued_ns, _ = (thread / "schedstat").read_text().split()
            except (OSError, ValueError):
                # The thread has ended, or this kernel does not count.
                continue
            self._queued_ns[thread.name] = int(queued_ns)
        return sum(self._queued_ns.values()) / 1e9
