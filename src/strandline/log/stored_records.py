"""Records as stores hand them to the log, and those of a partition in memory."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from strandline._core import IS_COMPILED
from strandline.log.draft import Draft, load
from strandline.log.draft_columns import EventDrafts
from strandline.log.history import Body, EventBody
from strandline.values import Event, Offset, Partition, Record, Tenant, ValueKind

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import copies_of, records_of, size_of
else:
    copies_of = records_of = size_of = None

#: So many records are made at once, of which the reader may want only the first.
_PIECE_RECORDS = 32

_start = attrgetter("start")


class StoredRecord(NamedTuple):
    """Implements Kept."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body
    size_bytes: int
    #: The chain's value after this record; None in a topic without a proof.
    value: bytes | None


class PlacedDrafts(NamedTuple):
    """What an append stores: drafts, the offset of the first, and what they have in common."""

    start: int
    timestamp_us: int
    tenant: Tenant | None
    drafts: Sequence[Draft]
    #: The chain's value after each; None in a topic without a proof.
    values: Sequence[bytes] | None

    def records(self) -> list[StoredRecord]:
        """Return each as it is stored."""
        start, stamp, tenant, drafts, values = self
        after: Iterable[bytes | None] = repeat(None, len(drafts)) if values is None else values
        return [
            StoredRecord(Offset(offset), stamp, key, tenant, body, size_bytes, value)
            for offset, ((key, body, size_bytes), value) in enumerate(
                zip(drafts, after, strict=True), start
            )
        ]


class EventLists(NamedTuple):
    """Fields of records that are events."""

    offsets: Sequence[int]
    timestamps_us: Sequence[int]
    keys: Sequence[str | None]
    tenants: Sequence[Tenant | None]
    kinds: Sequence[str]
    payloads_json: Sequence[bytes]
    headers_json: Sequence[bytes]
    occurred_at_us: Sequence[int | None]


class _ListAppend(NamedTuple):
    """What the events of one append have in common."""

    start: int
    timestamp_us: int
    tenant: Tenant | None


class StoredRecords(Sequence[StoredRecord]):
    """Records without a gap, from an offset on.

    With the core, the events of a list are kept as they are, and become records when they are
    read: the garbage collector visits every tuple of a log at each full collection, and no
    event of the core.
    """

    def __init__(
        self, start: int, entries: list[Any] | None = None, runs: Sequence[_ListAppend] = ()
    ) -> None:
        #: The offset of the oldest.
        self.start: int = start
        self._entries: list[StoredRecord | Any] = [] if entries is None else entries
        # Invariant: an event belongs to the last run that begins at its offset or before. A run
        # is added before its events are: one that is left without them does no harm.
        self._runs = list(runs)

    @classmethod
    def of(cls, start: int, records: Sequence[StoredRecord]) -> "StoredRecords":
        """Return these records, the first of which has the offset `start`."""
        return records if isinstance(records, cls) else cls(start, [*records])

    def add(self, placed: PlacedDrafts) -> None:
        """Add records that follow the last one."""
        drafts = placed.drafts
        if isinstance(drafts, EventDrafts) and placed.values is None:
            self._runs.append(_ListAppend(placed.start, placed.timestamp_us, placed.tenant))
            self._entries += copies_of(drafts.events)
        else:
            self._entries += placed.records()

    def remove(self, count: int) -> None:
        """Remove the oldest."""
        del self._entries[:count]
        self.start += count
        del self._runs[: self._run_at(self.start)]

    def replace(self, index: int, record: StoredRecord) -> None:
        """Replace the record at an index."""
        self._entries[index] = record

    def sizes(self) -> Iterator[int]:
        """Yield the size that each counts with."""
        for entry in self._entries:
            yield entry.size_bytes if type(entry) is StoredRecord else size_of(entry)

    def keys(self) -> Iterator[str | None]:
        """Yield the key of each."""
        return (entry.key for entry in self._entries)

    def load(self, topic: str, partition: Partition, kind: ValueKind) -> Iterator[Record]:
        """Yield each with its own value."""
        for run, first, last in self._pieces():
            for start in range(first, last, _PIECE_RECORDS):
                stop = min(last, start + _PIECE_RECORDS)
                entries: list[Any] = self._entries[start - self.start : stop - self.start]
                types = set(map(type, entries))
                if kind is ValueKind.EVENT and types == {StoredRecord}:
                    yield from [
                        Record(topic, partition, offset, at_us, key, tenant, event)
                        for offset, at_us, key, tenant, body, _, _ in entries
                        for event in (Event.load(body[0], body[1], key, body[2], body[3]),)
                    ]
                elif run is None or StoredRecord in types:
                    # A batch may turn out to be damaged: those before it are whole.
                    for each in self[start - self.start : stop - self.start]:
                        offset, timestamp_us, key, tenant, body, _, _ = each
                        value = load(kind, body, key)
                        yield Record(topic, partition, offset, timestamp_us, key, tenant, value)
                else:
                    yield from records_of(
                        topic, partition, start, run.timestamp_us, run.tenant, entries
                    )

    def event_columns(self) -> EventLists | None:
        """Return what is stored of them, a list for each field; None if they are no events of
        the core."""
        entries: list[Any] = self._entries
        if set(map(type, entries)) != {Event} or not IS_COMPILED:
            return None
        kinds, payloads, keys, headers, times = Event.columns(entries)
        timestamps: list[int] = []
        tenants: list[Tenant | None] = []
        for run, first, last in self._pieces():
            assert run is not None
            timestamps += [run.timestamp_us] * (last - first)
            tenants += [run.tenant] * (last - first)
        offsets = range(self.start, self.start + len(entries))
        return EventLists(offsets, timestamps, keys, tenants, kinds, payloads, headers, times)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[StoredRecord]:
        for run, first, last in self._pieces():
            entries = self._entries[first - self.start : last - self.start]
            for offset, entry in enumerate(entries, first):
                yield entry if type(entry) is StoredRecord else _stored(run, offset, entry)

    @overload
    def __getitem__(self, index: int) -> StoredRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "StoredRecords": ...
    def __getitem__(self, index: int | slice) -> "StoredRecord | StoredRecords":
        if isinstance(index, slice):
            first, last, _ = index.indices(len(self._entries))
            start = self.start + first
            runs = self._runs[self._run_at(start) : self._run_at(self.start + last) + 1]
            return StoredRecords(start, self._entries[first:last], runs)
        entry = self._entries[index]
        if type(entry) is StoredRecord:
            return entry
        offset = self.start + range(len(self._entries))[index]
        return _stored(self._runs[self._run_at(offset)], offset, entry)

    def _run_at(self, offset: int) -> int:
        """Return which run an offset is in, if it is in any."""
        return max(0, bisect_right(self._runs, offset, key=_start) - 1)

    def _pieces(self) -> Iterator[tuple[_ListAppend | None, int, int]]:
        """Yield each run, and its offsets; before it, None and those of none."""
        end = self.start + len(self._entries)
        bounds = [max(self.start, run.start) for run in self._runs]
        if self.start < (first := min([*bounds, end])):
            yield None, self.start, first
        for run, (start, stop) in zip(self._runs, pairwise([*bounds, end]), strict=True):
            yield run, start, stop


def _stored(run: _ListAppend | None, offset: int, event: Any) -> StoredRecord:
    assert run is not None
    kind, payload, key, headers, occurred_at_us = event.parts()
    body = EventBody(kind, payload, headers, occurred_at_us)
    return StoredRecord(
        Offset(offset), run.timestamp_us, key, run.tenant, body, size_of(event), None
    )
