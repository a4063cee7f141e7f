"""A number that only rises, and its waiters."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.locks import holding
from strandline.writes.waiter import Waiter


class Watermark:
    """The last epoch that reached a level.

    One thread at a time advances it. Invariant: a waiter is registered before
    it reads the value, and the value is set before the waiters are read, so no
    wake-up is lost and no lock is needed.
    """

    __slots__ = ("value", "waiters")

    def __init__(self) -> None:
        self.value: int = 0
        self.waiters: list[tuple[int, Waiter]] = []

    def advance(self, epoch: int) -> None:
        """Raise the mark to `epoch`, unless it is there already."""
        self.value = max(self.value, epoch)
        self.wake_reached()

    def wake_reached(self) -> None:
        """Wake the waiters whose epoch the mark has reached."""
        for wanted, waiter in tuple(self.waiters):
            if wanted <= self.value:
                waiter.wake()

    def wake_all(self) -> None:
        """Wake every waiter."""
        for _, waiter in tuple(self.waiters):
            waiter.wake()

    def wake_leader(self) -> None:
        """Wake a waiter whose epoch is not reached and that can do the work."""
        for wanted, waiter in tuple(self.waiters):
            if wanted > self.value and waiter.leads:
                waiter.wake()
                return

    @holding
    def awaited_by(self, waiter: Waiter, epoch: int) -> Iterator[None]:
        """Register `waiter` for as long as the block runs."""
        entry = (epoch, waiter)
        try:
            self.waiters.append(entry)
            yield
        finally:
            if entry in self.waiters:
                self.waiters.remove(entry)
