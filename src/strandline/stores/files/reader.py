"""The half of a file log that changes nothing."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.numbers import check_flag, check_span, check_timestamp
from strandline.log.results import TopicName
from strandline.log.verifying import verify_each
from strandline.stores.files.file_errors import translated, unavailable
from strandline.stores.files.following import newest
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.proving import history_of
from strandline.stores.files.reading import Reading
from strandline.stores.files.root import Root
from strandline.stores.files.spans import marks_of, offset_at, span
from strandline.stores.files.topics import TopicEntry, Topics
from strandline.values import (
    Durability,
    Epoch,
    InvalidError,
    LogDescription,
    Marks,
    Mode,
    Offset,
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

SCHEME = "file"


class FileReader:
    """Implements LogReader but for `position` and `watch`, and what tells of topics."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._topics = Topics(root)

    @property
    def id(self) -> UUID:
        return self._root.log_id

    @property
    def mode(self) -> Mode:
        return self._root.mode

    @property
    def durability_max(self) -> Durability:
        return Durability.DURABLE

    # --- topics ---

    @translated
    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        whose = parse_tenant(tenant)
        self._root.check_open()
        return self._topics.find(name, whose).topic

    @translated
    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        whose = parse_tenant(tenant)
        self._root.check_open()
        return self._topics.list(whose, internal=check_flag("internal", internal))

    @translated
    def tenants(self) -> Sequence[Tenant]:
        self._root.check_open()
        found = {entry.topic.tenant for entry in self._topics.all()}
        return sorted(each for each in found if each is not None)

    @translated
    def describe_topic(self, topic: TopicName) -> TopicDescription:
        entry = self._topics.fresh(self._entry(topic))
        states = [files.look() for files in entry.partitions]
        return TopicDescription(
            entry.topic,
            entry.settings,
            entry.created_at_us,
            tuple(marks_of(state) for state in states),
            sum(state.size_bytes for state in states if state is not None),
        )

    @translated
    def describe(self) -> LogDescription:
        self._root.check_open()
        entries = self._topics.all()
        marks = [files.marks() for entry in entries for files in entry.partitions]
        return LogDescription(
            log_id=self.id,
            backend=SCHEME,
            location=f"{SCHEME}:{self._root.path}",
            mode=self.mode,
            durability_max=self.durability_max,
            topics=len(entries),
            partitions=len(marks),
            records=sum(each.high - each.low for each in marks),
            size_bytes=self._size_of(self._root.path),
        )

    def _size_of(self, directory: str) -> int:
        io, total = self._root.io, 0
        for name in io.list(directory):
            path = os.path.join(directory, name)
            try:
                status = io.stat(path)
                total += self._size_of(path) if status.is_directory else status.size
            except FileNotFoundError:
                pass  # Removed meanwhile.
        return total

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
        if end is None and type(start) is type(records_max) is type(bytes_max) is int:
            found = self._newest(
                topic, partition, start, (records_max, bytes_max), durable_only=durable_only
            )
            if found is not None:
                return iter(found)
        wanted = (start, end, records_max, bytes_max)
        return self._reading(topic, partition, wanted, durable_only=durable_only).records()

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
        wanted = (start, end, records_max, bytes_max)
        return self._reading(topic, partition, wanted, durable_only=durable_only).batches()

    def _newest(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        limits: tuple[int, int],
        *,
        durable_only: bool,
    ) -> Sequence[Record] | None:
        self._root.check_open()
        try:
            entry = self._topics.known(topic)
            if entry is None:
                return None
            files = entry.files(partition)
            return newest(files, start, limits, durable_only=durable_only)
        except OSError as error:
            raise unavailable(error, self._root.path) from error

    @translated
    def _reading(
        self,
        topic: TopicName,
        partition: int,
        wanted: tuple[int, int | None, int | None, int | None],
        *,
        durable_only: bool,
    ) -> Reading:
        wanted = check_span(*wanted, durable_only=durable_only)
        files = self._files(topic, partition)
        found = span(files, wanted, durable_only=durable_only)
        return Reading(files, found, self._root.check_open)

    @translated
    def marks(self, topic: TopicName, partition: int) -> Marks:
        entry = self._topics.known(topic)
        if entry is not None:
            self._root.check_open()
            state = entry.files(partition).look()
            if state is not None:
                return state.marks
        return self._files(topic, partition).marks()

    @translated
    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        timestamp_us = check_timestamp(timestamp_us)
        return offset_at(self._files(topic, partition), timestamp_us)

    @translated
    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        return self._files(topic, partition).epochs()

    @translated
    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        files = self._files(topic, partition)
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
            found.append(
                Segment(
                    Offset(start),
                    Offset(end),
                    size,
                    stored.first_us
                    if is_sealed and start == stored.base
                    else self._first_us(files, start),
                    stored.last_us if is_sealed else state.last_us,
                    is_sealed=is_sealed,
                    location=files.place.segment_path(stored),
                )
            )
        return found

    def _first_us(self, files: PartitionFiles, offset: int) -> int:
        found = span(files, (offset, None, 1, None), durable_only=False)
        return next(Reading(files, found, self._root.check_open).records()).timestamp_us

    @translated
    def resolve(self, position: Position) -> Offset:
        self._root.check_open()
        position = checked_position(position)
        if position.log_id != self.id:
            raise InvalidError("this is a position in another log", log_id=position.log_id)
        entry = self._topics.find_id(position.topic_id)
        if entry is None:
            raise InvalidError("this is a position in no topic of now", topic_id=position.topic_id)
        files = entry.files(position.partition)
        return check_position(position, files.epochs(), files.marks())

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        entry = self._entry(topic)
        history = partial(self.history, entry.topic)
        return verify_each(history, entry.settings.partitions, partition, expected)

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        begin, stop, *_ = check_span(start, end)
        return history_of(self._files(topic, partition), begin, stop, self._root.check_open)

    # --- inside ---

    def _entry(self, topic: TopicName) -> TopicEntry:
        self._root.check_open()
        return self._topics.find(topic)

    def _files(self, topic: TopicName, partition: int) -> PartitionFiles:
        return self._entry(topic).files(partition)
