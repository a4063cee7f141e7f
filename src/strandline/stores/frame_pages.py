"""Reads records from frames, a bounded page at a time."""

from collections.abc import Callable, Iterator, Sequence

from strandline.log.draft import load
from strandline.log.ranges import ReadSpan
from strandline.log.stored_records import StoredRecord
from strandline.values import Partition, Record, Topic, ValueKind


class FramePages:
    """The records of one partition. `page` returns some of [start, end), at least one."""

    def __init__(
        self,
        topic: Topic,
        partition: int,
        kind: ValueKind,
        page: Callable[[int, int], Sequence[StoredRecord]],
    ) -> None:
        self._name = topic.name
        self._number = Partition(partition)
        self._kind = kind
        self._page = page

    def records(self, span: ReadSpan) -> Iterator[Record]:
        """Yield the records of `span`."""
        for page in self.pages(span):
            for each in page:
                yield Record(
                    *(self._name, self._number, each.offset, each.timestamp_us),
                    *(each.key, each.tenant),
                    value=load(self._kind, each.body, each.key),
                )

    def pages(self, span: ReadSpan) -> Iterator[Sequence[StoredRecord]]:
        """Yield the entries of `span` in lists of a bounded size."""
        start, total, limit = span.start, 0, span.bytes_max
        while start < span.end and limit != 0:
            page = self._page(start, span.end)
            count = 0
            for each in page:
                total += each.size_bytes
                if limit is not None and total > limit and start + count > span.start:
                    yield page[:count]
                    return
                count += 1
            yield page
            start += count
