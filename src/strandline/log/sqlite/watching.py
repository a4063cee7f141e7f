"""Hints of what other processes write: by bounded polling."""

import contextlib
import threading
from collections.abc import Callable, Collection

from strandline.log.protocol import TopicName
from strandline.log.sqlite.database import Database
from strandline.log.sqlite.schema import translated
from strandline.log.sqlite.topics import TopicEntry
from strandline.log.watches import Spot, Watches
from strandline.values import Partition, StrandlineError

#: How long another process's append stays unseen: this at first, twice that after each
#: look that finds nothing, and never more than the second.
POLL_MIN_S = 0.001
POLL_MAX_S = 0.05


def sqlite_watches(
    database: Database, find: Callable[[TopicName, int], tuple[TopicEntry, Partition]]
) -> Watches[int]:
    """Return the watches of a log; a partition is known by its slot."""

    def spot(topic: TopicName, number: int) -> Spot[int]:
        entry, partition = find(topic, number)
        return Spot(entry.slot(partition), entry.topic, partition)

    def end(slot: int) -> int | None:
        with database.reading() as connection:
            row = connection.execute(
                "SELECT high FROM strandline_partitions WHERE slot = ?", (slot,)
            ).fetchone()
        return None if row is None else int(row[0])

    return Watches(database.clock, spot, end, lambda: SqliteNews(database))


class SqliteNews:
    """Implements News: asks SQLite whether anybody else has written."""

    #: A reader should not ask SQLite each time that it passes by.
    is_for_readers = False

    def __init__(self, database: Database) -> None:
        self._clock = database.clock
        self._path = database.path
        self._lent = contextlib.ExitStack()
        # The version is counted by connection, so it has to be the same one each time.
        self._connection = self._lent.enter_context(database.reading())
        self._slots: frozenset[int] = frozenset()
        self._woken = threading.Event()
        self._version = -1
        self._delay_s = POLL_MIN_S

    def add(self, slot: int, /) -> None:
        self._slots |= {slot}

    def remove(self, slot: int, /) -> None:
        self._slots -= {slot}

    def wait(self, timeout_s: float | None = None, /) -> Collection[int]:
        delay_s = self._delay_s if timeout_s is None else min(timeout_s, self._delay_s)
        if self._clock.wait(self._woken, delay_s):
            self._woken.clear()
            return ()
        self._delay_s = min(2 * self._delay_s, POLL_MAX_S)
        try:
            with translated(self._path):
                version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except StrandlineError:
            # Whoever looks at a partition is told what is wrong.
            return self._slots
        if version == self._version:
            return ()
        self._version = version
        return self._slots

    def found(self) -> None:
        self._delay_s = POLL_MIN_S

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._lent.close()
