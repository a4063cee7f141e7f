"""Hints in a log that other processes write to as well. See design 0012."""

import logging
import threading
from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from strandline.clock import Clock
from strandline.locks import Attempt, start_thread
from strandline.log.listening import ListeningEvent, ListeningWaiter
from strandline.log.local_watch import LocalWatch
from strandline.log.metrics import StoreMetrics
from strandline.log.results import Hint, TopicName
from strandline.log.store import StoredTopic
from strandline.log.terms import check_partition
from strandline.values import Offset, Partition, StrandlineError, Topic
from strandline.writes.waiter import LoopWaiter

#: How long a close waits for the listening thread.
_CLOSE_S = 10.0

_logger = logging.getLogger("strandline")
# Calling a named tuple's class is slow, and each append makes a hint.
_new: Any = tuple.__new__

Place = TypeVar("Place", bound=Hashable)
"""A store's own identifier of a partition; never reused for another one."""

Known = TypeVar("Known", bound=StoredTopic)
"""A store's own object for a topic."""


class ChangeSource(Protocol[Place]):
    """How a store detects what other processes write.

    One thread waits at a time, and one adds and removes; any thread may make the other
    calls.
    """

    #: Whether a waiting reader may call `wait` itself, instead of one thread for all readers.
    is_for_readers: bool

    def add(self, place: Place, /) -> None:
        """Watch this partition from now on. Ignores errors of the partition."""

    def remove(self, place: Place, /) -> None:
        """Stop watching it; it may be gone."""

    def wait(self, timeout_s: float | None = None, /) -> Collection[Place]:
        """Block until partitions may have changed, and return these.

        Returns none when the time is up, when `wake` was called, or spuriously.
        """

    def found(self) -> None:
        """Record that one of them had indeed changed."""

    def wake(self) -> None:
        """End the current wait, or the next one if there is none."""

    def close(self) -> None:
        """Release its resources. No thread waits any more."""


class Spot(NamedTuple, Generic[Place]):
    """One partition: the store's identifier of it, and its topic and number."""

    place: Place
    topic: Topic
    partition: Partition


class WatchedPartition(Generic[Place]):
    """Implements Watched."""

    def __init__(self, watches: "Watches[Place, Any]", spot: Spot[Place]) -> None:
        self._watches = watches
        self._spot = spot
        self._lock = threading.Lock()
        self._local: set[LocalWatch] = set()
        self._notified = -1

    def add_watch(self, watch: LocalWatch, seen: Offset) -> None:
        with self._lock:
            self._local.add(watch)
            watch.start(self._spot.topic, self._spot.partition, seen)
            self._watches.attend(self._spot.place)
            # Its reader may block without listening, because there was nothing to listen to.
            watch.wake_once()
        # Register first: any later write is notified.
        end = self._watches.end(self._spot.place)
        with self._lock:
            if end is None:
                watch.notify_dropped(self._hint(0))
            else:
                # A later end may have been notified since.
                watch.notify(self._hint(max(end, self._notified)))

    def remove_watch(self, watch: LocalWatch) -> None:
        with self._lock:
            self._local.discard(watch)
            watch.stop(self._spot.topic, self._spot.partition)
            if not self._local:
                self._watches.unwatch(self._spot.place)

    @property
    def is_watched(self) -> bool:
        """Whether any reader watches it."""
        return bool(self._local)

    def notify(self, end: int) -> bool:
        """Notify that the partition ends here; False if that was known."""
        with self._lock:
            # Two notifying threads may overtake each other: never notify an earlier end last.
            if end <= self._notified:
                return False
            self._notified = end
            _, topic, partition = self._spot
            hint = _new(Hint, (topic, partition, end))
            for watch in self._local:
                watch.notify(hint)
            return True

    def notify_dropped(self) -> None:
        """Notify that the partition is gone or cannot be read: reading it raises the error."""
        with self._lock:
            hint = self._hint(0)
            for watch in self._local:
                watch.notify_dropped(hint)

    def _hint(self, end: int) -> Hint:
        return Hint(self._spot.topic, self._spot.partition, Offset(end))


class Watches(Generic[Place, Known]):
    """The partitions of one log that are watched in this process.

    `place` identifies a partition, or its durable part; `end` returns where it ends now (None
    if it is gone), and `open_changes` begins to listen to other processes: None if there are
    none. A single reader listens by itself while it waits; for several, and for an event
    loop, one thread does. Locks are taken in one order: a partition's, then that of Watches.
    """

    def __init__(
        self,
        clock: Clock,
        place: Callable[[Known, int, bool], Place],
        end: Callable[[Place], int | None],
        open_changes: Callable[[], ChangeSource[Place]] | None = None,
    ) -> None:
        self._clock = clock
        self._place = place
        self.end = end
        self._open_changes = open_changes
        self._lock = threading.Lock()
        self._partitions: dict[Place, WatchedPartition[Place]] = {}
        self._watches: set[LocalWatch] = set()
        #: The partitions to notify; empty while no reader needs hints.
        self.partitions: Collection[object] = ()
        #: Waits and hints of closed watches.
        self._waits = self._hints = 0
        #: The partitions listened for; empty without a change source.
        self._attended: set[Place] = set()
        self._changes: ChangeSource[Place] | None = None
        self._thread: threading.Thread | None = None
        #: Held by the listening thread, until all watches are notified.
        self._turn = threading.Lock()
        self._attempt_turn = Attempt(self._turn)
        self._listener: ListeningEvent | None = None
        #: Whether a listener was interrupted before all watches were notified.
        self._is_behind = False
        self._has_loops = False
        self._is_closed = False

    def open(self, find: Callable[[TopicName], Known], *, durable_only: bool = False) -> LocalWatch:
        """Return a watch of nothing yet, which looks topics up with `find`."""
        watched = partial(self._watched, find, durable_only)
        # Without other processes there is nothing to listen to.
        waiters = () if self._open_changes is None else (self._blocking_waiter, self._loop_waiter)
        watch = LocalWatch(self._clock, watched, self._unregister, *waiters)
        watch.on_follow = self._find_hinted
        self._watches.add(watch)
        self._find_hinted()
        if self._is_closed:
            # A concurrent close did not see this watch.
            watch.close()
        return watch

    def notify(self, place: Place, end: int) -> None:
        """Notify that this process has written up to `end`."""
        watched = self._partitions.get(place)
        if watched is not None and watched.is_watched:
            watched.notify(end)

    def notify_dropped(self, places: Collection[Place]) -> None:
        """Notify that a topic was dropped."""
        for place in places:
            watched = self._partitions.pop(place, None)
            self.unwatch(place)
            if watched is not None:
                watched.notify_dropped()

    def metrics(self) -> StoreMetrics:
        """Return the number of open watches, and the counts of all watches so far."""
        with self._lock:
            watches = tuple(self._watches)
            waits = self._waits + sum(each.waits for each in watches)
            hints = self._hints + sum(each.hints for each in watches)
        return StoreMetrics(len(watches), waits, hints)

    def _unregister(self, watch: LocalWatch) -> None:
        with self._lock:
            if watch in self._watches:
                self._watches.discard(watch)
                self._waits += watch.waits
                self._hints += watch.hints
        self._find_hinted()

    def _find_hinted(self) -> None:
        with self._lock:
            needs_hints = any(not each.is_following for each in tuple(self._watches))
            self.partitions = self._partitions if needs_hints else ()

    def close(self) -> None:
        """Close every watch, and stop listening."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._end_if_idle()
        for watch in tuple(self._watches):
            watch.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)
            if thread.is_alive():
                _logger.warning("a thread still waits for changes of a log that was closed")

    # --- for the partitions ---

    def attend(self, place: Place) -> None:
        """Start listening for changes of this partition."""
        with self._lock:
            if self._is_closed or self._open_changes is None:
                return
            if self._changes is None:
                self._changes = self._open_changes()
            if place not in self._attended:
                self._attended.add(place)
                self._changes.add(place)
            if self._needs_thread(self._changes):
                self._begin_thread(self._changes)

    def unwatch(self, place: Place) -> None:
        """Stop listening for changes of this partition."""
        with self._lock:
            if self._changes is not None and place in self._attended:
                self._attended.discard(place)
                self._changes.remove(place)
                self._end_if_idle()

    def _watched(
        self, find: Callable[[TopicName], Known], durable_only: bool, topic: TopicName, number: int
    ) -> WatchedPartition[Place]:
        found = find(topic)
        partition = check_partition(number, found.settings.partitions)
        spot = Spot(self._place(found, partition, durable_only), found.topic, partition)
        with self._lock:
            # Never removed, so that a partition has only one.
            return self._partitions.setdefault(spot.place, WatchedPartition(self, spot))

    # --- for the waiters ---

    def _blocking_waiter(self, clock: Clock) -> ListeningWaiter:
        return ListeningWaiter(clock, ListeningEvent(self._listen_once, self._wake))

    def _loop_waiter(self) -> LoopWaiter:
        with self._lock:
            self._has_loops = True
            if self._changes is not None:
                self._begin_thread(self._changes)
        return LoopWaiter()

    def _listen_once(self, event: ListeningEvent, timeout_s: float | None) -> bool:
        has_turn = False
        try:
            with self._lock:
                changes = self._changes
                if changes is None or self._thread is not None:
                    return False
                if self._needs_thread(changes):
                    self._begin_thread(changes)
                    return False
                if not self._attempt_turn:
                    return False
                has_turn = True
                self._listener = event
            # Register first: setting the event from now on wakes the change source, too.
            self._listen(changes, 0 if event.is_set() else timeout_s)
            return True
        finally:
            if has_turn:
                # Released outside the other lock: an interrupt may come while waiting for that.
                self._listener = None
                self._turn.release()
                with self._lock:
                    if self._is_closed or not self._attended:
                        self._end_if_idle()

    def _wake(self, event: ListeningEvent) -> bool:
        changes = self._changes
        if changes is None or self._listener is not event:
            return False
        changes.wake()
        return True

    # --- listening ---

    def _needs_thread(self, changes: ChangeSource[Place]) -> bool:
        """Whether no reader can listen by itself. Readers with a follower need not listen."""
        hinted = sum(not each.is_following for each in tuple(self._watches))
        return hinted > (0 if self._has_loops or not changes.is_for_readers else 1)

    def _begin_thread(self, changes: ChangeSource[Place]) -> None:
        if self._thread is None:
            thread = threading.Thread(
                target=self._keep_listening, args=(changes,), name="strandline-changes", daemon=True
            )
            start_thread(thread)
            # A reader that is listening finishes first, and notifies all others.
            self._thread = thread

    def _end_if_idle(self) -> None:
        """Close the change source if no watch needs it; a listening thread closes it when woken."""
        changes = self._changes
        if changes is None or (self._attended and not self._is_closed):
            return
        if self._thread is not None or self._turn.locked():
            changes.wake()
        else:
            self._end(changes)

    def _end(self, changes: ChangeSource[Place]) -> None:
        self._changes = self._thread = None
        self._attended.clear()
        self._is_behind = False
        changes.close()

    def _keep_listening(self, changes: ChangeSource[Place]) -> None:
        while True:
            with self._turn:
                self._listen(changes, None)
            with self._lock:
                if self._is_closed or not self._attended:
                    self._end(changes)
                    return
                if not self._needs_thread(changes):
                    self._thread = None
                    break
        # A waiting reader counted on this thread to listen: wake it to do so itself.
        for watch in tuple(self._watches):
            watch.wake_once()

    def _listen(self, changes: ChangeSource[Place], timeout_s: float | None) -> None:
        """Wait for changes and notify all watches. The caller holds the turn."""
        if self._is_behind:
            changed: Collection[Place] = tuple(self._attended)
        else:
            self._is_behind = True
            changed = changes.wait(timeout_s)
        self._listener = None
        has_changed = False
        for place in changed:
            has_changed |= self._look(place)
        if has_changed:
            changes.found()
        self._is_behind = False

    def _look(self, place: Place) -> bool:
        watched = self._partitions.get(place)
        if watched is None:
            return False
        try:
            end = self.end(place)
        except (StrandlineError, OSError):
            # The reader gets the error from its own read.
            watched.notify_dropped()
            return True
        if end is None:
            self.notify_dropped([place])
            return True
        return watched.notify(end)
