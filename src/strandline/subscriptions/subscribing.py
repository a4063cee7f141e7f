"""From a call of `subscribe` to a subscription that reads what was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, overload

from strandline.clock import Clock, SystemClock
from strandline.log.protocol import Log, TopicName
from strandline.subscriptions.assignment import Assignment, checked_place, collapse
from strandline.subscriptions.cursor import Cursors, Place
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.pages import Pages
from strandline.subscriptions.start import StartPoint
from strandline.subscriptions.subscription import Subscription
from strandline.values import EARLIEST, InvalidError, Record, Topic

READ_AHEAD: Final = 128
"""How many records a subscription holds in memory, unless told otherwise."""

Starts: TypeAlias = StartPoint | Mapping[int, StartPoint]
"""One start for all partitions, or one for each; an offset is never one for several."""

Partitions: TypeAlias = Iterable[int | tuple[int, StartPoint]]
"""Partitions, with or without a start of their own."""


@overload
def subscribe(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    start: Starts = ...,
    partitions: Partitions | None = ...,
    consumer: str | None = ...,
    tenant: str | None = ...,
    markers: Literal[False] = ...,
    read_ahead: int = ...,
    clock: Clock | None = ...,
) -> Subscription[Record]: ...


@overload
def subscribe(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    start: Starts = ...,
    partitions: Partitions | None = ...,
    consumer: str | None = ...,
    tenant: str | None = ...,
    markers: Literal[True],
    read_ahead: int = ...,
    clock: Clock | None = ...,
) -> Subscription[Record | Marker]: ...


def subscribe(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    start: Starts = EARLIEST,
    partitions: Partitions | None = None,
    consumer: str | None = None,
    tenant: str | None = None,
    markers: bool = False,
    read_ahead: int = READ_AHEAD,
    clock: Clock | None = None,
) -> Subscription[Record] | Subscription[Record | Marker]:
    """Read one or several topics from `start` on, and go on as they grow.

    The start is fixed when this returns. It is EARLIEST, LATEST, a datetime with a time
    zone, an offset, or a mapping from partition to one of these, which then also says
    which partitions are read. An offset by itself is refused for several partitions.
    With `consumer`, a partition starts at the cursor of that consumer (of `tenant`), and
    at `start` if it has none there.

    `partitions` None stands for all, and an empty one for none until the assignment is
    changed. The same partition twice is read once; with two starts it is InvalidError.
    With several topics, offsets and partitions are chosen through the assignment.

    InvalidError for a partition that there is not, and for a start that is negative or
    beyond the end; TrimmedError for one that is no longer kept. With `markers`,
    CaughtUp and FellBehind come between the records. `read_ahead` records at most are
    held in memory.
    """
    check_count("read_ahead", read_ahead)
    topics = _topics(log, topic)
    starts = collapse(_asked(topics, start, partitions))
    if isinstance(start, int) and len(starts) > 1:
        raise InvalidError("an offset is one partition's, give a mapping with one for each")
    clock = clock or SystemClock()
    lock = threading.RLock()
    cursors = Cursors(behind_max=read_ahead)
    watch = log.watch()
    assignment = Assignment(log, topics, cursors, watch, lock)
    pages = Pages(log, cursors, watch, lock, clock, records_max=read_ahead)
    made = Subscription[Record](assignment, pages, watch, clock, markers=markers)
    try:
        for place, wanted in starts.items():
            cursor = None
            if consumer is not None:
                cursor = log.cursor(place.topic, consumer, place.partition, tenant=tenant)
            found = wanted if cursor is None else cursor
            assignment.add(place.partition, found, topic=place.topic)
    except BaseException:
        made.close()
        raise
    return made


def check_count(name: str, value: object) -> None:
    """Raise InvalidError unless `value` is a whole number from 1."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return
    raise InvalidError(f"{name} is a whole number from 1", **{name: value})


def _topics(log: Log, names: TopicName | Sequence[TopicName]) -> Mapping[Topic, int]:
    if isinstance(names, str | Topic):
        names = (names,)
    topics = [log.topic(name) for name in names]
    if not topics:
        raise InvalidError("subscribe to at least one topic")
    return {topic: log.describe_topic(topic).settings.partitions for topic in topics}


def _asked(
    topics: Mapping[Topic, int], start: Starts, partitions: Partitions | None
) -> Iterator[tuple[Place, StartPoint]]:
    chosen = None if partitions is None else list(partitions)
    if len(topics) > 1 and (chosen or isinstance(start, Mapping)):
        raise InvalidError("with several topics, choose partitions through the assignment")
    for topic, count in topics.items():
        every: Iterable[int] = start if isinstance(start, Mapping) else range(count)
        for entry in every if chosen is None else chosen:
            partition, own = entry if isinstance(entry, tuple) else (entry, _of(start, entry))
            yield checked_place(topics, topic, partition), own


def _of(start: Starts, partition: int) -> StartPoint:
    if not isinstance(start, Mapping):
        return start
    if partition in start:
        return start[partition]
    raise InvalidError("this partition is given no start", partition=partition)
