"""The short way of one plain event into a partition: one call inside the bracket."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from strandline._core import IS_COMPILED
from strandline.clock import Clock
from strandline.log.event_appender import EventAppender
from strandline.log.store import Placement
from strandline.stores.sqlite.appends import (
    INSERT,
    Heads,
    is_due,
    raise_full,
)
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.logged_bytes import COMMIT_BYTES, PAGE_BYTES, is_much
from strandline.stores.sqlite.outbox import Outbox
from strandline.stores.sqlite.partition_row import PartitionRow, store_partitions
from strandline.stores.sqlite.partition_row import place as place_of
from strandline.stores.sqlite.schema import OFFSET_BITS
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import Durability, Event, UnavailableError
from strandline.writes.bracketed import BracketedChannel

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import record_rows, size_of
else:
    record_rows = size_of = None

_OFFSET_MAX = (1 << OFFSET_BITS) - 1
# What makes a named tuple by name is slow, and one is made for each append.
_new: Any = tuple.__new__


class EventAppends:
    """Implements Shortcut for a partition: each event is stored by one call inside the bracket.

    Whatever is uncommon it leaves to the usual way, with nothing done.
    """

    def __init__(
        self,
        topic: SqliteTopic,
        partition: int,
        parts: tuple[Database, DurableMarks, Outbox],
        channel: BracketedChannel[Any, Placement],
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database, self._marks, self._outbox = parts
        self._channel = channel
        self._on_written = on_written
        self._topic_id = topic.id_bytes
        self._partition = partition
        self._slot = topic.slots[partition]
        self._first_place = place_of(self._slot, 0)
        self._now_us = self._database.clock.now_us

    def append_event(self, event: Event, bytes_max: int) -> Any:
        """See Shortcut."""
        self._database.check_open()
        # In a transaction it joins that; to move what is written may take waiting.
        is_other = self._outbox.block is not None or is_much(self._database.logged_bytes)
        size_bytes = size_of(event)
        if is_other or size_bytes > bytes_max:
            return NotImplemented
        try:
            self._database.reserve.admit(size_bytes)
        except (OSError, UnavailableError):
            # The usual way looks again, and raises what is wrong.
            return NotImplemented
        receipt = self._channel.store(event, self._store)
        if receipt is None:
            return NotImplemented
        if receipt.error is not None:
            receipt.wait()
        return receipt

    def append_events(self, events: list[Event], bytes_max: int) -> Any:
        """See Shortcut. A list costs little more in the usual way."""
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
        if database.logged_bytes >= database.log_space.until:
            database.log_space.extend(database.logged_bytes)
        start, now_us = row.high, max(self._now_us(), row.last_us)
        rows: Any = record_rows(
            [event], None, self._topic_id, self._partition, self._first_place + start, start, now_us
        )
        row.high = start + 1
        row.last_us = now_us
        row.size_bytes += size_bytes
        try:
            written_bytes = self._insert(row, rows[0])
        except sqlite3.OperationalError as error:
            raise_full(database, error)
            raise
        changed = {self._slot: row}
        self._marks.wrote(changed)
        database.logged_bytes += written_bytes + size_bytes
        self._on_written(changed)
        placement: Placement = _new(Placement, (start, now_us, ()))
        return placement

    def _insert(self, row: PartitionRow, record: tuple[Any, ...]) -> int:
        """Insert and commit; return about how much that writes besides the event."""
        database = self._database
        # One cursor for all: a connection makes one for each statement.
        execute = database.cursor.execute
        execute(INSERT, record)
        written_bytes = COMMIT_BYTES
        if is_due(row) or self._marks.is_to_carry(row.slot):
            self._marks.carry([row])
            store_partitions(database.writer, [row])
            written_bytes += PAGE_BYTES
        execute("COMMIT")
        return written_bytes
