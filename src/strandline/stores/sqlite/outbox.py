"""Transactions with the caller's rows and appends, committed together. See design 0043."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping

from strandline.log.store import Placement
from strandline.stores.block_end import rolled_back
from strandline.stores.sqlite.appends import (
    AppendBracket,
    Heads,
    SqliteAppend,
    SqliteDelta,
    is_due,
)
from strandline.stores.sqlite.block import BlockConnection, Joined, Stored, TransactionBlock
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.logged_bytes import COMMIT_BYTES, PAGE_BYTES
from strandline.stores.sqlite.partition_row import PartitionRow, load_partition, place
from strandline.stores.sqlite.schema import is_busy, translated
from strandline.values import InvalidError, StrandlineError, UnknownError

#: The first version in which two connections that write and checkpoint concurrently cannot
#: damage the write-ahead log; and the version in use.
OUTSIDE_VERSION_MIN = (3, 51, 3)
SQLITE_VERSION = sqlite3.sqlite_version_info

_CRC = "SELECT crc FROM strandline_records WHERE place = ?"


class Outbox:
    """Makes blocks, one at a time, and adds a thread's appends to its block."""

    def __init__(
        self,
        database: Database,
        bracket: AppendBracket,
        marks: DurableMarks,
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database = database
        self._bracket = bracket
        self._marks = marks
        self._on_written = on_written
        #: The open block, of any thread.
        self.block: TransactionBlock | None = None

    def own_block(self) -> TransactionBlock | None:
        """Return the block that this thread is inside of."""
        block = self.block
        return block if block is not None and block.over.is_mine else None

    @contextlib.contextmanager
    def transaction(self, outside: sqlite3.Connection | None) -> Iterator[TransactionBlock]:
        """Hold the lock and a transaction for a block; commit it unless the block raises."""
        block: TransactionBlock | None = None
        try:
            block = self._new_block(outside)
            self._enter(block)
            yield block
            block.over.check_owner()
            self._commit(block)
        except BaseException as error:
            # The lock must be released wherever an interrupt comes.
            if block is not None:
                block.over.check_owner()
                self._clean_up(block, error)
            raise

    def join(self, block: TransactionBlock, write: SqliteAppend) -> tuple[Placement, Joined]:
        """Add an append to the block's transaction; its offsets are decided at once."""
        block.check()
        block.prepare_append()
        database = self._database
        with translated(database.path), block.plain() as connection:
            # Read again each time: the caller may have rolled back to a savepoint.
            delta = SqliteDelta(Heads(database))
            placement = delta.apply(write)
            changes, _ = delta.freeze()
            due = [h for h in changes.heads.values() if changes.identities or is_due(h)]
            try:
                changes.store(connection, due)
            except BaseException as error:
                block.failure = InvalidError("an append has failed half-way, roll back all of it")
                block.failure.__cause__ = error
                raise
            crcs = {row[0]: row[-1] for row in changes.records}
            rows = _last_rows(write, placement)
            # For a repeat, the original's checksum: another append may replace that row.
            rows_crc = [crcs[row] if row in crcs else _crc_at(connection, row) for row in rows]
        joined = Joined(block, [Stored(*each) for each in zip(rows, rows_crc, strict=True)])
        block.joined.append(joined)
        block.ends.update(dict.fromkeys(changes.heads, 0))
        return placement, joined

    # --- the beginning ---

    def _new_block(self, outside: sqlite3.Connection | None) -> TransactionBlock:
        database = self._database
        if self.own_block() is not None:
            raise InvalidError("this thread is inside a transaction already, use a savepoint in it")
        if outside is None:
            with translated(database.path):
                made = database.new_writer(BlockConnection)
                # Inside a transaction this setting has no effect.
                made.execute("PRAGMA foreign_keys = ON")
                # Loads the schema now, before any other writer has to wait for us.
                made.execute("SELECT 1 FROM strandline_log").fetchone()
                return TransactionBlock(made, is_outside=False)
        if not isinstance(outside, sqlite3.Connection):
            raise InvalidError(
                "pass the sqlite3 connection itself, not an object that wraps it",
                type=type(outside).__qualname__,
            )
        return TransactionBlock(outside, is_outside=True)

    def _enter(self, block: TransactionBlock) -> None:
        database = self._database
        with translated(database.path):
            if block.is_outside:
                with block.plain() as connection:
                    _check_outside(database, connection)
            self._bracket.enter_with(block.connection, database.lock_timeout_s)
            self.block = block
            database.lock.block_thread = block.over.thread
            database.check_open()
            block.wal_bytes = self._wal_bytes()
            block.begin()

    def _clean_up(self, block: TransactionBlock, cause: BaseException) -> None:
        """Release everything that the block still holds."""
        if not self._database.has_lent(block.connection):
            if not block.is_outside:
                self._database.close_writer(block.connection)
            if self._database.lock.is_mine:
                # Interrupted while leaving.
                self._leave(block)
        elif block.over.is_over:
            self._leave(block)
        elif block.heads is not None and not block.connection.in_transaction:
            # Interrupted right after the commit.
            self._settle(block, block.heads)
        else:
            self._roll_back(block, cause)

    # --- the end ---

    def _commit(self, block: TransactionBlock) -> None:
        try:
            with block.plain() as connection:
                block.check()
                block.end()
                with translated(self._database.path):
                    self._check_joined(block)
                    heads = self._heads(block)
                changed = connection.total_changes
                block.heads = heads
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            stored = _translated(error, block)
            self._roll_back(block, stored)
            raise stored from error
        self._database.logged_bytes += max(
            COMMIT_BYTES + PAGE_BYTES * changed, self._wal_bytes() - block.wal_bytes
        )
        self._settle(block, heads)

    # If one of these three is interrupted, `_clean_up` calls it again.

    def _settle(self, block: TransactionBlock, heads: Mapping[int, PartitionRow]) -> None:
        self._marks.wrote(heads)
        block.ends = {slot: head.high for slot, head in heads.items()}
        block.over.reach()
        self._on_written(heads)
        self._leave(block)

    def _roll_back(self, block: TransactionBlock, cause: BaseException) -> None:
        block.heads = None
        for joined in block.joined:
            joined.error = joined.error or _undone(cause, block)
        try:
            block.drop()
        finally:
            block.over.reach()
            self._leave(block)

    def _leave(self, block: TransactionBlock) -> None:
        database = self._database
        try:
            if not block.is_outside:
                database.close_writer(block.connection)
        finally:
            self.block = None
            database.lock.block_thread = 0
            with translated(database.path):
                self._bracket.leave()

    def _check_joined(self, block: TransactionBlock) -> None:
        """Find the appends that the caller has undone by rolling back to a savepoint."""
        rows = {row for joined in block.joined for row in joined.rows}
        gone = {row for row in rows if _crc_at(block.connection, row.place) != row.crc}
        for joined in block.joined:
            if not gone.isdisjoint(joined.rows):
                joined.error = _undone(None, block)

    def _heads(self, block: TransactionBlock) -> dict[int, PartitionRow]:
        rows = [load_partition(block.connection, self._database.path, slot) for slot in block.ends]
        return {row.slot: row for row in rows if row is not None}

    def _wal_bytes(self) -> int:
        try:
            return self._database.io.stat(self._database.wal_path).size
        except FileNotFoundError:
            return 0


def _last_rows(write: SqliteAppend, placement: Placement) -> list[int]:
    """Return the last row of each run of rows that hold an append."""
    slot, repeats = write.entry.slot(write.partition), len(placement.originals)
    rows = [place(slot, original.offset) for original in placement.originals]
    if fresh := len(write.request.drafts) - repeats:
        rows.append(place(slot, placement.offset + fresh - 1))
    return rows


def _crc_at(connection: sqlite3.Connection, row: int) -> int | None:
    found = connection.execute(_CRC, (row,)).fetchone()
    return None if found is None else int(found[0])


def _check_outside(database: Database, connection: sqlite3.Connection) -> None:
    if SQLITE_VERSION < OUTSIDE_VERSION_MIN:
        raise InvalidError(
            "a connection that you opened yourself checkpoints outside our lock, which damages the"
            " write-ahead log in SQLite before 3.51.3: use log.transaction() without one",
            sqlite=".".join(map(str, SQLITE_VERSION)),
        )
    if connection.in_transaction:
        raise InvalidError("this connection is inside a transaction already, end that first")
    files = {name: file for _, name, file in connection.execute("PRAGMA database_list")}
    if not files["main"] or database.io.identity(files["main"]) != database.io.identity(
        database.path
    ):
        raise InvalidError(
            "this connection is to a file other than the log's",
            file=files["main"],
            log=database.path,
        )
    if not connection.execute("PRAGMA synchronous").fetchone()[0]:
        raise InvalidError("this connection never syncs, set PRAGMA synchronous = NORMAL on it")


def _translated(error: sqlite3.Error, block: TransactionBlock) -> StrandlineError:
    """Return the error to raise for an SQLite error at the end of the caller's block."""
    if is_busy(error):
        return InvalidError("a statement of the block is still open, fetch its rows or close it")
    if isinstance(error, sqlite3.IntegrityError):
        return InvalidError(
            "a deferred constraint of your own tables fails, so nothing of the block is stored:"
            " fix its rows",
            reason=str(error),
        )
    return InvalidError(str(error)) if block.heads is None else UnknownError(error)


def _undone(cause: BaseException | None, block: TransactionBlock) -> StrandlineError:
    if isinstance(cause, UnknownError) or (block.is_outside and cause is block.failure is not None):
        assert cause is not None
        return UnknownError(cause)
    return rolled_back(cause)
