"""Reads records from a server, a page at a time."""

from collections.abc import Iterator, Sequence

from strandline.log import wire
from strandline.log.chain import Chain
from strandline.log.draft import load
from strandline.log.history import Damage, History, Piece
from strandline.log.ranges import ReadRange
from strandline.log.record_lists import pages_within
from strandline.log.stored_records import StoredRecord
from strandline.stores.remote.connection import RemoteConnection
from strandline.stores.remote.topics import RemoteTopic
from strandline.values import (
    CorruptError,
    Offset,
    Partition,
    ProofFinding,
    Record,
    ValueKind,
)


class RemoteReads:
    """Reads one partition."""

    def __init__(self, connection: RemoteConnection, topic: RemoteTopic, partition: int) -> None:
        self._connection = connection
        self._topic = topic
        self._partition = Partition(partition)
        self._is_batch = topic.settings.value_kind is ValueKind.BATCH

    def first(self, wanted: ReadRange) -> "tuple[list[StoredRecord], int]":
        """Return the first page of a read, and where the read ends; raises the read's errors."""
        call = wire.ReadCall(self._topic.topic.id, self._partition, *wanted)
        answer = self._connection.call("read", call, wire.ReadReturn)
        return self._stored(answer.records), answer.stop

    def pages(
        self, wanted: ReadRange, first: Sequence[StoredRecord], stop: int
    ) -> Iterator[Sequence[StoredRecord]]:
        """Return the pages of a read, whose first page was read already."""
        return pages_within(self._pages(wanted.start, first, stop), wanted.bytes_max)

    def _pages(
        self, start: int, page: Sequence[StoredRecord], stop: int
    ) -> Iterator[Sequence[StoredRecord]]:
        while page:
            yield page
            start = page[-1].offset + 1
            if start >= stop:
                return
            page, _ = self.first(ReadRange(start, stop))
            if not page:
                raise CorruptError(
                    "the server has sent no records although it has some",
                    file=self._connection.url,
                    position=start,
                )

    def records(
        self, wanted: ReadRange, first: Sequence[StoredRecord], stop: int
    ) -> Iterator[Record]:
        """Yield the records of a read."""
        name, kind = self._topic.topic.name, self._topic.settings.value_kind
        for page in self.pages(wanted, first, stop):
            for each in page:
                self._connection.state.check()
                yield Record(
                    *(name, self._partition, each.offset, each.timestamp_us, each.key, each.tenant),
                    value=load(kind, each.body, each.key),
                )

    def history(self, log_id: object, start: int, end: int | None) -> History:
        """Return what is stored, with its proof."""
        found = self._history(start, end)
        settings, topic = self._topic.settings, self._topic.topic
        chain = Chain(log_id, topic.id, self._partition, settings.value_kind)  # type: ignore[arg-type]
        pieces = self._pieces(found)
        return History(
            self._partition, found.low, found.high, chain, found.anchor, found.is_proved, pieces
        )

    def _history(self, start: int, end: int | None) -> wire.HistoryReturn:
        call = wire.ReadCall(self._topic.topic.id, self._partition, start, end)
        return self._connection.call("history", call, wire.HistoryReturn)

    def _pieces(self, found: wire.HistoryReturn) -> Iterator[Piece | Damage | ProofFinding]:
        high = found.high
        while True:
            for each in found.pieces:
                yield self._piece(each)
            if found.next is None or found.next >= high:
                return
            found = self._history(found.next, high)

    def _piece(self, each: wire.WirePiece) -> Piece | Damage | ProofFinding:
        if each.damage is not None:
            return Damage(*each.damage)
        if each.finding is not None:
            return ProofFinding(Offset(each.finding[0]), each.finding[1])
        return Piece(self._stored(each.records), each.value)

    def _stored(self, records: Sequence[wire.WireRecord]) -> list[StoredRecord]:
        return [wire.stored_record(each, is_batch=self._is_batch) for each in records]
