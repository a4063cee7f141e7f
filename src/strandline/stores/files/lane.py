"""The lane of each partition: a write coordinator over its write side."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final, NoReturn
from uuid import UUID

from strandline.clock import Clock
from strandline.log.draft_columns import COLUMNS_MIN
from strandline.log.open_state import closed_log
from strandline.log.receipts import finish
from strandline.log.store import AppendRequest, Placement
from strandline.stores.closing import close_each
from strandline.stores.file_errors import unavailable
from strandline.stores.files.appends import Frozen, Head
from strandline.stores.files.columnar import import_for_arrays
from strandline.stores.files.compiled_lane import Appender, CompiledLane, route, size_of
from strandline.stores.files.fencing import fenced
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.syncing import MarkListener
from strandline.stores.files.topics import TopicEntry
from strandline.stores.files.writing_settings import WritingSettings
from strandline.values import Durability, Event, FailedError
from strandline.writes import Channel, Coordinator, Settings, WriteMetrics, WriteReceipt
from strandline.writes.metrics import merged

_CHANNEL = "appends"
_WRITTEN: Final = Durability.WRITTEN
_DURABLE: Final = Durability.DURABLE


class Lane:
    """The write path of one partition. Any thread may use it."""

    def __init__(
        self, files: PartitionFiles, settings: WritingSettings, notify: MarkListener
    ) -> None:
        self._parts = (files, settings, notify)
        self._is_exclusive = settings.is_exclusive
        self._lock = threading.Lock()
        self.is_current: bool = True
        #: The metrics of coordinators that were fenced.
        self._past: WriteMetrics | None = None
        self._notify = notify
        #: See Shortcut.
        self.size_of = size_of
        self.route = route
        self.store: PartitionWriter
        self.channel: Channel[AppendRequest, Placement]
        self._begin()

    def _begin(self) -> None:
        files, settings, notify = self._parts
        self.store = PartitionWriter(files, settings, notify)
        self._coordinator: Coordinator[AppendRequest, Placement, Frozen, None, None, Head] = (
            Coordinator(
                Settings(bracket_timeout_s=settings.lock_timeout_s),
                [_CHANNEL],
                context=self.store.head,
                snapshot=None,
                delta=attrgetter("delta"),
                flusher=self.store,
                bracket=self.store,
                clock=files.place.clock,
                rounds=None if self.store.compiled is None else self.store.compiled.commit,
            )
        )
        self._follow_rounds(self.store)
        self._coordinator.start()
        self.channel = channel = self._coordinator.channel(_CHANNEL)
        self.store.has_queued = lambda: channel.depth > 0
        self._ending = self._coordinator.ending
        self._written_beside = self._coordinator.written_beside

    def _follow_rounds(self, store: PartitionWriter) -> None:
        """Count the sync rounds that the core has made."""
        durable = self._coordinator.stages[1]

        def synced(end: int) -> None:
            store.syncing.note_durable(end)
            durable.see_rounds()

        if store.compiled is not None:
            store.compiled.commit.follow(durable.mark, synced)

    def append(
        self, request: AppendRequest, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> WriteReceipt[Placement]:
        """Append; see Store.append."""
        if len(request.drafts) >= COLUMNS_MIN:
            import_for_arrays()
        channel = self.channel
        try:
            if not may_wait:
                accept = channel.hand_over if level is _DURABLE else channel.try_write
                receipt = accept(request, timeout_s)
                if self.store.compiled is not None and not receipt.is_settled:
                    # The next append on this loop must not overtake it.
                    self.store.compiled.lane.hold()
                return receipt
            return channel.write(request, level if level is _DURABLE else _WRITTEN, timeout_s)
        except FailedError as error:
            # Not stored: an earlier write was fenced. A shared writer starts a new epoch.
            closed = fenced(error)
            if closed is None:
                raise
            if self._is_exclusive:
                raise closed from error.__cause__
            self._renew(channel)
            return self.append(request, level, timeout_s, may_wait=may_wait)

    # --- Shortcut ---

    def append_event(self, event: Event, bytes_max: int) -> Any:
        """See Shortcut."""
        store = self.store
        compiled = store.compiled
        if compiled is None or self._ending.reason is not None:
            return NotImplemented
        try:
            placed = compiled.append(event, bytes_max)
        except BaseException as error:
            raise self._translated(store, error, event) from error
        if placed is NotImplemented:
            return NotImplemented
        if self._notify.partitions:
            self._announce(compiled, placed[0] + 1)
        return self._written_beside(placed)

    def append_events(self, events: list[Event], bytes_max: int) -> Any:
        """See Shortcut."""
        store = self.store
        compiled = store.compiled
        if compiled is None or self._ending.reason is not None:
            return NotImplemented
        try:
            placed = compiled.append_many(events, bytes_max)
        except BaseException as error:
            raise self._translated(store, error, events) from error
        if placed is NotImplemented:
            return NotImplemented
        if self._notify.partitions:
            self._announce(compiled, placed[0] + len(events))
        return self._written_beside(placed)

    def appender(
        self,
        receipts: tuple[type, Callable[[Any, int], object]],
        clock: Clock | None,
        partition: int,
        levels: tuple[Durability, Durability],
        bytes_max: int,
        /,
    ) -> "Appender | None":
        """See Shortcut."""
        store, coordinator = self.store, self._coordinator
        compiled = store.compiled
        if compiled is None:
            return None
        written, durable = coordinator.stages

        def failed(error: BaseException, write: object) -> NoReturn:
            raise self._translated(store, error, write) from error

        return Appender(
            compiled.lane,
            compiled.append if compiled.is_seam else None,
            compiled.append_many if compiled.is_seam else None,
            coordinator.ending,
            written.mark,
            compiled.commit,
            self._notify,
            partial(self._announce, compiled),
            failed,
            coordinator.receipt_beside,
            durable.round_on_loop,
            _finish,
            *receipts,
            clock,
            partition,
            *levels,
            bytes_max,
        )

    def _announce(self, compiled: CompiledLane, end: int) -> None:
        compiled.keep_last(self.store.files)
        self._notify(self.store.files, end, durable_only=False)

    def _translated(
        self, store: PartitionWriter, error: BaseException, write: object
    ) -> BaseException:
        """Return the error that the caller gets for an error in the core."""
        compiled = store.compiled
        assert compiled is not None
        if compiled.lane.is_broken:
            store.abandon(compiled)
            return self._coordinator.failed_beside(error)
        if not isinstance(error, OSError):
            return error
        found = unavailable(error, store.place.directory)
        found.write = write
        return found

    def sync(self) -> None:
        """Return once everything written so far, by any process, is durable."""
        # If the tail cannot be opened, it fails here, and running writes do not fail with it.
        self.store.syncing.check_tail()
        try:
            self.channel.flush(durable=True).wait(_DURABLE)
        except FailedError as error:
            raise fenced(error) or error from error.__cause__

    def metrics(self) -> WriteMetrics:
        """Return the metrics of this lane."""
        present = self._coordinator.metrics()
        if self.store.compiled is not None:
            # The core flushes each append separately, as a lone writer in Python does.
            present = present.with_flushed(self.store.compiled.lane.appends)
        return present if self._past is None else self._past + present

    def close(self) -> None:
        """Finish accepted appends, and take no more."""
        with self._lock:
            self.is_current = False
            self._end()

    def _renew(self, fenced: Channel[AppendRequest, Placement]) -> None:
        """Start a new coordinator in place of the fenced one."""
        with self._lock:
            if not self.is_current:
                raise closed_log()
            if self.channel is fenced:
                self._end()
                self._past = self.metrics()
                self._begin()

    def _end(self) -> None:
        if self.store.compiled is not None:
            self.store.compiled.lane.close()
        # Every write that was part of a failure has received the error.
        try:
            with contextlib.suppress(FailedError):
                self._coordinator.stop(durable=False)
        finally:
            self.store.close()
            self.store.syncing.close()


def _finish(receipt: Any) -> None:
    """Wait for the level that an append requested, if Python has to."""
    finish(receipt.wait)


class Lanes:
    """The lanes of a log, each made when first needed."""

    def __init__(self, settings: WritingSettings, notify: MarkListener) -> None:
        self._settings = settings
        self._notify = notify
        self._lock = threading.Lock()
        self._topics: set[TopicEntry] = set()
        #: The metrics of topics that were dropped.
        self._past: dict[UUID | None, WriteMetrics] = {}
        self._is_closed = False

    def lane(self, topic: TopicEntry, partition: int) -> Lane:
        """Return the lane of a partition."""
        with self._lock:
            if self._is_closed:
                raise closed_log()
            lane = topic.lanes.get(partition)
            if lane is None:
                files = topic.partitions[partition]
                try:
                    lane = Lane(files, self._settings, self._notify)
                except OSError as error:
                    raise unavailable(error, files.place.directory) from error
                topic.lanes[partition] = lane
                self._topics.add(topic)
            return lane

    def metrics(self) -> Mapping[UUID | None, WriteMetrics]:
        """Return the write metrics, by topic."""
        with self._lock:
            found = dict(self._past)
            for topic in self._topics:
                found[topic.topic.id] = merged(each.metrics() for each in topic.lanes.values())
            return found

    def close_topic(self, topic: TopicEntry) -> None:
        """Finish the accepted appends of a topic."""
        with self._lock:
            # Entries of one topic share their lanes.
            self._topics = {each for each in self._topics if each.lanes is not topic.lanes}
            lanes = tuple(topic.lanes.values())
            if lanes:
                self._past[topic.topic.id] = merged(each.metrics() for each in lanes)
            topic.lanes.clear()
        close_each(lane.close for lane in lanes)

    def close(self) -> None:
        """Finish all accepted appends, and take no more."""
        with self._lock:
            self._is_closed = True
            topics = tuple(self._topics)
        close_each(partial(self.close_topic, topic) for topic in topics)
