"""Draining for a store with slow flushes: writers that write again share one bracket."""

from __future__ import annotations

from typing import Any, Final

from strandline.locks import Signal
from strandline.writes.bracketed import BracketedChannel, BracketedDrain
from strandline.writes.channel import Channel, Item
from strandline.writes.contracts import C, F, R, S, V, W

#: Upper bound of the wait for writes, which is otherwise as long as the last round took.
_WAIT_MAX_S: Final = 0.005


class GatheringChannel(BracketedChannel[W, R]):
    """A channel that notifies its drain when a write is queued."""

    def __init__(
        self, name: str, capacity: int, drain: GatheringDrain[W, R, Any, Any, Any, Any]
    ) -> None:
        super().__init__(name, capacity, drain)
        self._gathering = drain

    def _put(self, item: Item[W, R]) -> bool:
        is_queued = super()._put(item)
        self._gathering.note_queued()
        return is_queued


class GatheringDrain(BracketedDrain[W, R, F, V, S, C]):
    """Waits for the next writes of the writers that the last round answered.

    Without it, writers that wait for each of their writes split into two halves: while one
    half is flushed, the other is queued, and each flush has half of what it could have.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        #: How many writers continued when the last round ended.
        self._expected = 0
        self._limit_s = 0.0
        self._all_came = Signal()
        super().__init__(*args, **kwargs)

    def _new_channel(self, name: str) -> Channel[W, R]:
        return GatheringChannel(name, self._settings.queue_capacity, self)

    def note_queued(self) -> None:
        """End the wait for writes if all expected ones are queued."""
        if self._depth() >= self._expected:
            self._all_came.set()

    def _round(self, *, may_wait: bool, until: float | None = None) -> None:
        has_all = not may_wait or self._gather()
        started, epoch = self._clock.monotonic(), self.epoch
        super()._round(may_wait=may_wait, until=until)
        if self.epoch > epoch:
            # If some expected writes did not come, expect only as many as did.
            self._expected = self.epoch - epoch + (self._depth() if has_all else 0)
            self._limit_s = min(self._clock.monotonic() - started, _WAIT_MAX_S)
            self._set_direct()

    def _gather(self) -> bool:
        """Wait until the expected number of writes is queued; False if the time was up first."""
        if self._depth() == 0 or self._expected <= 1:
            return True
        self._all_came.clear()
        if self._depth() >= self._expected:
            return True
        return self._clock.wait(self._all_came, self._limit_s)

    def _set_direct(self) -> None:
        super()._set_direct()
        # A write applied directly would leave the others to the next round.
        self.is_direct: bool = self.is_direct and self._expected <= 1

    def _depth(self) -> int:
        return sum(channel.depth for channel in self.channels)
