"""Clients that fetch from one member: served in the order they came, each with its own deadline."""

import asyncio
import contextlib
from typing import Final

from strandline.clock import Clock
from strandline.log.draft import size_of
from strandline.log.off_loop import in_thread
from strandline.server.client_member import ClientMember, Leased
from strandline.subscriptions import (
    AsyncConsumer,
    AsyncSharedConsumer,
    Consumer,
    Delivery,
    SharedConsumer,
)
from strandline.values import StrandlineError

_FIRST_RECORDS: Final = 4


class Fetch:
    """What one client has asked for, until its answer was sent or it has gone."""

    def __init__(self, line: "FetchLine", limit: int, bytes_max: int, deadline: float) -> None:
        self._line = line
        self.limit: Final = limit
        self.bytes_max: Final = bytes_max
        self.deadline: Final = deadline
        #: Whether there was no look at the log since it came.
        self.is_new = True
        self.found: Final[asyncio.Future[list[Leased]]] = asyncio.get_running_loop().create_future()
        self._is_over = False

    def end(self) -> None:
        """Wait no more: what was found is the answer."""
        self._line.remove(self)
        if not self.found.done():
            self.found.set_result([])

    def note_sent(self) -> None:
        """Record that the client has its answer, as far as can be known."""
        self._is_over = True

    def leave(self) -> None:
        """Put back what was found, unless it was sent: the client has gone. May be repeated."""
        if self._is_over:
            return
        self._is_over = True
        self._line.remove(self)
        if not self.found.done():
            self.found.cancel()
        elif not self.found.cancelled() and self.found.exception() is None:
            self._line.put_back(self.found.result())


class FetchLine:
    """One member, and the clients that wait for its records. For one event loop.

    A consumer is read by one task at a time. That task waits for all of them, until the first
    deadline; a client that comes interrupts the wait, so that it has a look of its own.
    """

    def __init__(self, member: ClientMember, clock: Clock) -> None:
        self.member: Final = member
        self._clock = clock
        self._waiting: list[Fetch] = []
        self._unsent: list[Leased] = []
        self._serving: asyncio.Task[None] | None = None
        self._pause: asyncio.Task[list[Delivery]] | None = None
        self.used_at: float = clock.monotonic()

    @property
    def is_silent(self) -> bool:
        """Whether no client has asked for the time of a lease."""
        return self._serving is None and self.member.is_silent(self.used_at)

    def enter(self, limit: int, bytes_max: int, wait_s: float) -> Fetch:
        """Ask for deliveries: found is what there is once there is one, or after `wait_s`."""
        deadline = self._clock.monotonic() + wait_s
        one = Fetch(self, limit, bytes_max, deadline)
        self._waiting.append(one)
        self._wake()
        return one

    def remove(self, one: Fetch) -> None:
        """Let a client wait no more."""
        if one in self._waiting:
            self._waiting.remove(one)
            if not self._waiting and self._pause is not None:
                self._pause.cancel()

    def put_back(self, unsent: list[Leased]) -> None:
        """Have what no client has seen delivered again, uncounted."""
        if unsent:
            self._unsent += unsent
            self._wake()

    def _wake(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._serving is None:
            self._serving = asyncio.ensure_future(self._serve())
            self._serving.add_done_callback(self._ended)

    def _ended(self, serving: asyncio.Task[None]) -> None:
        self._serving = None
        error = asyncio.CancelledError() if serving.cancelled() else serving.exception()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if error is None:
                # It came while the task was about to end.
                self._waiting.append(each)
            elif not isinstance(error, asyncio.CancelledError):
                each.found.set_exception(error)
            else:
                each.found.cancel()
        if self._waiting or (self._unsent and error is None):
            self._wake()

    async def _serve(self) -> None:
        while self._waiting or self._unsent:
            unsent, self._unsent = self._unsent, []
            if unsent:
                await in_thread(self.member.put_back, unsent)
            await self.member.end_leases()
            if self._waiting:
                self._hand_out(*await self._look())

    async def _look(self) -> tuple[list[Delivery], bool]:
        """Return what the first in line gets, and whether the look came to its end."""
        now, waiting = self._clock.monotonic(), self._waiting
        first = waiting[0]
        until = min(self.member.none_ends_before, *(each.deadline for each in waiting))
        wait_s = 0.0 if any(each.is_new for each in waiting[1:]) else max(0.0, until - now)
        for each in waiting:
            each.is_new = False
        limit = self.member.room_for(first.limit)
        consumer = self.member.consumer
        if not wait_s:
            return await fetched(consumer, limit, first.bytes_max, 0), True
        self._pause = asyncio.ensure_future(fetched(consumer, limit, first.bytes_max, wait_s))
        try:
            await asyncio.wait({self._pause})
            if not self._pause.cancelled():
                return self._pause.result(), True
        finally:
            self._pause.cancel()
            self._pause = None
        if isinstance(consumer, Consumer):
            # It has prepared at most what its own partitions hold, for the next look.
            return [], False
        return await consumer._prepared_on_loop(), False  # noqa: SLF001 - Of no other use.

    def _hand_out(self, found: list[Delivery], is_whole: bool) -> None:
        self.used_at = now = self._clock.monotonic()
        is_last = is_whole and not found
        while found and self._waiting:
            one = self._waiting.pop(0)
            one.found.set_result(self.member.hold(found[: one.limit]))
            found = found[one.limit :]
        if found:
            self._unsent += self.member.hold(found)
        if not is_last:
            return
        # Those that came during the look have theirs first.
        ended = [each for each in self._waiting if each.deadline <= now and not each.is_new]
        for each in ended:
            self._waiting.remove(each)
            each.found.set_result([])


async def fetched(
    consumer: Consumer | SharedConsumer, limit: int, bytes_max: int, wait_s: float
) -> list[Delivery]:
    """Return deliveries within the bounds, as soon as there is one; none after `wait_s`.

    If it is cancelled, no delivery is lost.
    """
    if isinstance(consumer, Consumer):
        return await AsyncConsumer(consumer).fetch(limit, bytes_max, wait_s)
    face = AsyncSharedConsumer(consumer)
    found = await face.fetch(min(limit, _FIRST_RECORDS), wait_s)
    # What has come is returned, whatever becomes of the rest.
    with contextlib.suppress(asyncio.CancelledError, StrandlineError):
        while found and len(found) < limit:
            # As many as fit, if they are no larger than those that came.
            sizes = [size_of(each.record) for each in found]
            fitting = (bytes_max - sum(sizes)) // max(1, *sizes)
            if fitting <= 0:
                break
            more = await face.fetch(min(limit - len(found), fitting), 0)
            if not more:
                break
            found += more
    return found
