"""Waits at the end of a subscription's only partition, and reads new records. See design 0130."""

from typing import Any

from strandline.clock import Clock, SystemClock
from strandline.log import Log, Watch
from strandline.log.local_watch import LocalWatch
from strandline.log.loop_tail import LoopTail, loop_tail
from strandline.log.parts import counts_of, follower_of
from strandline.subscriptions.cursor import Cursor
from strandline.values import Record, StrandlineError
from strandline.writes.waiter import LoopWaiter


class Following:
    """Lets a follower of the store, if it has one, wait and read in one call.

    One thread uses it at a time. A follower belongs to the offset of a cursor, and is dropped
    when the two differ, or when it meets a record that it cannot read.
    """

    def __init__(self, log: Log, watch: Watch, clock: Clock, *, records_max: int) -> None:
        self._log = log
        self._records_max = records_max
        self._tail: LoopTail | None = None
        self._waiter: LoopWaiter
        #: Whether an event loop turned out to be unable to use it.
        self._is_for_threads = False
        # A subclass's methods for reading, or another clock, must be used.
        is_plain = type(log) is Log and type(clock) is SystemClock
        self._watch = watch if is_plain and isinstance(watch, LocalWatch) else None
        #: The cursor that it waits for.
        self.cursor: Cursor | None = None
        if self._watch is not None:
            self._counts = counts_of(log)

    def begin(self, cursor: Cursor) -> bool:
        """Whether it waits for the next events of this cursor, which has delivered all others."""
        if cursor is self.cursor:
            return True
        # After a record that it could not read, the general path reads first.
        if self._watch is None or self.cursor is not None:
            return False
        try:
            follower = follower_of(self._log, *cursor.place, cursor.next)
        except StrandlineError:
            # The reader's own look raises the error.
            return False
        if follower is None:
            return False
        # In this order, so that an interrupt in between ends the follower.
        self.cursor = cursor
        self._watch.follow_by(follower)
        return True

    def begin_on_loop(self, cursor: Cursor) -> bool:
        """Do what `begin` does for the running event loop."""
        if self._is_for_threads or not self.begin(cursor):
            return False
        assert self._watch is not None
        if self.is_on_loop:
            return True
        self.close()
        follower = self._watch.follower
        self._tail = None if follower is None else loop_tail(follower)
        self._is_for_threads = follower is not None and self._tail is None
        self._waiter = LoopWaiter()
        return self._tail is not None

    @property
    def is_on_loop(self) -> bool:
        """Whether it waits on the running event loop."""
        return self._tail is not None and self._tail.is_of_running_loop()

    def wait(self, timeout_s: float) -> list[Record] | None:
        """Return events that arrive in time; None if there are none, or if a look is due."""
        assert self.cursor is not None
        assert self._watch is not None
        return self._found(self._watch.follow(self.cursor.next, self._records_max, timeout_s))

    async def wait_on_loop(self, timeout_s: float) -> list[Record] | None:
        """Do what `wait` does on the running event loop."""
        assert self.cursor is not None
        assert self._watch is not None
        assert self._tail is not None
        place = self._tail, self._waiter, self.cursor.next, self._records_max
        return self._found(await self._watch.follow_on_loop(*place, timeout_s))

    def _found(self, found: Any) -> list[Record] | None:
        if found is NotImplemented:
            self.end()
            return None
        self._counts.reads += 1
        return found  # type: ignore[no-any-return]

    def end(self) -> bool:
        """Wait on the watch again; False if it did so already."""
        if self.cursor is None:
            return False
        assert self._watch is not None
        self._watch.follow_by(None)
        self.close()
        self.cursor = None
        return True

    def close(self) -> None:
        """Release what it waits on. From any thread."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.leave()

    __del__ = close
