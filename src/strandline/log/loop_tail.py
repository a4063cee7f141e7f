"""Tasks of an event loop that wait for the end of a partition to grow. See design 0130."""

import asyncio
import contextlib
import math
import weakref
from typing import TYPE_CHECKING

from strandline.log.follower import PartitionFollower
from strandline.writes.waiter import LoopWaiter

if TYPE_CHECKING:
    from strandline._core.core import TailWatch

#: For this long after a notification, a writer may store ends without sending another.
_AGAIN_S = 0.0002

#: By how much a wait may end late, so that waiters whose time is up together share a timer.
_LATE_S = 0.001


class LoopTail:
    """One event loop's wait for the end of one partition; its descriptors are readers of the loop.

    Used on the loop's thread, except `leave`. Any change wakes all waiters; each looks itself.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, watch: "TailWatch", follower: PartitionFollower
    ) -> None:
        self._loop = weakref.ref(loop)
        self._watch = watch
        # Keeps the descriptors open for as long as the loop reads them.
        self._follower: PartitionFollower | None = follower
        #: Each with the time of the loop at which its wait ends.
        self._waiting: dict[LoopWaiter, float] = {}
        #: For the first of these times.
        self._timer: asyncio.TimerHandle | None = None
        self._users = 0
        self._is_again_due = False
        self._fds: tuple[int, ...] = ()
        begun = watch.begin_loop()
        self.is_open: bool = begun is not None
        if begun is not None:
            self._number, *self._fds = begun  # type: ignore[assignment]
            for fd in self._fds:
                loop.add_reader(fd, self._on_change)

    def is_of_running_loop(self) -> bool:
        """Whether it is open and belongs to the running loop."""
        return self.is_open and self._loop() is asyncio.get_running_loop()

    def enter(self, waiter: LoopWaiter) -> None:
        """Wake it after any change from now on."""
        self._waiting[waiter] = math.inf

    def end_in(self, waiter: LoopWaiter, timeout_s: float) -> None:
        """Wake it after this time at the latest. On the loop's thread, like all that follows."""
        loop = asyncio.get_running_loop()
        until = self._waiting[waiter] = loop.time() + timeout_s
        if self._timer is None or until < self._timer.when() - _LATE_S:
            self._set_timer(loop, until)

    def exit(self, waiter: LoopWaiter) -> None:
        """Wake it no more."""
        self._waiting.pop(waiter, None)

    def join(self) -> None:
        """Count one more user."""
        self._users += 1

    def leave(self) -> None:
        """Count one user less; the last one closes it. From any thread."""
        loop = self._loop()
        # A closed loop has no readers left to remove.
        with contextlib.suppress(RuntimeError):
            if loop is not None:
                loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._end()

    def _end(self) -> None:
        loop = self._loop()
        if self.is_open and loop is not None:
            self.is_open = False
            for fd in self._fds:
                loop.remove_reader(fd)
            self._watch.end_loop(self._number)
            self._follower = None
            if self._timer is not None and not self._waiting:
                self._timer.cancel()
            _of_loop.get(loop, {}).pop(self._watch, None)

    def _on_change(self) -> None:
        is_due, _ = self._watch.look_on_loop(self._number)
        self._wake()
        if is_due and not self._is_again_due:
            self._look_later()

    def _look_later(self) -> None:
        loop = self._loop()
        if loop is not None:
            self._is_again_due = True
            loop.call_later(_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._is_again_due = False
        if self.is_open:
            is_due, has_changed = self._watch.look_again_on_loop(self._number)
            if has_changed:
                self._wake()
            if is_due:
                # A notification arrived meanwhile.
                self._look_later()

    def _wake(self) -> None:
        for waiter in self._waiting:
            waiter.wake_here()

    def _set_timer(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        first, now = math.inf, loop.time()
        for waiter, until in self._waiting.items():
            if until <= now:
                waiter.wake_here()
            else:
                first = min(first, until)
        if first < math.inf:
            self._set_timer(loop, first)


_of_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[TailWatch, LoopTail]]" = (
    weakref.WeakKeyDictionary()
)


def loop_tail(follower: PartitionFollower) -> LoopTail | None:
    """Return what tasks of the running loop wait on for this follower's partition; None if nothing.

    The caller has joined it.
    """
    watch = follower.watch
    if watch is None:
        return None
    loop = asyncio.get_running_loop()
    tails = _of_loop.setdefault(loop, {})
    tail = tails.get(watch)
    if tail is None or not tail.is_open:
        try:
            tail = LoopTail(loop, watch, follower)
        except NotImplementedError:
            # This loop does not support readers of descriptors.
            return None
        if not tail.is_open:
            return None
        tails[watch] = tail
    tail.join()
    return tail
