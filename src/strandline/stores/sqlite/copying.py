"""A copy of a log's database as of one moment, made while others write."""

import contextlib
import sqlite3
from functools import partial
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo, real_parent
from strandline.log.copies import (
    CopiedPartition,
    Ends,
    Progress,
    check_known,
    check_provable,
    end_of_copy,
)
from strandline.stores.new_place import new_place
from strandline.stores.sqlite.chain_values import remove_values
from strandline.stores.sqlite.checksum import row_crc
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.identities import check_identities, count_identities
from strandline.stores.sqlite.partition_row import (
    PartitionRow,
    add_epoch,
    load_epochs,
    load_partition,
    place,
    store_partitions,
)
from strandline.stores.sqlite.schema import connect, translated
from strandline.stores.sqlite.topics import SqliteTopic, SqliteTopics, load_log, store_log
from strandline.values import Epoch, Mode, Offset, Partition

_LOCK_TIMEOUT_S = 10.0


def copy_sqlite_log(
    source: str,
    target: str,
    *,
    ends: Ends | None = None,
    progress: Progress | None = None,
    io: Io | None = None,
    clock: Clock | None = None,
) -> list[CopiedPartition]:
    """Copy the database `source`, including other tables, to `target`, which must not exist.

    Everything is durable when this returns. A copy that fails leaves no `target`.
    """
    files = io if io is not None else SystemIo()
    ours = clock if clock is not None else SystemClock()
    database = Database(real_parent(source), Mode.READ, files, ours, _LOCK_TIMEOUT_S)
    try:
        with new_place(files, ours, target, partial(_remove, files)) as made:
            copied = _copy(database, made, ends or {})
            _sync(files, made)
    finally:
        database.close()
    if progress is not None:
        for each in copied:
            progress(each)
    return copied


def _copy(database: Database, partial: str, ends: Ends) -> list[CopiedPartition]:
    with database.reading() as connection, database.translating():
        made = connect(partial, "rwc")
        try:
            # In one step, which is one read transaction: writers are not blocked.
            connection.backup(made, pages=-1)
        finally:
            made.close()
    with contextlib.closing(connect(partial, "rw")) as copy, translated(partial):
        copy.execute("BEGIN IMMEDIATE")
        copied = _CopyEnds(copy, partial, database.clock, ends).run()
        row = load_log(copy, partial)
        store_log(copy, row._replace(inode=database.io.stat(partial).inode))
        copy.execute("COMMIT")
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return copied


def _remove(io: Io, path: str) -> None:
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(OSError):
            io.unlink(name)


def _sync(io: Io, path: str) -> None:
    fd = io.open(path, "write")
    try:
        io.sync(fd)
    finally:
        io.close(fd)


class _CopyEnds:
    """Ends partitions at the given offsets, and begins an epoch there."""

    def __init__(self, copy: sqlite3.Connection, path: str, clock: Clock, ends: Ends) -> None:
        self._copy = copy
        self._path = path
        self._clock = clock
        self._ends = ends

    def run(self) -> list[CopiedPartition]:
        entries = SqliteTopics(self._path, self._clock).all(self._copy)
        known: list[tuple[UUID, int]] = [
            (entry.topic.id, number)
            for entry in entries
            for number in range(entry.settings.partitions)
        ]
        check_known(self._ends, known)
        return [
            self._end(entry, number)
            for entry in entries
            for number in range(entry.settings.partitions)
        ]

    def _end(self, entry: SqliteTopic, number: int) -> CopiedPartition:
        slot = entry.slot(number)
        row = load_partition(self._copy, self._path, slot)
        assert row is not None
        end = end_of_copy(entry.topic, number, row.marks(), self._ends)
        if entry.is_proved:
            check_provable(entry.topic, number, end, row.first)
        if end < row.high:
            self._remove(entry, row, end)
        row.durable = row.high
        row.epochs = self._begin_epoch(slot, end)
        store_partitions(self._copy, [row])
        return CopiedPartition(entry.topic, Partition(number), Offset(row.low), end)

    def _remove(self, entry: SqliteTopic, row: PartitionRow, end: int) -> None:
        slot, execute = row.slot, self._copy.execute
        # Check first: recounting would hide damage.
        check_identities(self._copy, self._path, row)
        first, beyond = place(slot, end), place(slot + 1, 0)
        (removed,) = execute(
            "SELECT coalesce(sum(size_bytes), 0) FROM strandline_records"
            " WHERE place >= ? AND place < ?",
            (first, beyond),
        ).fetchone()
        execute("DELETE FROM strandline_records WHERE place >= ? AND place < ?", (first, beyond))
        if entry.is_proved:
            remove_values(self._copy, first, beyond)
        (last_us,) = execute(
            "SELECT max(timestamp_us) FROM strandline_records WHERE place >= ? AND place < ?",
            (place(slot, 0), first),
        ).fetchone()
        row.high, row.size_bytes = end, row.size_bytes - removed
        row.local = min(row.local, end)
        # If no record is left, later timestamps must still not fall below removed ones.
        row.last_us = row.last_us if last_us is None else last_us
        execute("DELETE FROM strandline_keys WHERE slot = ? AND start + count > ?", (slot, end))
        execute("DELETE FROM strandline_sequences WHERE slot = ? AND start >= ?", (slot, end))
        self._restore_producers(slot)
        row.identities, row.identities_sum = count_identities(self._copy, slot)

    def _restore_producers(self, slot: int) -> None:
        """Reset each producer to its last sequence that is left, or remove it."""
        producers = self._copy.execute(
            "SELECT p.tenant, p.producer, max(s.sequence), max(s.timestamp_us), max(s.ordinal)"
            " FROM strandline_producers p LEFT JOIN strandline_sequences s"
            " ON s.slot = p.slot AND s.tenant = p.tenant AND s.producer = p.producer"
            " WHERE p.slot = ? GROUP BY p.tenant, p.producer",
            (slot,),
        ).fetchall()
        self._copy.execute("DELETE FROM strandline_producers WHERE slot = ?", (slot,))
        kept = [
            (slot, tenant, producer, latest, seen_at_us, ordinal + 1)
            for tenant, producer, latest, seen_at_us, ordinal in producers
            if latest is not None
        ]
        self._copy.executemany(
            "INSERT INTO strandline_producers VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*each, row_crc("producers", *each)) for each in kept],
        )

    def _begin_epoch(self, slot: int, end: int) -> int:
        """Begin an epoch at `end`; return the number of epochs."""
        epochs = load_epochs(self._copy, self._path, slot)
        self._copy.execute("DELETE FROM strandline_epochs WHERE slot = ?", (slot,))
        for epoch in epochs:
            start = Offset(min(epoch.start, end))
            add_epoch(self._copy, slot, Epoch(epoch.number, epoch.id, start))
        fresh = Epoch(epochs[-1].number + 1, self._clock.new_id(), Offset(end))
        add_epoch(self._copy, slot, fresh)
        return fresh.number + 1
