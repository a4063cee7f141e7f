"""What an append on an event loop returns: receipts to be awaited."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import msgspec

from strandline._core import IS_COMPILED
from strandline.log.handed_over import HandedOver
from strandline.log.off_loop import BoundThread
from strandline.log.receipts import Receipt, Receipts
from strandline.values import Durability, DurabilityName, InvalidError, Offset, Partition
from strandline.values.arguments import check_timeout
from strandline.writes.loops import check_on_asyncio

MadeT = TypeVar("MadeT", bound=Receipt | Receipts)
Made: TypeAlias = "MadeT | HandedOver[MadeT]"
"""A receipt, or the append that a thread is making."""


if TYPE_CHECKING or not IS_COMPILED:
    # A struct: one is made for each append, and msgspec makes structs in C.
    class AsyncReceiptFields(msgspec.Struct, eq=False):
        """The fields of a receipt on an event loop."""

        _made: "Made[Receipt]"
        _block: BoundThread | None = None

        def __await__(self) -> "Generator[Any, None, AsyncReceipt]":
            """Do what `wait()` does."""
            return self._await_open()

        def _await_open(self) -> "Generator[Any, None, AsyncReceipt]":
            raise NotImplementedError
else:
    from strandline._core.core import AsyncReceiptFields


class AsyncReceipt(AsyncReceiptFields):
    """The outcome of one append on an event loop.

    `append` returns at once, and the outcome may still be open: await the receipt. Tasks may
    await it repeatedly and together. A wait that times out or is cancelled does not change
    the append, which was handed over already.
    """

    if IS_COMPILED:
        # The core's struct defines its own slots.
        __slots__ = ()

    @property
    def blocking(self) -> Receipt:
        """The same receipt for threads. UnavailableError until the record was handed over."""
        return _receipt(self._made)

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is known: a place in the log, or an error."""
        return _is_settled(self._made)

    @property
    def partition(self) -> Partition:
        """The record's partition. UnavailableError while the outcome is open."""
        return _receipt(self._made).partition

    @property
    def offset(self) -> Offset:
        """The record's offset. UnavailableError while the outcome is open."""
        return _receipt(self._made).offset

    @property
    def timestamp_us(self) -> int:
        """The record's append time. UnavailableError while the outcome is open."""
        return _receipt(self._made).timestamp_us

    @property
    def is_repeat(self) -> bool:
        """Whether the record had been appended before, and this call stored nothing.

        UnavailableError while the outcome is open.
        """
        return _receipt(self._made).is_repeat

    @property
    def level(self) -> Durability | None:
        """The highest level reached so far; None while the outcome is open."""
        return _level(self._made)

    async def wait(
        self, level: Durability | DurabilityName | None = None, timeout_s: float | None = None
    ) -> "AsyncReceipt":
        """Return this receipt once the record has reached `level`. As `Receipt.wait`.

        Inside a transaction that the append is part of, awaiting the receipt returns as soon
        as the record has its offset. InvalidError for a level: wait for it after the commit.
        """
        made = self._made
        if self._block is None and isinstance(made, Receipt):
            await made._wait_on_loop(level, timeout_s)
        else:
            await _wait(made, self._block, level, timeout_s)
        return self

    def _await_open(self) -> "Generator[Any, None, AsyncReceipt]":
        """Await a write that no sync round of the core has made durable."""
        return self.wait().__await__()

    def __repr__(self) -> str:
        return f"Async{_shown(self._made, 'Receipt')}"


def when_reached(receipt: Receipt, on_end: Callable[[BaseException | None], None]) -> None:
    """Call `on_end` on the running loop, later, once the receipt has reached its level, or with
    the error if it cannot. For rooms above."""
    ended = receipt._next_round()
    if ended is None:
        _call_at_the_end(receipt, on_end)
        return

    def look(_: object) -> None:
        if receipt._is_reached:
            on_end(None)
        else:
            _call_at_the_end(receipt, on_end)

    ended.add_done_callback(look)


def _call_at_the_end(receipt: Receipt, on_end: Callable[[BaseException | None], None]) -> None:
    waiting = asyncio.ensure_future(receipt._wait_on_loop())
    waiting.add_done_callback(
        lambda done: on_end(asyncio.CancelledError() if done.cancelled() else done.exception())
    )


class AsyncReceipts(Sequence[AsyncReceipt]):
    """The outcome of one `append_many`: a receipt for each value, in the same order."""

    def __init__(
        self, count: int, made: "Made[Receipts]", block: BoundThread | None = None
    ) -> None:
        self._made = made
        self._count = count
        self._block = block

    @property
    def blocking(self) -> Receipts:
        """The same receipts for threads. UnavailableError until the values were handed over."""
        return _receipt(self._made)

    @property
    def is_settled(self) -> bool:
        """Whether every outcome is known."""
        return _is_settled(self._made)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> AsyncReceipt: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AsyncReceipt]: ...
    def __getitem__(self, index: int | slice) -> AsyncReceipt | Sequence[AsyncReceipt]:
        """Return receipts. UnavailableError until the values were handed over."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        return AsyncReceipt(_receipt(self._made)[index], self._block)

    async def wait(
        self, level: Durability | DurabilityName | None = None, timeout_s: float | None = None
    ) -> "AsyncReceipts":
        """Return once every record has reached `level`. See AsyncReceipt.wait."""
        await _wait(self._made, self._block, level, timeout_s)
        return self

    def __await__(self) -> "Generator[Any, None, AsyncReceipts]":
        """Do what `wait()` does."""
        return self.wait().__await__()

    def __repr__(self) -> str:
        return f"AsyncReceipts({_shown(self._made, '')})"


def _receipt(made: "Made[MadeT]") -> MadeT:
    return made.result() if isinstance(made, HandedOver) else made


def _is_open(made: "Made[Any]") -> bool:
    return isinstance(made, HandedOver) and not made.is_done


def _is_settled(made: "Made[Any]") -> bool:
    if isinstance(made, HandedOver) and (_is_open(made) or made.has_failed):
        return made.is_done
    return bool(_receipt(made).is_settled)


def _level(made: "Made[Receipt]") -> Durability | None:
    if isinstance(made, HandedOver) and (_is_open(made) or made.has_failed):
        return None
    return _receipt(made).level


def _shown(made: "Made[Any]", name: str) -> str:
    if _is_open(made):
        return f"{name}(outcome not known yet)"
    if isinstance(made, HandedOver) and made.has_failed:
        return f"{name}(outcome an error, await it)"
    return repr(_receipt(made))


async def _wait(
    made: "Made[MadeT]",
    block: BoundThread | None,
    level: Durability | DurabilityName | None,
    timeout_s: float | None,
) -> None:
    check_on_asyncio()
    left_s = check_timeout(timeout_s)
    if isinstance(made, HandedOver):
        clock = asyncio.get_running_loop().time
        begun = clock()
        made = await made.wait(left_s)
        left_s = None if left_s is None else max(0.0, begun + left_s - clock())
    if block is None or not block.is_open:
        await made._wait_on_loop(level, left_s)
    elif level is not None:
        raise InvalidError("this is written when its transaction commits, wait for it after that")
