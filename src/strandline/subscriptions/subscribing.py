"""From a call of `subscribe` to a subscription that reads what was asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from strandline.clock import Clock, SystemClock
from strandline.log import Log, TopicName
from strandline.subscriptions.assignment import Assignment, checked_place, collapse
from strandline.subscriptions.brokered import attached
from strandline.subscriptions.cursor import Cursors, Place
from strandline.subscriptions.pages import Pages
from strandline.subscriptions.screening import Screen, screen_for
from strandline.subscriptions.start import StartPoint
from strandline.subscriptions.subscription import Subscription
from strandline.values import EARLIEST, InvalidError, Topic, parse_tenant
from strandline.values.arguments import check_flag, check_items, check_whole, whole
from strandline.values.names import check_text

READ_AHEAD: Final = 128
"""How many records a subscription holds in memory, unless told otherwise."""

QUEUE_DEPTH_VARIABLE: Final = "STRANDLINE_QUEUE_DEPTH"
"""The variable that tells otherwise for a whole process."""

_DIGITS_MAX = 9

Starts: TypeAlias = StartPoint | Mapping[int, StartPoint]
"""One start for all partitions, or one for each; an offset is never one for several."""

Partitions: TypeAlias = Iterable[int | tuple[int, StartPoint]]
"""Partitions, with or without a start of their own."""


def open_subscription(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    start: Starts = EARLIEST,
    partitions: Partitions | None = None,
    consumer: str | None = None,
    tenant: str | None = None,
    where: str = "",
    markers: bool = False,
    durable_only: bool = False,
    read_ahead: int | None = None,
    clock: Clock | None = None,
) -> Subscription[Any]:
    """Do what `SubscribableLog.subscribe` says."""
    depth = _queue_depth() if read_ahead is None else check_count("read_ahead", read_ahead)
    check_flag("markers", markers)
    check_flag("durable_only", durable_only)
    tenant = parse_tenant(tenant)
    topics = _topics(log, topic)
    screens = _screens(log, topics, where)
    starts = collapse(_asked(topics, start, partitions))
    if isinstance(start, int) and len(starts) > 1:
        raise InvalidError("an offset is one partition's, give a mapping with one for each")
    clock = clock or SystemClock()
    lock = threading.RLock()
    cursors = Cursors(behind_max=depth)
    watch = log.watch(durable_only=durable_only)
    closing = attached(log, topics, watch, name=consumer, tenant=tenant)
    assignment = Assignment(log, topics, cursors, watch, lock, durable_only=durable_only)
    pages = Pages(
        log,
        cursors,
        watch,
        lock,
        clock,
        records_max=depth,
        durable_only=durable_only,
        screens=screens,
    )
    made = Subscription[Any](assignment, pages, watch, clock, markers=markers, closing=closing)
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


def check_count(name: str, value: object) -> int:
    """Return `value` if it is a whole number from 1, else raise InvalidError."""
    return check_whole(name, value, 1)


def _queue_depth() -> int:
    text = os.environ.get(QUEUE_DEPTH_VARIABLE)
    if text is None:
        return READ_AHEAD
    # A sign, a space, an underscore or a digit of another script is a slip of somebody's.
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) >= 1:
        return int(text)
    raise InvalidError(
        f"{QUEUE_DEPTH_VARIABLE} is a whole number from 1, or unset for {READ_AHEAD}", value=text
    )


def _topics(log: Log, names: TopicName | Sequence[TopicName]) -> Mapping[Topic, int]:
    each = [names] if isinstance(names, str | Topic) else check_items("topic", names)
    topics = [log.topic(name) for name in each]
    if not topics:
        raise InvalidError("subscribe to at least one topic")
    return {topic: log.describe_topic(topic).settings.partitions for topic in topics}


def _screens(log: Log, topics: Iterable[Topic], where: str) -> Mapping[Topic, Screen] | None:
    where = check_text(where, "predicate")
    if not where.strip():
        return None
    kinds = {topic: log.describe_topic(topic).settings.value_kind for topic in topics}
    return {topic: screen_for(where, kind) for topic, kind in kinds.items()}


def _asked(
    topics: Mapping[Topic, int], start: Starts, partitions: Partitions | None
) -> Iterator[tuple[Place, StartPoint]]:
    chosen = None if partitions is None else check_items("partitions", partitions)
    if len(topics) > 1 and (chosen or isinstance(start, Mapping)):
        raise InvalidError("with several topics, choose partitions through the assignment")
    for topic, count in topics.items():
        every: Iterable[int] = start if isinstance(start, Mapping) else range(count)
        for entry in every if chosen is None else chosen:
            partition, own = _pair(entry, start)
            yield checked_place(topics, topic, partition), own


def _pair(entry: int | tuple[int, StartPoint], start: Starts) -> tuple[int, StartPoint]:
    if not isinstance(entry, tuple):
        return entry, _of(start, entry)
    if len(entry) == len(("partition", "start")):
        return entry
    raise InvalidError("partitions are numbers, or pairs of a number and a start", entry=entry)


def _of(start: Starts, partition: int) -> StartPoint:
    if not isinstance(start, Mapping):
        return start
    if whole(partition) is not None and partition in start:
        return start[partition]
    raise InvalidError("this partition is given no start", partition=partition)
