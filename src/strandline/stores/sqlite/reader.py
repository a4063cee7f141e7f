"""The half of a SQLite log that changes nothing."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from strandline.log.chain import Chain
from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.numbers import check_flag, check_span, check_timestamp
from strandline.log.results import TopicName
from strandline.log.terms import check_partition
from strandline.log.verifying import verify_each
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.partition_row import (
    TAIL_RECORDS,
    PartitionRow,
    load_epochs,
    load_partition,
    lost,
)
from strandline.stores.sqlite.proving import Proving
from strandline.stores.sqlite.record_batches import record_batches
from strandline.stores.sqlite.records import Records, Span, span
from strandline.stores.sqlite.topics import TopicEntry, Topics
from strandline.values import (
    Durability,
    Epoch,
    InvalidError,
    LogDescription,
    Marks,
    Mode,
    Offset,
    Partition,
    Position,
    ProofHead,
    ProofReport,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicDescription,
    check_position,
    checked_position,
    parse_tenant,
)

SCHEME = "sqlite"


class SqliteReader:
    """Implements LogReader but for `position` and `watch`, and what tells of topics."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._topics = Topics(database.path, database.clock)
        self._marks = DurableMarks(database)

    @property
    def id(self) -> UUID:
        return self._database.log_id

    @property
    def mode(self) -> Mode:
        return self._database.mode

    @property
    def durability_max(self) -> Durability:
        return Durability.DURABLE

    # --- topics ---

    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        whose = parse_tenant(tenant)
        with self._database.reading() as connection:
            return self._topics.find(connection, name, whose).topic

    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        whose = parse_tenant(tenant)
        check_flag("internal", internal)
        with self._database.reading() as connection:
            return self._topics.list(connection, whose, internal=internal)

    def tenants(self) -> Sequence[Tenant]:
        with self._database.reading() as connection:
            found = {entry.topic.tenant for entry in self._topics.all(connection)}
        return sorted(each for each in found if each is not None)

    def describe_topic(self, topic: TopicName) -> TopicDescription:
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry = self._topics.find(connection, topic)
            rows = [load_partition(connection, self._database.path, slot) for slot in entry.slots]
        kept = [row for row in rows if row is not None]
        return TopicDescription(
            entry.topic,
            entry.settings,
            entry.created_at_us,
            tuple(self._marks_of(row) for row in kept),
            sum(row.size_bytes for row in kept),
        )

    def describe(self) -> LogDescription:
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            topics = connection.execute("SELECT count(*) FROM strandline_topics").fetchone()[0]
            partitions, records = connection.execute(
                f"SELECT count(*), coalesce(sum(high + {TAIL_RECORDS} - low), 0)"  # noqa: S608
                " FROM strandline_partitions"
            ).fetchone()
            size_bytes = self._database.size_bytes()
        return LogDescription(
            log_id=self.id,
            backend=SCHEME,
            location=f"{SCHEME}:{self._database.path}",
            mode=self.mode,
            durability_max=self.durability_max,
            topics=topics,
            partitions=partitions,
            records=records,
            size_bytes=size_bytes,
        )

    # --- records ---

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        records_max: int | None = None,
        bytes_max: int | None = None,
        durable_only: bool = False,
    ) -> Iterator[Record]:
        _, records, found = self._span(
            topic, partition, (start, end, records_max, bytes_max), durable_only=durable_only
        )
        return records.records(found)

    def read_batches(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        records_max: int | None = None,
        bytes_max: int | None = None,
        durable_only: bool = False,
    ) -> RecordBatches:
        entry, records, found = self._span(
            topic, partition, (start, end, records_max, bytes_max), durable_only=durable_only
        )
        return record_batches(entry.settings.value_kind, records, found)

    def _span(
        self,
        topic: TopicName,
        partition: int,
        wanted: tuple[int, int | None, int | None, int | None],
        *,
        durable_only: bool,
    ) -> tuple[TopicEntry, Records, Span]:
        wanted = check_span(*wanted, durable_only=durable_only)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry, number, row = self._row(connection, topic, partition)
        marks = self._marks_of(row)
        limit = marks.durable if durable_only else marks.high
        found = span(row, wanted, limit)
        return entry, Records(self._database, entry, number), found

    def marks(self, topic: TopicName, partition: int) -> Marks:
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            return self._marks_of(self._row(connection, topic, partition)[2])

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        timestamp_us = check_timestamp(timestamp_us)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry, number, row = self._row(connection, topic, partition)
            return Records(self._database, entry, number).offset_at(connection, row, timestamp_us)

    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            slot = self._row(connection, topic, partition)[2].slot
            return load_epochs(connection, self._database.path, slot)

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry, number, row = self._row(connection, topic, partition)
            if row.first == row.high:
                return []
            first = Records(self._database, entry, number).entry(connection, row.first)
        return [
            Segment(
                Offset(row.first),
                Offset(row.high),
                row.size_bytes,
                first.timestamp_us,
                row.last_us,
                is_sealed=False,
                location=self._database.path,
            )
        ]

    def resolve(self, position: Position) -> Offset:
        self._database.check_open()
        position = checked_position(position)
        if position.log_id != self.id:
            raise InvalidError("this is a position in another log", log_id=position.log_id)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry = self._topics.find_id(connection, position.topic_id)
            if entry is None:
                raise InvalidError(
                    "this is a position in no topic of now", topic_id=position.topic_id
                )
            _, _, row = self._row(connection, entry.topic, position.partition)
            epochs = load_epochs(connection, self._database.path, row.slot)
        return check_position(position, epochs, self._marks_of(row))

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        with self._database.reading() as connection:
            entry = self._topics.find(connection, topic)
        history = partial(self.history, entry.topic)
        return verify_each(history, entry.settings.partitions, partition, expected)

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        begin, stop, *_ = check_span(start, end)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry, number, row = self._row(connection, topic, partition)
            records = Records(self._database, entry, number)
            proving = Proving(self._database, records, self._chain(entry, number))
            return proving.history(connection, row, begin, stop)

    # --- inside ---

    def _chain(self, entry: TopicEntry, partition: int) -> Chain:
        return Chain(self.id, entry.topic.id, partition, entry.settings.value_kind)

    def _row(
        self, connection: sqlite3.Connection, topic: TopicName, partition: int
    ) -> tuple[TopicEntry, Partition, PartitionRow]:
        entry = self._topics.find(connection, topic)
        number = check_partition(partition, entry.settings.partitions)
        row = load_partition(connection, self._database.path, entry.slot(number))
        if row is None:
            # The caller reads topic and partition in one transaction.
            raise lost(self._database.path, "partitions", entry.slot(number))
        return entry, number, row

    def _find(self, topic: TopicName, partition: int) -> tuple[TopicEntry, Partition]:
        with self._database.reading() as connection:
            entry = self._topics.find(connection, topic)
        return entry, check_partition(partition, entry.settings.partitions)

    def _marks_of(self, row: PartitionRow) -> Marks:
        return row.marks(self._marks.known(row.slot))
