"""A reader that listens for changes while it waits."""

from collections.abc import Callable

from strandline.clock import Clock
from strandline.locks import Signal


class ListeningEvent(Signal):
    """A signal whose waiter listens meanwhile, if it may.

    `listen` does so once, for a time, and returns False if another thread listens;
    `wake` ends that, and returns False if this signal's waiter is not the listener.
    """

    __slots__ = ("_is_set", "_listen", "_wake")

    def __init__(
        self,
        listen: Callable[["ListeningEvent", float | None], bool],
        wake: Callable[["ListeningEvent"], bool],
    ) -> None:
        super().__init__()
        self._listen = listen
        self._wake = wake
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        # Invariant: it is set before it is checked whether its waiter listens, and the waiter
        # checks whether it is set once it listens, or before it blocks otherwise.
        self._is_set = True
        if not self._wake(self):
            super().set()

    def clear(self) -> None:
        self._is_set = False
        super().clear()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether it is set, also before the time is up."""
        if not self._listen(self, timeout_s) and not self._is_set:
            super().wait(timeout_s)
            # Whether it is set is known by the flag; this was the way to wait.
            super().clear()
        return self._is_set


class ListeningWaiter:
    """Implements Waiter for a thread. It goes through the clock as any other wait."""

    __slots__ = ("_clock", "_event")

    leads = True

    def __init__(self, clock: Clock, event: ListeningEvent) -> None:
        self._clock = clock
        self._event = event

    def wake(self) -> None:
        self._event.set()

    def wait(self, deadline: float | None) -> bool:
        """Block until woken, or spuriously; False once `deadline` has come."""
        timeout_s = None if deadline is None else deadline - self._clock.monotonic()
        if timeout_s is not None and timeout_s <= 0:
            # A wait of 0 gets what there is.
            self._event.wait(0)
            return False
        self._clock.wait(self._event, timeout_s)
        self._event.clear()
        return True
