"""The write path: appends decided in memory, stored in one transaction per drain."""

import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from strandline.log.chain import Chain, link
from strandline.log.decide import decide, record_identities
from strandline.log.draft import Draft
from strandline.log.draft_columns import size_of
from strandline.log.identities import Original
from strandline.log.store import AppendRequest, Placement
from strandline.log.topics import is_internal_name
from strandline.stores.sqlite import logged_bytes
from strandline.stores.sqlite.chain_values import ValueRow, load_value, store_values, value_row
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.identities import SqliteIdentities
from strandline.stores.sqlite.lineage import Lineage
from strandline.stores.sqlite.logged_bytes import COMMIT_BYTES, PAGE_BYTES
from strandline.stores.sqlite.partition_row import (
    PartitionRow,
    load_partition,
    place,
    store_partitions,
)
from strandline.stores.sqlite.record_rows import record_rows
from strandline.stores.sqlite.records import Row
from strandline.stores.sqlite.schema import OFFSET_BITS, is_out_of_space, translated
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import (
    ClosedError,
    CorruptError,
    DroppedError,
    FullError,
    InvalidError,
    Tenant,
    UnavailableError,
)
from strandline.writes.standby import Standby

_ROW_BYTES = 64
#: How many records a partition's row may lag behind its records.
_TAIL_MAX = 64
#: Records inserted by one statement: single statements cost a sixth more.
_ROWS_AT_ONCE = 50
INSERT = "INSERT INTO strandline_records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_MANY = INSERT + ", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" * (_ROWS_AT_ONCE - 1)


class SqliteAppend(NamedTuple):
    """A request, and its partition."""

    entry: SqliteTopic
    partition: int
    request: AppendRequest


class Heads:
    """The cached partition rows, valid until another process writes. Used by the lock's holder."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.rows: dict[int, PartitionRow] = {}
        #: For topics with a proof: the chain of each slot, and its value at the end.
        self.values: dict[int, tuple[Chain, bytes]] = {}
        self.version: tuple[int, int] | None = None


class Changes(NamedTuple):
    """What one transaction stores."""

    records: list[Row]
    heads: dict[int, PartitionRow]
    identities: SqliteIdentities | None
    values: list[ValueRow]
    size_bytes: int

    def store(self, connection: sqlite3.Connection, due: Collection[PartitionRow]) -> None:
        """Store it in the current transaction, with the partitions' rows that are due."""
        records, heads, identities, values, _ = self
        _insert(connection, records)
        if values:
            store_values(connection, values)
        if identities is not None:
            identities.store(heads)
        if due:
            store_partitions(connection, due)


def _insert(connection: sqlite3.Connection, records: list[Row]) -> None:
    if len(records) == 1:
        connection.execute(INSERT, records[0])
        return
    whole = len(records) - len(records) % _ROWS_AT_ONCE
    for start in range(0, whole, _ROWS_AT_ONCE):
        rows = records[start : start + _ROWS_AT_ONCE]
        connection.execute(_INSERT_MANY, list(itertools.chain.from_iterable(rows)))
    if whole < len(records):
        connection.executemany(INSERT, records[whole:])


class SlotHead:
    """Implements PartitionHead and IdentityIndex for one partition, within a transaction."""

    __slots__ = ("_identities", "_now_us", "_row", "last_us", "next")

    def __init__(self, row: PartitionRow, identities: Callable[[], SqliteIdentities]) -> None:
        self._row = row
        self._identities = identities
        self._now_us = 0
        self.next: Final = row.high
        self.last_us: Final = row.last_us

    def identities(self, now_us: int) -> "SlotHead":
        self._now_us = now_us
        return self

    def find_key(self, tenant: Tenant | None, key: str, count: int) -> Original | None:
        return self._identities().find_key(self._row, tenant or "", key, count, self._now_us)

    def find_sequence(self, tenant: Tenant | None, name: str, sequence: int) -> Original | None:
        producer = self._row.slot, tenant or "", name
        return self._identities().find_sequence(producer, sequence, self._now_us)

    def add_key(self, tenant: Tenant | None, key: str, original: Original) -> None:
        self._identities().add_key(self._row, tenant or "", key, original)

    def add_sequence(
        self, tenant: Tenant | None, name: str, sequence: int, original: Original
    ) -> None:
        producer = self._row.slot, tenant or "", name
        self._identities().add_sequence(producer, sequence, original)


class SqliteDelta:
    """Implements Delta: what one transaction will store."""

    __slots__ = ("_changed", "_database", "_heads", "_identities", "_records", "_size", "_values")

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._database = heads.database
        self._size = 0
        self._records: list[Row] = []
        self._values: list[ValueRow] = []
        self._changed: dict[int, PartitionRow] = {}
        self._identities: SqliteIdentities | None = None

    def apply(self, write: SqliteAppend) -> Placement:
        entry, partition, request = write
        if not is_internal_name(entry.topic.name):
            self._admit(request)
        slot = entry.slots[partition]
        row = self._heads.rows.get(slot) or self._load_head(slot)
        head = SlotHead(row, lambda: self._open_identities(row))
        decision = decide(head, request, self._database.clock.now_us())
        start, (now_us, originals) = row.high, decision
        fresh = request.drafts[len(originals) :] if originals else request.drafts
        if fresh:
            self._add(write, row, fresh, now_us)
            if request.has_identity:
                record_identities(head, request, decision, start)
        return Placement(start, now_us, originals)

    def _admit(self, request: AppendRequest) -> None:
        """Check that there is disk space; FullError, with nothing done, if the disk is full."""
        try:
            self._database.reserve.admit(size_of(request.drafts))
        except OSError as error:
            reason = error.strerror or str(error)
            raise FullError(self._database.path, reason, write=request) from error

    def size(self) -> int:
        return self._size

    def freeze(self) -> tuple[Changes, Heads]:
        changes = Changes(self._records, self._changed, self._identities, self._values, self._size)
        return changes, self._heads

    def reader(self) -> None:
        return None

    # --- inside ---

    def _load_head(self, slot: int) -> PartitionRow:
        with translated(self._database.path):
            head = load_partition(self._database.writer, self._database.path, slot)
        if head is None:
            raise DroppedError("this topic was dropped", near=[])
        self._heads.rows[slot] = head
        return head

    def _open_identities(self, row: PartitionRow) -> SqliteIdentities:
        if self._identities is None:
            self._identities = SqliteIdentities(self._database)
        self._identities.check(row)
        return self._identities

    def _add(
        self, write: SqliteAppend, row: PartitionRow, fresh: Sequence[Draft], now_us: int
    ) -> None:
        entry, partition, request = write
        start, slot, tenant = row.high, row.slot, request.tenant
        _check_room(start, len(fresh))
        if entry.is_proved:
            self._link(entry, partition, fresh, tenant, now_us)
        topic, first = (entry.id_bytes, partition), (place(slot, start), start)
        self._records += record_rows(fresh, tenant, topic, first, now_us)
        added_bytes = size_of(fresh)
        self._size += added_bytes + _ROW_BYTES * len(fresh)
        row.size_bytes += added_bytes
        row.high = start + len(fresh)
        row.last_us = now_us
        self._changed[slot] = row

    def _link(
        self,
        entry: SqliteTopic,
        partition: int,
        drafts: Sequence[Draft],
        tenant: Tenant | None,
        now_us: int,
    ) -> None:
        """Chain records that are about to be added."""
        slot = entry.slots[partition]
        chain, value = self._heads.values.get(slot) or self._load_value(entry, partition)
        for offset, draft in enumerate(drafts, self._heads.rows[slot].high):
            value = link(value, chain.digest(offset, now_us, draft.key, tenant, draft.body))
            self._values.append(value_row(slot, offset, value))
        self._heads.values[slot] = chain, value

    def _load_value(self, entry: SqliteTopic, partition: int) -> tuple[Chain, bytes]:
        database, slot = self._database, entry.slots[partition]
        chain = Chain(database.log_id, entry.topic.id, partition, entry.settings.value_kind)
        high = self._heads.rows[slot].high
        try:
            with translated(database.path):
                return chain, load_value(database.writer, database.path, slot, high, chain)
        except CorruptError:
            # Damage stays a finding of `verify`, and does not prevent appends.
            return chain, chain.origin


class AppendBracket:
    """Implements Bracket: the lock, a transaction, and catching up with other processes."""

    def __init__(self, database: Database, marks: DurableMarks) -> None:
        self._database = database
        self._marks = marks
        self._lineage = Lineage(database)
        self._heads = Heads(database)
        self._standby = Standby("strandline-checkpoint", self._tidy_later)
        database.tidy = self._tidy
        #: Whether the thread inside may wait for the disk.
        self._may_wait = False

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> Heads:
        database, heads = self._database, self._heads
        try:
            if not self._begin_at_once():
                self._begin(timeout_s)
            version = database.lock.breaks, database.changes
            if version != heads.version:
                heads.rows.clear()
                heads.values.clear()
                heads.version = version
            self._may_wait = may_wait
        except BaseException:
            self.leave()
            raise
        return heads

    def _begin_at_once(self) -> bool:
        """Begin, if no lock is held and no other process wrote since our last write.

        If it raises, the lock may still be held.
        """
        if not self._lineage.is_checked or not self._database.lock.try_acquire():
            return False
        if self.begin_unbroken():
            return True
        self.leave()
        return False

    def hold(self) -> Heads | None:
        """Take the lock if it is free, with the heads as this process left them.

        None, with nothing done, if they are known to be outdated, or inside a transaction of
        the caller. The caller must check whether another process has written, using
        `begin_unbroken` or while it stores.
        """
        database, heads = self._database, self._heads
        lock = database.lock
        try:
            if not self._lineage.is_checked or not lock.try_acquire():
                return None
            if heads.version == (lock.breaks, database.changes):
                return heads
            self.leave()
        except BaseException:
            self.leave()
            raise
        return None

    def begin_unbroken(self) -> bool:
        """Begin, unless another process is writing or has written since our last time.

        Checked under SQLite's own lock, so it stays true. For the lock's holder.
        """
        return self._database.try_begin() and self._database.lock.is_unbroken()

    def enter_with(self, connection: sqlite3.Connection, timeout_s: float) -> None:
        """Do what `enter` does, but write through this connection until `leave`."""
        self._begin(timeout_s, connection)
        self._may_wait = True

    def _begin(self, timeout_s: float, lent: sqlite3.Connection | None = None) -> None:
        database = self._database
        deadline = database.clock.monotonic() + timeout_s
        database.lock.acquire(timeout_s)
        try:
            database.lend(lent)
            database.begin(max(0.0, deadline - database.clock.monotonic()))
            self._lineage.check(database.writer)
            # Even the lock's file may have belonged to another process before this.
            self._heads.version = None
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        database = self._database
        if not database.lock.is_mine:
            return
        try:
            # There is no writer if opening it failed.
            if database.is_in_transaction:
                # Nothing was stored, so the heads are wrong.
                self._heads.version = None
                database.writer.rollback()
            if database.logged_bytes >= logged_bytes.CHECKPOINT_BYTES:
                database.take_back()
                if self._may_wait:
                    self._tidy()
                else:
                    self._standby.wake()
        finally:
            try:
                self._may_wait = False
                database.take_back()
            finally:
                database.lock.release()

    def close(self) -> None:
        """End the background thread that checkpoints."""
        self._standby.close()

    def _tidy(self) -> None:
        # If something is in the way, what was written stays written, and a later one tries again.
        with contextlib.suppress(UnavailableError), translated(self._database.path):
            self._marks.checkpoint()

    def _tidy_later(self) -> None:
        with contextlib.suppress(UnavailableError, ClosedError), self._database.locked():
            self._tidy()


class AppendFlusher:
    """Implements Flusher: one transaction per drain, and one sync for all waiting callers."""

    def __init__(
        self,
        database: Database,
        marks: DurableMarks,
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database = database
        self._marks = marks
        self._on_written = on_written

    def flush(self, frozen: Changes, epochs: range) -> None:  # noqa: ARG002 - Offsets suffice.
        try:
            self._store(frozen)
        except sqlite3.OperationalError as error:
            raise_full(self._database, error)
            raise

    def _store(self, frozen: Changes) -> None:
        connection = self._database.writer
        heads = frozen.heads
        due: Collection[PartitionRow] = heads.values()
        if frozen.identities is None:
            due = [head for head in due if is_due(head) or self._marks.is_to_carry(head.slot)]
        if due:
            self._marks.carry(due)
        frozen.store(connection, due)
        connection.execute("COMMIT")
        self._marks.wrote(heads)
        self._database.logged_bytes += COMMIT_BYTES + PAGE_BYTES * len(due) + frozen.size_bytes
        self._on_written(heads)

    def sync(self) -> None:
        self._marks.sync()


def raise_full(database: Database, error: sqlite3.OperationalError) -> None:
    """Raise FullError if the disk was too full for a transaction; the caller holds the lock."""
    if not is_out_of_space(error):
        return
    database.reserve.suspect()
    # The heads are ahead of the database: have the next drain read them.
    database.changes += 1
    with contextlib.suppress(sqlite3.OperationalError):
        database.writer.rollback()
    raise FullError(database.path, str(error)) from error


def is_due(head: PartitionRow) -> bool:
    """Whether a partition's row lags as far behind as allowed."""
    return head.high - head.noted >= _TAIL_MAX


def _check_room(start: int, count: int) -> None:
    if start + count >= 1 << OFFSET_BITS:
        raise InvalidError("this partition has used all its offsets, use another one", end=start)
