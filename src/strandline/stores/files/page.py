"""The records of one frame as columns, which are decoded a few at a time."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from strandline.log.draft import load_batch
from strandline.values import Event, Partition, Record, Tenant, ValueKind

_AT_ONCE = 256


class Page(NamedTuple):
    """Consecutive records. Each column has one value per record."""

    kind: ValueKind
    offsets: range
    stamps: Sequence[int]
    keys: Sequence[str | None]
    tenants: Sequence[Tenant | None]
    #: For events: kind, payload, headers and time. Otherwise: the value.
    columns: Sequence[Sequence[Any]]
    #: The size of each record, where the columns do not show it.
    given_sizes: Sequence[int | None] | None = None

    def cut(self, start: int, stop: int) -> "Page":
        """Return the records with offsets in [start, stop)."""
        first = self.offsets.start
        if start <= first and stop >= self.offsets.stop:
            return self
        part = slice(max(0, start - first), max(0, stop - first))
        return Page(
            self.kind,
            self.offsets[part],
            self.stamps[part],
            self.keys[part],
            self.tenants[part],
            [column[part] for column in self.columns],
            None if self.given_sizes is None else self.given_sizes[part],
        )

    def records(self, topic: str, partition: Partition) -> Iterator[Record]:
        """Return the records as objects."""
        if len(self.offsets) <= _AT_ONCE:
            return _records(self, topic, partition)
        # A few at a time, so that they stay in the processor's caches until they are used.
        starts = range(self.offsets.start, self.offsets.stop, _AT_ONCE)
        return chain.from_iterable(
            _records(self.cut(start, start + _AT_ONCE), topic, partition) for start in starts
        )

    def sizes(self) -> list[int]:
        """Return the size of each record, as counted against limits."""
        keys = [0 if key is None else len(key.encode()) for key in self.keys]
        if self.kind is ValueKind.EVENT:
            kinds, payloads, headers, _ = self.columns
            return [
                key + len(kind.encode()) + len(payload) + len(header)
                for key, kind, payload, header in zip(keys, kinds, payloads, headers, strict=True)
            ]
        given = self.given_sizes or repeat(None, len(keys))
        return [
            key + len(value) if size is None else size
            for key, value, size in zip(keys, self.columns[0], given, strict=True)
        ]


def _records(page: Page, topic: str, partition: Partition) -> Iterator[Record]:
    values: Sequence[Any]
    if page.kind is ValueKind.EVENT:
        kinds, payloads, headers, times = page.columns
        values = Event.load_many(kinds, payloads, page.keys, headers, times)
    elif page.kind is ValueKind.BATCH:
        values = [load_batch(body) for body in page.columns[0]]
    else:
        values = page.columns[0]
    return map(
        Record,
        repeat(topic),
        repeat(partition),
        page.offsets,
        page.stamps,
        page.keys,
        page.tenants,
        values,
    )
