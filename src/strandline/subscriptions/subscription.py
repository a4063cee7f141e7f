"""Older records, then live ones, in one loop: no gap, no repeat."""

import threading
import types
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from strandline.clock import Clock, deadline_in, has_passed
from strandline.locks import Attempt
from strandline.log import Hint, Watch
from strandline.log.off_loop import in_thread
from strandline.log.patience import begin_limit, end_limit
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.pages import HISTORY, Pages, Pause
from strandline.subscriptions.screening import FailedRecord
from strandline.subscriptions.stream import Stream
from strandline.values import ClosedError, InvalidError, Record
from strandline.values.arguments import check_timeout
from strandline.values.html import html_table
from strandline.values.prompt import prompt_text
from strandline.writes.loops import check_on_asyncio

if TYPE_CHECKING:
    from strandline.subscriptions import AsyncSubscription

ItemT = TypeVar("ItemT", bound=Record | FailedRecord | Marker)


class Subscription(Stream[ItemT]):
    """A stream of records, of each assigned partition exactly start, start + 1, ….

    `for` and `next` take from the same stream and may be mixed, one thread at a time; a
    concurrent second reader gets InvalidError. `async with` gives an `AsyncSubscription`
    to the same stream. Order holds within a partition, not across partitions. Closing the
    subscription or the log ends the iteration; after any other error the stream can be
    continued: a step that times out, is cancelled or fails loses no record.

    TrimmedError if a trim has overtaken it: remove the partition, and add it at `.oldest`.
    InvalidError if its topic was dropped. An unavailable partition is retried
    automatically (see `Assignment.fault`), and delays no other. PredicateEvalError, in each
    step, if `where` fails on a record: remove the partition, and add it after the record.
    A subscription without references is closed.
    """

    def __init__(
        self,
        assignment: Assignment,
        pages: Pages,
        watch: Watch,
        clock: Clock,
        *,
        markers: bool,
        closing: Callable[[], None],
    ) -> None:
        super().__init__()
        self._assignment = assignment
        self._pages = pages
        self._watch = watch
        self._clock = clock
        self._markers = markers
        self._reading = threading.Lock()
        self._attempt = Attempt(self._reading)
        self._is_closed = False
        self._is_recalled = False
        #: Releases its resources; references the watch, and not the subscription.
        self._closing = closing
        # On another thread: the thread that runs the garbage collector may hold a lock of the log.
        self._finalizer = weakref.finalize(self, clock.call_later, 0.0, self._closing)
        self._finalizer.atexit = False

    @property
    def assignment(self) -> Assignment:
        """The partitions that it reads; any thread may change them at any time."""
        return self._assignment

    def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item, or None if there is none within `timeout_s`.

        Finds what was appended before the call also with a timeout of 0, however long it
        takes to skip what `where` leaves out. If a server is unavailable, waits for it at most
        a second or two longer; `assignment.fault` has the error. ClosedError once the
        subscription or its log is closed, even if records were read ahead.
        """
        if timeout_s is None and (ready := self._take_at_once()) is not None:
            return ready
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        self._begin_step()
        limit = begin_limit(deadline)
        try:
            while (item := self._take()) is None:
                is_last = has_passed(self._clock, deadline)
                self._wait(deadline)
                if is_last or self._is_recalled:
                    self._is_recalled = False
                    self._pages.look_everywhere()
                    return self._take()
            return item
        finally:
            end_limit(limit)
            self._reading.release()

    def __next__(self) -> ItemT:
        item = self._take_at_once(follows=True)
        return super().__next__() if item is None else item

    def _take_at_once(self, *, follows: bool = False) -> ItemT | None:
        """Return the next record if it was read already; None also if `next` would raise.

        With `follows`, waits for one at the end, if a follower waits there already.
        """
        item: Any = None
        if self._running_pid == self._pid and self._attempt:
            try:
                if not self._is_closed and not self._watch.is_closed:
                    item = self._pages.take_ready()
                    if item is None and follows:
                        item = self._pages.follow_on()
            finally:
                self._reading.release()
        return item  # type: ignore[no-any-return]

    async def _follow_on_loop(self) -> ItemT | None:
        """Do what `_take_at_once` with `follows` does, on the running event loop."""
        check_on_asyncio()
        item: Any = None
        if self._running_pid == self._pid and self._attempt:
            try:
                # A long history must not keep the loop from running other tasks.
                await _let_others_run()
                if not self._is_closed and not self._watch.is_closed:
                    item = await self._pages.follow_on_loop()
            finally:
                self._reading.release()
        return item  # type: ignore[no-any-return]

    def _take_nowait(self, most: int) -> list[ItemT]:
        """Return up to `most` items that are available without waiting. Raises as `next`."""
        self._begin_step()
        try:
            first = self._take()
            if first is None:
                return []
            return [first, *self._pages.take_many(most - 1)]
        finally:
            self._reading.release()

    def _take_buffered(self, most: int) -> list[Record]:
        """Return up to `most` records that were read already, without looking at the log."""
        self._begin_step()
        try:
            return self._pages.take_many(most)
        finally:
            self._reading.release()

    async def _next_on_loop(self, timeout_s: float | None = None) -> ItemT | None:
        check_on_asyncio()
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        self._begin_step()
        limit = begin_limit(deadline)
        try:
            if self._pages.is_empty:
                # A long history must not keep the loop from running other tasks.
                await _let_others_run()
            while (item := await self._take_on_loop()) is None:
                is_last = has_passed(self._clock, deadline)
                await self._wait_on_loop(deadline)
                if is_last or self._is_recalled:
                    self._is_recalled = False
                    self._pages.look_everywhere()
                    return await self._take_on_loop()
            return item
        finally:
            end_limit(limit)
            self._reading.release()

    def __repr__(self) -> str:
        return prompt_text("Subscription", self._assignment.shown(), closed=self._is_closed)

    async def __aenter__(self) -> "AsyncSubscription[ItemT]":
        from strandline.subscriptions import AsyncSubscription  # noqa: PLC0415 - Made of this.

        return AsyncSubscription(self)

    def _repr_html_(self) -> str:
        rows = [
            (place.topic.name, place.partition, offset)
            for place, offset in self._assignment.places()
        ]
        header = ("topic", "partition", "next offset")
        state = ", closed" if self._is_closed else ""
        return html_table(f"Subscription{state}", header, rows)

    def close(self) -> None:
        """End the stream, also for a thread that waits for its next item. May be repeated."""
        # No lock: closing must wait neither for a running read nor for an interrupted one.
        self._is_closed = True
        self._finalizer.detach()
        self._assignment.close()
        self._closing()
        self._pages.close()

    def check_open(self) -> None:
        """Raise ClosedError if the subscription or its log is closed, or after a fork."""
        self._check_process()
        if self._is_closed:
            raise ClosedError("this subscription was closed, subscribe again")
        if self._watch.is_closed:
            raise ClosedError("the log is closed, open it again")

    def _recall(self) -> None:
        """Have the current wait for an item end as at its deadline, or the next one if none runs.

        From any thread.
        """
        self._is_recalled = True
        self._watch.wake()

    def _begin_step(self) -> None:
        self._check_process()
        if not self._attempt:
            raise InvalidError("another thread or task reads this subscription, subscribe twice")

    def _take(self) -> ItemT | None:
        while isinstance(item := self._look(), Pause):
            pass
        return item

    async def _take_on_loop(self) -> ItemT | None:
        if self._pages.is_filling:
            # A cancelled step may still be reading in its thread. Do not block on its lock here.
            await in_thread(self._pages.fill)
        while isinstance(item := self._look(reads_history=False), Pause):
            if item is HISTORY:
                await in_thread(self._pages.fill)
            else:
                await _let_others_run()
        return item

    def _look(self, *, reads_history: bool = True) -> ItemT | Pause | None:
        while True:
            if self._is_closed or self._watch.is_closed:
                self.check_open()
            item = self._pages.take(reads_history=reads_history)
            if self._markers or item is None or isinstance(item, Record | FailedRecord | Pause):
                return item  # type: ignore[return-value]

    # In both ways to wait: if the wait is interrupted, hints that the watch has given out may
    # be lost. So the next step looks for itself.

    def _wait(self, deadline: float | None) -> None:
        if self._pages.wait_at_end(deadline):
            return
        hints: tuple[Hint, ...] = ()
        try:
            hints = tuple(self._watch.wait(self._pages.wait_s(deadline)))
        finally:
            self._pages.on_hints(hints)

    async def _wait_on_loop(self, deadline: float | None) -> None:
        if await self._pages.wait_at_end_on_loop(deadline):
            return
        hints: tuple[Hint, ...] = ()
        try:
            hints = tuple(await self._watch.wait_on_loop(self._pages.wait_s(deadline)))
        finally:
            self._pages.on_hints(hints)


@types.coroutine
def _let_others_run() -> Generator[None, None, None]:
    yield
