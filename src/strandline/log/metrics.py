"""Counters of a log since it was opened; every exporter reads these.

They count for one open log in one process. Counting costs an append two additions: counters
are plain integers, and no lock is taken for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from strandline.values.html import html_fields, html_table
from strandline.writes.metrics import WriteMetrics, merged

if TYPE_CHECKING:
    from uuid import UUID

    from strandline._core.core import Appender
    from strandline.log.event_appender import EventAppender
    from strandline.values import Offset, Partition, Topic


@dataclass(frozen=True, slots=True)
class TopicMetrics:
    """What was appended to one topic. Each number only grows."""

    appends: int
    """Calls of `append`, and of `append_many` once for each partition written to."""
    records: int
    """Records in them, repeats included."""
    bytes: int
    """The size of these records as counted against limits."""
    writes: WriteMetrics | None
    """Metrics of its partitions' write coordinators; None if the store shares one coordinator."""


@dataclass(frozen=True, slots=True)
class LogMetrics:
    """A log's counters since it was opened, at one moment. Each number only grows, unless its
    docstring calls it a present value."""

    topics: Mapping[Topic, TopicMetrics]
    """By topic, for those appended to, also if they were dropped since."""
    reads: int
    """Calls of `read` and `read_batches`, also by subscriptions and views."""
    acks: int
    """Calls of `ack` that were not refused."""
    subscriptions: int
    """Present value: open subscriptions, consumers, views and triggers that follow the log."""
    waits: int
    """How often one of them waited for hints."""
    hints: int
    """How many hints they received."""
    writes: WriteMetrics | None
    """Metrics of the write coordinators: flushes by reason, syncs, back-pressure, and how long
    a write took to be sent, applied, frozen and flushed. None for a store without one."""
    partitions_assigned: int = 0
    """How often a consumer was assigned a partition, by a group or by hand."""
    partitions_revoked: int = 0
    """How often a consumer handed a partition over to another member of its group."""
    partitions_lost: int = 0
    """How often a consumer lost a partition because its lease expired."""
    quota_refusals: int = 0
    """How often a call was refused because a tenant's quota was used up."""

    @property
    def appends(self) -> int:
        """Appends to all topics."""
        return sum(each.appends for each in self.topics.values())

    @property
    def records(self) -> int:
        """Records of all topics."""
        return sum(each.records for each in self.topics.values())

    @property
    def bytes(self) -> int:
        """Bytes of all topics."""
        return sum(each.bytes for each in self.topics.values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold."""
        totals = {"appends": self.appends, "records": self.records, "bytes": self.bytes}
        topics = [
            {"topic": topic.name, "tenant": topic.tenant, **asdict(each)}
            for topic, each in self.topics.items()
        ]
        return {
            **totals,
            "reads": self.reads,
            "acks": self.acks,
            "subscriptions": self.subscriptions,
            "waits": self.waits,
            "hints": self.hints,
            "partitions_assigned": self.partitions_assigned,
            "partitions_revoked": self.partitions_revoked,
            "partitions_lost": self.partitions_lost,
            "quota_refusals": self.quota_refusals,
            "writes": None if self.writes is None else asdict(self.writes),
            "topics": topics,
        }

    def _repr_html_(self) -> str:
        rows = [(each.name, m.appends, m.records, m.bytes) for each, m in self.topics.items()]
        fields: dict[str, object] = {
            "reads": self.reads,
            "acks": self.acks,
            "subscriptions": self.subscriptions,
            "waits": self.waits,
            "hints": self.hints,
        }
        if self.writes is not None:
            fields["flushes"] = sum(self.writes.flushes.values())
            fields["syncs"] = self.writes.syncs
            fields["write, µs on average"] = round(self.writes.send.mean)
        table = html_table("Appends", ("topic", "appends", "records", "bytes"), rows)
        return table + html_fields("Log", fields)


class StoreMetrics(NamedTuple):
    """A store's own metrics."""

    #: Watches that are open now.
    watches: int = 0
    waits: int = 0
    hints: int = 0
    #: Of each write coordinator, by its topic; None is one shared by all topics.
    writes: Mapping[UUID | None, WriteMetrics] = {}


@dataclass(slots=True)
class TopicCounts:
    """Counts the appends to one topic."""

    topic: Topic
    appends: int = 0
    records: int = 0
    bytes: int = 0
    #: Per partition, the fast-path appender, which has its own counters.
    appenders: dict[int, Appender | EventAppender] = field(default_factory=dict)

    def take_counts(self) -> TopicCounts:
        """Add the counts of the appenders, and return the sum."""
        for partition in tuple(self.appenders):
            self.take_counts_of(partition)
        return self

    def take_counts_of(self, partition: int) -> None:
        """Add the counts of one partition's appender."""
        if (appender := self.appenders.get(partition)) is not None:
            appends, records, size_bytes = appender.take_counts()
            self.appends += appends
            self.records += records
            self.bytes += size_bytes


@dataclass(slots=True)
class LogCounts:
    """A log's counters. Without a global interpreter lock, two concurrent increments may count
    as one."""

    reads: int = 0
    acks: int = 0
    partitions_assigned: int = 0
    partitions_revoked: int = 0
    partitions_lost: int = 0
    topics: dict[UUID, TopicCounts] = field(default_factory=dict)

    def of(self, topic: Topic) -> TopicCounts:
        """Return the counts of a topic."""
        return self.topics.setdefault(topic.id, TopicCounts(topic))

    def acked(self, cursors: Mapping[Partition, Offset]) -> Mapping[Partition, Offset]:
        """Count the cursors that acks have stored, and return them."""
        self.acks += len(cursors)
        return cursors

    def metrics(self, store: StoreMetrics, quota_refusals: int) -> LogMetrics:
        """Return the current counts, with those of the store."""
        writes = store.writes
        topics = {
            each.topic: TopicMetrics(
                each.appends, each.records, each.bytes, writes.get(each.topic.id)
            )
            for each in map(TopicCounts.take_counts, tuple(self.topics.values()))
        }
        total = _merged_or_none(writes.values())
        return LogMetrics(
            *(topics, self.reads, self.acks, store.watches, store.waits, store.hints, total),
            *(self.partitions_assigned, self.partitions_revoked, self.partitions_lost),
            quota_refusals,
        )


def _merged_or_none(each: Iterable[WriteMetrics]) -> WriteMetrics | None:
    found = list(each)
    return merged(found) if found else None
