"""The named cursors of a file log."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from strandline.log.claims import ConsumerPlace
from strandline.log.numbers import check_whole
from strandline.log.registering import check_starts, registered_at
from strandline.log.results import TopicName
from strandline.log.terms import owner
from strandline.log.verifying import with_findings
from strandline.stores.files.claim_locks import LockClaim, LockClaims
from strandline.stores.files.cursors import Cursors, StoredConsumer
from strandline.stores.files.file_errors import translated
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.reader import FileReader
from strandline.stores.files.root import Root
from strandline.stores.files.spans import check_kept, check_not_beyond
from strandline.stores.files.topics import TopicEntry
from strandline.values import (
    ConsumerLag,
    CorruptError,
    Mode,
    Offset,
    Partition,
    ProofHead,
    ProofReport,
    check_consumer_name,
)


class FileConsumers(FileReader):
    """Implements LogConsumers, and what a reader is."""

    def __init__(self, root: Root) -> None:
        super().__init__(root)
        self._cursors = Cursors(root, self._topics)
        self._claims = LockClaims(root.io)

    @translated
    def register(
        self,
        topic: TopicName,
        consumer: str,
        starts: Mapping[int, int],
        *,
        tenant: str | None = None,
    ) -> Mapping[Partition, Offset]:
        name = check_consumer_name(consumer)
        self._check_mode(Mode.CONSUME)
        entry = self._entry(topic)
        whose = owner(entry.topic, tenant)
        wanted = check_starts(starts, len(entry.partitions))
        for number, start in wanted.items():
            self._make_durable_before(entry, entry.files(number), start)
        with self._cursors.changing(entry):
            known = self._cursors.find(entry, whose, name)
            found = {
                number: self._registered_at(entry, known, number, start)
                for number, start in wanted.items()
            }
            self._cursors.put(entry, whose, name, found)
            self._cursors.list_consumer(entry, whose, name)
        return found

    def _registered_at(
        self, entry: TopicEntry, known: StoredConsumer | None, number: int, start: int
    ) -> Offset:
        files = entry.files(number)
        cursor = None if known is None else known.cursor(number)
        offset = None if cursor is None else self._cursors.check(entry, files, cursor)
        return registered_at(offset, start, files.marks(), entry.topic)

    @translated
    def claim(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> LockClaim:
        name = check_consumer_name(consumer)
        self._check_mode(Mode.CONSUME)
        entry = self._entry(topic)
        number = entry.files(partition).place.partition
        place = ConsumerPlace(entry.topic, owner(entry.topic, tenant), name, number)
        return self._claims.take(self._cursors.claim_path(entry, place), place)

    @translated
    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
    ) -> Offset:
        name = check_consumer_name(consumer)
        check_whole("end", end)
        self._check_mode(Mode.CONSUME)
        entry = self._entry(topic)
        files = entry.files(partition)
        whose = owner(entry.topic, tenant)
        self._make_durable_before(entry, files, end)
        with self._cursors.changing(entry):
            known = self._cursors.find(entry, whose, name)
            offset = check_not_beyond(files, files.marks(), end)
            cursor = None if known is None else known.cursor(partition)
            if cursor is not None:
                offset = max(offset, self._cursors.check(entry, files, cursor))
            self._cursors.put(entry, whose, name, {files.place.partition: offset})
            if known is None:
                self._cursors.list_consumer(entry, whose, name)
        return offset

    @translated
    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
    ) -> None:
        name = check_consumer_name(consumer)
        check_whole("offset", offset)
        self._check_mode(Mode.CONSUME)
        entry = self._entry(topic)
        files = entry.files(partition)
        whose = owner(entry.topic, tenant)
        self._make_durable_before(entry, files, offset)
        with self._cursors.changing(entry):
            kept = check_kept(files, files.marks(), offset)
            self._cursors.put(entry, whose, name, {files.place.partition: kept})
            self._cursors.list_consumer(entry, whose, name)

    @translated
    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        name = check_consumer_name(consumer)
        entry = self._entry(topic)
        files = entry.files(partition)
        known = self._cursors.find(entry, owner(entry.topic, tenant), name)
        cursor = None if known is None else known.cursor(partition)
        return None if cursor is None else self._cursors.check(entry, files, cursor)

    @translated
    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        entry = self._entry(topic)
        return self._cursors.lags(entry, owner(entry.topic, tenant))

    @translated
    def forget(self, topic: TopicName, consumer: str, *, tenant: str | None = None) -> bool:
        name = check_consumer_name(consumer)
        self._check_mode(Mode.CONSUME)
        entry = self._entry(topic)
        whose = owner(entry.topic, tenant)
        with self._cursors.changing(entry):
            return self._cursors.forget(entry, whose, name)

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        reports = super().verify(topic, partition, expected=expected)
        return with_findings(reports, self._damage(topic))

    @translated
    def _damage(self, topic: TopicName) -> Sequence[CorruptError]:
        return self._cursors.damage(self._entry(topic))

    # --- what the log brings ---

    @abstractmethod
    def _check_mode(self, least: Mode) -> None:
        """Raise unless a call that may wait and needs this mode may be made."""

    @abstractmethod
    def _make_durable(self, entry: TopicEntry, files: PartitionFiles) -> None:
        """Sync what any process has written to the partition."""

    def _make_durable_before(self, entry: TopicEntry, files: PartitionFiles, offset: int) -> None:
        """Sync, if what lies before `offset` is there and not durable."""
        marks = files.marks()
        if marks.durable < offset <= marks.high:
            self._make_durable(entry, files)
