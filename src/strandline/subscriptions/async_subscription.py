"""A subscription, and its partitions, for an event loop."""

from typing import Final, TypeVar

from strandline.log.off_loop import AsyncFace, closes, off_loop, to_its_end
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.screening import FailedRecord
from strandline.subscriptions.stream import AsyncStream
from strandline.subscriptions.subscription import Subscription
from strandline.values import Record

ItemT = TypeVar("ItemT", bound=Record | FailedRecord | Marker)


class AsyncAssignment(AsyncFace[Assignment]):
    """An `Assignment` for an event loop."""

    add: Final = off_loop(Assignment.add)
    remove: Final = off_loop(Assignment.remove)
    assigned: Final = off_loop(Assignment.assigned)
    position: Final = off_loop(Assignment.position)
    places: Final = off_loop(Assignment.places)
    fault: Final = off_loop(Assignment.fault)
    close: Final = closes(Assignment.close)


class AsyncSubscription(AsyncFace[Subscription[ItemT]], AsyncStream[ItemT]):
    """A `Subscription` read with `async for` and `await next()`, one task at a time.

    A cancelled step loses no record. Waiting blocks no thread. Older records are read in a
    thread, a page at a time; recently written ones are read on the loop.
    """

    @property
    def assignment(self) -> AsyncAssignment:
        """The partitions that it reads; they may be changed at any time."""
        return AsyncAssignment(self._blocking.assignment)

    async def __anext__(self) -> ItemT:
        item = self._blocking._take_at_once()
        if item is None:
            item = await self._blocking._follow_on_loop()
        return await super().__anext__() if item is None else item

    async def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item, or None if there is none within `timeout_s`.

        As `Subscription.next`.
        """
        return await self._blocking._next_on_loop(timeout_s)

    def check_open(self) -> None:
        """Raise ClosedError if the subscription or its log is closed."""
        self._blocking.check_open()

    async def close(self) -> None:
        """End the stream, also for tasks that wait for its next item. May be repeated."""
        await to_its_end(self._blocking.close)
