"""Hints of other processes' writes, by bounded polling."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from strandline.locks import Signal
from strandline.log.watches import Watches
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.partition_row import TAIL_RECORDS, PartitionRow
from strandline.stores.sqlite.schema import translated
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import StrandlineError

#: How long another process's append may stay unnoticed: the first value at first, doubled
#: after each look that finds nothing, up to the second.
POLL_MIN_S = 0.001
POLL_MAX_S = 0.05
_ENDS = f"""SELECT high + {TAIL_RECORDS}, durable FROM strandline_partitions
    WHERE slot = ?"""  # noqa: S608 - Ours.


class WatchedSlot(NamedTuple):
    """A partition's slot, and which of its marks is watched."""

    slot: int
    durable_only: bool


class SqliteWatches(Watches[WatchedSlot, SqliteTopic]):
    """The watches of a log."""

    def __init__(self, database: Database, marks: DurableMarks) -> None:
        super().__init__(database.clock, _place, self._end_of, lambda: SqliteChanges(database))
        self._database = database
        self._marks = marks
        marks.on_durable = self.notify_durable

    def notify_written(self, heads: Mapping[int, PartitionRow]) -> None:
        """Notify of how far this process has written."""
        if not self._partitions:
            return
        for slot, head in heads.items():
            self.notify(WatchedSlot(slot, durable_only=False), head.high)

    def notify_durable(self, slot: int, end: int) -> None:
        """Notify that a sync has covered everything up to `end`."""
        self.notify(WatchedSlot(slot, durable_only=True), end)

    def notify_slots_dropped(self, slots: Collection[int]) -> None:
        """Notify that a topic was dropped."""
        self.notify_dropped([WatchedSlot(slot, only) for slot in slots for only in (False, True)])

    def _end_of(self, place: WatchedSlot) -> int | None:
        with self._database.reading() as connection, self._database.translating():
            row = connection.execute(_ENDS, (place.slot,)).fetchone()
        if row is None:
            return None
        high, durable = row
        return max(durable, self._marks.known(place.slot)) if place.durable_only else int(high)


def _place(topic: SqliteTopic, partition: int, durable_only: bool) -> WatchedSlot:
    return WatchedSlot(topic.slot(partition), durable_only)


class SqliteChanges:
    """Implements ChangeSource: asks SQLite whether another process has written."""

    #: A reader should not query SQLite on each wait.
    is_for_readers = False

    def __init__(self, database: Database) -> None:
        self._clock = database.clock
        self._path = database.path
        # Each connection counts the version itself, so always use the same connection.
        self._lent = database.reading()
        try:
            self._connection = self._lent.__enter__()
        except BaseException:
            self.close()
            raise
        self._places: frozenset[WatchedSlot] = frozenset()
        self._woken = Signal()
        self._version = -1
        self._delay_s = POLL_MIN_S

    def add(self, place: WatchedSlot, /) -> None:
        self._places |= {place}

    def remove(self, place: WatchedSlot, /) -> None:
        self._places -= {place}

    def wait(self, timeout_s: float | None = None, /) -> Collection[WatchedSlot]:
        delay_s = self._delay_s if timeout_s is None else min(timeout_s, self._delay_s)
        if self._clock.wait(self._woken, delay_s):
            self._woken.clear()
            return ()
        self._delay_s = min(2 * self._delay_s, POLL_MAX_S)
        try:
            with translated(self._path):
                version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except StrandlineError:
            # The next read of the partition raises the error.
            return self._places
        if version == self._version:
            return ()
        self._version = version
        return self._places

    def found(self) -> None:
        self._delay_s = POLL_MIN_S

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._lent.__exit__(None, None, None)
