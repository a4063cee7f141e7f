"""A scope's subscription, for an event loop."""

from typing import Final, TypeVar

from strandline.log.off_loop import AsyncFace, off_loop, to_its_end
from strandline.subscriptions import AsyncAssignment, AsyncStream, Marker
from strandline.typed.delivered import Delivered
from strandline.typed.subscription import ScopedSubscription

ItemT = TypeVar("ItemT", bound=Delivered | Marker)


class AsyncScopedSubscription(AsyncFace[ScopedSubscription[ItemT]], AsyncStream[ItemT]):
    """A `ScopedSubscription` for an event loop. One task reads at a time."""

    @property
    def assignment(self) -> AsyncAssignment:
        """The partitions that it reads; they may be changed at any time."""
        return AsyncAssignment(self._blocking.assignment)

    async def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item, or None if there is none within `timeout_s`."""
        return await self._blocking._next_on_loop(timeout_s)

    ack: Final = off_loop(ScopedSubscription.ack)

    async def close(self) -> None:
        """End the stream, also for tasks that wait for its next item. May be repeated."""
        await to_its_end(self._blocking.close)
