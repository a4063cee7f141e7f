"""The outcome of one write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple
from uuid import UUID

import msgspec

from strandline.values import Durability, UnavailableError
from strandline.writes.contracts import R
from strandline.writes.loops import check_on_asyncio
from strandline.writes.waiter import LoopWaiter, ThreadWaiter

if TYPE_CHECKING:
    from strandline.writes.channel import Item
    from strandline.writes.storage import Storage


_logger = logging.getLogger("strandline")
# Looking up an enumeration's members is slow.
_APPLIED: Final = Durability.APPLIED
_DURABLE: Final = Durability.DURABLE


class UnseenError:
    """Logs an error that is garbage-collected before any caller has seen it, as asyncio does.

    Made for refused writes only, so that successful ones pay nothing.
    """

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error

    def see(self) -> None:
        """Mark the error as seen: do not log it."""
        self._error = None

    def __del__(self) -> None:
        error = self._error
        if error is not None:
            _logger.error("a write failed, and its receipt was never awaited: %s", error)


class WriteId(NamedTuple):
    """Identifies one write of a store for ever: epochs begin again at 1 in each incarnation."""

    incarnation: UUID
    epoch: int


# A struct: one is made for each write, and msgspec makes structs in C.
class WriteReceipt(msgspec.Struct, Generic[R], eq=False):
    """A write's epoch, its result, and the wait for a level.

    Waits may be repeated and shared by threads and event loops. A wait that is cancelled
    or interrupted changes nothing. A wait that times out withdraws the write if it is
    still queued: the error's `.write` is then the write, and it will not be applied.
    Otherwise `.write` is None, the write was taken, and one may wait again.
    """

    _storage: Storage[Any, Any]
    _epoch: int = 0
    _result: R | None = None
    #: The error that refused the write; None unless it failed.
    error: Exception | None = None
    #: The queued item; None as soon as the outcome is known.
    _item: Item[Any, R] | None = None
    #: The round of syncing that must have ended before this counts as durable.
    _turn: int = 0
    #: Set until a caller has seen the error.
    _unseen: UnseenError | None = None

    def __repr__(self) -> str:
        state = "queued" if self._item is not None else self.error or f"{self.level!s}"
        return f"Receipt(epoch={self._epoch}, {state})"

    # --- the outcome, set once by the thread that drains ---

    def accept(self, epoch: int, result: R) -> None:
        """The write was applied as `epoch`."""
        self._epoch = epoch
        self._result = result
        self._settle()

    def accept_written(self, epoch: int, result: R) -> None:
        """The write was applied as `epoch`, and is written.

        A waiter for durable keeps waiting until it is: the caller has to call that stage's
        `call_next` afterwards.
        """
        self._epoch = epoch
        self._result = result
        item = self._item
        if item is None or not item.durable_waiters:
            self._settle()
            return
        # Invariant: done before any waiter can see the outcome and unregister.
        durable_waiters = item.move(epoch, self._storage.durable.mark)
        if not all(waiter.leads for waiter in durable_waiters):
            self._storage.request(_DURABLE, epoch)
        self._item = None
        for waiter in tuple(item.waiters):
            if waiter not in durable_waiters:
                waiter.wake()

    def refuse(self, error: Exception, epoch: int = 0) -> None:
        """The write failed; epoch 0 means that it was not given one."""
        self._epoch = epoch
        self.error = error
        self._unseen = UnseenError(error)
        self._settle()

    def settle_as(self, other: WriteReceipt[R]) -> None:
        """Take the outcome of `other`."""
        self._epoch = other._epoch
        self._result = other._result
        self.error = other.error
        self._unseen, other._unseen = other._unseen, None
        self._settle()

    def _settle(self) -> None:
        item, self._item = self._item, None
        if item is not None:
            for waiter in tuple(item.waiters):
                waiter.wake()

    # --- for the caller ---

    def result(self) -> R:
        """Return the result, or raise what `apply` raised; UnavailableError while it is open."""
        if self._item is not None:
            raise UnavailableError("the outcome is still open, wait for the receipt")
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self._result  # type: ignore[return-value]

    def epoch(self, timeout_s: float | None = None) -> int:
        """Return the write's place in the order of all writes, once it is applied."""
        self.wait(Durability.APPLIED, timeout_s)
        return self._epoch

    def id(self, timeout_s: float | None = None) -> WriteId:
        """Return an id of the write that is unique across incarnations of the store."""
        return WriteId(self._storage.incarnation, self.epoch(timeout_s))

    def wait(self, level: Durability = _APPLIED, timeout_s: float | None = None) -> R:
        """Return the result of the write once it has reached `level`.

        Raises what `apply` raised, for any level; UnavailableError when the
        time is up; ClosedError or FailedError when `level` can no longer be
        reached.
        """
        deadline = None if timeout_s is None else self._storage.clock.monotonic() + timeout_s
        item = self._item
        if item is not None:
            self._wait_outcome(item, deadline, level)
        if self.error is not None:
            self.see()
            raise self.error.with_traceback(None)
        if level is not _APPLIED:
            epoch = self._epoch
            storage = self._storage
            if storage.written.mark.value < epoch:
                storage.written.reach(epoch, deadline)
            if level is _DURABLE:
                storage.durable.reach(epoch, deadline, self._turn)
        return self._result  # type: ignore[return-value]

    async def wait_on_loop(self, level: Durability = _APPLIED, timeout_s: float | None = None) -> R:
        """Like `wait`, on the running event loop."""
        reached = self.level
        if reached is not None and reached >= level:
            return self._result  # type: ignore[return-value]
        check_on_asyncio()
        try:
            async with asyncio.timeout(timeout_s):
                if (item := self._item) is not None:
                    await self._outcome_on_loop(item, level)
                if self.error is not None:
                    self.see()
                    raise self.error.with_traceback(None)
                if level is not Durability.APPLIED:
                    await self._storage.reach_on_loop(level, self._epoch, self._turn)
        except TimeoutError:
            self._time_out()
            raise UnavailableError(
                f"the write was taken but is not {level.name.lower()} yet, wait again",
                epoch=self._epoch,
            ) from None
        return self._result  # type: ignore[return-value]

    def __await__(self) -> Generator[Any, None, R]:
        return self.wait_on_loop().__await__()

    def see(self) -> None:
        """Mark the error, if there is one, as seen by the caller: it is not logged."""
        # Threads that wait for the same receipt may call this concurrently.
        unseen, self._unseen = self._unseen, None
        if unseen is not None:
            unseen.see()

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is known: an epoch, or an error."""
        return self._item is None

    @property
    def level(self) -> Durability | None:
        """The highest level reached so far; None before the write is applied."""
        if self._item is not None or self.error is not None:
            return None
        return self._storage.level_of(self._epoch, self._turn)

    # --- waiting for the outcome ---

    def _wait_outcome(self, item: Item[Any, R], deadline: float | None, level: Durability) -> None:
        # Invariant: a waiter is registered before it reads the outcome, and the
        # outcome is set before the waiters are read.
        item.channel.check_owner()
        expiry = item.channel.expiry(item)
        until = min((d for d in (deadline, expiry) if d is not None), default=None)
        waiter = ThreadWaiter(self._storage.clock)
        try:
            try:
                item.enter(waiter, until_durable=level is _DURABLE)
                while not self.is_settled:
                    item.channel.drain(until)
                    if self._item is not None and not waiter.wait(until):
                        self._take_back(item)
                        if until == deadline:
                            self._time_out()
                        until = deadline
            finally:
                item.leave(waiter, self._epoch, self._storage.durable.mark)
        except BaseException:
            # This waiter may have been woken to drain next, or may still be registered.
            item.leave(waiter, self._epoch, self._storage.durable.mark)
            item.channel.pass_on()
            raise

    async def _outcome_on_loop(self, item: Item[Any, R], level: Durability) -> None:
        item.channel.check_owner()
        expiry = item.channel.expiry(item)
        timeout_s = None if expiry is None else expiry - self._storage.clock.monotonic()
        waiter = LoopWaiter()
        try:
            item.enter(waiter, until_durable=level is _DURABLE)
            async with asyncio.timeout(timeout_s):
                while self._item is not None:
                    await waiter.wait()
        except TimeoutError:
            # The thread that should take it may be in a slow sync.
            item.channel.try_drain()
            self._take_back(item)
            while self._item is not None:
                await waiter.wait()
        finally:
            item.leave(waiter, self._epoch, self._storage.durable.mark)

    def _take_back(self, item: Item[Any, R]) -> None:
        """Refuse the write if it was not taken yet."""
        if item.channel.withdraw(item):
            error = UnavailableError(
                "the write was not taken in time, try it again",
                write=item.write,
                channel=item.channel.name,
            )
            self.refuse(error)
            self.see()
            raise error

    def _time_out(self) -> None:
        """Withdraw the write; raise if it is being applied right now."""
        if (item := self._item) is None:
            return
        self._take_back(item)
        if self._item is not None:
            raise UnavailableError(
                "the append is still queued, wait again", channel=item.channel.name
            )


def refused(
    storage: Storage[Any, Any], error: Exception, epoch: int = 0, result: Any = None
) -> WriteReceipt[Any]:
    """Return the receipt of a write that has failed."""
    return WriteReceipt(storage, epoch, result, error, _unseen=UnseenError(error))


class FlushReceipt(WriteReceipt[None], eq=False):
    """The outcome of a flush."""

    def require_sync(self, turn: int) -> None:
        """Count it as durable only after round `turn` of syncing has ended."""
        self._turn = turn

    def _take_back(self, item: Item[Any, None]) -> None:
        """Leave the flush queued: others may share it, and there is no write to hand back."""
