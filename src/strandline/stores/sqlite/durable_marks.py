"""How far each partition is durable, as known to this process and stored in the database."""

import contextlib
import math
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping

from strandline.locks import Latch
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import (
    PartitionRow,
    load_partition,
    note_tails,
    store_partitions,
)
from strandline.stores.sqlite.schema import translated
from strandline.values import StrandlineError, UnavailableError
from strandline.writes.standby import Standby

#: The minimal interval at which appends store marks: each time costs a second page.
_CARRY_EACH_S = 0.002_5
#: How long a mark waits for an append before it is stored in its own transaction.
_NOTE_DELAY_S = 0.005


class DurableMarks:
    """Invariant: a mark is known, and stored in the database, only after the sync covering it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: Called with each slot whose durable mark has risen.
        self.on_durable: Callable[[int, int], None] = lambda *_: None
        self._mutex = threading.Lock()
        #: Ends written and not yet synced; then ends synced and not yet stored.
        self._written: dict[int, int] = {}
        self._unnoted: dict[int, int] = {}
        self._known: dict[int, int] = {}
        #: Since when there are ends synced and not yet stored.
        self._unnoted_since = -math.inf
        self._carried_at = -math.inf
        self._ended = Latch()
        self._standby = Standby("strandline-note", self._note_later)

    def known(self, slot: int) -> int:
        """Return the known mark, which may be ahead of the stored one."""
        return self._known.get(slot, 0)

    def wrote(self, heads: Mapping[int, PartitionRow]) -> None:
        """Record that these ends are written now."""
        with self._mutex:
            for slot, head in heads.items():
                self._written[slot] = max(head.high, self._written.get(slot, 0))

    def wrote_one(self, slot: int, end: int) -> None:
        """Record that this end is written now."""
        with self._mutex:
            if end > self._written.get(slot, 0):
                self._written[slot] = end

    def is_to_carry(self, slot: int) -> bool:
        """Whether an append should store a mark that is known and not stored yet."""
        if slot not in self._unnoted:
            return False
        return self._database.clock.monotonic() - self._carried_at >= _CARRY_EACH_S

    def expect(self, ends: Iterable[tuple[int, int]]) -> None:
        """Record that the next sync covers these ends, written by any process."""
        with self._mutex:
            for slot, end in ends:
                self._written[slot] = max(end, self._written.get(slot, 0))

    def carry(self, heads: Iterable[PartitionRow]) -> None:
        """Put known marks into rows that are about to be stored."""
        self._carried_at = self._database.clock.monotonic()
        with self._mutex:
            for head in heads:
                head.durable = max(head.durable, self._known.get(head.slot, 0))
                self._unnoted.pop(head.slot, None)

    def sync(self) -> None:
        """Sync; the marks are known at once, and stored a little later."""
        with self._mutex:
            covered, self._written = self._written, {}
        self._database.sync()
        if not self._unnoted:
            self._unnoted_since = self._database.clock.monotonic()
        # Under one lock: a row stored in between would contain one mark without the other.
        self._raise_marks(covered, self._known, self._unnoted)
        if covered:
            self._standby.wake()

    def _note_later(self) -> None:
        delay_s = _NOTE_DELAY_S
        while delay_s > 0:
            if self._database.clock.wait(self._ended, delay_s):
                return
            # Appends may have stored the earlier marks, and newer ones have come since.
            delay_s = self._unnoted_since + _NOTE_DELAY_S - self._database.clock.monotonic()
        # Whatever fails, a mark that lags costs one more sync at most.
        with contextlib.suppress(Exception):
            self.note(self._database.lock_timeout_s)

    def note(self, timeout_s: float) -> bool:
        """Store the known marks; False if the lock was not free."""
        with self._mutex:
            unnoted = dict(self._unnoted)
        if not unnoted:
            return True
        try:
            with (
                translated(self._database.path),
                self._database.locked(timeout_s),
                self._database.transaction() as connection,
            ):
                self._store(connection, unnoted)
        except UnavailableError:
            return False
        with self._mutex:
            for slot, end in unnoted.items():
                if self._unnoted.get(slot) == end:
                    del self._unnoted[slot]
        return True

    def checkpoint(self) -> None:
        """Move what is written into the database, and store that it is durable.

        The caller holds the lock.
        """
        ends = self.note_ends()
        if not self._database.checkpoint("PASSIVE"):
            return
        self._raise_marks(ends, self._known)
        # This transaction restarts the write-ahead log, including the sync that this takes, so
        # that no append has to wait for it.
        with self._database.transaction() as connection:
            self._store(connection, ends)

    def settle(self) -> None:
        """Store all pending marks and ends, if possible."""
        self._ended.set()
        self._standby.close()
        with (
            contextlib.suppress(StrandlineError),
            translated(self._database.path),
            self._database.locked(),
        ):
            self.note_ends()
            with self._mutex:
                unnoted, self._unnoted = self._unnoted, {}
            if unnoted:
                with self._database.transaction() as connection:
                    self._store(connection, unnoted)

    def note_ends(self) -> dict[int, int]:
        """Update every partition's row to its records; return the ends not known to be durable.

        The caller holds the lock.
        """
        with self._database.transaction() as connection:
            note_tails(connection, self._database.path)
            return dict(
                connection.execute(
                    "SELECT slot, high FROM strandline_partitions WHERE durable < high"
                ).fetchall()
            )

    def _raise_marks(self, ends: Mapping[int, int], *marks: dict[int, int]) -> None:
        with self._mutex:
            for each in marks:
                for slot, end in ends.items():
                    each[slot] = max(end, each.get(slot, 0))
        for slot, end in ends.items():
            self.on_durable(slot, end)

    def _store(self, connection: sqlite3.Connection, ends: Mapping[int, int]) -> None:
        path = self._database.path
        rows = [load_partition(connection, path, slot) for slot in ends]
        kept = [row for row in rows if row is not None]
        for row in kept:
            row.durable = max(row.durable, ends[row.slot])
        store_partitions(connection, kept)
