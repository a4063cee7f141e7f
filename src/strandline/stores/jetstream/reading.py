"""Reads the records of a partition, a bounded page at a time."""

from collections.abc import Sequence
from typing import Final

from strandline.log.stored_records import StoredRecord
from strandline.stores.frame_pages import FramePages
from strandline.stores.jetstream.frames import MessageFrame, decode_frame
from strandline.stores.jetstream.partition import JetStreamPartition, StreamHead
from strandline.stores.lost_answer import LostError
from strandline.values import CorruptError, TrimmedError, ValueKind


class FrameReader:
    """Reads the records of one partition, whose end was just read."""

    def __init__(
        self,
        partition: JetStreamPartition,
        head: StreamHead,
        kind: ValueKind,
        announced: Sequence[MessageFrame] = (),
    ) -> None:
        self._partition = partition
        self._head = head
        self._kind = kind
        #: Announced frames, which need not be requested.
        self._announced = announced
        self._run = run = partition.connection.run
        pages = FramePages(
            *(partition.topic, partition.number, kind),
            lambda start, end: self._from_announced(start, end) or run(self._page(start, end)),
        )
        self.records: Final = pages.records
        self.pages: Final = pages.pages

    def one(self, offset: int) -> StoredRecord:
        """Return the record at an existing offset."""
        _, frame = self._run(self._partition.locate(offset, self._head))
        return frame.entries(self._kind)[offset - frame.start]

    def _from_announced(self, start: int, end: int) -> list[StoredRecord]:
        """Return the announced records from `start` on."""
        if not self._announced or not self._announced[0].start <= start < self._announced[-1].end:
            return []
        entries = (each for frame in self._announced for each in frame.entries(self._kind))
        return [each for each in entries if start <= each.offset < end]

    async def _page(self, start: int, end: int) -> list[StoredRecord]:
        """Return some of the records from `start` on, at least one."""
        partition = self._partition
        before, _ = partition.places.around(start)
        sequence = before[1] if before is not None and before[0] == start else None
        if sequence is None:
            sequence = (await self._located(start))[0]
        tries = partition.connection.tries()
        while not (messages := await partition.stream.page(sequence)):
            # A replica lags behind, or a trim intervened.
            await self._check_kept(start)
            await tries.rest(LostError("no replica has it yet"))
        found: list[StoredRecord] = []
        for expected, message in enumerate(messages, sequence):
            if message.sequence != expected:
                break
            frame = decode_frame(message, partition.stream.name)
            partition.places.note(frame.start, message.sequence)
            found += frame.entries(self._kind)
        else:
            if messages[-1].sequence < self._head.sequence and found:
                partition.places.note(found[-1].offset + 1, messages[-1].sequence + 1)
        page = [each for each in found if start <= each.offset < end]
        if not page or page[0].offset != start:
            await self._check_kept(start)
            raise partition.missing(start)
        return page

    async def _located(self, offset: int) -> tuple[int, object]:
        try:
            return await self._partition.locate(offset, self._head)
        except CorruptError:
            # A trim since the end was read explains it.
            await self._check_kept(offset)
            raise

    async def _check_kept(self, offset: int) -> None:
        marks = (await self._partition.stored_marks()).marks
        if offset < marks.oldest:
            raise TrimmedError(
                marks.oldest,
                topic=self._partition.topic.name,
                partition=self._partition.number,
                offset=offset,
            )
