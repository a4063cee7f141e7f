"""The lane of each partition: a write coordinator whose drains are transactions."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from copy import copy
from typing import Final
from uuid import UUID

import psycopg

from strandline.log.chain import Chain
from strandline.log.draft_columns import size_of
from strandline.log.open_state import closed_log
from strandline.log.record_lists import place
from strandline.log.store import AppendRequest, Placement, dropped
from strandline.log.stored_records import PlacedDrafts
from strandline.stores.closing import close_each
from strandline.stores.postgres.database import Connection, EndListener, PostgresDatabase
from strandline.stores.postgres.decided import Decided, LaneOutcome, NotStoredError
from strandline.stores.postgres.errors import is_undone, translate, translated
from strandline.stores.postgres.identities import PostgresIdentities
from strandline.stores.postgres.partition_head import (
    LOCK,
    LOCK_AT_ONCE,
    NO_PARTITION,
    STORE,
    PostgresPartition,
    follow_timeline,
)
from strandline.stores.postgres.sending import AppendStatements, is_copied, send_records
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
from strandline.writes import Channel, Coordinator, Settings, WriteMetrics
from strandline.writes.metrics import merged

_CHANNEL: Final = "appends"
_WRITTEN: Final = Durability.WRITTEN
_ROW_BYTES: Final = 64
#: After losing to another writer, this many appends lock the partition first.
_CAREFUL: Final = 16


class LaneHead:
    """The end of a partition within one transaction. Implements Head.

    `refusal` is the error that each append raises, if appending is impossible. Until the
    partition is locked, the end is that of this process's last append, and no transaction
    has begun.
    """

    def __init__(
        self,
        connection: Connection,
        database: PostgresDatabase,
        row: PostgresPartition,
        refusal: StrandlineError | None = None,
        *,
        is_locked: bool = True,
    ) -> None:
        self.connection = connection
        self.row = row
        self.refusal = refusal
        self.is_locked = is_locked
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
    """Implements Bracket and Flusher for one partition, and makes its deltas."""

    def __init__(
        self,
        database: PostgresDatabase,
        topic: PostgresTopic,
        partition: int,
        statements: AppendStatements,
        notify: EndListener,
    ) -> None:
        self.database = database
        self._statements = statements
        self.slot: Final = topic.slots[partition]
        self.topic: Final = topic.topic
        self.chain: Final = Chain(
            database.log_id, topic.topic.id, partition, topic.settings.value_kind
        )
        self._notify = notify
        self._head: LaneHead | None = None
        #: The partition after this process's last append; None if that may be outdated.
        self._last: PostgresPartition | None = None
        self._careful = 0

    # --- the bracket ---

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> LaneHead:
        """Return the end that this process knows, or lock the partition's row to read it."""
        if not may_wait:
            raise UnavailableError("this needs the server, and an event loop must not wait for it")
        connection = self.database.take(timeout_s)
        if (guess := self._guess()) is not None:
            self._head = LaneHead(connection, self.database, guess, is_locked=False)
            return self._head
        row, refusal = NO_PARTITION, None
        try:
            with translated(self.database.url):
                row = self._begin(connection, timeout_s)
        except (InvalidError, ConflictError) as error:
            # If `enter` raised these, the coordinator would end.
            refusal = error
        except BaseException:
            self._give_back(connection)
            raise
        self._head = LaneHead(connection, self.database, row, refusal)
        return self._head

    def _guess(self) -> PostgresPartition | None:
        """Return the end after the last append, unless a try would probably fail."""
        last, database = self._last, self.database
        if last is None or self._careful or database.is_pooled:
            return None
        return last.copied() if last.timeline == database.timeline else None

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
        if self._last is not None and self._last.high != row.high:
            self._careful = _CAREFUL
        elif self._careful:
            self._careful -= 1
        return row

    def lock(self, head: LaneHead) -> None:
        """Lock the partition after all, and read its end; nothing was stored before."""
        try:
            with translated(self.database.url):
                head.row = self._begin(head.connection, self.database.lock_timeout_s)
        except StrandlineError as error:
            raise NotStoredError(error) from error
        head.is_locked = True

    def leave(self) -> None:
        """Return the connection to the pool, rolling back whatever was not committed."""
        head, self._head = self._head, None
        if head is not None:
            self._give_back(head.connection)

    def _give_back(self, connection: Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.rollback()
        self.database.give_back(connection)

    # --- the flusher ---

    def flush(self, frozen: "LaneDelta", epochs: range) -> None:
        """Store everything and commit."""
        del epochs
        if not frozen.placed:
            return
        head, before, self._last = frozen.head, self._last, None
        others: bool | None = True
        if not head.is_locked:
            assert before is not None
            try:
                others = self._store_at_once(frozen, before)
                if others is None:
                    self._careful = _CAREFUL
                    self.lock(head)
                    frozen.decide_again()
            except NotStoredError as error:
                frozen.refuse(error.reason)
                return
        if head.is_locked:
            store_changes(self.database, frozen, commits=True)
        self._last = head.row
        self._notify(self.slot, head.row.high, others=others is not False)

    def _store_at_once(self, frozen: "LaneDelta", before: PostgresPartition) -> bool | None:
        """Store and commit with one statement; return whether sessions listen.

        None, with nothing stored, if the partition has another end.
        """
        head, placed = frozen.head, frozen.placed
        if is_copied(frozen.count, frozen.size()):
            return None
        try:
            return self._statements.move_and_insert(head.connection, before, head.row, placed)
        except psycopg.errors.SerializationFailure:
            return None
        except psycopg.Error as error:
            reason = translate(error, self.database.url)
            if is_undone(error):
                raise NotStoredError(reason) from error
            raise reason from error

    def sync(self) -> None:
        """A commit is as durable as the server can make it."""

    def new_delta(self, head: LaneHead) -> "LaneDelta":
        """Return a delta of this transaction."""
        return LaneDelta(self.database, self.chain, head, self.lock)


def store_changes(database: PostgresDatabase, changes: "LaneDelta", *, commits: bool) -> None:
    """Send records, identities and the partition's row, in a transaction that has it locked."""
    head, placed = changes.head, changes.placed
    copies = is_copied(changes.count, changes.size())
    if copies:
        # COPY is not possible inside a pipeline.
        send_records(head.connection, database, head.row.slot, placed, copies=True)
    with head.connection.pipeline():
        if not copies:
            send_records(head.connection, database, head.row.slot, placed, copies=False)
        if head.known is not None:
            head.known.store()
        head.connection.execute(database.sql(STORE), head.row.fields())
        if commits:
            head.connection.execute("COMMIT")


class LaneDelta:
    """Implements Delta: what one transaction will store, also after it is frozen."""

    __slots__ = ("_chain", "_database", "_decided", "_lock", "_size", "count", "head", "placed")

    def __init__(
        self,
        database: PostgresDatabase,
        chain: Chain,
        head: LaneHead,
        lock: Callable[[LaneHead], None] | None = None,
    ) -> None:
        self._database = database
        self._chain = chain
        self._lock = lock
        self.head: LaneHead = head
        self.placed: list[PlacedDrafts] = []
        self.count: int = 0
        self._size = 0
        self._decided: list[Decided] = []

    def apply(self, write: AppendRequest) -> Decided:
        head = self.head
        if head.refusal is not None:
            raise copy(head.refusal)
        is_plain = write.expected_offset is None and not write.has_identity
        if not head.is_locked and not is_plain:
            # This decision depends on the partition's history, so it needs the actual end.
            assert self._lock is not None
            try:
                self._lock(head)
            except NotStoredError as error:
                head.refusal = error.reason
                self.refuse(error.reason)
                self._clear()
                raise error.reason from error
            self.decide_again()
        decided = Decided(write, self._admit(write))
        self._decided.append(decided)
        return decided

    def _admit(self, write: AppendRequest) -> Placement:
        head, database, row = self.head, self._database, self.head.row
        with translated(database.url):
            placement, placed = place(head, write, database.clock.now_us(), self._chain, row.value)
        if count := len(placed.drafts):
            grown = size_of(placed.drafts)
            self.placed.append(placed)
            self.count += count
            self._size += grown + _ROW_BYTES * count
            row.size_bytes += grown
            row.value = None if placed.values is None else placed.values[-1]
            row.high += count
            row.last_us = placement.timestamp_us
        return placement

    def _clear(self) -> None:
        self.placed.clear()
        self.count = self._size = 0

    def decide_again(self) -> None:
        """Decide again on the actual end, in the same order."""
        self._clear()
        for each in self._decided:
            each.placement = self._admit(each.request)

    def refuse(self, error: StrandlineError) -> None:
        """Fail every write that is queued or decided: nothing of them was stored."""
        for each in self._decided:
            each.refuse(error)

    def size(self) -> int:
        return self._size

    def freeze(self) -> tuple["LaneDelta", LaneHead]:
        return self, self.head

    def reader(self) -> None:
        return None


class PostgresLane:
    """The write path of one partition. Any thread may use it.

    A failed flush ends its coordinator, and the outcome of its writes is unknown; the next
    write starts a new one.
    """

    def __init__(self, transaction: PartitionTransaction) -> None:
        self._transaction = transaction
        #: The durability of a commit on this server.
        self._level = transaction.database.capabilities.durability_max
        self._lock = threading.Lock()
        self._is_closed = False
        #: The metrics of coordinators that have failed.
        self._past: WriteMetrics | None = None
        self._begin()

    def _begin(self) -> None:
        transaction = self._transaction
        database = transaction.database
        self._coordinator: Coordinator[AppendRequest, Decided, LaneDelta, None, None, LaneHead] = (
            Coordinator(
                Settings(bracket_timeout_s=database.lock_timeout_s),
                [_CHANNEL],
                context=_NoHead(),  # type: ignore[arg-type] # Each drain passes its own.
                snapshot=None,
                delta=transaction.new_delta,
                flusher=transaction,
                bracket=transaction,
                gathers=True,
                clock=database.clock,
            )
        )
        self._coordinator.start()
        self._channel: Channel[AppendRequest, Decided] = self._coordinator.channel(_CHANNEL)

    def append(
        self, request: AppendRequest, timeout_s: float | None, *, may_wait: bool
    ) -> LaneOutcome:
        """Append; see Store.append. The commit reaches every level."""
        channel = self._channel
        try:
            return self._append(request, timeout_s, may_wait=may_wait)
        except UnknownError:
            raise
        except FailedError:
            # Not stored, because an earlier flush failed.
            self._renew(channel)
        return self._append(request, timeout_s, may_wait=may_wait)

    def _append(
        self, request: AppendRequest, timeout_s: float | None, *, may_wait: bool
    ) -> LaneOutcome:
        if not may_wait:
            return LaneOutcome(self._channel.hand_over(request, timeout_s), self._level)
        outcome = LaneOutcome(self._channel.write(request, _WRITTEN, timeout_s), self._level)
        # An append that could not be stored was refused after the coordinator accepted it.
        outcome.result()
        return outcome

    def close(self) -> None:
        """Finish accepted appends, and take no more."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _renew(self, failed: Channel[AppendRequest, Decided]) -> None:
        with self._lock:
            if self._is_closed:
                raise closed_log()
            if self._channel is failed:
                self._end()
                self._past = self.metrics()
                self._begin()

    def metrics(self) -> WriteMetrics:
        """Return the metrics since the lane was made."""
        present = self._coordinator.metrics()
        return present if self._past is None else self._past + present

    def _end(self) -> None:
        # Every write that was part of a failure has received the error.
        with contextlib.suppress(FailedError, UnavailableError):
            self._coordinator.stop(durable=False)


class _NoHead:
    """The context before the first drain."""


class PostgresLanes:
    """The lanes of a log, each made when first needed."""

    def __init__(self, database: PostgresDatabase, notify: EndListener) -> None:
        self._database = database
        self._statements = AppendStatements(database)
        self._notify = notify
        self._lock = threading.Lock()
        self._lanes: dict[int, PostgresLane] = {}
        self._topics: dict[UUID, list[PostgresLane]] = {}
        self._is_closed = False

    def lane(self, topic: PostgresTopic, partition: int) -> PostgresLane:
        """Return the lane of a partition."""
        slot = topic.slots[partition]
        found = self._lanes.get(slot)
        if found is not None:
            return found
        with self._lock:
            if self._is_closed:
                raise closed_log()
            if slot not in self._lanes:
                transaction = PartitionTransaction(
                    self._database, topic, partition, self._statements, self._notify
                )
                self._lanes[slot] = PostgresLane(transaction)
                self._topics.setdefault(topic.topic.id, []).append(self._lanes[slot])
            return self._lanes[slot]

    def metrics(self) -> Mapping[UUID | None, WriteMetrics]:
        """Return the metrics of each topic, also of dropped ones."""
        with self._lock:
            topics = {topic_id: tuple(lanes) for topic_id, lanes in self._topics.items()}
        return {
            topic_id: merged(lane.metrics() for lane in lanes) for topic_id, lanes in topics.items()
        }

    def close_topic(self, topic: PostgresTopic) -> None:
        """Finish a topic's accepted appends."""
        with self._lock:
            lanes = [self._lanes.pop(slot) for slot in topic.slots if slot in self._lanes]
        close_each(lane.close for lane in lanes)

    def close(self) -> None:
        """Finish all accepted appends, and take no more."""
        with self._lock:
            self._is_closed = True
            lanes = tuple(self._lanes.values())
            self._lanes.clear()
        close_each(lane.close for lane in lanes)
