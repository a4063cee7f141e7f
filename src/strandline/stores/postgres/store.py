"""A log's bytes in a PostgreSQL database. See design 0090."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.log.chain import Chain
from strandline.log.columns import RecordBatches
from strandline.log.history import History, Piece
from strandline.log.holders import LogHolder
from strandline.log.identities import IdentityState
from strandline.log.metrics import StoreMetrics
from strandline.log.moved import add_identities, check_unused
from strandline.log.ranges import ReadRange, ReadSpan, check_range
from strandline.log.record_batches import record_batches
from strandline.log.selecting_store import RecordBound
from strandline.log.store import (
    AppendRequest,
    Outcome,
    PartitionState,
    Trimmed,
    dropped,
)
from strandline.stores.closing import close_each
from strandline.stores.postgres.claims import PostgresClaims
from strandline.stores.postgres.database import (
    Connection,
    PostgresDatabase,
    lock_number,
)
from strandline.stores.postgres.identities import PostgresIdentities, recognised
from strandline.stores.postgres.lane import PostgresLanes
from strandline.stores.postgres.outbox import PostgresOutbox
from strandline.stores.postgres.partition_head import (
    STORE,
    PostgresPartition,
    load_epochs,
    load_partition,
    lock_partition,
)
from strandline.stores.postgres.records import PostgresRecords, SeenEnds
from strandline.stores.postgres.removing import RecordRemoval
from strandline.stores.postgres.selecting import first_meeting
from strandline.stores.postgres.sessions import sessions
from strandline.stores.postgres.topics import PostgresTopic, PostgresTopics
from strandline.stores.postgres.watching import PostgresWatches
from strandline.values import (
    Durability,
    Marks,
    Mode,
    Offset,
    Partition,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicSettings,
)
from strandline.values.arguments import check_seconds


class PostgresStore:
    """Implements Store. A child of a fork cannot use it.

    `mode="write"` creates the schema and its tables; the other modes need an existing log.
    """

    def __init__(
        self,
        url: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        schema: str | None = None,
        lock_timeout_s: float = 10.0,
        connect_timeout_s: float = 10.0,
    ) -> None:
        self._database = database = PostgresDatabase(
            url,
            schema=schema,
            mode=Mode.parse(mode),
            clock=clock if clock is not None else SystemClock(),
            lock_timeout_s=check_seconds("lock_timeout_s", lock_timeout_s, allows_zero=False),
            connect_timeout_s=check_seconds(
                "connect_timeout_s", connect_timeout_s, allows_zero=False
            ),
        )
        self.id: Final = database.log_id
        self.mode: Final = database.mode
        self.url: Final = database.url
        self.capabilities: Final = database.capabilities
        self.check_open: Final = database.state.check
        self._topics = PostgresTopics(database)
        self._watches = PostgresWatches(database)
        self.watch: Final = self._watches.open
        #: Topics as of their last lookup.
        self._known: dict[UUID, PostgresTopic] = {}
        self._lanes = PostgresLanes(database, self._watches.notify_written)
        self._outbox = PostgresOutbox(database, self._watches.notify_written)
        self.transaction: Final = self._outbox.transaction
        self._claims = PostgresClaims(database)
        self.claim: Final = self._claims.take
        self._removal = RecordRemoval(database)
        self._is_durable = self.capabilities.durability_max is Durability.DURABLE

    # --- topics ---

    def topics(self) -> Sequence[PostgresTopic]:
        with self._database.connection() as connection:
            return self._topics.all(connection)

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> PostgresTopic | None:
        del fresh
        # A block has a session already, and a pooler may not have a second one.
        with self._outbox.joined() or self._database.connection() as connection:
            found = self._topics.find(connection, tenant, name)
        if found is not None:
            self._known[found.topic.id] = found
        return found

    def remembered(self, topic: Topic) -> PostgresTopic | None:
        """Return the cached topic, which may have been dropped."""
        return self._known.get(topic.id)

    def find_topic_id(self, topic_id: UUID) -> PostgresTopic | None:
        with self._database.connection() as connection:
            return self._topics.find_id(connection, topic_id)

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> PostgresTopic:
        with self._changing_topics() as connection:
            return self._topics.create(connection, name, tenant, settings)

    def change_settings(
        self, topic: PostgresTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        with self._changing_topics() as connection:
            present = self._topics.find_id(connection, topic.topic.id)
            if present is None:
                raise dropped(topic.topic)
            return self._topics.store_settings(
                connection, present, change(present.settings)
            ).settings

    def drop_topic(self, topic: PostgresTopic) -> None:
        with self._changing_topics() as connection:
            self._topics.drop(connection, topic)
        self._known.pop(topic.topic.id, None)
        self._lanes.close_topic(topic)
        self._watches.notify_slots_dropped(topic.slots)

    @contextlib.contextmanager
    def _changing_topics(self) -> Iterator[Connection]:
        """Begin a transaction; one process at a time changes topics."""
        self._outbox.check_outside()
        with self._database.transaction() as connection:
            number = lock_number("topics", self._database.schema)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
            yield connection

    # --- records ---

    def append(
        self,
        topic: PostgresTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> Outcome:
        del level
        block = self._outbox.own_block()
        if block is not None:
            return self._outbox.join(block, topic, partition, request)
        lane = self._lanes.lane(topic, partition)
        return lane.append(request, timeout_s, may_wait=may_wait)

    def marks(self, topic: PostgresTopic, partition: int) -> Marks:
        with self._database.connection() as connection:
            return self._marks_of(self._row(connection, topic, partition))

    def state(self, topic: PostgresTopic, partition: int) -> PartitionState:
        with self._database.snapshot() as connection:
            row = self._row(connection, topic, partition)
            epochs = load_epochs(connection, self._database, row.slot)
        return PartitionState(self._marks_of(row), Offset(row.first), epochs)

    def read(self, topic: PostgresTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        if wanted.records_max is None:
            records, span = self._span(topic, partition, wanted)
            return records.records(span)
        # Few enough to be read together with the ends.
        records = PostgresRecords(self._database, topic, partition)
        most = wanted.start + wanted.records_max
        seen, page = records.begin(
            wanted.start, most if wanted.end is None else min(most, wanted.end)
        )
        stop = self._stop(topic, partition, wanted, seen)
        return records.records(ReadSpan(wanted.start, stop, wanted.bytes_max), page)

    def _stop(
        self,
        topic: PostgresTopic,
        partition: int,
        wanted: ReadRange,
        seen: SeenEnds | PostgresPartition,
    ) -> int:
        durable = seen.high if self._is_durable else seen.low
        marks = Marks(Offset(seen.low), Offset(seen.high), Offset(durable))
        return check_range(wanted, marks, seen.first, topic.topic, partition)

    def first_meeting(
        self, topic: PostgresTopic, partition: int, start: int, bounds: Sequence[RecordBound]
    ) -> int:
        with self._database.connection() as connection:
            row = self._row(connection, topic, partition)
            if not row.first <= start < row.high:
                return start
            return first_meeting(self._database, connection, row, start, bounds)

    def read_batches(
        self, topic: PostgresTopic, partition: int, wanted: ReadRange
    ) -> RecordBatches:
        records, span = self._span(topic, partition, wanted)
        kind = topic.settings.value_kind
        return record_batches(kind, Partition(partition), lambda: records.pages(span))

    def _span(
        self, topic: PostgresTopic, partition: int, wanted: ReadRange
    ) -> tuple[PostgresRecords, ReadSpan]:
        with self._database.connection() as connection:
            row = self._row(connection, topic, partition)
        stop = self._stop(topic, partition, wanted, row)
        return PostgresRecords(self._database, topic, partition), ReadSpan(
            wanted.start, stop, wanted.bytes_max
        )

    def history(self, topic: PostgresTopic, partition: int, start: int, end: int | None) -> History:
        records = PostgresRecords(self._database, topic, partition)
        settings = topic.settings
        chain = Chain(self.id, topic.topic.id, partition, settings.value_kind)
        with self._database.snapshot() as connection:
            row = self._row(connection, topic, partition)
            low = max(start, row.first)
            high = max(low, row.high if end is None else min(end, row.high))
            anchor = row.anchor
            if settings.proof and low > row.first:
                anchor = records.first(connection, low - 1).value
        pieces = (
            Piece([each], each.value)
            for page in records.pages(ReadSpan(low, high))
            for each in page
        )
        return History(Partition(partition), low, high, chain, anchor, settings.proof, pieces)

    def segments(self, topic: PostgresTopic, partition: int) -> Sequence[Segment]:
        with self._database.snapshot() as connection:
            row = self._row(connection, topic, partition)
            if row.first == row.high:
                return []
            records = PostgresRecords(self._database, topic, partition)
            oldest_us = records.first(connection, row.first).timestamp_us
        run = Offset(row.first), Offset(row.high), row.size_bytes, oldest_us, row.last_us
        return [Segment(*run, is_sealed=False, location=None)]

    def trim(self, topic: PostgresTopic, partition: int, low: int) -> Trimmed:
        self._outbox.check_outside()
        with self._database.transaction() as connection:
            row = self._locked(connection, topic, partition)
            if low > row.low:
                row.low = low
                self._release(connection, topic, partition, row, max(low, row.first))
        self._removal.remove(row.slot, row.first)
        return Trimmed(self._marks_of(row), is_released=True)

    def evict(self, topic: PostgresTopic, partition: int, before: int) -> Offset:
        self._outbox.check_outside()
        with self._database.transaction() as connection:
            row = self._locked(connection, topic, partition)
            if before > row.first:
                self._release(connection, topic, partition, row, before)
        self._removal.remove(row.slot, row.first)
        return Offset(row.first)

    def _release(
        self,
        connection: Connection,
        topic: PostgresTopic,
        partition: int,
        row: PostgresPartition,
        first: int,
    ) -> None:
        """Raise the oldest stored offset, in the caller's transaction; rows are removed later."""
        gone = connection.execute(
            self._database.sql(
                "SELECT coalesce(sum(size_bytes), 0) FROM {schema}.records"
                " WHERE slot = %s AND place >= %s AND place < %s"
            ),
            (row.slot, row.first, first),
        ).fetchone()
        assert gone is not None
        row.size_bytes -= int(gone[0])
        if topic.settings.proof and first > row.first:
            records = PostgresRecords(self._database, topic, partition)
            row.anchor = records.first(connection, first - 1).value
        row.first = first
        connection.execute(self._database.sql(STORE), row.fields())

    def sync(self, topic: PostgresTopic, partition: int) -> None:
        """A commit is as durable as the server can make it."""

    def flush(self) -> None:
        """A commit is as durable as the server can make it."""

    def identities(self, topic: PostgresTopic, partition: int) -> IdentityState:
        with self._database.snapshot() as connection:
            return recognised(connection, self._database, topic.slots[partition])

    def begin_at(
        self,
        topic: PostgresTopic,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        with self._database.transaction() as connection:
            row = self._locked(connection, topic, partition)
            check_unused(row.high)
            row.low = row.first = row.high = start
            row.anchor = row.value = anchor
            index = PostgresIdentities(connection, self._database, row)
            add_identities(index, identities)
            index.store()
            connection.execute(self._database.sql(STORE), row.fields())

    # --- keys ---

    def keys(self, topic: PostgresTopic) -> Mapping[str, bytes]:
        with self._database.connection() as connection:
            rows = connection.execute(
                self._database.sql("SELECT key, value FROM {schema}.keyed WHERE topic_id = %s"),
                (topic.topic.id,),
            )
            return dict(rows.fetchall())

    def get_key(self, topic: PostgresTopic, key: str) -> bytes | None:
        with self._database.connection() as connection:
            row = connection.execute(
                self._database.sql(
                    "SELECT value FROM {schema}.keyed WHERE topic_id = %s AND key = %s"
                ),
                (topic.topic.id, key),
            ).fetchone()
        return None if row is None else row[0]

    def put_key(self, topic: PostgresTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        self._outbox.check_outside()
        topic_id = topic.topic.id
        if expected is not None:
            changed = self._database.change(
                "UPDATE {schema}.keyed SET value = %s"
                " WHERE topic_id = %s AND key = %s AND value = %s",
                (value, topic_id, key, expected),
            )
        else:
            changed = self._database.change(
                "INSERT INTO {schema}.keyed SELECT id, %s, %s FROM {schema}.topics"
                " WHERE id = %s ON CONFLICT DO NOTHING",
                (key, value, topic_id),
            )
        if not changed:
            # A dropped topic raises, and is no conflict with another change.
            self.marks(topic, 0)
        return changed == 1

    def remove_key(self, topic: PostgresTopic, key: str) -> bool:
        self._outbox.check_outside()
        removed = self._database.change(
            "DELETE FROM {schema}.keyed WHERE topic_id = %s AND key = %s", (topic.topic.id, key)
        )
        return removed == 1

    # --- the whole ---

    def writers(self) -> Sequence[LogHolder]:
        """Return the processes that have sessions with this log."""
        with self._database.connection() as connection:
            return sessions(connection, self._database.schema)

    def beside(self, name: str) -> str | None:
        del name
        return None

    def size_bytes(self) -> int:
        with self._database.connection() as connection:
            row = connection.execute(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %s AND c.relkind = 'r'",
                (self._database.schema,),
            ).fetchone()
        assert row is not None
        return int(row[0])

    def metrics(self) -> StoreMetrics:
        return self._watches.metrics()._replace(writes=self._lanes.metrics())

    def close(self) -> None:
        if self._database.state.is_inherited:
            return
        close_each(
            (self._database.close, self._claims.close, self._watches.close, self._lanes.close)
        )

    # --- inside ---

    def _row(
        self, connection: Connection, topic: PostgresTopic, partition: int
    ) -> PostgresPartition:
        row = load_partition(connection, self._database, topic.slots[partition])
        if row is None:
            raise dropped(topic.topic)
        return row

    def _locked(
        self, connection: Connection, topic: PostgresTopic, partition: int
    ) -> PostgresPartition:
        row = lock_partition(connection, self._database, topic.slots[partition])
        if row is None:
            raise dropped(topic.topic)
        return row

    def _marks_of(self, row: PostgresPartition) -> Marks:
        return row.marks(is_durable=self._is_durable)
