"""The named cursors of a file log."""

from abc import abstractmethod
from collections.abc import Sequence

from strandline.log.numbers import check_whole
from strandline.log.results import TopicName
from strandline.log.terms import owner
from strandline.stores.files.cursors import Cursors
from strandline.stores.files.file_errors import translated
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.reader import FileReader
from strandline.stores.files.root import Root
from strandline.stores.files.spans import check_kept, check_not_beyond
from strandline.stores.files.topics import TopicEntry
from strandline.values import ConsumerLag, Mode, Offset, check_consumer_name


class FileConsumers(FileReader):
    """Implements LogConsumers, and what a reader is."""

    def __init__(self, root: Root) -> None:
        super().__init__(root)
        self._cursors = Cursors(root)

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
            self._cursors.put(entry, files, whose, name, offset)
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
            self._cursors.put(entry, files, whose, name, kept)

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
