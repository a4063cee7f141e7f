"""A log's bytes in a directory of files. See design 0021."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from strandline._core import CORE, IS_COMPILED
from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo, has_shared_memory, real_path
from strandline.log.claims import ConsumerPlace
from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.holders import LogHolder
from strandline.log.identities import IdentityState
from strandline.log.metrics import StoreMetrics
from strandline.log.ranges import ReadRange, check_range
from strandline.log.staged import StagedLayout, StagedRows
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    Erased,
    Outcome,
    PartitionState,
    Reach,
    Shortcut,
    Trimmed,
    dropped,
)
from strandline.log.topics import is_internal_name
from strandline.stores.claim_locks import LockClaim, LockClaims
from strandline.stores.closing import close_each
from strandline.stores.file_errors import translated
from strandline.stores.files.beginning import begin_at, recognised
from strandline.stores.files.columnar import check_compression
from strandline.stores.files.dropping import fence_dropped, remove_directory
from strandline.stores.files.erasing import ErasedFiles, count, erase
from strandline.stores.files.following import follower, newest
from strandline.stores.files.ingesting import discard, ingest, layout_of
from strandline.stores.files.keys import AnswerT, FileKeys
from strandline.stores.files.lane import Lanes
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_lock import last_writer
from strandline.stores.files.proving import history_of
from strandline.stores.files.reading import Reading, Span
from strandline.stores.files.root import Root
from strandline.stores.files.sealing import seal
from strandline.stores.files.syncing import Syncing
from strandline.stores.files.topics import FileTopics, TopicEntry
from strandline.stores.files.trimming import evict, trim
from strandline.stores.files.watching import FileWatches
from strandline.stores.files.writing_settings import WritingSettings
from strandline.values import (
    ClosedError,
    DroppedError,
    Durability,
    Epoch,
    FailedError,
    FullError,
    Marks,
    Mode,
    Offset,
    Record,
    Segment,
    Tenant,
    TopicSettings,
)
from strandline.values.arguments import check_whole

if TYPE_CHECKING:
    from strandline._core.core import Follower

_SEGMENT_BYTES = 64 * 1024 * 1024
_EMPTY = Marks(Offset(0), Offset(0), Offset(0))


class FileStore:
    """Implements Store. A child of a fork cannot use it.

    `mode="write"` creates the directory; the other modes need an existing log. Any number
    of processes of one machine may write at the same time, unless one of them is
    `exclusive`: it keeps each partition that it has once written to. A process that finds
    a partition held until `lock_timeout_s` is over gets UnavailableError, or, with
    `take_over`, takes the partition over: the other process can no longer write to it. A
    partition that another log object of the same process keeps is not waited for.
    `compression` compresses frames of columns. A segment ends at about `segment_bytes`.
    """

    capabilities: Capabilities = Capabilities(
        Durability.DURABLE,
        "each partition is synced before an append is called durable",
        Reach.MACHINE,
        has_erasure=True,
        has_metrics=True,
        has_segments=True,
        moves=True,
        stores_columns=True,
    )

    def __init__(
        self,
        path: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        io: Io | None = None,
        lock_timeout_s: float = 10.0,
        exclusive: bool = False,
        take_over: bool = False,
        compression: str | None = None,
        segment_bytes: int = _SEGMENT_BYTES,
    ) -> None:
        packing = check_compression(compression)
        check_whole("segment_bytes", segment_bytes)
        self._root = root = Root(
            real_path(path),
            Mode.parse(mode),
            io if io is not None else SystemIo(),
            clock if clock is not None else SystemClock(),
            lock_timeout_s,
        )
        self.id: Final = root.log_id
        self.mode: Final = root.mode
        self.url: Final = f"file:{root.path}"
        self.check_open: Final = root.check_open
        is_system = type(root.io) is SystemIo
        maps_tails = is_system and has_shared_memory(root.path)
        if IS_COMPILED and is_system and not maps_tails:
            core = f"{CORE}, without shared memory on this file system"
            self.capabilities = replace(self.capabilities, core=core)
        self._settings = settings = WritingSettings(
            exclusive, take_over, packing, segment_bytes, lock_timeout_s, maps_tails
        )
        self._topics = FileTopics(root)
        self._keys = FileKeys(root, self._topics)
        self._watches = FileWatches(root)
        self.watch: Final = self._watches.open
        self._lanes = Lanes(settings, self._watches)
        self._claims = LockClaims(root.io)
        if self.mode is Mode.WRITE:
            self._remove_remains()

    # --- topics ---

    @translated
    def topics(self) -> Sequence[TopicEntry]:
        return self._topics.all()

    @translated
    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> TopicEntry | None:
        found = self._topics.find(tenant, name)
        return self._topics.fresh(found) if fresh and found is not None else found

    @translated
    def find_topic_id(self, topic_id: UUID) -> TopicEntry | None:
        return self._topics.find_id(topic_id)

    @translated
    def create_topic(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> TopicEntry:
        if is_internal_name(name):
            return self._root.reserve.spend(lambda: self._create_topic(name, tenant, settings))
        self._root.reserve.replenish()
        return self._create_topic(name, tenant, settings)

    def _create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> TopicEntry:
        with self._root.changing():
            return self._topics.create(name, tenant, settings)

    @translated
    def change_settings(
        self, topic: TopicEntry, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        with self._root.changing():
            present = self._topics.fresh(topic)
            if present is None:
                raise dropped(topic.topic)
            settings = change(present.settings)
            self._topics.change_settings(present, settings)
            return settings

    @translated
    def drop_topic(self, topic: TopicEntry) -> None:
        topic = self._topics.fresh(topic) or topic
        with self._root.changing(), self._topics.dropping(topic):
            for files in topic.partitions:
                fence_dropped(files.place)
            remove_directory(self._root.io, self._root.move_dropped(topic.directory))
        self._watches.notify_topic_dropped(topic)
        self._lanes.close_topic(topic)
        # A reader may have opened some again before they were removed.
        topic.close_files()

    @translated
    def _remove_remains(self) -> None:
        """Remove what a crash left of topics that were being dropped or created."""
        if self._remains():
            with self._root.changing():
                for directory in self._remains():
                    remove_directory(self._root.io, directory)

    def _remains(self) -> Sequence[str]:
        return [*self._root.dropped(), *self._topics.remains()]

    # --- records ---

    def append(
        self,
        topic: TopicEntry,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> Outcome:
        lane = topic.lanes.get(partition) or self._lanes.lane(topic, partition)
        try:
            return lane.append(request, level, timeout_s, may_wait=may_wait)
        except FullError:
            if not is_internal_name(topic.topic.name) or not self._root.reserve.release():
                raise
            # What consumers store about themselves.
            return self.append(topic, partition, request, level, timeout_s, may_wait=may_wait)
        except ClosedError as error:
            self._root.check_open()
            if lane.is_current:
                raise
            # The lane was closed because its topic was dropped.
            raise dropped(topic.topic) from error

    def shortcut(self, topic: TopicEntry, partition: int) -> Shortcut | None:
        """Return the fast path for events of a partition, if it has one. See Shortcut."""
        lane = topic.lanes.get(partition)
        return None if lane is None or lane.store.compiled is None else lane

    @translated
    def marks(self, topic: TopicEntry, partition: int) -> Marks:
        return topic.partitions[partition].marks()

    @translated
    def state(self, topic: TopicEntry, partition: int) -> PartitionState:
        files = topic.partitions[partition]
        state = files.look()
        if state is None:
            first = Epoch(0, files.place.first_epoch_id(), Offset(0))
            return PartitionState(_EMPTY, Offset(0), (first,))
        return PartitionState(state.marks, Offset(state.local), state.manifest.lineage())

    def read(self, topic: TopicEntry, partition: int, wanted: ReadRange) -> Iterator[Record]:
        if wanted.end is None and wanted.records_max is not None and wanted.bytes_max is not None:
            found = self._newest(topic, partition, wanted)
            if found is not None:
                return iter(found)
        return self._reading(topic, partition, wanted).records()

    def read_batches(self, topic: TopicEntry, partition: int, wanted: ReadRange) -> RecordBatches:
        return self._reading(topic, partition, wanted).batches()

    @translated
    def follower(self, topic: TopicEntry, partition: int, start: int) -> "Follower | None":
        """See `log.parts.follower_of`."""
        return follower(topic.partitions[partition], start)

    @translated
    def _newest(
        self, topic: TopicEntry, partition: int, wanted: ReadRange
    ) -> Sequence[Record] | None:
        return newest(topic.partitions[partition], wanted)

    @translated
    def _reading(self, topic: TopicEntry, partition: int, wanted: ReadRange) -> Reading:
        files = topic.partitions[partition]
        state = files.look()
        marks, oldest = (_EMPTY, 0) if state is None else (state.marks, state.local)
        stop = check_range(wanted, marks, oldest, topic.topic, partition)
        span = Span(state, wanted.start, stop, wanted.bytes_max)
        return Reading(files, span, self._root.check_open)

    def history(self, topic: TopicEntry, partition: int, start: int, end: int | None) -> History:
        return history_of(topic.partitions[partition], start, end, self._root.check_open)

    @translated
    def segments(self, topic: TopicEntry, partition: int) -> Sequence[Segment]:
        files = topic.partitions[partition]
        state = files.look()
        if state is None:
            return []
        found = []
        for stored in state.manifest.segments:
            end = state.end_of(stored)[0]
            start = max(stored.base, state.marks.low)
            if start >= end:
                continue
            is_sealed = stored.end is not None
            size = stored.size_bytes if is_sealed else state.active_bytes
            if stored.base < state.marks.low:
                size -= state.manifest.trimmed_bytes
            is_whole = is_sealed and start == stored.base
            found.append(
                Segment(
                    Offset(start),
                    Offset(end),
                    size,
                    stored.first_us if is_whole else self._first_us(files, start),
                    stored.last_us if is_sealed else state.last_us,
                    is_sealed=is_sealed,
                    location=files.place.segment_path(stored),
                )
            )
        return found

    def _first_us(self, files: PartitionFiles, offset: int) -> int:
        span = Span(files.look(), offset, offset + 1, None)
        return next(Reading(files, span, self._root.check_open).records()).timestamp_us

    @translated
    def trim(self, topic: TopicEntry, partition: int, low: int) -> Trimmed:
        # Durable cursors first: after a crash, they must show that trimmed records were handled.
        self._keys.sync(topic)
        lane = self._lanes.lane(topic, partition)
        trimmed = trim(lane.store, low)
        if lane.store.place.reserve.is_scarce():
            # This releases the segment that was synced last.
            lane.sync()
        return trimmed

    @translated
    def evict(self, topic: TopicEntry, partition: int, before: int) -> Offset:
        return evict(self._lanes.lane(topic, partition).store, before)

    @translated
    def erase(self, topic: TopicEntry, partition: int, key: str, *, dry_run: bool) -> Erased:
        lane = self._lanes.lane(topic, partition)
        if dry_run:
            return Erased(count(lane.store, key))
        lane.sync()
        noted = ErasedFiles(self._keys, topic, partition)
        return erase(lane.store, key, noted.load(), noted.note)

    @translated
    def seal(self, topic: TopicEntry, partition: int) -> int:
        return seal(self._lanes.lane(topic, partition).store, self._settings.compression)

    def staged_layout(self, topic: TopicEntry, key: str) -> StagedLayout | None:
        """See StagingStore."""
        return layout_of(topic.partitions[0].place, self._settings, key)

    @translated
    def ingest(
        self, topic: TopicEntry, partition: int, path: str, rows: Sequence[StagedRows]
    ) -> int | None:
        """See StagingStore."""
        return ingest(self._lanes.lane(topic, partition).store, path, rows)

    @translated
    def discard(self, topic: TopicEntry, partition: int, path: str) -> None:
        """See StagingStore."""
        discard(self._lanes.lane(topic, partition).store, path)

    @translated
    def sync(self, topic: TopicEntry, partition: int) -> None:
        if self.mode is not Mode.READ:
            self._lanes.lane(topic, partition).sync()
            return
        # A sync changes no byte. The mark stays unchanged.
        files = topic.partitions[partition]
        try:
            Syncing(files, None).sync()
        except OSError as error:
            if files.has_failed_sync:
                raise FailedError(error) from error
            raise

    @translated
    def flush(self) -> None:
        for known in self._topics.all():
            topic = self._topics.fresh(known) or known
            for number, files in enumerate(topic.partitions):
                with contextlib.suppress(DroppedError):
                    marks = files.marks()
                    if marks.durable < marks.high:
                        self.sync(topic, number)

    @translated
    def identities(self, topic: TopicEntry, partition: int) -> IdentityState:
        return recognised(topic.partitions[partition])

    @translated
    def begin_at(
        self,
        topic: TopicEntry,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        with self._root.changing():
            begin_at(topic.partitions[partition], start, anchor, identities)

    # --- keys ---

    @translated
    def keys(self, topic: TopicEntry) -> Mapping[str, bytes]:
        return self._keys.all(topic)

    @translated
    def get_key(self, topic: TopicEntry, key: str) -> bytes | None:
        return self._keys.get(topic, key)

    @translated
    def put_key(self, topic: TopicEntry, key: str, value: bytes, expected: bytes | None) -> bool:
        return self._keys.put(topic, key, value, expected)

    @translated
    def change_key(
        self,
        topic: TopicEntry,
        key: str,
        change: Callable[[bytes | None], tuple[bytes, AnswerT]],
    ) -> AnswerT:
        """See ChangingStore."""
        return self._keys.change(topic, key, change)

    @translated
    def remove_key(self, topic: TopicEntry, key: str) -> bool:
        return self._keys.remove(topic, key)

    # --- the whole ---

    @translated
    def claim(self, place: ConsumerPlace) -> LockClaim:
        topic = self._topics.find_id(place.topic.id)
        if topic is None:
            raise dropped(place.topic)
        path = os.path.join(self._keys.directory(topic), place.file_name())
        return self._root.reserve.spend(lambda: self._claims.take(path, place))

    def metrics(self) -> StoreMetrics:
        return self._watches.metrics()._replace(writes=self._lanes.metrics())

    @translated
    def writers(self) -> Sequence[LogHolder]:
        """Return for each partition the process that holds its lock, or held it last."""
        return [
            holder
            for topic in self._topics.all()
            for files in topic.partitions
            if (holder := last_writer(files.place)) is not None
        ]

    def beside(self, name: str) -> str:
        return os.path.join(self._root.path, name)

    @translated
    def size_bytes(self) -> int:
        return _size_of(self._root.io, self._root.path)

    @translated
    def close(self) -> None:
        if self._root.state.is_inherited:
            return
        self._root.state.close()
        close_each(
            (self._topics.close_files, self._claims.close, self._watches.close, self._lanes.close)
        )


def _size_of(io: Io, directory: str) -> int:
    total = 0
    for name in io.list(directory):
        path = os.path.join(directory, name)
        try:
            status = io.stat(path)
            total += _size_of(io, path) if status.is_directory else status.size
        except FileNotFoundError:
            pass  # Removed meanwhile.
    return total
