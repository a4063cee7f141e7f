"""Replay: what a scope sees of the current records, a page at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from strandline.log import Log
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.start import Starts, resolve
from strandline.typed.definition import TopicDefinition
from strandline.typed.delivered import Delivered, VisibleRows
from strandline.values import InvalidError, Offset, Partition
from strandline.values.arguments import check_whole

PAGE_RECORDS_MAX: Final = 128
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024


def spans_of(
    log: Log, definition: TopicDefinition, start: Starts
) -> Sequence[tuple[Partition, Offset, Offset]]:
    """Return the current range of each partition to replay."""
    if isinstance(start, int) and definition.partitions > 1:
        raise InvalidError(
            "an offset belongs to one partition, pass one for each, as in start={0: 17, 1: 4}",
            start=start,
        )
    chosen: Iterable[int] = range(definition.partitions)
    if isinstance(start, Mapping):
        chosen = [check_whole("partition", number) for number in start]
    spans = []
    for number in sorted(chosen):
        place = TopicPartition(definition.topic, Partition(number))
        marks = log.marks(*place)
        begin = start[number] if isinstance(start, Mapping) else start
        spans.append((place.partition, resolve(log, place, begin, marks, marks.high), marks.high))
    return spans


def replayed(
    log: Log,
    definition: TopicDefinition,
    spans: Sequence[tuple[Partition, Offset, Offset]],
    visible: VisibleRows,
) -> Iterator[Delivered]:
    """Yield the visible records of each range, one partition after another, a page at a time."""
    for partition, begin, end in spans:
        at: int = begin
        while at < end:
            page = log.read(
                definition.topic,
                partition,
                at,
                end,
                records_max=PAGE_RECORDS_MAX,
                bytes_max=PAGE_BYTES_MAX,
            )
            for record in page:
                at = record.offset + 1
                if (shown := visible.of(record)) is not None:
                    yield shown
