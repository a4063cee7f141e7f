"""Receipts of a SQLite log: a place in what one write of the coordinator came to."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any

from strandline.log.numbers import check_timeout
from strandline.log.receipt_looks import (
    receipt_html,
    receipt_text,
    receipts_html,
    receipts_text,
)
from strandline.log.terms import check_level
from strandline.stores.sqlite.appends import Append, Placed, Placement, Single
from strandline.stores.sqlite.block import Joined
from strandline.values import Durability, InvalidError, Offset, Partition, UnavailableError
from strandline.writes import Channel
from strandline.writes import Receipt as WriteReceipt
from strandline.writes.waiter import LoopWaiter, ThreadWaiter

_WRITTEN = Durability.WRITTEN
_DURABLE = Durability.DURABLE


class SqliteReceipts(Sequence["SqliteReceipt"]):
    """Implements Receipts."""

    __slots__ = ("_count", "_level", "_offered", "_outcome")

    def __init__(
        self,
        count: int,
        outcome: "WriteReceipt[Placement] | None",
        level: Durability,
        offered: object,
    ) -> None:
        self._count = count
        self._outcome = outcome
        self._level = level
        self._offered = offered

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> "SqliteReceipt":  # type: ignore[override]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return SqliteReceipt(self, index % self._count)

    def __repr__(self) -> str:
        return receipts_text(self)

    def _repr_html_(self) -> str:
        return receipts_html(self)

    def wait(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "SqliteReceipts":
        self.settle(level, timeout_s)
        return self

    async def reached(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "SqliteReceipts":
        await self.settle_on_loop(level, timeout_s)
        return self

    def __await__(self) -> Generator[Any, None, "SqliteReceipts"]:
        return self.reached().__await__()

    # --- for each receipt ---

    @property
    def is_settled(self) -> bool:
        """Whether the outcome of the whole append is known."""
        return self._outcome is None or self._outcome.is_settled

    @property
    def level(self) -> Durability | None:
        """The level of the whole append."""
        return None if self._outcome is None else self._outcome.level

    def settle(self, level: Durability | None, timeout_s: float | None) -> Placement:
        """Return where the values are once they have reached `level`, or raise."""
        wanted = self._wanted(level, timeout_s)
        if self._outcome is None:
            return _NOTHING
        try:
            return _checked(self._outcome.wait(wanted, timeout_s))
        except UnavailableError as error:
            raise handed_back(error, self._offered) from error.__cause__

    async def settle_on_loop(self, level: Durability | None, timeout_s: float | None) -> Placement:
        """Do what `settle` does, asleep on the running event loop."""
        wanted = self._wanted(level, timeout_s)
        if self._outcome is None:
            return _NOTHING
        try:
            return _checked(await self._outcome.reached(wanted, timeout_s))
        except UnavailableError as error:
            raise handed_back(error, self._offered) from error.__cause__

    def placed(self, index: int) -> Placed:
        """Return where a value is; raise what kept it from being stored."""
        assert self._outcome is not None
        if not self._outcome.is_settled:
            raise UnavailableError("the outcome is still open, wait for the receipt")
        placement = self._outcome.wait()
        placed = placement.find(index)
        if placed is None:
            assert placement.error is not None
            raise placement.error.with_traceback(None)
        return placed

    def _wanted(self, level: Durability | None, timeout_s: float | None) -> Durability:
        check_timeout(timeout_s)
        wanted = self._level if level is None else check_level(level, _DURABLE)
        # What is applied here is written.
        return max(wanted, _WRITTEN)


class JoinedReceipts(SqliteReceipts):
    """Receipts of an append inside a transaction.

    Where its values are is known at once, and true if the transaction is committed.
    """

    __slots__ = ("_channel", "_joined", "_known", "_placement")

    def __init__(
        self,
        count: int,
        placement: Placement,
        joined: Joined,
        level: Durability,
        offered: object,
        *,
        channel: Channel[Any, Any],
        known: Callable[[int], int],
    ) -> None:
        super().__init__(count, None, level, offered)
        self._placement = placement
        self._joined = joined
        self._channel = channel
        self._known = known

    @property
    def is_settled(self) -> bool:
        return bool(self._joined.block.over.value)

    @property
    def level(self) -> Durability | None:
        if not self.is_settled or self._joined.error is not None:
            return None
        ends = self._joined.block.ends.items()
        return _DURABLE if all(self._known(slot) >= end for slot, end in ends) else _WRITTEN

    def settle(self, level: Durability | None, timeout_s: float | None) -> Placement:
        wanted = self._wanted(level, timeout_s)
        block = self._joined.block
        block.check_owner()
        clock = self._channel.storage.clock
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        self._check_not_inside()
        waiter = ThreadWaiter(clock)
        with block.over.awaited_by(waiter, 1):
            while not block.over.value:
                if not waiter.wait(deadline):
                    raise _still_open()
        if self._is_short_of(wanted):
            left_s = None if deadline is None else max(0.0, deadline - clock.monotonic())
            self._channel.flush(durable=True).wait(_DURABLE, left_s)
        return self._placement

    async def settle_on_loop(self, level: Durability | None, timeout_s: float | None) -> Placement:
        wanted = self._wanted(level, timeout_s)
        block = self._joined.block
        block.check_owner()
        self._check_not_inside()
        waiter = LoopWaiter()
        try:
            async with asyncio.timeout(timeout_s):
                with block.over.awaited_by(waiter, 1):
                    while not block.over.value:
                        await waiter.wait()
                if self._is_short_of(wanted):
                    await self._channel.flush(durable=True).reached(_DURABLE)
        except TimeoutError:
            raise _still_open() from None
        return self._placement

    def placed(self, index: int) -> Placed:
        if self._joined.error is not None:
            raise self._joined.error.with_traceback(None)
        placed = self._placement.find(index)
        assert placed is not None
        return placed

    def _is_short_of(self, wanted: Durability) -> bool:
        if self._joined.error is not None:
            raise self._joined.error.with_traceback(None)
        return wanted is _DURABLE and self.level is not _DURABLE

    def _check_not_inside(self) -> None:
        if self._joined.block.is_mine and not self.is_settled:
            raise InvalidError("this is written when its transaction is, wait for it after that")


class SqliteReceipt:
    """Implements Receipt."""

    __slots__ = ("_append", "_index")

    def __init__(self, append: SqliteReceipts, index: int) -> None:
        self._append = append
        self._index = index

    @property
    def is_settled(self) -> bool:
        return self._append.is_settled

    @property
    def partition(self) -> Partition:
        return self._append.placed(self._index).partition

    @property
    def offset(self) -> Offset:
        return self._append.placed(self._index).offset

    @property
    def timestamp_us(self) -> int:
        return self._append.placed(self._index).timestamp_us

    @property
    def is_repeat(self) -> bool:
        return self._append.placed(self._index).is_repeat

    @property
    def level(self) -> Durability | None:
        return self._append.level

    def __repr__(self) -> str:
        return receipt_text(self)

    def _repr_html_(self) -> str:
        return receipt_html(self)

    def wait(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "SqliteReceipt":
        self._append.settle(level, timeout_s)
        return self

    async def reached(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "SqliteReceipt":
        await self._append.settle_on_loop(level, timeout_s)
        return self

    def __await__(self) -> Generator[Any, None, "SqliteReceipt"]:
        return self.reached().__await__()


def handed_back(error: UnavailableError, offered: object) -> UnavailableError:
    """Return the error with what the caller offered in place of what we made of it."""
    if isinstance(error.write, Append | Single):
        error.write = offered
    return error.with_traceback(None)


def _checked(placement: Placement) -> Placement:
    if placement.error is not None:
        raise placement.error.with_traceback(None)
    return placement


def _still_open() -> UnavailableError:
    return UnavailableError("it is neither committed nor rolled back in time, wait again")


_NOTHING = Placement((), None)
