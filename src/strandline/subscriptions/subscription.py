"""History, then live, in one loop: no gap, no repeat."""

import threading
import types
import weakref
from collections.abc import Callable, Generator
from typing import TypeVar

from strandline.clock import Clock
from strandline.locks import Attempt
from strandline.log import Hint, Watch
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.pages import SKIPPED, Pages, Skipped
from strandline.subscriptions.stream import Stream
from strandline.values import ClosedError, InvalidError, Record
from strandline.values.arguments import check_timeout
from strandline.values.html import html_table
from strandline.values.prompt import prompt_text
from strandline.writes.loops import check_on_asyncio, is_on_loop

ItemT = TypeVar("ItemT", bound=Record | Marker)


class Subscription(Stream[ItemT]):
    """A stream of records, of each assigned partition exactly start, start + 1, ….

    `for`, `async for`, `next` and `arrived` take from the same stream and may be mixed, one thread
    or task at a time; a second one at the same moment gets InvalidError. Order holds
    within a partition, not across. Closing the subscription or the log ends the
    iteration; whatever else is raised leaves the stream where it was, to be taken up
    again: a step that times out, is cancelled or fails loses no record.

    TrimmedError if a trim has overtaken it: remove the partition, and add it at `.oldest`.
    InvalidError if its topic was dropped. A partition that is unavailable is tried again
    by itself (see `Assignment.fault`), and holds no other up. PredicateEvalError, each time
    again, if a record makes `where` fail: remove the partition, and add it behind the record.

    A subscription that is no longer referred to is closed.
    """

    def __init__(
        self,
        assignment: Assignment,
        pages: Pages,
        watch: Watch,
        clock: Clock,
        *,
        markers: bool,
        closing: Callable[[], None] | None = None,
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
        #: Releases what it holds; refers to the watch, and not to the subscription.
        self._closing = closing or watch.close
        # On another thread: the thread that runs the collector may hold a lock of the log.
        self._finalizer = weakref.finalize(self, clock.call_later, 0.0, self._closing)
        self._finalizer.atexit = False

    @property
    def assignment(self) -> Assignment:
        """Which partitions it reads; they may be changed at any time, from any thread."""
        return self._assignment

    def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item, or None if there is none within `timeout_s`.

        What was appended before the call is found also with a timeout of 0, however long
        it takes to look through what `where` leaves out. ClosedError once the subscription
        or its log is closed, whatever was read ahead. InvalidError where it would have to
        wait on a thread that runs an event loop: await `arrived` there.
        """
        deadline = self._deadline(timeout_s)
        self._begin_step()
        try:
            while (item := self._take()) is None:
                if is_on_loop():
                    return self._take_at_once(deadline)
                is_last = self._is_over(deadline)
                self._wait(deadline)
                if is_last:
                    self._pages.look_everywhere()
                    return self._take()
            return item
        finally:
            self._reading.release()

    async def arrived(self, timeout_s: float | None = None) -> ItemT | None:
        """Like `next`, on the running event loop, which is asyncio's."""
        check_on_asyncio()
        deadline = self._deadline(timeout_s)
        self._begin_step()
        try:
            if self._pages.is_empty:
                # A long history must not keep the loop from its other tasks.
                await _let_others_run()
            while (item := await self._take_on_loop()) is None:
                is_last = self._is_over(deadline)
                await self._wait_on_loop(deadline)
                if is_last:
                    self._pages.look_everywhere()
                    return await self._take_on_loop()
            return item
        finally:
            self._reading.release()

    def __repr__(self) -> str:
        return prompt_text("Subscription", self._assignment.shown(), closed=self._is_closed)

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
        # No lock: neither a read that runs nor an interrupted one can keep it waiting.
        self._is_closed = True
        self._finalizer.detach()
        self._assignment.close()
        self._closing()

    def check_open(self) -> None:
        """Raise ClosedError if the subscription or its log is closed, or another process's."""
        self._check_process()
        if self._is_closed:
            raise ClosedError("this subscription was closed, subscribe again")
        if self._watch.is_closed:
            raise ClosedError("the log is closed, open it again")

    def _deadline(self, timeout_s: float | None) -> float | None:
        checked_s = check_timeout(timeout_s)
        return None if checked_s is None else self._clock.monotonic() + checked_s

    def _begin_step(self) -> None:
        self._check_process()
        if not self._attempt:
            raise InvalidError("another thread or task reads this subscription, subscribe twice")

    def _is_over(self, deadline: float | None) -> bool:
        return deadline is not None and self._clock.monotonic() >= deadline

    def _take(self) -> ItemT | None:
        while isinstance(item := self._look(), Skipped):
            pass
        return item

    def _take_at_once(self, deadline: float | None) -> ItemT | None:
        """Return what is there, on an event loop that must not be held up."""
        self._wait(self._clock.monotonic())
        self._pages.look_everywhere()
        item = self._take()
        if item is None and not self._is_over(deadline):
            raise InvalidError(
                "waiting here would block the event loop: await arrived(), or pass timeout_s=0"
            )
        return item

    async def _take_on_loop(self) -> ItemT | None:
        while isinstance(item := self._look(), Skipped):
            await _let_others_run()
        return item

    def _look(self) -> ItemT | Skipped | None:
        while True:
            if self._is_closed or self._watch.is_closed:
                self.check_open()
            item = self._pages.take()
            if item is SKIPPED or self._markers or item is None or isinstance(item, Record):
                return item  # type: ignore[return-value]

    # In both ways to wait: no hints were taken if the wait is interrupted, though the
    # watch may have given some away. So the next step looks for itself.

    def _wait(self, deadline: float | None) -> None:
        hints: tuple[Hint, ...] = ()
        try:
            hints = tuple(self._watch.wait(self._pages.wait_s(deadline)))
        finally:
            self._pages.on_hints(hints)

    async def _wait_on_loop(self, deadline: float | None) -> None:
        hints: tuple[Hint, ...] = ()
        try:
            hints = tuple(await self._watch.moved(self._pages.wait_s(deadline)))
        finally:
            self._pages.on_hints(hints)


@types.coroutine
def _let_others_run() -> Generator[None, None, None]:
    yield
