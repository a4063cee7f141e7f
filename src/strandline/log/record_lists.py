"""Partitions kept as lists of records in memory: building and reading them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from strandline.log.chain import Chain, link
from strandline.log.columns import RecordBatches
from strandline.log.decide import PartitionHead, decide, record_identities
from strandline.log.history import History, Piece
from strandline.log.ranges import ReadRange, check_range, count_within
from strandline.log.record_batches import record_batches
from strandline.log.store import AppendRequest, PartitionState, Placement
from strandline.log.stored_records import PlacedDrafts, StoredRecord, StoredRecords
from strandline.log.topic_table import TableTopic
from strandline.values import Marks, Partition, Record, Segment, ValueKind

_PAGE_RECORDS = 4096
#: So many events are read at once, where a limit of bytes is given.
_LIST_RECORDS = 256
#: An Arrow string column holds at most 2 GiB.
_PAGE_BYTES = 64 * 1024 * 1024


class RecordList(Protocol):
    """The records of one partition, without gaps. Hold the lock to read consistent values."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Excludes appends and trims."""

    @property
    def records(self) -> Sequence[StoredRecord]:
        """The stored records, oldest first. `StoredRecords` costs least."""

    @property
    def size_bytes(self) -> int:
        """Their total size, as counted against limits."""

    @property
    def chain(self) -> Chain:
        """The partition's hash chain."""

    @property
    def anchor(self) -> bytes | None:
        """The chain's value before the oldest record; None in a topic without a proof."""

    def state(self) -> PartitionState:
        """Return the partition's state; raise once it is dropped or closed."""


R = TypeVar("R", bound=RecordList)


def place(
    head: PartitionHead, request: AppendRequest, now_us: int, chain: Chain, value: bytes | None
) -> tuple[Placement, PlacedDrafts]:
    """Decide on an append: return its placement, and what to store at the head's end.

    `value` is the chain's value there; None in a topic without a proof. The head remembers
    the identities: a caller that fails to store the records discards it.
    """
    decision = decide(head, request, now_us)
    start, (stamp, originals) = head.next, decision
    # Slicing always would build every draft, even if there are no repeats.
    drafts = request.drafts[len(originals) :] if originals else request.drafts
    values: list[bytes] | None = None
    if value is not None:
        values = []
        for offset, (key, body, _) in enumerate(drafts, start):
            value = link(value, chain.digest(offset, stamp, key, request.tenant, body))
            values.append(value)
    if drafts:
        record_identities(head, request, decision, start)
    placement = Placement(start, stamp, originals)
    return placement, PlacedDrafts(start, stamp, request.tenant, drafts, values)


def admit(
    head: PartitionHead, request: AppendRequest, now_us: int, chain: Chain, value: bytes | None
) -> tuple[Placement, Sequence[StoredRecord]]:
    """Do what `place` does, and return the records one by one."""
    placement, placed = place(head, request, now_us, chain, value)
    return placement, placed.records()


class ListReads:
    """Implements the calls of StoreRecords that only read, over record lists."""

    def state(self, topic: TableTopic[R], partition: int) -> PartitionState:
        found = topic.partitions[partition]
        with found.lock:
            return found.state()

    def marks(self, topic: TableTopic[R], partition: int) -> Marks:
        return self.state(topic, partition).marks

    def read(self, topic: TableTopic[R], partition: int, wanted: ReadRange) -> Iterator[Record]:
        kind = topic.settings.value_kind
        records = _select(topic, partition, wanted)
        loaded = records.load(topic.topic.name, Partition(partition), kind)
        # A list of what fits: no layer above has to see to what happens between two of them.
        fits = kind is ValueKind.EVENT and wanted.bytes_max is not None
        return iter(list(loaded)) if fits and len(records) <= _LIST_RECORDS else loaded

    def read_batches(
        self, topic: TableTopic[R], partition: int, wanted: ReadRange
    ) -> RecordBatches:
        records = _select(topic, partition, wanted)
        kind = topic.settings.value_kind
        return record_batches(kind, Partition(partition), lambda: _pages(records))

    def history(self, topic: TableTopic[R], partition: int, start: int, end: int | None) -> History:
        found = topic.partitions[partition]
        with found.lock:
            state, records, anchor = found.state(), found.records, found.anchor
            low = max(start, state.oldest)
            high = max(low, state.marks.high if end is None else min(end, state.marks.high))
            first = low - state.oldest
            is_proved = anchor is not None
            if is_proved and first:
                anchor = records[first - 1].value if first <= len(records) else None
            pieces = (Piece([each], each.value) for each in records[first : high - state.oldest])
        return History(Partition(partition), low, high, found.chain, anchor, is_proved, pieces)

    def segments(self, topic: TableTopic[R], partition: int) -> Sequence[Segment]:
        found = topic.partitions[partition]
        with found.lock:
            state, records, size_bytes = found.state(), found.records, found.size_bytes
            if not records:
                return ()
            stamps = records[0].timestamp_us, records[-1].timestamp_us
        return (
            Segment(
                *(state.oldest, state.marks.high, size_bytes, *stamps),
                is_sealed=False,
                location=None,
            ),
        )


def pages_within(
    pages: Iterable[Sequence[StoredRecord]], bytes_max: int | None
) -> Iterator[Sequence[StoredRecord]]:
    """Yield the pages of a read within `bytes_max`: always the first record, unless the limit
    is 0. Takes no page that is not needed."""
    left, is_first = bytes_max, True
    if left == 0:
        return
    for page in pages:
        kept = page[: count_within((each.size_bytes for each in page), left)]
        if left is not None and not is_first and kept[0].size_bytes > left:
            return
        yield kept
        is_first = False
        if left is not None:
            left -= sum(each.size_bytes for each in kept)
            if left <= 0 or len(kept) < len(page):
                return


def _select(topic: TableTopic[R], partition: int, wanted: ReadRange) -> StoredRecords:
    found = topic.partitions[partition]
    with found.lock:
        marks, oldest, _ = found.state()
        stop = check_range(wanted, marks, oldest, topic.topic, partition)
        records = StoredRecords.of(
            wanted.start, found.records[wanted.start - oldest : stop - oldest]
        )
    return records[: count_within(records.sizes(), wanted.bytes_max)]


def _pages(records: StoredRecords) -> Iterator[Sequence[StoredRecord]]:
    while records:
        page = records[:_PAGE_RECORDS]
        page = page[: count_within(page.sizes(), _PAGE_BYTES)]
        yield page
        records = records[len(page) :]
