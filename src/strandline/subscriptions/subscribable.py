"""Subscriptions and consumers as methods of a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, overload

from strandline.clock import Clock
from strandline.log import Log, TopicName
from strandline.subscriptions.consumer import DELIVERIES_MAX, Consumer
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.subscribing import Partitions, Starts, open_subscription
from strandline.subscriptions.subscription import Subscription
from strandline.values import EARLIEST, ClosedError, Record, Start
from strandline.values.html import ROWS_MAX, html_fields, html_table


class SubscribableLog(Log, Protocol):
    """A log that is open, with what this room adds to it.

    A backend becomes one by inheriting from it, after its own class. The methods ask
    nothing of `self` but the log's contract: see `subscribe`.
    """

    @overload
    def subscribe(
        self: Log,
        topic: TopicName | Sequence[TopicName],
        *,
        start: Starts = ...,
        partitions: Partitions | None = ...,
        consumer: str | None = ...,
        tenant: str | None = ...,
        where: str = ...,
        markers: Literal[False] = ...,
        durable_only: bool = ...,
        read_ahead: int | None = ...,
        clock: Clock | None = ...,
    ) -> Subscription[Record]: ...

    @overload
    def subscribe(
        self: Log,
        topic: TopicName | Sequence[TopicName],
        *,
        start: Starts = ...,
        partitions: Partitions | None = ...,
        consumer: str | None = ...,
        tenant: str | None = ...,
        where: str = ...,
        markers: Literal[True],
        durable_only: bool = ...,
        read_ahead: int | None = ...,
        clock: Clock | None = ...,
    ) -> Subscription[Record | Marker]: ...

    def subscribe(
        self: Log,
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
        """Read one or several topics from `start` on, and go on as they grow.

        The start is fixed when this returns. It is EARLIEST, LATEST, a datetime with a
        time zone, an offset, or a mapping from partition to one of these, which then
        also says which partitions are read. An offset by itself is refused for several
        partitions. With `consumer`, a partition starts at the cursor of that consumer
        (of `tenant`), and at `start` if it has none there.

        `partitions` None stands for all, and an empty one for none until the assignment
        is changed. The same partition twice is read once; with two starts it is
        InvalidError. With several topics, offsets and partitions are chosen through the
        assignment.

        InvalidError for a partition that there is not, and for a start that is negative
        or beyond the end; TrimmedError for one that is no longer kept.

        With `where`, a predicate (`docs/reference/predicates.md`), only what matches comes.
        Of an event topic, which has the columns kind, key, headers, occurred_at and
        timestamp, that is records; of a batch topic it is rows: a record comes with those
        that match and its own offset, and not at all if none does. Cursors and markers
        move as if everything had come. PredicateError if the text does not fit; but only
        the batches of a batch topic say which columns there are, and PredicateError for
        one that they have not comes when they do.

        With `markers`, CaughtUp and FellBehind come between the records. With
        `durable_only`, a record comes once it is durable, and the end is the durable
        mark; InvalidError where nothing ever is. At most `read_ahead` records are held
        in memory; None stands for STRANDLINE_QUEUE_DEPTH, and without that READ_AHEAD.
        """
        return open_subscription(
            self,
            topic,
            start=start,
            partitions=partitions,
            consumer=consumer,
            tenant=tenant,
            where=where,
            markers=markers,
            durable_only=durable_only,
            read_ahead=read_ahead,
            clock=clock,
        )

    def consumer(
        self: Log,
        topic: TopicName,
        name: str,
        *,
        tenant: str | None = None,
        partitions: Iterable[int] | None = None,
        start: Start | datetime = EARLIEST,
        deliveries_max: int = DELIVERIES_MAX,
        read_ahead: int | None = None,
        clock: Clock | None = None,
    ) -> Consumer:
        """Return the consumer of this name, which goes on at its cursor. See Consumer."""
        return Consumer(
            self,
            topic,
            name,
            tenant=tenant,
            partitions=partitions,
            start=start,
            deliveries_max=deliveries_max,
            read_ahead=read_ahead,
            clock=clock,
        )

    def _repr_html_(self: Log) -> str:
        try:
            found = self.describe()
            topics = self.topics()
            rows = [
                (each.topic.name, str(each.settings.value_kind), len(each.marks), each.records)
                for each in map(self.describe_topic, topics[:ROWS_MAX])
            ]
        except ClosedError:
            return html_fields("Log", {"state": "closed"})
        header = ("topic", "kind", "partitions", "records")
        title = f"Log {found.location}, {found.mode}"
        return html_table(title, header, rows, count=len(topics))


subscribe = SubscribableLog.subscribe
"""The same for any log: `subscribe(log, …)` is `log.subscribe(…)`."""
