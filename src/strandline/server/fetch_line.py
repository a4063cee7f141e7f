"""Clients that fetch from one member, served in order of arrival, each with its own deadline."""

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
    """The request of one client, until its answer is sent or the client has disconnected."""

    def __init__(self, line: "FetchLine", limit: int, bytes_max: int, deadline: float) -> None:
        self._line = line
        self.limit: Final = limit
        self.bytes_max: Final = bytes_max
        self.deadline: Final = deadline
        #: Whether the log was not read since it was added.
        self.is_new = True
        self.found: Final[asyncio.Future[list[Leased]]] = asyncio.get_running_loop().create_future()
        self._is_over = False

    def end(self) -> None:
        """End the wait; without deliveries so far, the answer is empty."""
        self._line.remove(self)
        if not self.found.done():
            self.found.set_result([])

    def note_sent(self) -> None:
        """Record that the answer was sent, as far as can be known."""
        self._is_over = True

    def leave(self) -> None:
        """End the request; what was found and not sent is put back. May be repeated."""
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

    One task at a time reads the consumer. It waits for all clients, until the earliest deadline;
    a new client interrupts the wait, so that the log is read for it at once.
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
    def is_unused(self) -> bool:
        """Whether there was no request for the duration of a lease."""
        return self._serving is None and self.member.is_unused(self.used_at)

    def enter(self, limit: int, bytes_max: int, wait_s: float) -> Fetch:
        """Add a client; its `found` is set once there is a delivery, or after `wait_s`."""
        deadline = self._clock.monotonic() + wait_s
        one = Fetch(self, limit, bytes_max, deadline)
        self._waiting.append(one)
        self._wake()
        return one

    def remove(self, one: Fetch) -> None:
        """Remove a client that waits."""
        if one in self._waiting:
            self._waiting.remove(one)
            if not self._waiting and self._pause is not None:
                self._pause.cancel()

    def put_back(self, unsent: list[Leased]) -> None:
        """Put back deliveries that no client has received, uncounted."""
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
                # It was added while the task was about to end.
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
        """Fetch for the first client; return the deliveries, and whether the wait was completed."""
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
            # What it has prepared is kept for the next look.
            return [], False
        return await consumer._prepared_on_loop(), False  # noqa: SLF001 - For the server only.

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
        # Clients that were added during the look get one of their own first.
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
    # What was fetched is returned, even if the rest fails.
    with contextlib.suppress(asyncio.CancelledError, StrandlineError):
        while found and len(found) < limit:
            # As many as fit, if they are no larger than those before.
            sizes = [size_of(each.record) for each in found]
            fitting = (bytes_max - sum(sizes)) // max(1, *sizes)
            if fitting <= 0:
                break
            more = await face.fetch(min(limit - len(found), fitting), 0)
            if not more:
                break
            found += more
    return found
