"""Metadata of a partition of frames: marks, segments and history."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

import msgspec

from strandline.log.chain import Chain
from strandline.log.history import History, Piece
from strandline.log.ranges import ReadSpan
from strandline.log.store import PartitionState
from strandline.log.stored_records import StoredRecord
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.fenced_head import EndOfFrames
from strandline.values import CorruptError, Epoch, Marks, Offset, Partition, Segment

EndT = TypeVar("EndT", bound=EndOfFrames)


class FrameMarks(msgspec.Struct, array_like=True, frozen=True):
    """The metadata of a partition."""

    low: int
    #: The oldest offset that is stored here.
    oldest: int
    #: The total size of the records before `oldest`, as counted against limits.
    bytes_before: int
    #: For a topic with a proof: the chain's value before `oldest`.
    anchor: bytes | None
    #: Number, id and start.
    epochs: list[tuple[int, UUID, int]]

    def public(self, end: EndOfFrames, *, is_durable: bool) -> Marks:
        """Return the marks in the form that callers get."""
        high = max(end.next, self.oldest)
        return Marks(Offset(self.low), Offset(high), Offset(high if is_durable else self.low))

    def state(self, end: EndOfFrames, *, is_durable: bool) -> PartitionState:
        """Return the state in the form that callers get."""
        epochs = [Epoch(number, each, Offset(start)) for number, each, start in self.epochs]
        return PartitionState(self.public(end, is_durable=is_durable), Offset(self.oldest), epochs)


class FrameRecords(Protocol):
    """Reads the records of a partition whose end was just read."""

    def one(self, offset: int) -> StoredRecord:
        """Return a record that must exist."""

    def pages(self, span: ReadSpan) -> Iterator[Sequence[StoredRecord]]:
        """Yield the records of `span` in lists of a bounded size."""


def frame_history(
    topic: EngineTopic,
    chain: Chain,
    ends: tuple[FrameMarks, EndOfFrames],
    records: FrameRecords,
    wanted: tuple[Partition, int, int | None],
) -> History:
    """Return what is stored of a partition. See `StoreRecords.history`."""
    (marks, last), (partition, start, end), is_proved = ends, wanted, topic.settings.proof
    low = max(start, marks.oldest)
    high = max(low, last.next if end is None else min(end, last.next))
    anchor = marks.anchor
    if is_proved and low > marks.oldest:
        anchor = records.one(low - 1).value if low <= last.next else None
    pages = records.pages(ReadSpan(low, high))
    pieces = (Piece([each], each.value) for page in pages for each in page)
    return History(partition, low, high, chain, anchor, is_proved, pieces)


def frame_segments(
    ends: Callable[[], tuple[FrameMarks, EndT]], reader: Callable[[EndT], FrameRecords]
) -> Sequence[Segment]:
    """Return the partition's only segment. See `StoreRecords.segments`."""
    while True:
        marks, last = ends()
        if marks.oldest >= last.next:
            return []
        try:
            oldest = reader(last).one(marks.oldest)
        except CorruptError:
            if ends()[0].oldest == marks.oldest:
                raise
            # A trim intervened.
            continue
        run = Offset(marks.oldest), Offset(last.next), last.bytes_total - marks.bytes_before
        stamps = oldest.timestamp_us, last.last_us
        return [Segment(*run, *stamps, is_sealed=False, location=None)]
