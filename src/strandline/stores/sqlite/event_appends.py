"""The fast append path for one plain event: one call inside the bracket."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from strandline._core import IS_COMPILED
from strandline.clock import Clock
from strandline.log.event_appender import EventAppender
from strandline.log.store import Placement
from strandline.stores.sqlite import logged_bytes
from strandline.stores.sqlite.appends import (
    AppendBracket,
    Heads,
    is_due,
    raise_full,
)
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.logged_bytes import COMMIT_BYTES, PAGE_BYTES
from strandline.stores.sqlite.lone_insert import INSERT_EVENT, LoneInsert
from strandline.stores.sqlite.partition_row import PartitionRow, store_partitions
from strandline.stores.sqlite.partition_row import place as place_of
from strandline.stores.sqlite.schema import OFFSET_BITS
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import Durability, Event, UnavailableError
from strandline.writes.bracketed import BracketedChannel

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import record_row, size_of
else:
    record_row = size_of = None

_OFFSET_MAX = (1 << OFFSET_BITS) - 1
# Calling a named tuple's class is slow, and each append makes one.
_new: Any = tuple.__new__


class EventAppends:
    """Implements Shortcut for a partition: stores each event by one call inside the bracket.

    Leaves uncommon cases to the general path, with nothing done.
    """

    def __init__(
        self,
        topic: SqliteTopic,
        partition: int,
        parts: tuple[Database, DurableMarks, AppendBracket, LoneInsert],
        channel: BracketedChannel[Any, Placement],
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database, self._marks, self._bracket, self._lone_insert = parts
        self._channel = channel
        self._on_written = on_written
        self._topic_id = topic.id_bytes
        self._partition = partition
        self._slot = topic.slots[partition]
        self._first_place = place_of(self._slot, 0)
        self._now_us = self._database.clock.now_us

    def append_event(self, event: Event, bytes_max: int) -> Any:
        """See Shortcut."""
        database, size_bytes = self._database, size_of(event)
        database.check_open()
        # A checkpoint may have to wait.
        is_much = database.logged_bytes >= logged_bytes.CHECKPOINT_BYTES
        if is_much or size_bytes > bytes_max:
            return NotImplemented
        try:
            database.reserve.admit(size_bytes)
        except (OSError, UnavailableError):
            # The general path checks again, and raises the error.
            return NotImplemented
        receipt = self._channel.store(event, self._bracket.hold, self._store)
        if receipt is None:
            return NotImplemented
        if receipt.error is not None:
            receipt.wait()
        return receipt

    def append_events(self, events: list[Event], bytes_max: int) -> Any:
        """See Shortcut. Lists cost little more by the general path."""
        del events, bytes_max
        return NotImplemented

    def route(self, events: list[Event], partitions: int, bytes_max: int) -> Any:
        """See Shortcut."""
        del events, partitions, bytes_max
        return NotImplemented

    def size_of(self, values: Event | list[Event]) -> int:
        """See Shortcut."""
        return size_of(values)

    def appender(
        self,
        receipts: tuple[type, Callable[[Any, int], object]],
        clock: Clock | None,
        partition: int,
        levels: tuple[Durability, Durability],
        bytes_max: int,
        /,
    ) -> EventAppender:
        """See Shortcut."""
        del receipts, clock
        return EventAppender(self.append_event, self._database.clock, partition, levels, bytes_max)

    # --- inside the bracket ---

    def _store(self, event: Event, heads: Heads) -> Placement | None:
        row = heads.rows.get(self._slot)
        if row is None or row.high >= _OFFSET_MAX:
            return None
        database, size_bytes = self._database, size_of(event)
        # Whether the record is the only thing to write, and one statement can store it.
        is_alone = (
            database.lock.look is not None
            and database.logged_bytes < database.log_space.until
            and not is_due(row)
            and not self._marks.is_to_carry(self._slot)
        )
        start, now_us = row.high, max(self._now_us(), row.last_us)
        record = record_row(
            event, self._topic_id, self._partition, self._first_place + start, start, now_us
        )
        insert = self._lone_insert.store if is_alone else self._begin_with
        try:
            if not insert(record):
                return None
            row.high = start + 1
            row.last_us = now_us
            row.size_bytes += size_bytes
            database.logged_bytes += COMMIT_BYTES + size_bytes
            if not is_alone:
                self._commit(row)
        except sqlite3.OperationalError as error:
            raise_full(database, error)
            raise
        self._marks.wrote_one(self._slot, start + 1)
        self._on_written({self._slot: row})
        placement: Placement = _new(Placement, (start, now_us, ()))
        return placement

    def _begin_with(self, record: tuple[Any, ...]) -> bool:
        """Begin with a record; False, with nothing stored, if another process has written."""
        database = self._database
        if not self._bracket.begin_unbroken():
            return False
        if database.logged_bytes >= database.log_space.until:
            database.log_space.extend(database.logged_bytes)
        database.cursor.execute(INSERT_EVENT, record)
        return True

    def _commit(self, row: PartitionRow) -> None:
        database = self._database
        if is_due(row) or self._marks.is_to_carry(row.slot):
            self._marks.carry([row])
            store_partitions(database.writer, [row])
            database.logged_bytes += PAGE_BYTES
        # A shared cursor: the connection would make one for each statement.
        database.cursor.execute("COMMIT")
