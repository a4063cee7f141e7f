"""The way into each partition: a coordinator whose drains are transactions."""

import contextlib
import threading
from collections.abc import Mapping
from copy import copy
from typing import Any, Final
from uuid import UUID

import psycopg

from strandline.log.chain import Chain
from strandline.log.open_state import closed_log
from strandline.log.record_lists import admit
from strandline.log.store import AppendRequest, Placement, dropped
from strandline.stores.closing import close_each
from strandline.stores.postgres.database import Connection, EndListener, PostgresDatabase
from strandline.stores.postgres.errors import translated
from strandline.stores.postgres.identities import PostgresIdentities
from strandline.stores.postgres.partition_head import (
    LOCK,
    LOCK_AT_ONCE,
    NO_PARTITION,
    STORE,
    PostgresPartition,
    follow_timeline,
)
from strandline.stores.postgres.records import COLUMNS, row_of
from strandline.stores.postgres.topics import PostgresTopic
from strandline.values import (
    ConflictError,
    Durability,
    FailedError,
    InvalidError,
    StrandlineError,
    UnavailableError,
    UnknownError,
)
from strandline.writes import Channel, Coordinator, Settings, WriteMetrics, WriteReceipt
from strandline.writes.metrics import merged

_CHANNEL: Final = "appends"
_WRITTEN: Final = Durability.WRITTEN
_DURABLE: Final = Durability.DURABLE
_INSERT: Final = (
    "INSERT INTO {schema}.records (" + COLUMNS + ") VALUES"
    " (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_COPY: Final = "COPY {schema}.records (" + COLUMNS + ") FROM STDIN (FORMAT BINARY)"
_COPY_TYPES: Final = (
    *("int8", "int8", "int8", "bytea", "text", "bytea", "bytea"),
    *("bytea", "int8", "int4", "bytea"),
)
#: From so many records on, COPY is quicker than statements.
_COPY_MIN: Final = 8
_ROW_BYTES: Final = 64


class LaneHead:
    """The end of a partition within one transaction. Implements Head.

    `refusal` is why nothing can be appended in it: each append raises that.
    """

    def __init__(
        self,
        connection: Connection,
        database: PostgresDatabase,
        row: PostgresPartition,
        refusal: StrandlineError | None = None,
    ) -> None:
        self.connection = connection
        self.row = row
        self.refusal = refusal
        self.known: PostgresIdentities | None = None
        self._database = database

    @property
    def next(self) -> int:
        return self.row.high

    @property
    def last_us(self) -> int:
        return self.row.last_us

    def identities(self, now_us: int) -> PostgresIdentities:
        if self.known is None:
            self.known = PostgresIdentities(self.connection, self._database, self.row)
        self.known.now_us = now_us
        return self.known


class PartitionTransaction:
    """Implements Bracket, Delta's maker and Flusher for one partition."""

    def __init__(
        self, database: PostgresDatabase, topic: PostgresTopic, partition: int, notify: EndListener
    ) -> None:
        self.database = database
        self.slot: Final = topic.slots[partition]
        self.topic: Final = topic.topic
        self.chain: Final = Chain(
            database.log_id, topic.topic.id, partition, topic.settings.value_kind
        )
        self._notify = notify
        self._head: LaneHead | None = None

    # --- the bracket ---

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> LaneHead:
        """Lock the partition's row in a new transaction."""
        if not may_wait:
            raise UnavailableError("the server is asked on a thread that may wait")
        connection = self.database.take(timeout_s)
        row, refusal = NO_PARTITION, None
        try:
            with translated(self.database.url):
                row = self._begin(connection, timeout_s)
        except (InvalidError, ConflictError) as error:
            # Of an enter that raises these, the coordinator would end.
            refusal = error
        except BaseException:
            self._give_back(connection)
            raise
        self._head = LaneHead(connection, self.database, row, refusal)
        return self._head

    def _begin(self, connection: Connection, timeout_s: float) -> PostgresPartition:
        sql = self.database.sql
        lock = LOCK if timeout_s > 0 else LOCK_AT_ONCE
        with connection.pipeline():
            note_begun = self.database.begin(connection)
            found = connection.execute(sql(lock), (self.slot,))
        note_begun()
        fields = found.fetchone()
        if fields is None:
            raise dropped(self.topic)
        row = PostgresPartition(*fields)
        follow_timeline(connection, self.database, row)
        return row

    def leave(self) -> None:
        """Give the connection back, without what was not committed."""
        head, self._head = self._head, None
        if head is not None:
            self._give_back(head.connection)

    def _give_back(self, connection: Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.rollback()
        self.database.give_back(connection)

    # --- the flusher ---

    def flush(self, frozen: "LaneChanges", epochs: range) -> None:
        """Store everything and commit."""
        del epochs
        head = frozen.head
        if not frozen.rows:
            return
        copy_rows(self.database, frozen)
        with head.connection.pipeline():
            store_rest(self.database, frozen)
            head.connection.execute("COMMIT")
        self._notify(self.slot, head.row.high)

    def sync(self) -> None:
        """A commit is as durable as the server can make it."""

    def new_delta(self, head: LaneHead) -> "LaneDelta":
        """Return a delta of this transaction."""
        return LaneDelta(self.database, self.chain, head)


class LaneChanges:
    """What one transaction stores."""

    __slots__ = ("head", "rows")

    def __init__(self, head: LaneHead, rows: list[tuple[Any, ...]]) -> None:
        self.head: Final = head
        self.rows: Final = rows


def copy_rows(database: PostgresDatabase, changes: LaneChanges) -> None:
    """Send many records at once, where there are many. Not inside a pipeline."""
    rows = changes.rows
    if len(rows) >= _COPY_MIN:
        with changes.head.connection.cursor().copy(database.sql(_COPY)) as copy:
            copy.set_types(_COPY_TYPES)
            for row in rows:
                copy.write_row(row)


def store_rest(database: PostgresDatabase, changes: LaneChanges) -> None:
    """Send what `copy_rows` has not sent: few records, identities, the partition's state."""
    head, sql = changes.head, database.sql
    if len(changes.rows) < _COPY_MIN:
        for row in changes.rows:
            head.connection.execute(sql(_INSERT), row)
    if head.known is not None:
        head.known.store()
    head.connection.execute(sql(STORE), head.row.fields())


class LaneDelta:
    """Implements Delta: what one transaction is to store."""

    __slots__ = ("_chain", "_database", "_head", "_rows", "_size")

    def __init__(self, database: PostgresDatabase, chain: Chain, head: LaneHead) -> None:
        self._database = database
        self._chain = chain
        self._head = head
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0

    def apply(self, write: AppendRequest) -> Placement:
        head, database, row = self._head, self._database, self._head.row
        if head.refusal is not None:
            raise copy(head.refusal)
        with translated(database.url):
            placement, records = admit(head, write, database.clock.now_us(), self._chain, row.value)
        for record in records:
            self._rows.append(row_of(row.slot, record))
            self._size += record.size_bytes + _ROW_BYTES
            row.size_bytes += record.size_bytes
        if records:
            row.value = records[-1].value
            row.high += len(records)
            row.last_us = placement.timestamp_us
        return placement

    def size(self) -> int:
        return self._size

    def freeze(self) -> tuple[LaneChanges, LaneHead]:
        return LaneChanges(self._head, self._rows), self._head

    def reader(self) -> None:
        return None


class PostgresLane:
    """The way into one partition. Any thread may use it.

    A flush that failed ends its coordinator, and the writes in it are unknown; the next
    write begins with a new one.
    """

    def __init__(self, transaction: PartitionTransaction) -> None:
        self._transaction = transaction
        self._lock = threading.Lock()
        self._is_closed = False
        #: What coordinators did that have failed.
        self._past: WriteMetrics | None = None
        self._begin()

    def _begin(self) -> None:
        transaction = self._transaction
        database = transaction.database
        self._coordinator: Coordinator[
            AppendRequest, Placement, LaneChanges, None, None, LaneHead
        ] = Coordinator(
            Settings(bracket_timeout_s=database.lock_timeout_s),
            [_CHANNEL],
            context=_NoHead(),  # type: ignore[arg-type] # Each drain brings its own.
            snapshot=None,
            delta=transaction.new_delta,
            flusher=transaction,
            bracket=transaction,
            clock=database.clock,
        )
        self._coordinator.start()
        self._channel: Channel[AppendRequest, Placement] = self._coordinator.channel(_CHANNEL)

    def append(
        self, request: AppendRequest, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> WriteReceipt[Placement]:
        """Append; see Store.append."""
        channel = self._channel
        try:
            return self._append(request, level, timeout_s, may_wait=may_wait)
        except UnknownError:
            raise
        except FailedError:
            # Not stored, because an earlier flush failed.
            self._renew(channel)
        return self._append(request, level, timeout_s, may_wait=may_wait)

    def _append(
        self, request: AppendRequest, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> WriteReceipt[Placement]:
        if not may_wait:
            return self._channel.hand_over(request, timeout_s)
        return self._channel.write(request, level if level is _DURABLE else _WRITTEN, timeout_s)

    def close(self) -> None:
        """Finish what was accepted, and take no more."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _renew(self, failed: Channel[AppendRequest, Placement]) -> None:
        with self._lock:
            if self._is_closed:
                raise closed_log()
            if self._channel is failed:
                self._end()
                self._past = self.metrics()
                self._begin()

    def metrics(self) -> WriteMetrics:
        """Return what was done since the lane was made."""
        present = self._coordinator.metrics()
        return present if self._past is None else self._past + present

    def _end(self) -> None:
        # Each write that had a part in a failure was answered with it.
        with contextlib.suppress(FailedError, UnavailableError):
            self._coordinator.stop(durable=False)


class _NoHead:
    """Stands for the context before the first drain."""


class PostgresLanes:
    """The lanes of a log, each made when it is first needed."""

    def __init__(self, database: PostgresDatabase, notify: EndListener) -> None:
        self._database = database
        self._notify = notify
        self._lock = threading.Lock()
        self._lanes: dict[int, PostgresLane] = {}
        self._topics: dict[UUID, list[PostgresLane]] = {}
        self._is_closed = False

    def lane(self, topic: PostgresTopic, partition: int) -> PostgresLane:
        """Return the way into a partition."""
        slot = topic.slots[partition]
        found = self._lanes.get(slot)
        if found is not None:
            return found
        with self._lock:
            if self._is_closed:
                raise closed_log()
            if slot not in self._lanes:
                transaction = PartitionTransaction(self._database, topic, partition, self._notify)
                self._lanes[slot] = PostgresLane(transaction)
                self._topics.setdefault(topic.topic.id, []).append(self._lanes[slot])
            return self._lanes[slot]

    def metrics(self) -> Mapping[UUID | None, WriteMetrics]:
        """Return what was done for each topic, also for those that were dropped."""
        with self._lock:
            topics = {topic_id: tuple(lanes) for topic_id, lanes in self._topics.items()}
        return {
            topic_id: merged(lane.metrics() for lane in lanes) for topic_id, lanes in topics.items()
        }

    def close_topic(self, topic: PostgresTopic) -> None:
        """Finish what was accepted for a topic."""
        with self._lock:
            lanes = [self._lanes.pop(slot) for slot in topic.slots if slot in self._lanes]
        close_each(lane.close for lane in lanes)

    def close(self) -> None:
        """Finish what was accepted, and take no more."""
        with self._lock:
            self._is_closed = True
            lanes = tuple(self._lanes.values())
            self._lanes.clear()
        close_each(lane.close for lane in lanes)
