"""A member of a work queue for an event loop."""

from typing import Final

from strandline.log.off_loop import AsyncFace, off_loop, to_its_end
from strandline.subscriptions.delivery import Delivery
from strandline.subscriptions.shared_consumer import SharedConsumer
from strandline.subscriptions.stream import AsyncStream
from strandline.values.arguments import check_whole


class AsyncSharedConsumer(AsyncFace[SharedConsumer], AsyncStream[Delivery]):
    """A `SharedConsumer` for an event loop: `await` its calls, or use `async for`.

    One task reads at a time. A cancelled step loses no delivery: the next one returns it.
    """

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic, of the same tenant, of its dead letters."""
        return self._blocking.dead_letter_topic

    async def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if there is none within `timeout_s`."""
        found = await self._blocking._fetch_on_loop(1, timeout_s)
        return found[0] if found else None

    async def fetch(self, max_records: int = 100, timeout_s: float | None = None) -> list[Delivery]:
        """Return up to `max_records` deliveries. As `SharedConsumer.fetch`."""
        most = check_whole("max_records", max_records, 1)
        return await self._blocking._fetch_on_loop(most, timeout_s)

    ack: Final = off_loop(SharedConsumer.ack)
    nack: Final = off_loop(SharedConsumer.nack)
    extend: Final = off_loop(SharedConsumer.extend)
    dead_letter: Final = off_loop(SharedConsumer.dead_letter)
    seek: Final = off_loop(SharedConsumer.seek)
    lag: Final = off_loop(SharedConsumer.lag)

    async def close(self) -> None:
        """Close the reader, and release what it holds to other members."""
        await to_its_end(self._blocking.close)
