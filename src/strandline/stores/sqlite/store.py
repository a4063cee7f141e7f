"""A log's bytes in one SQLite file. See design 0020."""

import contextlib
import functools
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Concatenate, Final, ParamSpec, TypeVar
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo, real_parent
from strandline.log.chain import Chain
from strandline.log.claims import ConsumerPlace
from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.holders import LogHolder
from strandline.log.identities import IdentityState
from strandline.log.metrics import StoreMetrics
from strandline.log.moved import add_identities, check_unused
from strandline.log.ranges import ReadRange, check_range
from strandline.log.record_batches import record_batches
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    Erased,
    Outcome,
    PartitionState,
    Reach,
    Trimmed,
    dropped,
)
from strandline.log.topics import is_internal_name
from strandline.stores.claim_locks import LockClaim, LockClaims
from strandline.stores.closing import close_each
from strandline.stores.file_errors import unavailable
from strandline.stores.sqlite.appends import SlotHead, SqliteAppend
from strandline.stores.sqlite.chain_values import store_values, value_row
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.erasing import Erasing
from strandline.stores.sqlite.event_appends import EventAppends
from strandline.stores.sqlite.identities import SqliteIdentities, recognised
from strandline.stores.sqlite.keyed import all_keys, get_key, name_key, put_key, remove_key
from strandline.stores.sqlite.partition_row import (
    PartitionRow,
    load_epochs,
    load_partition,
    lost,
    store_partitions,
)
from strandline.stores.sqlite.proving import Proving
from strandline.stores.sqlite.records import Records, RowSpan
from strandline.stores.sqlite.schema import BUSY_S, translated
from strandline.stores.sqlite.topics import SqliteTopic, SqliteTopics
from strandline.stores.sqlite.trimming import Trimming
from strandline.stores.sqlite.watching import SqliteWatches
from strandline.stores.sqlite.writer import Writer
from strandline.values import (
    Durability,
    FailedError,
    FullError,
    Marks,
    Mode,
    Offset,
    Partition,
    Record,
    Segment,
    Tenant,
    TopicSettings,
    UnavailableError,
)
from strandline.values.arguments import check_lock_timeout

P = ParamSpec("P")
R = TypeVar("R")


def _on_full_disk(
    call: Callable[Concatenate["SqliteStore", P], R],
) -> Callable[Concatenate["SqliteStore", P], R]:
    """Repeat a method that failed on a full disk and changed nothing, using the reserve."""

    @functools.wraps(call)
    def repeated(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._database.reserve.spend(lambda: call(self, *args, **kwargs))

    return repeated


class SqliteStore:
    """Implements Store. A child of a fork cannot use it.

    `mode="write"` creates the database, or the log's tables in an existing database; the
    other modes need an existing log.
    """

    capabilities: Capabilities = Capabilities(
        Durability.DURABLE,
        "the write-ahead log is synced before an append is called durable",
        Reach.MACHINE,
        has_erasure=True,
        has_metrics=True,
        has_transactions=True,
        moves=True,
    )

    def __init__(
        self,
        path: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        io: Io | None = None,
        lock_timeout_s: float = 10.0,
        access: str | None = None,
    ) -> None:
        self._database = database = Database(
            real_parent(path),
            Mode.parse(mode),
            io if io is not None else SystemIo(),
            clock if clock is not None else SystemClock(),
            check_lock_timeout(lock_timeout_s),
            access=access,
        )
        self.id: Final = database.log_id
        self.mode: Final = database.mode
        self.url: Final = f"sqlite:{database.path}"
        self.check_open: Final = database.check_open
        self._topics = SqliteTopics(database.path, database.clock)
        self._marks = DurableMarks(database)
        self._trimming = Trimming(database)
        self._watches = SqliteWatches(database, self._marks)
        self.watch: Final = self._watches.open
        self._claims = LockClaims(database.io)
        self._writer = (
            None
            if self.mode is Mode.READ
            else Writer(database, self._marks, self._watches.notify_written)
        )

    # --- topics ---

    def topics(self) -> Sequence[SqliteTopic]:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            return self._topics.all(connection)

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> SqliteTopic | None:
        del fresh
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            return self._topics.find(connection, tenant, name)

    def find_topic_id(self, topic_id: UUID) -> SqliteTopic | None:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            return self._topics.find_id(connection, topic_id)

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> SqliteTopic:
        if is_internal_name(name):
            reserve = self._database.reserve
            return reserve.spend(lambda: self._create_topic(name, tenant, settings))
        with translated(self._database.path):
            self._database.reserve.replenish()
        return self._create_topic(name, tenant, settings)

    def _create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> SqliteTopic:
        self._writing.check()
        with self._database.locked(), self._database.changing() as connection:
            entry = self._topics.create(connection, name, tenant, settings)
        self._writing.sync()
        return entry

    def change_settings(
        self, topic: SqliteTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        with self._database.locked(), self._database.changing() as connection:
            present = self._topics.find(connection, topic.topic.tenant, topic.topic.name)
            if present is None or present.topic.id != topic.topic.id:
                raise dropped(topic.topic)
            settings = change(present.settings)
            self._topics.change_settings(connection, present, settings)
            return settings

    @_on_full_disk
    def drop_topic(self, topic: SqliteTopic) -> None:
        with self._database.locked(), self._database.changing() as connection:
            self._topics.drop(connection, topic)
        self._watches.notify_slots_dropped(topic.slots)
        if self._database.reserve.is_scarce():
            # The write-ahead log still holds what was removed.
            self._try_empty_wal()

    # --- records ---

    def append(
        self,
        topic: SqliteTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> Outcome:
        write = SqliteAppend(topic, partition, request)
        try:
            return self._writing.append(write, level, timeout_s, may_wait=may_wait)
        except FullError:
            if not is_internal_name(topic.topic.name) or not self._database.reserve.release():
                raise
            # What consumers store about themselves.
            return self.append(topic, partition, request, level, timeout_s, may_wait=may_wait)

    def shortcut(self, topic: SqliteTopic, partition: int) -> EventAppends | None:
        """Return the fast path for events of a partition, if it has one. See Shortcut."""
        if self._writer is None or topic.is_proved or is_internal_name(topic.topic.name):
            return None
        return self._writer.shortcut(topic, partition)

    def marks(self, topic: SqliteTopic, partition: int) -> Marks:
        with self._database.reading() as connection, self._database.translating():
            return self._marks_of(self._row(connection, topic, partition))

    def state(self, topic: SqliteTopic, partition: int) -> PartitionState:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            row = self._row(connection, topic, partition)
            epochs = load_epochs(connection, self._database.path, row.slot)
        return PartitionState(self._marks_of(row), Offset(row.first), epochs)

    def read(self, topic: SqliteTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        records, span = self._span(topic, partition, wanted)
        return records.records(span)

    def read_batches(self, topic: SqliteTopic, partition: int, wanted: ReadRange) -> RecordBatches:
        records, span = self._span(topic, partition, wanted)
        kind = topic.settings.value_kind
        return record_batches(kind, Partition(partition), lambda: records.pages(span))

    def _span(
        self, topic: SqliteTopic, partition: int, wanted: ReadRange
    ) -> tuple[Records, RowSpan]:
        with self._database.reading() as connection, self._database.translating():
            row = self._row(connection, topic, partition)
        stop = check_range(wanted, self._marks_of(row), row.first, topic.topic, partition)
        records = Records(self._database, topic, partition)
        return records, RowSpan(wanted.start, stop, wanted.bytes_max)

    def history(self, topic: SqliteTopic, partition: int, start: int, end: int | None) -> History:
        records = Records(self._database, topic, partition)
        chain = Chain(self.id, topic.topic.id, partition, topic.settings.value_kind)
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            row = self._row(connection, topic, partition)
            return Proving(self._database, records, chain).history(connection, row, start, end)

    def segments(self, topic: SqliteTopic, partition: int) -> Sequence[Segment]:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            row = self._row(connection, topic, partition)
            if row.first == row.high:
                return []
            first = Records(self._database, topic, partition).entry(connection, row.first)
        return [
            Segment(
                *(Offset(row.first), Offset(row.high), row.size_bytes),
                *(first.timestamp_us, row.last_us),
                is_sealed=False,
                location=self._database.path,
            )
        ]

    @_on_full_disk
    def trim(self, topic: SqliteTopic, partition: int, low: int) -> Trimmed:
        records = Records(self._database, topic, partition)
        with self._database.locked(), self._database.changing() as connection:
            row = self._row(connection, topic, partition)
            self._trimming.trim(connection, records, row, low)
        self._trimming.remove(records, row.low)
        # Our own topics are trimmed often, a little at a time.
        is_released = not is_internal_name(topic.topic.name) and self._try_empty_wal()
        return Trimmed(self._marks_of(row), is_released)

    def _try_empty_wal(self) -> bool:
        """Empty the write-ahead log, which still holds what was removed; return whether it is."""
        try:
            return self._database.reserve.spend(lambda: self._empty_wal(busy_timeout_s=0.0))
        except (UnavailableError, FailedError):
            # What was removed stays removed, also where the writer has failed.
            return False

    def _empty_wal(self, busy_timeout_s: float) -> bool:
        """Move everything into the database, durably; False if readers were in the way."""
        database = self._database
        with translated(database.path), database.locked():
            ends = self._marks.note_ends()
        self._marks.expect(ends.items())
        self._writing.sync()
        self._marks.note(database.lock_timeout_s)
        with translated(database.path), database.locked():
            return database.checkpoint("TRUNCATE", busy_timeout_s)

    def erase(self, topic: SqliteTopic, partition: int, key: str, *, dry_run: bool) -> Erased:
        kind = topic.settings.value_kind
        records = Records(self._database, topic, partition)
        chain = Chain(self.id, topic.topic.id, partition, kind)
        erasing = Erasing(self._database, records, chain, kind)
        if dry_run:
            return Erased(erasing.count(key))
        erased = erasing.erase(key)
        # Also if nothing was left to erase: a crash may have prevented it earlier.
        return Erased(erased, self._empty_wal(BUSY_S))

    @_on_full_disk
    def evict(self, topic: SqliteTopic, partition: int, before: int) -> Offset:
        records = Records(self._database, topic, partition)
        with self._database.locked(), self._database.changing() as connection:
            row = self._row(connection, topic, partition)
            self._trimming.evict(connection, records, row, before)
        self._trimming.remove(records, row.first)
        return Offset(row.first)

    def sync(self, topic: SqliteTopic, partition: int) -> None:
        if self._writer is None:
            # A sync changes no byte. The mark stays unchanged.
            with translated(self._database.path):
                self._database.sync()
            return
        with self._database.reading() as connection, self._database.translating():
            row = self._row(connection, topic, partition)
        self._marks.expect([(row.slot, row.high)])
        self._writer.sync()
        self._marks.note(self._database.lock_timeout_s)

    def flush(self) -> None:
        self._empty_wal(BUSY_S)

    def identities(self, topic: SqliteTopic, partition: int) -> IdentityState:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            return recognised(connection, topic.slot(partition))

    def begin_at(
        self,
        topic: SqliteTopic,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        with self._database.locked(), self._database.changing() as connection:
            row = self._row(connection, topic, partition)
            check_unused(row.high)
            row.low = row.high = row.durable = row.noted = start
            index = SqliteIdentities(self._database)
            add_identities(SlotHead(row, lambda: index), identities)
            index.store({row.slot: row})
            if anchor is not None:
                store_values(connection, [value_row(row.slot, start - 1, anchor)])
            store_partitions(connection, [row])

    # --- keys ---

    def keys(self, topic: SqliteTopic) -> Mapping[str, bytes]:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            return all_keys(connection, self._database.path, topic)

    def get_key(self, topic: SqliteTopic, key: str) -> bytes | None:
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            return get_key(connection, self._database.path, topic, key)

    @_on_full_disk
    def put_key(self, topic: SqliteTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        path = self._database.path
        self._writing.check()
        with self._database.locked(), self._database.changing() as connection:
            self._row(connection, topic, 0)
            if get_key(connection, path, topic, key) != expected:
                return False
            put_key(connection, topic, key, value)
            if expected is None:
                name_key(connection, topic, key)
        self._writing.sync()
        return True

    @_on_full_disk
    def remove_key(self, topic: SqliteTopic, key: str) -> bool:
        self._writing.check()
        with self._database.locked(), self._database.changing() as connection:
            is_removed = remove_key(connection, topic, key)
        self._writing.sync()
        return is_removed

    # --- the whole ---

    @_on_full_disk
    def claim(self, place: ConsumerPlace) -> LockClaim:
        io, directory = self._database.io, f"{self._database.path}-strandline.claims"
        try:
            with contextlib.suppress(FileExistsError):
                io.mkdir(directory)
            return self._claims.take(os.path.join(directory, place.file_name()), place)
        except OSError as error:
            raise unavailable(error, directory) from error

    def metrics(self) -> StoreMetrics:
        watches = self._watches.metrics()
        if self._writer is None:
            return watches
        return watches._replace(writes={None: self._writer.metrics()})

    def writers(self) -> Sequence[LogHolder]:
        """Return the process that holds the lock of the whole log, or held it last."""
        with translated(self._database.path):
            holder = self._database.lock.last_writer()
        return [] if holder is None else [holder]

    def beside(self, name: str) -> str:
        return f"{self._database.path}-{name}"

    def size_bytes(self) -> int:
        return self._database.size_bytes()

    def transaction(
        self, connection: sqlite3.Connection | None
    ) -> AbstractContextManager[sqlite3.Connection]:
        return self._writing.transaction(connection)

    def close(self) -> None:
        if self._database.state.is_inherited:
            return
        if self._writer is not None:
            self._writer.check_no_block()
        writers = () if self._writer is None else (self._writer.close,)
        close_each((self._database.close, self._claims.close, self._watches.close, *writers))

    # --- inside ---

    @property
    def _writing(self) -> Writer:
        assert self._writer is not None, "the log checks the mode"
        return self._writer

    def _row(
        self, connection: sqlite3.Connection, topic: SqliteTopic, partition: int
    ) -> PartitionRow:
        row = load_partition(connection, self._database.path, topic.slot(partition))
        if row is None:
            raise self._lost(connection, topic, partition)
        return row

    def _lost(
        self, connection: sqlite3.Connection, topic: SqliteTopic, partition: int
    ) -> Exception:
        """Return why a partition has no row: its topic was dropped, or the row is lost."""
        present = self._topics.find(connection, topic.topic.tenant, topic.topic.name)
        if present is None or present.topic.id != topic.topic.id:
            return dropped(topic.topic)
        return lost(self._database.path, "partitions", topic.slot(partition))

    def _marks_of(self, row: PartitionRow) -> Marks:
        return row.marks(self._marks.known(row.slot))
