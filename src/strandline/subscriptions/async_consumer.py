"""A consumer for an event loop."""

from typing import Final

from strandline.log.off_loop import AsyncFace, off_loop, to_its_end
from strandline.subscriptions.consumer import FETCH_MAX, Consumer
from strandline.subscriptions.delivery import Delivery
from strandline.subscriptions.stream import AsyncStream


class AsyncConsumer(AsyncFace[Consumer], AsyncStream[Delivery]):
    """A `Consumer` for an event loop: `await` its calls, or use `async for`.

    One task reads at a time. A cancelled step loses no delivery. A cancelled ack is stored or
    not; the record may be acked again.
    """

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic, of the same tenant, of its dead letters."""
        return self._blocking.dead_letter_topic

    async def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if there is none within `timeout_s`.

        As `Consumer.next`.
        """
        return await self._blocking._next_on_loop(timeout_s)

    async def fetch(
        self,
        max_records: int = FETCH_MAX,
        max_bytes: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Delivery]:
        """Return what is available at once; waits until there is at least one.

        As `Consumer.fetch`.
        """
        return await self._blocking._fetch_on_loop(max_records, max_bytes, timeout_s)

    commit: Final = off_loop(Consumer.commit)
    assign: Final = off_loop(Consumer.assign)
    assigned: Final = off_loop(Consumer.assigned)
    ack: Final = off_loop(Consumer.ack)
    nack: Final = off_loop(Consumer.nack)
    dead_letter: Final = off_loop(Consumer.dead_letter)
    attempts: Final = off_loop(Consumer.attempts)
    holds: Final = off_loop(Consumer.holds)
    begin_alone: Final = off_loop(Consumer.begin_alone)
    hand_back: Final = off_loop(Consumer.hand_back)
    seek: Final = off_loop(Consumer.seek)
    lag: Final = off_loop(Consumer.lag)

    async def close(self) -> None:
        """Close the reader, also for waiting tasks. Outstanding records are delivered again."""
        await to_its_end(self._blocking.close)
