"""Appends made in a thread, for an event loop that must not block on them."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Self, TypeVar

from strandline.log.receipts import Receipt, Receipts
from strandline.values import StrandlineError, UnavailableError
from strandline.writes.receipt import UnseenError

MadeT = TypeVar("MadeT", bound=Receipt | Receipts)


class HandedOver(Generic[MadeT]):
    """An append that a thread makes: a future for its receipt or its error.

    An error that no caller has seen is logged when this is garbage-collected.
    """

    def __init__(self) -> None:
        self._future: Future[MadeT] = Future()
        self._unseen: UnseenError | None = None

    @classmethod
    def failed(cls, error: StrandlineError) -> Self:
        """Return an append that raised at once."""
        refused = cls()
        refused._fail(error)
        return refused

    def make(self, append: Callable[[], MadeT]) -> None:
        """Make the append, in the current thread."""
        try:
            self._future.set_result(append())
        except BaseException as error:  # noqa: BLE001 - Awaiting the receipt raises it.
            self._fail(error)

    @property
    def is_done(self) -> bool:
        """Whether there is a receipt, or an error."""
        return self._future.done()

    @property
    def has_failed(self) -> bool:
        """Whether there is an error."""
        return self.is_done and self._future.exception() is not None

    def result(self) -> MadeT:
        """Return the receipt, or raise the error; UnavailableError while there is neither."""
        if not self.is_done:
            raise UnavailableError("the outcome is still open, await the receipt")
        if self._unseen is not None:
            self._unseen.see()
        if (error := self._future.exception()) is not None:
            raise error.with_traceback(None)
        return self._future.result()

    async def wait(self, timeout_s: float | None = None) -> MadeT:
        """Do what `result` does once the outcome is known; UnavailableError when the time is up."""
        await self.finish(timeout_s)
        if not self.is_done:
            raise UnavailableError("the append is still queued, wait again")
        return self.result()

    async def finish(self, timeout_s: float | None = None) -> None:
        """Return once there is a receipt or an error, or the time is up."""
        if not self.is_done:
            # A separate future: cancelling the waiting task must not cancel the append.
            waiting = asyncio.wrap_future(_followed(self._future))
            await asyncio.wait([waiting], timeout=timeout_s)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._unseen = UnseenError(error)
        self._future.set_exception(error)


def _followed(future: "Future[Any]") -> "Future[None]":
    """Return a future that is done when another one is, whatever its outcome."""
    follower: Future[None] = Future()

    def settle(_: object) -> None:
        if follower.set_running_or_notify_cancel():
            follower.set_result(None)

    future.add_done_callback(settle)
    return follower


class AppendQueue:
    """The appends to one topic that a thread makes, in the order of the calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[HandedOver[Any], Callable[[], Any]]] = deque()
        #: The append queued last; None once all are made.
        self.last: HandedOver[Any] | None = None

    def put(self, append: Callable[[], MadeT]) -> HandedOver[MadeT]:
        """Queue an append after the earlier ones; a thread of the running loop makes them."""
        handed = HandedOver[MadeT]()
        with self._lock:
            is_first = self.last is None
            self.last = handed
            self._waiting.append((handed, append))
        if is_first:
            # Closing a loop waits for its threads, so that the append is made in any case.
            asyncio.get_running_loop().run_in_executor(None, self._make_all)
        return handed

    async def finish(self) -> None:
        """Return once all queued appends are made."""
        if (last := self.last) is not None:
            await last.finish()

    def _make_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self.last = None
                    return
                handed, append = self._waiting.popleft()
            handed.make(append)
