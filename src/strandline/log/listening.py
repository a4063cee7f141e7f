"""A waiting reader that itself listens for changes meanwhile."""

from collections.abc import Callable

from strandline.clock import Clock
from strandline.locks import Signal


class ListeningEvent(Signal):
    """A signal whose waiter listens for changes while it waits, unless another thread does.

    `listen` listens until something happens or the time is up, and returns False if another
    thread listens; `wake` ends that, and returns False if this signal's waiter is not listening.
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
        # Invariant: the flag is set before `_wake` checks whether the waiter listens, and the
        # waiter checks the flag after it began to listen, or before it blocks otherwise.
        self._is_set = True
        if not self._wake(self):
            super().set()

    def clear(self) -> None:
        self._is_set = False
        super().clear()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set or the time is up; return whether it is set."""
        if not self._listen(self, timeout_s) and not self._is_set:
            super().wait(timeout_s)
            # The flag is what counts; the signal below is only used to block.
            super().clear()
        return self._is_set


class ListeningWaiter:
    """Implements Waiter for a thread. Waits go through the clock, like all others."""

    __slots__ = ("_clock", "_event")

    leads = True

    def __init__(self, clock: Clock, event: ListeningEvent) -> None:
        self._clock = clock
        self._event = event

    def wake(self) -> None:
        self._event.set()

    def wait(self, deadline: float | None) -> bool:
        """Block until woken, perhaps spuriously; False once `deadline` has passed."""
        timeout_s = None if deadline is None else deadline - self._clock.monotonic()
        if timeout_s is not None and timeout_s <= 0:
            # A wait of 0 still collects pending changes.
            self._event.wait(0)
            return False
        self._clock.wait(self._event, timeout_s)
        self._event.clear()
        return True
