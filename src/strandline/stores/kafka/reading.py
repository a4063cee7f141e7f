"""Reads the records of a partition, from the cached end or from the brokers."""

from typing import Final

from strandline.log.stored_records import StoredRecord
from strandline.stores.frame_pages import FramePages
from strandline.stores.kafka.errors import GoneError
from strandline.stores.kafka.frames import PartitionEnd, PlacedFrame
from strandline.stores.kafka.partition import KafkaPartition
from strandline.values import TrimmedError, ValueKind

_PAGE_BYTES: Final = 4 * 1024 * 1024


class KafkaFrameReader:
    """Reads the records of one partition, whose end was just read."""

    def __init__(self, partition: KafkaPartition, end: PartitionEnd, kind: ValueKind) -> None:
        self._partition = partition
        self._end = end
        self._kind = kind
        #: Where the next page begins, if reading continues: offset, Kafka's offset, last name.
        self._next: tuple[int, int, bytes] | None = None
        pages = FramePages(partition.topic, partition.place.number, kind, self._page)
        self.records: Final = pages.records
        self.pages: Final = pages.pages

    def one(self, offset: int) -> StoredRecord:
        """Return the record at an existing offset."""
        return self._page(offset, offset + 1)[0]

    def _page(self, start: int, end: int) -> list[StoredRecord]:
        """Return some of the records from `start` on, at least one."""
        page = [
            each
            for placed in self._frames(start)
            for each in placed.frame.entries(self._kind)
            if start <= each.offset < end
        ]
        if not page or page[0].offset != start:
            self._check_kept(start)
            raise self._partition.damaged(start)
        return page

    def _frames(self, start: int) -> list[PlacedFrame]:
        while True:
            tail = self._partition.tail_from(start)
            try:
                return self._fetched(start) if tail is None else _some(tail)
            except GoneError:
                self._check_kept(start)
                self._partition.forget_places()
                self._next = None

    def _fetched(self, start: int) -> list[PlacedFrame]:
        at, after = self._partition.locate(start, self._end), None
        if self._next is not None and self._next[0] == start:
            _, at, after = self._next
        for frames in self._partition.counted(at, after, self._end.end):
            wanted = [each for each in frames if each.frame.end > start]
            if wanted:
                last = wanted[-1]
                self._next = last.frame.end, last.at + 1, last.frame.name
                return wanted
        return []

    def _check_kept(self, offset: int) -> None:
        oldest = self._partition.ends()[0].oldest
        if offset < oldest:
            name, number = self._partition.topic.name, self._partition.place.number
            raise TrimmedError(oldest, topic=name, partition=number, offset=offset)


def _some(frames: list[PlacedFrame]) -> list[PlacedFrame]:
    """Return the first frames, up to approximately one page."""
    size = 0
    for count, each in enumerate(frames):
        size += each.size_bytes
        if size > _PAGE_BYTES and count:
            return frames[:count]
    return frames
