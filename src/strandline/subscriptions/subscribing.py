"""Makes a subscription from the arguments of `subscribe`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Unpack, overload

from strandline.clock import Clock, SystemClock
from strandline.log import LiveSubscription, Log, Reach, TopicName, Watch, check_blocking, parts_of
from strandline.log.broker import tolerated
from strandline.subscriptions.added_partitions import AddedPartitions
from strandline.subscriptions.assignment import Assignment, checked_place, collapse
from strandline.subscriptions.cursor import Cursors, TopicPartition
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.options import SubscribeOptions
from strandline.subscriptions.pages import Pages
from strandline.subscriptions.screening import FailedRecord, Screen, screen_for
from strandline.subscriptions.start import KnownStart, Partitions, StartPoint, Starts, known_start
from strandline.subscriptions.subscription import Subscription
from strandline.values import EARLIEST, InvalidError, Record, Tenant, Topic, parse_tenant
from strandline.values.arguments import check_flag, check_items, check_whole, whole
from strandline.values.names import check_text

_ONE_FOR_EACH = "an offset belongs to one partition, pass one for each, as in start={0: 17, 1: 4}"


@overload
def subscribe(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    markers: Literal[True],
    **options: Unpack[SubscribeOptions],
) -> Subscription[Record | Marker]: ...
@overload
def subscribe(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    markers: Literal[False] = ...,
    **options: Unpack[SubscribeOptions],
) -> Subscription[Record]: ...
@overload
def subscribe(
    log: Log,
    topic: TopicName | Sequence[TopicName],
    *,
    markers: bool,
    **options: Unpack[SubscribeOptions],
) -> Subscription[Any]: ...
def subscribe(
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
    """Read one or several topics from `start` on, and follow them as they grow.

    The start is fixed when this returns. It is EARLIEST, LATEST, a datetime with a time
    zone, an offset, or a mapping from partition to one of these, which then also selects
    the partitions to read. A single offset is refused for several partitions. With
    `consumer`, a partition starts at the cursor of that consumer (of `tenant`), and at
    `start` if it has none there.

    `partitions=None` stands for all, including ones added later, which begin at their
    first record; an empty one stands for none until the assignment is changed. A partition
    given twice is read once; with two starts it is InvalidError. With several topics,
    choose offsets and partitions through the assignment.

    InvalidError for a partition that does not exist, and for a start that is negative or
    beyond the end; TrimmedError for one that is no longer stored.
    With `where`, a predicate (`docs/reference/predicates.md`), only matches are returned.
    In an event topic, with the columns kind, key, headers, occurred_at and timestamp, these
    are records. In a batch topic they are rows: a record has only its matching rows, with
    its own offset, and is left out if there are none. Cursors and markers move as if
    nothing were left out. PredicateError if the text is invalid; the columns of a batch
    topic are known only from its batches, so for a missing column it is raised when such
    a batch is read.
    With `markers`, CaughtUp and FellBehind are returned between the records. With
    `durable_only`, a record is returned once it is durable, and the end is the durable
    mark; InvalidError in a log that is never durable. At most `read_ahead` records are
    held in memory; the default is the `queue_depth` with which the log was opened, then
    STRANDLINE_QUEUE_DEPTH, then READ_AHEAD.
    """
    check_blocking(log)
    depth = log.queue_depth if read_ahead is None else check_whole("read_ahead", read_ahead, 1)
    check_flag("markers", markers)
    check_flag("durable_only", durable_only)
    topics, sparse = _topics(log, topic)
    starts = collapse(_asked(topics, start, partitions))
    if isinstance(start, int) and len(starts) > 1:
        raise InvalidError(_ONE_FOR_EACH, start=start)
    reader = _Reader(consumer, parse_tenant(tenant), markers, durable_only, depth, sparse)
    added = None
    if partitions is None and not isinstance(start, Mapping):
        added = AddedPartitions(log, topics, start, consumer, reader.tenant)
    screens = screens_for(log, topics, where)
    made = _opened(log, topics, screens, reader, clock=clock or SystemClock(), added=added)
    return _begun(made, log, starts, reader)


def records_for_consumer(
    log: Log,
    topic: Topic,
    consumer: str,
    *,
    tenant: Tenant | None,
    where: str,
    read_ahead: int | None,
    clock: Clock,
) -> Subscription[Record | FailedRecord]:
    """Return a subscription to no partition yet, for a consumer; it returns failed records, too."""
    depth = log.queue_depth if read_ahead is None else check_whole("read_ahead", read_ahead, 1)
    topics, sparse = _topics(log, topic)
    reader = _Reader(consumer, tenant, False, False, depth, sparse, delivers_failed=True)
    screens = screens_for(log, topics, where)
    return _opened(log, topics, screens, reader, clock=clock, added=None)


class _Reader(NamedTuple):
    """The subscriber, and its reading options."""

    consumer: str | None
    tenant: Tenant | None
    markers: bool
    durable_only: bool
    depth: int
    #: The topics with gaps in their offsets.
    sparse: frozenset[Topic]
    delivers_failed: bool = False


def _opened(
    log: Log,
    topics: Mapping[Topic, int],
    screens: Mapping[Topic, Screen] | None,
    reader: _Reader,
    *,
    clock: Clock,
    added: AddedPartitions | None,
) -> Subscription[Any]:
    """Return a subscription that reads no partition yet."""
    durable_only = reader.durable_only
    lock, cursors = threading.RLock(), Cursors(behind_max=reader.depth)
    watch = log.watch(durable_only=durable_only)
    closing = attached(log, topics, watch, name=reader.consumer, tenant=reader.tenant)
    assignment = Assignment(log, topics, cursors, watch, lock, durable_only=durable_only)
    pages = Pages(
        log,
        cursors,
        watch,
        lock,
        clock,
        records_max=reader.depth,
        durable_only=durable_only,
        screens=screens,
        sparse=reader.sparse,
        delivers_failed=reader.delivers_failed,
        is_remote=parts_of(log).store.capabilities.reach is Reach.NETWORK,
        on_poll=None if added is None else partial(added.look, assignment),
    )
    return Subscription[Any](
        assignment, pages, watch, clock, markers=reader.markers, closing=closing
    )


def _begun(
    made: Subscription[Any], log: Log, starts: Mapping[TopicPartition, KnownStart], reader: _Reader
) -> Subscription[Any]:
    """Return the subscription at its starts, or at its consumer's cursors if there are any."""
    try:
        for place, wanted in starts.items():
            cursor = None
            if reader.consumer is not None:
                cursor = log.cursor(
                    place.topic, reader.consumer, place.partition, tenant=reader.tenant
                )
            found = wanted if cursor is None else cursor
            made.assignment.add(place.partition, found, topic=place.topic)
    except BaseException:
        made.close()
        raise
    return made


def _topics(
    log: Log, names: TopicName | Sequence[TopicName]
) -> tuple[Mapping[Topic, int], frozenset[Topic]]:
    """Return topics with their partition counts, and the topics with gaps in their offsets."""
    each = [names] if isinstance(names, str | Topic) else check_items("topic", names)
    topics = [log.topic(name) for name in each]
    if not topics:
        raise InvalidError("subscribe to at least one topic")
    settings = {topic: log.describe_topic(topic).settings for topic in topics}
    sparse = frozenset(topic for topic, each in settings.items() if each.source is not None)
    return {topic: each.partitions for topic, each in settings.items()}, sparse


def screens_for(log: Log, topics: Iterable[Topic], where: str) -> Mapping[Topic, Screen] | None:
    """Return a screen for each topic; None without a predicate."""
    where = check_text(where, "predicate")
    if not where.strip():
        return None
    settings = {topic: log.describe_topic(topic).settings for topic in topics}
    now_us = parts_of(log).clock.now_us()
    return {topic: screen_for(where, each, now_us) for topic, each in settings.items()}


def _asked(
    topics: Mapping[Topic, int], start: Starts, partitions: Partitions | None
) -> Iterator[tuple[TopicPartition, KnownStart]]:
    chosen = None if partitions is None else check_items("partitions", partitions)
    if len(topics) > 1 and (chosen or isinstance(start, Mapping)):
        raise InvalidError("with several topics, choose partitions through the assignment")
    for topic, count in topics.items():
        every: Iterable[int] = start if isinstance(start, Mapping) else range(count)
        for entry in every if chosen is None else chosen:
            partition, own = _pair(entry, start)
            yield checked_place(topics, topic, partition), known_start(own)


def _pair(entry: int | tuple[int, StartPoint], start: Starts) -> tuple[int, StartPoint]:
    if not isinstance(entry, tuple | list):
        return entry, _of(start, entry)
    if len(entry) == len(("partition", "start")):
        return entry[0], entry[1]
    raise InvalidError("partitions are numbers, or pairs of a number and a start", entry=entry)


def _of(start: Starts, partition: int) -> StartPoint:
    if not isinstance(start, Mapping):
        return start
    if whole(partition) is None:
        raise InvalidError("a partition is a whole number from 0", partition=partition)
    if partition in start:
        return start[partition]
    raise InvalidError("this partition has no start, add one", partition=partition)


def attached(
    log: Log, topics: Iterable[Topic], watch: Watch, *, name: str | None, tenant: str | None
) -> Callable[[], None]:
    """Attach a reader that waits in `watch` to the log's broker; return a function to detach it."""
    broker = parts_of(log).broker
    if broker is None:
        return watch.close
    ends: list[Callable[[], None]] = []
    for topic in topics:
        whose = topic.tenant if tenant is None else Tenant(tenant)
        with tolerated("a subscription is not listed, and not woken by other processes"):
            live = LiveSubscription(topic, name, whose, os.getpid())
            ends.append(broker.attach(live, watch.wake))

    def end() -> None:
        watch.close()
        for each in ends:
            with tolerated("a subscription may still be listed"):
                each()

    return end
