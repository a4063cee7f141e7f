"""Named cursors: a file for each consumer of a topic, replaced whole."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from uuid import UUID

import msgspec

from strandline.log.claims import ConsumerPlace
from strandline.stores.files import checked
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.root import Root, locked
from strandline.stores.files.topics import CURSORS, TopicEntry, Topics
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
CLAIM_SUFFIX = ".claim"
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

    def __init__(self, root: Root, topics: Topics) -> None:
        self._root = root
        self._topics = topics
        self._io = root.io

    @contextlib.contextmanager
    def changing(self, entry: TopicEntry) -> Iterator[None]:
        """Hold the lock under which a topic's cursors change."""
        path = os.path.join(entry.directory, CURSORS, _LOCK)
        with locked(self._io, self._root.clock, path, self._root.lock_timeout_s):
            yield

    def find(self, entry: TopicEntry, tenant: Tenant | None, name: str) -> StoredConsumer | None:
        """Return a consumer, if there is one."""
        path = _path(entry, tenant, name)
        try:
            return self._load(entry, path)
        except FileNotFoundError:
            if _stem(path) in self._listed(entry):
                raise _missing(path) from None
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
        tenant: Tenant | None,
        name: str,
        offsets: Mapping[Partition, Offset],
    ) -> None:
        """Put the cursors to these offsets, durably; the caller holds the lock."""
        now_us = self._root.clock.now_us()
        moved = []
        for partition, offset in offsets.items():
            epoch = epoch_before(offset, entry.files(partition).epochs())
            moved.append(Cursor(partition, offset, now_us, epoch.number, epoch.id))
        known = self.find(entry, tenant, name)
        kept = () if known is None else known.cursors
        others = (each for each in kept if each.partition not in offsets)
        cursors = tuple(sorted((*others, *moved), key=lambda each: each.partition))
        stored = StoredConsumer(entry.topic.id, tenant, name, cursors)
        unique = str(self._root.clock.new_id())
        checked.store(self._io, _path(entry, tenant, name), KIND, stored, unique=unique)

    def forget(self, entry: TopicEntry, tenant: Tenant | None, name: str) -> bool:
        """Remove a consumer; False if there was none."""
        path = _path(entry, tenant, name)
        # First the list: a file that is not in it is none the worse for that.
        is_listed = self._topics.list_consumer(entry, _stem(path), is_there=False)
        if not self._io.exists(path):
            return is_listed
        self._io.unlink(path)
        self._io.sync_directory(os.path.dirname(path))
        return True

    def list_consumer(self, entry: TopicEntry, tenant: Tenant | None, name: str) -> None:
        """Note with the topic that these cursors exist; the caller holds the lock."""
        self._topics.list_consumer(entry, _stem(_path(entry, tenant, name)), is_there=True)

    def claim_path(self, entry: TopicEntry, place: ConsumerPlace) -> str:
        """Return the file whose lock says who reads a partition for a consumer."""
        stem = _path(entry, place.tenant, place.consumer).removesuffix(SUFFIX)
        return f"{stem}.{place.partition}{CLAIM_SUFFIX}"

    def damage(self, entry: TopicEntry) -> list[CorruptError]:
        """Return what is wrong with the cursors of a topic."""
        found = []
        try:
            paths = self._paths(entry)
        except CorruptError as error:
            return [error]
        for path in paths:
            try:
                self._load(entry, path)
            except CorruptError as error:
                found.append(error)
            except FileNotFoundError:
                if _stem(path) in self._listed(entry):
                    found.append(_missing(path))
        return found

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
        found = []
        for path in self._paths(entry):
            try:
                found.append(self._load(entry, path))
            except FileNotFoundError:
                # Forgotten meanwhile, unless the topic still counts on it.
                if _stem(path) in self._listed(entry):
                    raise _missing(path) from None
        return found

    def _paths(self, entry: TopicEntry) -> list[str]:
        """Return the files that there are, and those that there should be."""
        directory = os.path.join(entry.directory, CURSORS)
        try:
            names = self._io.list(directory)
        except FileNotFoundError:
            self._listed(entry)  # Raises if the topic was dropped.
            raise _missing(directory) from None
        stems = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
        stems |= self._listed(entry)
        return [os.path.join(directory, f"{stem}{SUFFIX}") for stem in sorted(stems)]

    def _listed(self, entry: TopicEntry) -> frozenset[str]:
        return self._topics.fresh(entry).consumers

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


def _missing(path: str) -> CorruptError:
    return CorruptError(
        "the cursors of a consumer are missing, restore the file or forget the consumer",
        file=path,
        position=0,
    )


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(SUFFIX)


def _path(entry: TopicEntry, tenant: Tenant | None, name: str) -> str:
    whose = sha256(f"{tenant or ''}\0{name}".encode()).hexdigest()[:40]
    return os.path.join(entry.directory, CURSORS, f"{whose}{SUFFIX}")
