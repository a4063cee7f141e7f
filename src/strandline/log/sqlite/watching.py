"""Hints: at once within the process, and by bounded polling across processes."""

import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from strandline.log.local_watch import LocalWatch
from strandline.log.protocol import Hint, TopicName
from strandline.log.sqlite.database import Database
from strandline.log.sqlite.durable_marks import DurableMarks
from strandline.log.sqlite.topics import TopicEntry
from strandline.values import Offset, Partition, Topic

#: How long another process's append stays unseen: this at first, twice that after each
#: look that finds nothing, and never more than the second.
POLL_MIN_S = 0.001
POLL_MAX_S = 0.05


class WatchedPlace(NamedTuple):
    """A partition's slot, and which of its ends is watched."""

    slot: int
    durable_only: bool


class WatchedPartition:
    """Implements Watched."""

    def __init__(
        self, watches: "Watches", topic: Topic, number: Partition, place: WatchedPlace
    ) -> None:
        self._watches = watches
        self._topic = topic
        self._number = number
        self._place = place
        self._lock = threading.Lock()
        self._local: set[LocalWatch] = set()

    def add_watch(self, watch: LocalWatch, seen: Offset) -> None:
        with self._lock:
            self._local.add(watch)
            watch.start(self._topic, self._number, seen)
        # Entered first: whatever is written from now on is told.
        self._watches.start_polling()
        end = self._watches.end(self._place)
        if end is not None:
            self.tell(end)

    def remove_watch(self, watch: LocalWatch) -> None:
        with self._lock:
            self._local.discard(watch)
            watch.stop(self._topic, self._number)

    @property
    def is_watched(self) -> bool:
        """Whether anybody wants to know."""
        return bool(self._local)

    def tell(self, end: int) -> None:
        """Pass on that the partition ends here."""
        with self._lock:
            for watch in self._local:
                watch.tell(Hint(self._topic, self._number, Offset(end)))

    def tell_dropped(self) -> None:
        """Pass on that the partition is gone."""
        with self._lock:
            for watch in self._local:
                watch.tell_dropped(Hint(self._topic, self._number, Offset(0)))


class Watches:
    """The partitions that somebody in this process watches."""

    def __init__(
        self,
        database: Database,
        marks: DurableMarks,
        find: Callable[[TopicName, int], tuple[TopicEntry, Partition]],
    ) -> None:
        self._database = database
        self._marks = marks
        self._find = find
        self._lock = threading.Lock()
        self._partitions: dict[WatchedPlace, WatchedPartition] = {}
        marks.on_durable = self.tell_durable
        self._watches: set[LocalWatch] = set()
        self._ended = threading.Event()
        self._poller: threading.Thread | None = None

    def open(self, *, durable_only: bool) -> LocalWatch:
        """Return a watch of nothing yet."""
        watched = partial(self._watched, durable_only)
        watch = LocalWatch(self._database.clock, watched, self._watches.discard)
        self._watches.add(watch)
        return watch

    def tell(self, slot: int, end: int) -> None:
        """Pass on that this process has written up to `end`."""
        self._tell(WatchedPlace(slot, durable_only=False), end)

    def tell_durable(self, slot: int, end: int) -> None:
        """Pass on that a sync has covered everything up to `end`."""
        self._tell(WatchedPlace(slot, durable_only=True), end)

    def _tell(self, place: WatchedPlace, end: int) -> None:
        watched = self._partitions.get(place)
        if watched is not None:
            watched.tell(end)

    def tell_dropped(self, slots: range) -> None:
        """Pass on that a topic was dropped."""
        for slot in slots:
            for durable_only in (False, True):
                watched = self._partitions.pop(WatchedPlace(slot, durable_only), None)
                if watched is not None:
                    watched.tell_dropped()

    def close(self) -> None:
        """End every watch, and the polling."""
        self._ended.set()
        for watch in tuple(self._watches):
            watch.close()
        poller = self._poller
        if poller is not None and poller is not threading.current_thread():
            poller.join()

    # --- for the partitions ---

    def start_polling(self) -> None:
        """Have somebody look for what other processes write."""
        with self._lock:
            if self._poller is None and not self._ended.is_set():
                self._poller = threading.Thread(
                    target=self._poll, name="strandline-poll", daemon=True
                )
                self._poller.start()

    def end(self, place: WatchedPlace) -> int | None:
        """Return where a partition ends; None if it is gone."""
        with self._database.reading() as connection:
            return self._end(connection, place)

    def _watched(self, durable_only: bool, topic: TopicName, number: int) -> WatchedPartition:
        entry, partition = self._find(topic, number)
        place = WatchedPlace(entry.slot(partition), durable_only)
        with self._lock:
            # Kept for good, so that no two of one partition are ever told apart.
            return self._partitions.setdefault(
                place, WatchedPartition(self, entry.topic, partition, place)
            )

    def _end(self, connection: sqlite3.Connection, place: WatchedPlace) -> int | None:
        row = connection.execute(
            "SELECT high, durable FROM strandline_partitions WHERE slot = ?", (place.slot,)
        ).fetchone()
        if row is None:
            return None
        high, durable = row
        return max(durable, self._marks.known(place.slot)) if place.durable_only else int(high)

    # --- polling ---

    def _poll(self) -> None:
        connection = self._database.new_connection()
        version, delay_s = -1, POLL_MIN_S
        while not self._database.clock.wait(self._ended, delay_s):
            with self._lock:
                if not any(each.is_watched for each in self._partitions.values()):
                    self._poller = None
                    return
            seen = connection.execute("PRAGMA data_version").fetchone()[0]
            if seen == version:
                delay_s = min(2 * delay_s, POLL_MAX_S)
                continue
            version, delay_s = seen, POLL_MIN_S
            self._look(connection)

    def _look(self, connection: sqlite3.Connection) -> None:
        for place, watched in tuple(self._partitions.items()):
            end = self._end(connection, place)
            if end is None:
                self.tell_dropped(range(place.slot, place.slot + 1))
            else:
                watched.tell(end)
