"""Descriptions of logs, topics and consumers."""

from dataclasses import dataclass
from uuid import UUID

from strandline._core import CORE
from strandline.values.durability import Durability
from strandline.values.html import html_fields, html_table
from strandline.values.mode import Mode
from strandline.values.position import Marks
from strandline.values.tenant import Tenant
from strandline.values.topic import Offset, Partition, Topic, TopicSettings


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of records that are stored together; the unit in which reads are planned."""

    start: Offset
    end: Offset
    size_bytes: int
    first_timestamp_us: int
    last_timestamp_us: int
    is_sealed: bool
    """Whether no more records will be added."""
    location: str | None
    """Its location, for people; None in memory."""


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """The progress of one consumer in one partition."""

    consumer: str
    tenant: Tenant | None
    partition: Partition
    cursor: Offset
    """The next offset to handle."""
    lag: int
    """The high-water mark less the cursor."""
    seen_at_us: int
    """The time of its last heartbeat: an ack, also one without effect, or a seek."""
    is_live: bool = False
    """Whether a member with a valid lease holds the partition."""
    holds_retention: bool = True
    """Whether it delays trimming. If not, it does again after its next heartbeat."""
    lag_s: float | None = 0.0
    """How long ago the record at the cursor was appended; 0 once it has caught up, None if
    that record was trimmed meanwhile."""
    trend: float | None = None
    """The growth of `lag` in records per second, over the last minute or since its last ack,
    whichever is longer; negative while it catches up, None while it is unknown."""
    member: str | None = None
    """`host:pid` of the member that holds the partition; None while none does."""
    generation: int = 0
    """The generation of the member that holds the partition, or held it last; 0 for none."""
    held_since_us: int | None = None
    """The time since which it holds the partition."""
    reason: str = ""
    """Why the partition moved to this member."""

    def _repr_html_(self) -> str:
        shown = ("partition", "cursor", "lag", "lag_s", "trend", "member", "is_live")
        fields = {name: getattr(self, name) for name in shown}
        return html_fields(f"Consumer {self.consumer}", fields)


@dataclass(frozen=True, slots=True)
class TrimReport:
    """The result of a trim of one partition."""

    partition: Partition
    removed: int
    remaining: int
    low: Offset
    held_at: Offset | None
    """The cursor of the live consumer at which the trim stopped, if it did."""
    latest: Offset | None
    """The last assigned offset, also if its record was removed; None if there is none."""
    is_released: bool
    """Whether all storage below `low` was freed. If not, it is freed later: with the rest of
    its segment, or once no reader uses it."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A partition in which consumers delay retention."""

    partition: Partition
    offset: Offset
    """The first record that a live consumer has not acked."""
    consumers: tuple[str, ...]
    """The consumers at that offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStatus:
    """The last run of retention over a topic, and the worker that makes the next one."""

    holder: str
    """The worker that has the lease."""
    pid: int
    host: str
    until_us: int
    """When another process may take over, unless it is renewed."""
    ran_at_us: int | None
    """None during the first run."""
    removed: int
    """How many records the last run removed."""
    held: tuple[HeldBack, ...]
    """The partitions in which consumers delay it."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """The current state of one topic."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    marks: tuple[Marks, ...]
    """By partition."""
    size_bytes: int
    """The size of the stored records."""
    retention: RetentionStatus | None = None
    """The last run of background retention; None if it has not run yet."""

    @property
    def records(self) -> int:
        """The number of stored records."""
        return sum(marks.high - marks.low for marks in self.marks)

    def _repr_html_(self) -> str:
        rows = [
            (number, marks.low, marks.high, marks.durable)
            for number, marks in enumerate(self.marks)
        ]
        title = f"Topic {self.topic.name}: {self.settings.value_kind}, {self.records:,} records"
        return html_table(title, ("partition", "low", "high", "durable"), rows)


@dataclass(frozen=True, slots=True)
class LogDescription:
    """The current state of a log."""

    log_id: UUID
    backend: str
    """The scheme of its URL: `memory`, `sqlite`, `file`, `postgresql`, `nats`, `kafka`."""
    location: str
    mode: Mode
    durability_max: Durability
    """The highest level that a record can reach in this log."""
    durability_reason: str
    """Why the log reaches this level, and no higher one."""
    topics: int
    partitions: int
    records: int
    size_bytes: int
    """The space that it uses: memory for `memory:`, disk for the others."""
    queue_depth: int | None = None
    """How many records a subscription of this log object holds in memory by
    default; None for a log that was described without opening it."""
    core: str = CORE
    """Whether this process uses the compiled core: `compiled`, or `plain Python` and why.
    Also reports if the core does not use shared memory."""
