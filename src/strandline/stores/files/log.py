"""A log in a directory of files. See design 0021."""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Self

from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo
from strandline.log.calls import Calls
from strandline.log.draft import kind_of
from strandline.log.local_watch import LocalWatch
from strandline.log.loops import check_may_wait, is_on_loop
from strandline.log.numbers import check_flag, check_whole
from strandline.log.results import TopicName, Value
from strandline.log.terms import Terms, is_internal
from strandline.log.transactions import NoTransactions
from strandline.log.verifying import unproved
from strandline.stores.files.columnar import check_compression
from strandline.stores.files.consuming import FileConsumers
from strandline.stores.files.dropping import fence_dropped, remove_directory
from strandline.stores.files.file_errors import translated
from strandline.stores.files.partition import DroppedError, PartitionFiles
from strandline.stores.files.partition_writer import WritingSettings
from strandline.stores.files.proving import head_at
from strandline.stores.files.receipts import FileReceipt, FileReceipts
from strandline.stores.files.root import Root
from strandline.stores.files.sealing import seal
from strandline.stores.files.spans import check_kept
from strandline.stores.files.syncing import Syncing
from strandline.stores.files.topics import TopicEntry
from strandline.stores.files.trimming import evict, retain, trim
from strandline.stores.files.watching import FileWatches
from strandline.stores.files.writer import Lane, TopicWriter
from strandline.values import (
    RECORD_BYTES_MAX,
    ClosedError,
    FailedError,
    InvalidError,
    Marks,
    Mode,
    Offset,
    Position,
    ProofHead,
    Tenant,
    Topic,
    TopicDescription,
    TopicSettings,
    TrimReport,
    epoch_before,
)

_RANK = {Mode.READ: 0, Mode.CONSUME: 1, Mode.WRITE: 2}
_SEGMENT_BYTES = 64 * 1024 * 1024


class FileLog(FileConsumers, NoTransactions, Calls[FileReceipt, FileReceipts]):
    """Implements Log. A child of a fork cannot use it, and is told so.

    `mode="write"` creates the directory; the other modes need a log. Any number of
    processes of one machine may write at the same time, unless one of them asks to be
    `exclusive`: it then keeps each partition that it has once written to. Whoever
    finds a partition held until `lock_timeout_s` is over gets UnavailableError, or,
    with `take_over`, the partition: the other one can write to it no more.
    `compression` packs frames of columns. A segment ends at about `segment_bytes`.
    """

    def __init__(
        self,
        path: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        io: Io | None = None,
        auto_create: bool = False,
        record_bytes_max: int = RECORD_BYTES_MAX,
        lock_timeout_s: float = 10.0,
        exclusive: bool = False,
        take_over: bool = False,
        compression: str | None = None,
        segment_bytes: int = _SEGMENT_BYTES,
    ) -> None:
        self._record_bytes_max = check_whole("record_bytes_max", record_bytes_max)
        self._settings = WritingSettings(
            exclusive,
            take_over,
            check_compression(compression),
            check_whole("segment_bytes", segment_bytes),
            lock_timeout_s,
        )
        super().__init__(
            Root(
                os.path.abspath(path),
                Mode.parse(mode),
                io if io is not None else SystemIo(),
                clock if clock is not None else SystemClock(),
                lock_timeout_s,
            )
        )
        self._auto_create = auto_create
        self._lock = threading.Lock()
        self._writers: dict[TopicEntry, TopicWriter] = {}
        #: Where appends went last; an append finds out if it is gone.
        self._recent: dict[str, TopicWriter] = {}
        self._watches = FileWatches(self._root, self._entry)
        if self.mode is Mode.WRITE:
            self._remove_remains()

    # --- topics ---

    @translated
    def _create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings, *, internal: bool
    ) -> Topic:
        self._check_mode(Mode.CONSUME if internal else Mode.WRITE)
        with self._root.changing():
            return self._topics.create(name, tenant, settings).topic

    @translated
    def _change_settings(
        self, topic: TopicName, changed: Callable[[TopicSettings], TopicSettings]
    ) -> TopicDescription:
        self._check_mode(Mode.WRITE)
        with self._root.changing():
            entry = self._topics.fresh(self._topics.find(topic))
            self._topics.change_settings(entry, changed(entry.settings))
        return self.describe_topic(entry.topic)

    @translated
    def drop_topic(self, topic: TopicName) -> None:
        self._check_mode(Mode.WRITE)
        with self._root.changing():
            entry = self._topics.find(topic)
            self._topics.drop(entry)
            for files in entry.partitions:
                fence_dropped(files.place)
            remove_directory(self._root.io, entry.directory)
        self._watches.tell_topic_dropped(entry)
        with self._lock:
            writer = self._writers.pop(entry, None)
        if writer is not None:
            self._recent.pop(entry.topic.name, None)
            writer.close()

    @translated
    def _remove_remains(self) -> None:
        """Remove what is left of topics that somebody died while dropping or creating."""
        if self._topics.remains():
            with self._root.changing():
                for directory in self._topics.remains():
                    remove_directory(self._root.io, directory)

    # --- writing ---

    def _append(self, topic: TopicName, value: Value, key: str | None, terms: Terms) -> FileReceipt:
        self._root.check_open()
        writer = self._recent.get(topic) if type(topic) is str else None
        if writer is None:
            writer = self._writer_to_append(topic, (value,))
        try:
            return writer.append(value, key, terms)
        except (DroppedError, ClosedError):
            return self._writer_anew(writer, topic, (value,)).append(value, key, terms)

    def _append_many(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
    ) -> FileReceipts:
        self._root.check_open()
        writer = self._writer_to_append(topic, values)
        try:
            return writer.append_many(values, keys, terms, values)
        except (DroppedError, ClosedError):
            anew = self._writer_anew(writer, topic, values)
            return anew.append_many(values, keys, terms, values)

    @translated
    def _writer_to_append(self, topic: TopicName, values: Sequence[Value]) -> TopicWriter:
        if self.mode is Mode.READ or (self.mode is Mode.CONSUME and not is_internal(topic)):
            raise self._not_allowed()
        try:
            entry = self._topics.find(topic)
        except InvalidError:
            if not self._auto_create or isinstance(topic, Topic) or not values:
                raise
            if is_on_loop():
                raise InvalidError(
                    "creating this topic may have to wait, create it before the event loop"
                    " or with asyncio.to_thread",
                    topic=topic,
                ) from None
            self.create_topic(topic, value_kind=kind_of(values[0]))
            entry = self._topics.find(topic)
        writer = self._writer(entry)
        if isinstance(topic, str):
            self._recent[topic] = writer
        return writer

    def _writer_anew(
        self, writer: TopicWriter, topic: TopicName, values: Sequence[Value]
    ) -> TopicWriter:
        """Return the writer of the topic that has this name now, if its topic was dropped."""
        self._root.check_open()
        if isinstance(topic, str):
            self._recent.pop(topic, None)
        anew = self._writer_to_append(topic, values)
        if anew is writer:
            raise  # noqa: PLE0704 - The caller handles an error.
        return anew

    def _writer(self, entry: TopicEntry) -> TopicWriter:
        with self._lock:
            self._root.check_open()
            writer = self._writers.get(entry)
            if writer is None:
                writer = TopicWriter(entry, self._settings, self._record_bytes_max, self._watches)
                self._writers[entry] = writer
            return writer

    def _lane(self, entry: TopicEntry, partition: int) -> Lane:
        return self._writer(entry).lane(entry.files(partition).place.partition)

    @translated
    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        entry = self._entry(topic)
        self._check_mode(Mode.CONSUME if is_internal(entry.topic) else Mode.WRITE)
        before, force = check_whole("before", before), check_flag("force", force)
        return trim(self._lane(entry, partition).store, self._cursors, entry, before, force=force)

    @translated
    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        self._check_mode(Mode.WRITE)
        return evict(self._lane(self._entry(topic), partition).store, before)

    @translated
    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        self._check_mode(Mode.WRITE)
        entry = self._entry(topic)
        settings = self._topics.fresh(entry).settings
        return [
            retain(self._lane(entry, number).store, self._cursors, entry, settings)
            for number in range(settings.partitions)
        ]

    @translated
    def seal(self, topic: TopicName) -> int:
        """End the last segment of each partition, durable, and rewrite runs of rows as columns.

        Returns how many segments were rewritten. Nothing that a reader sees changes.
        """
        self._check_mode(Mode.WRITE)
        entry = self._entry(topic)
        lanes = [self._lane(entry, number) for number in range(entry.settings.partitions)]
        return sum(seal(lane.store, self._settings.compression) for lane in lanes)

    # --- positions and hints ---

    @translated
    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        check_whole("offset", offset)
        entry = self._entry(topic)
        files = entry.files(partition)
        marks = files.marks()
        if marks.durable < offset <= marks.high:
            check_may_wait()
            self._make_durable(entry, files)
        kept = check_kept(files, files.marks(), offset)
        epoch = epoch_before(kept, files.epochs())
        number = files.place.partition
        return Position(self.id, entry.topic.id, number, kept, epoch.number, epoch.id)

    def proof_head(self, topic: TopicName, partition: int) -> ProofHead:
        entry = self._entry(topic)
        files = entry.files(partition)
        if not files.place.is_proved:
            raise unproved(entry.topic)
        marks = files.marks()
        if marks.durable < marks.high:
            check_may_wait()
            self._make_durable(entry, files)
        return head_at(files, marks.high)

    def watch(self, *, durable_only: bool = False) -> LocalWatch:
        self._root.check_open()
        return self._watches.open(durable_only=check_flag("durable_only", durable_only))

    # --- the whole log ---

    @translated
    def sync(self, topic: TopicName, partition: int) -> Marks:
        self._check_mode(Mode.CONSUME)
        entry = self._entry(topic)
        files = entry.files(partition)
        self._make_durable(entry, files)
        return files.marks()

    @translated
    def flush(self) -> None:
        self._check_mode(Mode.CONSUME)
        for entry in self._topics.all():
            for files in entry.partitions:
                with contextlib.suppress(DroppedError):
                    marks = files.marks()
                    if marks.durable < marks.high:
                        self._make_durable(entry, files)

    @translated
    def close(self) -> None:
        if os.getpid() != self._root.pid:
            return
        with self._lock:
            self._root.close()
            writers = tuple(self._writers.values())
        for writer in writers:
            writer.close()
        self._watches.close()
        self._topics.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- inside ---

    def _check_mode(self, least: Mode) -> None:
        """Raise unless a call that may wait and needs this mode may be made."""
        self._root.check_open()
        if _RANK[self.mode] < _RANK[least]:
            raise self._not_allowed()
        check_may_wait()

    def _not_allowed(self) -> InvalidError:
        return InvalidError("the log was opened in a mode that does not allow this", mode=self.mode)

    def _make_durable(self, entry: TopicEntry, files: PartitionFiles) -> None:
        if self.mode is Mode.READ:
            # A sync changes no byte. The mark stays as it is.
            try:
                Syncing(files, None).sync()
            except OSError as error:
                if files.has_failed_sync:
                    raise FailedError(error) from error
                raise
        else:
            self._lane(entry, files.place.partition).sync()
