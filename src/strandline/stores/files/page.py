"""The records of one frame as columns, from which any number are made at once."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from strandline.log.draft import load_batch
from strandline.values import Event, Partition, Record, Tenant, ValueKind

_AT_ONCE = 256


class Page(NamedTuple):
    """Records that follow on each other. Each column has one value for each."""

    kind: ValueKind
    offsets: range
    stamps: Sequence[int]
    keys: Sequence[str | None]
    tenants: Sequence[Tenant | None]
    #: Of events: kind, payload, headers and time. Else: the value.
    columns: Sequence[Sequence[Any]]
    #: How large each counts, where the columns do not show it.
    given_sizes: Sequence[int | None] | None = None

    def cut(self, start: int, stop: int) -> "Page":
        """Return those with offsets in [start, stop)."""
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
        """Return them as objects of their own."""
        if len(self.offsets) <= _AT_ONCE:
            return _records(self, topic, partition)
        # Few at a time, which stay in the processor's caches until they are used.
        starts = range(self.offsets.start, self.offsets.stop, _AT_ONCE)
        return chain.from_iterable(
            _records(self.cut(start, start + _AT_ONCE), topic, partition) for start in starts
        )

    def sizes(self) -> list[int]:
        """Return how large each counts."""
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
