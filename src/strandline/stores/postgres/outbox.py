"""Transactions with the caller's rows and appends, committed together. See design 0097."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

from strandline.log.chain import Chain
from strandline.log.store import AppendRequest, dropped
from strandline.stores.block_end import rolled_back
from strandline.stores.postgres.block import PendingAppend, PostgresBlock, Witness
from strandline.stores.postgres.callers import CallersTransaction, callers_transaction
from strandline.stores.postgres.database import (
    TIMELINE,
    Connection,
    EndListener,
    PostgresDatabase,
)
from strandline.stores.postgres.errors import translated
from strandline.stores.postgres.lane import LaneDelta, LaneHead, store_changes
from strandline.stores.postgres.partition_head import follow_timeline, lock_partition
from strandline.stores.postgres.topics import PostgresTopic
from strandline.values import InvalidError, StrandlineError, UnknownError

_LOOK: Final = (
    "SELECT " + TIMELINE + ", (SELECT log_id::text FROM {schema}.log),"  # noqa: S608 - Ours.
    " current_setting('transaction_isolation'), current_setting('transaction_read_only')"
)
_HOLD: Final = "INSERT INTO {schema}.held_appends (block, number) VALUES (%s, %s)"
_RELEASE: Final = "DELETE FROM {schema}.held_appends WHERE block = %s RETURNING number"
_WITNESS: Final = """
    SELECT place, timestamp_us, xmin::text FROM {schema}.records WHERE slot = %s AND place = %s"""


class PostgresOutbox:
    """Makes blocks, and adds a thread's appends to its block. Any thread may use it."""

    def __init__(self, database: PostgresDatabase, notify: EndListener) -> None:
        self._database = database
        self._notify = notify
        #: The block of each thread.
        self._blocks: dict[int, PostgresBlock] = {}

    def own_block(self) -> PostgresBlock | None:
        """Return the block that this thread is inside of."""
        block = self._blocks.get(threading.get_ident()) if self._blocks else None
        return block if block is not None and block.over.is_mine else None

    def joined(self) -> "contextlib.AbstractContextManager[Connection] | None":
        """Return a context that lends the connection of this thread's block; None outside one."""
        block = self.own_block()
        return None if block is None else self._lent(block)

    @contextlib.contextmanager
    def _lent(self, block: PostgresBlock) -> Iterator[Connection]:
        with block.plain() as connection, translated(self._database.url):
            yield connection

    def check_outside(self) -> None:
        """Raise InvalidError inside a block: only appends can be part of it."""
        if self.own_block() is not None:
            raise InvalidError(
                "this thread is inside a transaction, make this call before or after it"
            )

    @contextlib.contextmanager
    def transaction(self, outside: Any) -> Iterator[Any]:
        """Begin a transaction for a block; commit it unless the block raises."""
        if self.own_block() is not None:
            raise InvalidError("this thread is inside a transaction already, use a savepoint in it")
        database = self._database
        caller = callers_transaction(outside, database)
        block = PostgresBlock(database.clock.new_id(), caller)
        me = block.over.thread
        try:
            with translated(database.url):
                caller.begin()
                self._check_log(block)
            self._blocks[me] = block
            yield caller.given
            block.over.check_owner()
            self._place(block)
            self._commit(block)
        except BaseException as error:
            self._failed(block, error)
            raise
        finally:
            self._blocks.pop(me, None)
        for slot, end in block.ends.items():
            self._notify(slot, end)

    def join(
        self, block: PostgresBlock, topic: PostgresTopic, partition: int, request: AppendRequest
    ) -> PendingAppend:
        """Hold an append until the block is left; rolling back its savepoint drops it."""
        database = self._database
        pending = PendingAppend(
            *(block, topic, partition, request),
            durability_max=database.capabilities.durability_max,
            clock=database.clock,
        )
        with self._lent(block) as connection:
            connection.execute(database.sql(_HOLD), (block.id, pending.number))
        block.pending.append(pending)
        return pending

    # --- the beginning ---

    def _check_log(self, block: PostgresBlock) -> None:
        database = self._database
        with block.plain() as connection:
            found = connection.execute(database.sql(_LOOK)).fetchone()
        assert found is not None
        timeline, log_id, isolation, read_only = found
        if log_id != str(database.log_id):
            raise InvalidError("this connection is to a database other than the log's")
        if isolation != "read committed":
            raise InvalidError(
                "other commits must be visible when offsets are assigned, use READ COMMITTED",
                isolation=isolation,
            )
        if read_only == "on":
            raise InvalidError("this connection is read-only, use one that may write")
        database.timeline = timeline

    # --- the end ---

    def _place(self, block: PostgresBlock) -> None:
        """Assign the offsets, under locks that last until the commit."""
        database, url = self._database, self._database.url
        block.caller.flush()
        with block.plain() as connection:
            if not block.pending:
                return
            with translated(url):
                rows = connection.execute(database.sql(_RELEASE), (block.id,)).fetchall()
            held = {number for (number,) in rows}
            for each in block.pending:
                if each.number not in held:
                    each.error = rolled_back(None)
            # The caller's deferred constraints may wait for rows: run them before taking our locks.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            with translated(url):
                connection.execute("SET LOCAL synchronous_commit = on")
                connection.execute(f"SET LOCAL lock_timeout = {database.lock_timeout_ms}")
                slots: dict[int, list[PendingAppend]] = {}
                for each in block.pending:
                    if each.error is None:
                        slots.setdefault(each.slot, []).append(each)
                # In the same order everywhere, so that two blocks cannot deadlock.
                for slot in sorted(slots):
                    self._place_in(connection, block, slots[slot])

    def _place_in(
        self, connection: Connection, block: PostgresBlock, each: list[PendingAppend]
    ) -> None:
        database, first = self._database, each[0]
        topic = first.topic
        row = lock_partition(connection, database, first.slot)
        if row is None:
            raise dropped(topic.topic)
        follow_timeline(connection, database, row)
        head = LaneHead(connection, database, row)
        chain = Chain(database.log_id, topic.topic.id, first.partition, topic.settings.value_kind)
        delta = LaneDelta(database, chain, head)
        for pending in each:
            pending.placement = delta.apply(pending.request).placement
        if not delta.placed:
            return
        store_changes(database, delta, commits=False)
        seen = connection.execute(database.sql(_WITNESS), (row.slot, row.high - 1))
        place, timestamp_us, xmin = seen.fetchone() or (0, 0, "")
        block.witness = Witness(row.slot, place, timestamp_us, xmin)
        block.ends[row.slot] = row.high

    def _commit(self, block: PostgresBlock) -> None:
        block.is_committing = True
        block.caller.leave(None)
        block.over.reach()

    # --- when it fails ---

    def _failed(self, block: PostgresBlock, error: BaseException) -> None:
        """Roll back what is not committed, and fail the receipts."""
        if block.over.is_inherited:
            return
        undone: StrandlineError | None
        if block.is_committing:
            undone = self._after_commit(block, error)
        else:
            undone = rolled_back(error)
            self._roll_back(block.caller, error)
        for each in block.pending:
            each.error = each.error or undone
        block.over.reach()
        if undone is None:
            for slot, end in block.ends.items():
                self._notify(slot, end)

    def _roll_back(self, caller: CallersTransaction, error: BaseException) -> None:
        try:
            caller.leave(error)
        except Exception as other:  # noqa: BLE001 - The caller gets the first error.
            error.add_note(f"the rollback failed, too: {other!r}")

    def _after_commit(self, block: PostgresBlock, error: BaseException) -> StrandlineError | None:
        """Return the error for receipts if the commit, or a step after it, has failed."""
        try:
            is_committed = self._is_committed(block)
        except StrandlineError:
            return UnknownError(error)
        return None if is_committed else rolled_back(error)

    def _is_committed(self, block: PostgresBlock) -> bool:
        witness, database = block.witness, self._database
        if witness is None:
            return False
        with database.transaction() as connection:
            # The transaction in question holds this lock until it ends.
            lock_partition(connection, database, witness.slot)
            found = connection.execute(database.sql(_WITNESS), (witness.slot, witness.row[0]))
            return found.fetchone() == witness.row
