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
    """A run of records that are stored together; the unit in which reads are planned."""

    start: Offset
    end: Offset
    size_bytes: int
    first_timestamp_us: int
    last_timestamp_us: int
    is_sealed: bool
    """Whether it has got its last record."""
    location: str | None
    """Where it is stored, for people; None in memory."""


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """How far one consumer has got in one partition."""

    consumer: str
    tenant: Tenant | None
    partition: Partition
    cursor: Offset
    """The next offset to handle."""
    lag: int
    """The high-water mark less the cursor."""
    seen_at_us: int
    """Its last heartbeat: an ack, also one that changed nothing, or a seek."""
    is_live: bool = False
    """Whether a member holds the partition whose lease has not run out."""
    holds_retention: bool = True
    """Whether it still holds trimming back. It does so again after its next heartbeat."""
    lag_s: float | None = 0.0
    """How long ago the record at the cursor was appended; 0 once it has caught up, None if
    that record was trimmed meanwhile."""
    trend: float | None = None
    """By how many records a second `lag` grew in the last minute or since its last ack,
    whichever is longer; negative while it catches up, None as long as that is unknown."""
    member: str | None = None
    """`host:pid` of the member that holds the partition; None while none does."""
    generation: int = 0
    """That of the member which holds the partition, or held it last; 0 for none."""
    held_since_us: int | None = None
    """Since when it holds the partition."""
    reason: str = ""
    """Why the partition moved to where it is."""

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
    """The cursor of the live consumer that kept the trim from going further, if one did."""
    latest: Offset | None
    """The last offset that was ever given, removed or not; None if none was."""
    is_released: bool
    """Whether all storage of what lies below `low` was given back. If not, it is later:
    with the segment that holds it, or once no reader is in the way."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A partition of which retention could not remove all that it should."""

    partition: Partition
    offset: Offset
    """The first record that a live consumer has not acked."""
    consumers: tuple[str, ...]
    """The consumers that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStatus:
    """The last run of retention over a topic, and which process makes the next one."""

    holder: str
    """Which worker has the lease."""
    pid: int
    host: str
    until_us: int
    """When another process may take over, unless it is renewed."""
    ran_at_us: int | None
    """None while the first run goes on."""
    removed: int
    """How many records the last run removed."""
    held: tuple[HeldBack, ...]
    """What holds it back."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic, as it is now."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    marks: tuple[Marks, ...]
    """By partition."""
    size_bytes: int
    """Of the records kept."""
    retention: RetentionStatus | None = None
    """What retention did last, where it runs by itself; None if it has not run yet."""

    @property
    def records(self) -> int:
        """How many records are kept."""
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
    """A whole log, as it is now."""

    log_id: UUID
    backend: str
    """The scheme of its URL: `memory`, `sqlite`, `file`, `postgresql`, `nats`, `kafka`."""
    location: str
    mode: Mode
    durability_max: Durability
    """The highest level that a record can reach here."""
    durability_reason: str
    """How the log knows that it reaches this level, and no higher one."""
    topics: int
    partitions: int
    records: int
    size_bytes: int
    """What it occupies: memory for `memory:`, disk for the others."""
    queue_depth: int | None = None
    """How many records a subscription of this log object holds in memory by
    default; None where a log is described that was not opened."""
    core: str = CORE
    """Whether this process uses the compiled core: `compiled`, or `plain Python` and why.
    Also reports where the core goes without shared memory."""
