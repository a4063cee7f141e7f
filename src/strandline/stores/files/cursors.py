"""Named cursors: a file for each consumer of a topic, replaced whole."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from uuid import UUID

import msgspec

from strandline.stores.files import checked
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.root import Root, locked
from strandline.stores.files.topics import CURSORS, TopicEntry
from strandline.values import (
    CONSUMER_SILENCE_S,
    ConsumerLag,
    CorruptError,
    DivergedError,
    InvalidError,
    Offset,
    Partition,
    Position,
    Tenant,
    TrimmedError,
    check_position,
    epoch_before,
)

KIND = "cursors"
SUFFIX = ".cursors"
_LOCK = "lock"
_SILENCE_US = CONSUMER_SILENCE_S * 1_000_000


class Cursor(msgspec.Struct, frozen=True):
    """One consumer's place in one partition."""

    partition: int
    offset: int
    seen_at_us: int
    epoch: int
    epoch_id: UUID


class StoredConsumer(msgspec.Struct, frozen=True):
    """One consumer's places in a topic."""

    topic_id: UUID
    tenant: str | None
    name: str
    cursors: tuple[Cursor, ...]

    def cursor(self, partition: int) -> Cursor | None:
        """Return the place in a partition."""
        return next((each for each in self.cursors if each.partition == partition), None)


class Cursors:
    """Finds and moves the cursors of any topic. Any thread may use it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._io = root.io

    @contextlib.contextmanager
    def changing(self, entry: TopicEntry) -> Iterator[None]:
        """Hold the lock under which a topic's cursors change."""
        path = os.path.join(entry.directory, CURSORS, _LOCK)
        with locked(self._io, self._root.clock, path, self._root.lock_timeout_s):
            yield

    def find(self, entry: TopicEntry, tenant: Tenant | None, name: str) -> StoredConsumer | None:
        """Return a consumer, if there is one."""
        try:
            return self._load(entry, _path(entry, tenant, name))
        except FileNotFoundError:
            return None

    def check(self, entry: TopicEntry, files: PartitionFiles, cursor: Cursor) -> Offset:
        """Return the offset; DivergedError if the log has lost records that it had passed."""
        position = Position(
            *(self._root.log_id, entry.topic.id, Partition(cursor.partition)),
            *(Offset(cursor.offset), cursor.epoch, cursor.epoch_id),
        )
        epochs, marks = files.epochs(), files.marks()
        try:
            check_position(position, epochs, marks)
        except TrimmedError:
            pass  # Whoever reads from there is told.
        except InvalidError as error:
            raise DivergedError(marks.high, **error.fields) from error
        return Offset(cursor.offset)

    def put(
        self,
        entry: TopicEntry,
        files: PartitionFiles,
        tenant: Tenant | None,
        name: str,
        offset: int,
    ) -> None:
        """Put the cursor to `offset`, durably; the caller holds the lock."""
        partition = files.place.partition
        epoch = epoch_before(offset, files.epochs())
        known = self.find(entry, tenant, name)
        kept = () if known is None else known.cursors
        cursor = Cursor(partition, offset, self._root.clock.now_us(), epoch.number, epoch.id)
        others = (each for each in kept if each.partition != partition)
        cursors = tuple(sorted((*others, cursor), key=lambda each: each.partition))
        stored = StoredConsumer(entry.topic.id, tenant, name, cursors)
        unique = str(self._root.clock.new_id())
        checked.store(self._io, _path(entry, tenant, name), KIND, stored, unique=unique)

    def forget(self, entry: TopicEntry, tenant: Tenant | None, name: str) -> bool:
        """Remove a consumer; False if there was none."""
        path = _path(entry, tenant, name)
        if not self._io.exists(path):
            return False
        self._io.unlink(path)
        self._io.sync_directory(os.path.dirname(path))
        return True

    def lags(self, entry: TopicEntry, tenant: Tenant | None) -> list[ConsumerLag]:
        """Return the tenant's consumers, sorted by name and partition."""
        ends = [files.marks().high for files in entry.partitions]
        lags = [
            ConsumerLag(
                consumer.name,
                tenant,
                Partition(cursor.partition),
                Offset(cursor.offset),
                max(0, ends[cursor.partition] - cursor.offset),
                cursor.seen_at_us,
                self._is_live(cursor),
            )
            for consumer in self._all(entry)
            if consumer.tenant == tenant
            for cursor in consumer.cursors
        ]
        return sorted(lags, key=lambda lag: (lag.consumer, lag.partition))

    def held_at(self, entry: TopicEntry, partition: int) -> Offset | None:
        """Return the cursor of the slowest live consumer of any tenant."""
        cursors = (consumer.cursor(partition) for consumer in self._all(entry))
        live = (each for each in cursors if each is not None and self._is_live(each))
        return min((Offset(each.offset) for each in live), default=None)

    def _all(self, entry: TopicEntry) -> Sequence[StoredConsumer]:
        directory = os.path.join(entry.directory, CURSORS)
        found = []
        for name in self._io.list(directory):
            if name.endswith(SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    found.append(self._load(entry, os.path.join(directory, name)))
        return found

    def _load(self, entry: TopicEntry, path: str) -> StoredConsumer:
        stored = checked.load(self._io, path, KIND, StoredConsumer)
        tenant = None if stored.tenant is None else Tenant(stored.tenant)
        if stored.topic_id != entry.topic.id or path != _path(entry, tenant, stored.name):
            raise CorruptError("these cursors lie in another one's place", file=path, position=0)
        if any(each.partition >= entry.settings.partitions for each in stored.cursors):
            raise CorruptError("these cursors name no partition", file=path, position=0)
        return stored

    def _is_live(self, cursor: Cursor) -> bool:
        return self._root.clock.now_us() - cursor.seen_at_us <= _SILENCE_US


def _path(entry: TopicEntry, tenant: Tenant | None, name: str) -> str:
    whose = sha256(f"{tenant or ''}\0{name}".encode()).hexdigest()[:40]
    return os.path.join(entry.directory, CURSORS, f"{whose}{SUFFIX}")
