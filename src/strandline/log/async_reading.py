"""Reads and watches for an event loop."""

from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Final

from strandline.log.off_loop import AsyncFace, each_of, in_thread, off_loop, to_its_end
from strandline.log.results import Batches, Hint, Watch

if TYPE_CHECKING:
    import pyarrow as pa


class AsyncBatches(AsyncFace[Batches]):
    """`Batches` for `async for`: the record batches are read in a thread."""

    @property
    def schema(self) -> "pa.Schema":
        """The schema of every record batch, also if there are no batches."""
        return self._blocking.schema

    async def __aiter__(self) -> "AsyncIterator[pa.RecordBatch]":
        """Yield the record batches."""
        async for batch in each_of(await in_thread(iter, self._blocking), items_max=1):
            yield batch


class AsyncWatch(AsyncFace[Watch]):
    """A `Watch` for an event loop."""

    @property
    def is_closed(self) -> bool:
        """Whether the watch or its log was closed."""
        return self._blocking.is_closed

    add: Final = off_loop(Watch.add)
    remove: Final = off_loop(Watch.remove)

    async def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        """Return the hints since the last call. As `Watch.wait`."""
        return await self._blocking.wait_on_loop(timeout_s)

    def wake(self) -> None:
        """End the current wait early, or the next one if there is none."""
        self._blocking.wake()

    async def close(self) -> None:
        """Close the watch; a pending wait raises ClosedError. May be repeated."""
        await to_its_end(self._blocking.close)
