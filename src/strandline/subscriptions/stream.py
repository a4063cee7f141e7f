"""`for` and `with`, `async for` and `async with`, over one step of a stream."""

import os
from abc import abstractmethod
from typing import Generic, Self, TypeVar

from strandline.log.off_loop import to_its_end
from strandline.values import ClosedError

ItemT = TypeVar("ItemT")


class Stream(Generic[ItemT]):
    """Yields items until it is closed; a subclass implements one step."""

    #: The running process; asking the system each time costs more than a record does.
    _running_pid = os.getpid()

    def __init__(self) -> None:
        self._pid = os.getpid()

    def _check_process(self) -> None:
        """Raise ClosedError in a forked child, where the stream must not just seem to end."""
        if self._running_pid != self._pid:
            raise ClosedError(
                "this was opened before a fork, open the log again in the child process and"
                " subscribe there",
                pid=self._pid,
            )

    @abstractmethod
    def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item; None if there is none in time."""

    @abstractmethod
    def close(self) -> None:
        """End the stream, also for a thread that waits for its next item. May be repeated."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ItemT:
        try:
            item = self.next()
        except ClosedError:
            self._check_process()
            self.close()
            raise StopIteration from None
        assert item is not None
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aexit__(self, *exc: object) -> None:
        await to_its_end(self.close)


def _after_fork() -> None:
    Stream._running_pid = os.getpid()  # noqa: SLF001 - It is this module's.


os.register_at_fork(after_in_child=_after_fork)


class AsyncStream(Generic[ItemT]):
    """A stream for an event loop, over a blocking one."""

    @property
    @abstractmethod
    def blocking(self) -> Stream[ItemT]:
        """The same stream for threads."""

    @abstractmethod
    async def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item; None if there is none in time."""

    @abstractmethod
    async def close(self) -> None:
        """End the stream, also for tasks that wait for its next item. May be repeated."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ItemT:
        try:
            item = await self.next()
        except ClosedError:
            self.blocking._check_process()  # noqa: SLF001 - Of the stream that this one is over.
            await self.close()
            raise StopAsyncIteration from None
        assert item is not None
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
