"""Appends that are made in a thread, for a loop that must not wait for them."""

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
    """An append that a thread makes: its receipt, once it has one, or its error.

    An error that no caller has seen is logged when this is collected.
    """

    def __init__(self) -> None:
        self._future: Future[MadeT] = Future()
        self._unseen: UnseenError | None = None

    @classmethod
    def failed(cls, error: StrandlineError) -> Self:
        """Return an append that was refused at once."""
        refused = cls()
        refused._fail(error)
        return refused

    def make(self, append: Callable[[], MadeT]) -> None:
        """Make the append, in the present thread."""
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
        """Do what `result` does once there is one; UnavailableError when the time is up."""
        await self.finish(timeout_s)
        if not self.is_done:
            raise UnavailableError("it has not come to its turn yet, wait again")
        return self.result()

    async def finish(self, timeout_s: float | None = None) -> None:
        """Return once there is a receipt or an error, or the time is up."""
        if not self.is_done:
            # Its own copy: who waits may be cancelled, and the append goes on.
            waiting = asyncio.wrap_future(_followed(self._future))
            await asyncio.wait([waiting], timeout=timeout_s)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._unseen = UnseenError(error)
        self._future.set_exception(error)


def _followed(future: "Future[Any]") -> "Future[None]":
    """Return a future that is done when another is, whatever its outcome."""
    follower: Future[None] = Future()

    def settle(_: object) -> None:
        if follower.set_running_or_notify_cancel():
            follower.set_result(None)

    future.add_done_callback(settle)
    return follower


class AppendQueue:
    """The appends to one topic that are made in a thread, in the order of the calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[HandedOver[Any], Callable[[], Any]]] = deque()
        #: None once all of them are made.
        self.last: HandedOver[Any] | None = None

    def put(self, append: Callable[[], MadeT]) -> HandedOver[MadeT]:
        """Make an append after those before it, in a thread of the running loop."""
        handed = HandedOver[MadeT]()
        with self._lock:
            is_first = self.last is None
            self.last = handed
            self._waiting.append((handed, append))
        if is_first:
            # A loop that is closed waits for its threads, so that it is made in any case.
            asyncio.get_running_loop().run_in_executor(None, self._make_all)
        return handed

    async def finish(self) -> None:
        """Return once all of them are made."""
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
