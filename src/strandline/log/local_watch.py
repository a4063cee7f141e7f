"""Hints within one process."""

import asyncio
import threading
from collections.abc import Callable, Collection
from typing import Any, Protocol

from strandline.clock import Clock, deadline_in
from strandline.log.follower import PartitionFollower
from strandline.log.loop_tail import LoopTail
from strandline.log.open_state import OpenState
from strandline.log.results import Hint, TopicName
from strandline.values import ClosedError, InvalidError, Offset, Partition, Topic
from strandline.values.arguments import check_timeout, check_whole
from strandline.values.prompt import prompt_text
from strandline.writes.waiter import LoopWaiter, ThreadWaiter, Waiter


class Watched(Protocol):
    """A partition that can be watched. Notifies its watches while it holds its lock."""

    def add_watch(self, watch: "LocalWatch", seen: Offset) -> None:
        """Call `watch.start` with the current end, and `watch.notify` with each later one."""

    def remove_watch(self, watch: "LocalWatch") -> None:
        """Stop notifying the watch."""


class BlockingWaiter(Waiter, Protocol):
    """A waiter that is a thread."""

    def wait(self, deadline: float | None) -> bool:
        """Block until woken, perhaps spuriously; False once `deadline` has passed."""


class LocalWatch:
    """Implements Watch for partitions whose appends are notified in this process.

    `new_waiter` and `new_loop_waiter` are for a log that keeps track of its waiters.
    Locks are taken in one order: a partition's, then the watch's.
    """

    def __init__(
        self,
        clock: Clock,
        find: Callable[[TopicName, int], Watched],
        on_close: Callable[["LocalWatch"], None],
        new_waiter: Callable[[Clock], BlockingWaiter] = ThreadWaiter,
        new_loop_waiter: Callable[[], LoopWaiter] = LoopWaiter,
    ) -> None:
        #: How often its reader has waited, and how many hints it has received.
        self.waits: int = 0
        self.hints: int = 0
        self._clock = clock
        #: Nothing wakes a watch in the child of a fork.
        self._process = OpenState()
        self._find = find
        self._on_close = on_close
        self._thread_waiter = new_waiter(clock)
        self._new_loop_waiter = new_loop_waiter
        self._lock = threading.Lock()
        self._partitions: set[Watched] = set()
        # Keyed by the number in the topic's id, which hashes several times faster than the id.
        self._topics: dict[tuple[int, Partition], Topic] = {}
        self._seen: dict[tuple[int, Partition], Offset] = {}
        self._hints: dict[tuple[int, Partition], Hint] = {}
        self._waiter: Waiter | None = None
        self._follower: PartitionFollower | None = None
        #: Called when its reader starts to need hints, or needs them no longer.
        self.on_follow: Callable[[], None] = _do_nothing
        self._is_woken = False
        #: An attribute, since a subscription reads it for each record.
        self.is_closed: bool = False

    def __repr__(self) -> str:
        return prompt_text("Watch", partitions=len(self._topics), closed=self.is_closed)

    # --- the reader's side ---

    def add(self, topic: TopicName, partition: int, seen: int) -> None:
        self._check_open()
        watched = self._find(topic, partition)
        self._partitions.add(watched)
        watched.add_watch(self, Offset(check_whole("seen", seen)))
        if self.is_closed:
            # A concurrent close did not see this partition.
            watched.remove_watch(self)
            self._check_open()

    def remove(self, topic: TopicName, partition: int) -> None:
        self._check_open()
        number = check_whole("partition", partition)
        try:
            watched = self._find(topic, number)
        except InvalidError:
            # The topic was dropped, or never existed.
            self._unwatch(topic, number)
            return
        watched.remove_watch(self)
        self._partitions.discard(watched)

    def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        check_timeout(timeout_s)
        self._process.check()
        deadline = deadline_in(self._clock, timeout_s)
        waiter = self._thread_waiter
        try:
            while (hints := self._take(waiter)) is None:
                if not waiter.wait(deadline):
                    return self._take(waiter) or ()
            return hints
        finally:
            self._waiter = None

    async def wait_on_loop(self, timeout_s: float | None = None) -> Collection[Hint]:
        check_timeout(timeout_s)
        self._process.check()
        waiter = self._new_loop_waiter()
        try:
            async with asyncio.timeout(timeout_s):
                while (hints := self._take(waiter)) is None:
                    await waiter.wait()
        except TimeoutError:
            return self._take(waiter) or ()
        else:
            return hints
        finally:
            self._waiter = None

    @property
    def is_following(self) -> bool:
        """Whether its reader needs no hints: it uses a follower, or reads again before it waits."""
        return self._follower is not None

    def follow_by(self, follower: PartitionFollower | None) -> None:
        """Have the reader wait on a follower from now on, or on hints again if None.

        After a change back, the reader reads once before it waits for hints.
        """
        with self._lock:
            self._follower = follower
            if follower is not None and (self._is_woken or self.is_closed):
                self._is_woken = False
                follower.wake()
        self.on_follow()

    def follow(self, start: int, records_max: int, timeout_s: float) -> Any:
        """Wait on the follower: see PartitionFollower. Returns None early when it is woken."""
        follower = self._follower
        if follower is None:
            return NotImplemented
        self.waits += 1
        found = follower.wait(start, records_max, timeout_s)
        if type(found) is list:
            self.hints += 1
        return found

    async def follow_on_loop(
        self, tail: LoopTail, waiter: LoopWaiter, start: int, records_max: int, timeout_s: float
    ) -> Any:
        """Do what `follow` does on the running event loop, to which the waiter belongs."""
        follower = self._follower
        if follower is None:
            return NotImplemented
        self.waits += 1
        waiter.forget()
        try:
            # Register first: any later change wakes it.
            tail.enter(waiter)
            with self._lock:
                self._waiter = waiter
                is_woken, self._is_woken = self._is_woken or self.is_closed, False
            found = follower.wait(start, records_max, 0.0)
            if found is None and not is_woken and timeout_s > 0:
                tail.end_in(waiter, timeout_s)
                await waiter.wait()
                found = follower.wait(start, records_max, 0.0)
        finally:
            tail.exit(waiter)
            self._waiter = None
        if type(found) is list:
            self.hints += 1
        return found

    @property
    def follower(self) -> PartitionFollower | None:
        """The follower that its reader waits on."""
        return self._follower

    def wake(self) -> None:
        with self._lock:
            self._is_woken = True
            self._wake()

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            self._wake()
            self._follower = None
        while self._partitions:
            self._partitions.pop().remove_watch(self)
        self._on_close(self)

    # --- the partition's side, called under its lock ---

    def start(self, topic: Topic, partition: Partition, seen: Offset) -> None:
        """Notify the reader of this partition beyond `seen` from now on."""
        with self._lock:
            self._topics[topic.id.int, partition] = topic
            self._seen[topic.id.int, partition] = seen
            self._hints.pop((topic.id.int, partition), None)

    def stop(self, topic: Topic, partition: Partition) -> None:
        """Stop notifying the reader of this partition."""
        with self._lock:
            self._drop((topic.id.int, partition))

    def wake_once(self) -> None:
        """Wake a waiting reader, although there may be nothing to return."""
        with self._lock:
            self._wake()

    def notify(self, hint: Hint) -> None:
        """Pass the hint on, unless the reader has it already."""
        if self._follower is not None:
            return
        place = hint.topic.id.int, hint.partition
        with self._lock:
            if hint.end > self._seen.get(place, hint.end):
                self._hints[place] = hint
                waiter = self._waiter
                if waiter is not None:
                    waiter.wake()

    def notify_dropped(self, hint: Hint) -> None:
        """Pass a last hint on, though the partition has not grown."""
        place = hint.topic.id.int, hint.partition
        with self._lock:
            if place in self._seen:
                self._hints[place] = hint
                self._wake()

    def _unwatch(self, name: TopicName, partition: int) -> None:
        """Stop watching a partition whose topic can no longer be looked up."""
        with self._lock:
            for place, topic in tuple(self._topics.items()):
                if place[1] == partition and name in (topic, topic.name):
                    self._drop(place)

    def _drop(self, place: tuple[int, Partition]) -> None:
        self._topics.pop(place, None)
        self._seen.pop(place, None)
        self._hints.pop(place, None)

    # --- waiting ---

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()
        if self._follower is not None:
            self._follower.wake()

    def _take(self, waiter: Waiter) -> Collection[Hint] | None:
        """Return the hints, empty if woken; None if there is nothing to return.

        After None, `waiter` is woken as soon as there is something.
        """
        with self._lock:
            if self.is_closed:
                self._check_open()
            if not self._hints and not self._is_woken:
                self._waiter = waiter
                self.waits += 1
                return None
            hints = tuple(self._hints.values())
            self.hints += len(hints)
            for place, hint in self._hints.items():
                self._seen[place] = hint.end
            self._hints.clear()
            self._is_woken = False
            return hints

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("this watch or its log was closed, open it again")


def _do_nothing() -> None:
    pass
