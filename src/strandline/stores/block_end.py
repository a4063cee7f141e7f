"""The end of a caller's transaction, and waiting for it."""

import os
import threading
from typing import Final

from strandline.clock import Clock
from strandline.values import ClosedError, InvalidError, UnavailableError
from strandline.writes.waiter import LoopWaiter, ThreadWaiter
from strandline.writes.watermark import Watermark


class BlockEnd:
    """The owner of a block, and whether it is over. Any thread may wait for it."""

    def __init__(self) -> None:
        self.thread: Final = threading.get_ident()
        self._pid = os.getpid()
        #: Advances to 1 at the end of the block.
        self._over = Watermark()

    @property
    def is_over(self) -> bool:
        """Whether the block was committed or rolled back."""
        return bool(self._over.value)

    @property
    def is_inherited(self) -> bool:
        """Whether this is the child of a fork, to which the block does not belong."""
        return self._pid != os.getpid()

    @property
    def is_mine(self) -> bool:
        """Whether this thread began the block."""
        return self.thread == threading.get_ident() and not self.is_inherited

    def check_owner(self) -> None:
        """Raise ClosedError in a forked child, which must not touch the block."""
        if self.is_inherited:
            raise ClosedError(
                "this transaction was begun before a fork and is its parent's, open the log again"
            )

    def reach(self) -> None:
        """Wake all waiters. May be repeated."""
        self._over.advance(1)

    def wait(self, clock: Clock, deadline: float | None) -> None:
        """Return once the block is over; UnavailableError at the deadline."""
        self._check_not_inside()
        waiter = ThreadWaiter(clock)
        with self._over.awaited_by(waiter, 1):
            while not self._over.value:
                if not waiter.wait(deadline):
                    raise still_open()

    async def wait_on_loop(self) -> None:
        """Return once the block is over."""
        self._check_not_inside()
        waiter = LoopWaiter()
        with self._over.awaited_by(waiter, 1):
            while not self._over.value:
                await waiter.wait()

    def _check_not_inside(self) -> None:
        self.check_owner()
        if self.is_mine and not self.is_over:
            raise InvalidError(
                "this is written when its transaction commits, wait for it after that"
            )


def still_open() -> UnavailableError:
    """Return the error for a wait that timed out."""
    return UnavailableError("the transaction is still open, wait again")


def rolled_back(cause: BaseException | None) -> InvalidError:
    """Return the error of an append undone with its block or, without a cause, to a savepoint."""
    if cause is None:
        return InvalidError("this append was rolled back to a savepoint: nothing of it is stored")
    undone = InvalidError(
        "this append was rolled back with its transaction: nothing of it is stored",
        cause=type(cause).__qualname__,
    )
    undone.__cause__ = cause
    return undone
