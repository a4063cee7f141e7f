"""The port: what a log needs of the store that keeps its bytes. See design 0080.

A store keeps bytes, locks and recovery. Every rule that is the same for all stores is
written once, above it: names, modes, routing, retention, consumers, receipts, errors.
A rule that must hold under the store's own lock is a pure function that the store calls
with the state that it has just read: `decide` for an append, `check_range` for a read,
`check_new_topic` for a new topic.

Everywhere:

- Any thread may make any call. Calls may block, unless the docstring says otherwise; a
  store whose client is asyncio-only runs a loop in its own thread.
- Arguments were checked: partitions exist, numbers are whole, the mode allows the call.
- A topic that was dropped raises DroppedError: the log looks it up again by its name.
- Foreign exceptions become errors of `values` here; damage raises CorruptError.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from strandline._core import CORE
from strandline.clock import Clock
from strandline.log.claims import ConsumerPlace
from strandline.log.draft import Draft
from strandline.log.history import History
from strandline.log.identities import IdentityState, Original
from strandline.log.metrics import StoreMetrics
from strandline.log.ranges import ReadRange
from strandline.log.results import Batches, Claim, TopicName, Watch
from strandline.values import (
    DroppedError,
    Durability,
    Epoch,
    Event,
    Marks,
    Mode,
    Offset,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicSettings,
)

if TYPE_CHECKING:
    from strandline._core.core import Appender
    from strandline.log.event_appender import EventAppender


Named = TypeVar("Named")
Found = TypeVar("Found")


def dropped(topic: Topic) -> DroppedError:
    """Return the error for a topic that was dropped."""
    return DroppedError("this topic was dropped", topic=topic.name, near=[])


def still_there(topics: Iterable[Named], look: Callable[[Named], Found]) -> Iterator[Found]:
    """Yield what `look` returns for each topic, except those dropped meanwhile."""
    for each in topics:
        try:
            found = look(each)
        except DroppedError:
            continue
        yield found


class Reach(StrEnum):
    """Which processes can share one log."""

    PROCESS = "process"
    MACHINE = "machine"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do. Rules ask these flags, never a URL's scheme."""

    durability_max: Durability
    durability_reason: str
    """How the store achieves this level, as text for people."""
    reach: Reach
    core: str = CORE
    """How this process uses the compiled core, as text for people."""
    has_own_quotas: bool = False
    """Whether the server that has the records checks quotas, and not this process."""
    has_erasure: bool = False
    """Whether records of a key can be erased, see `ErasingStore`."""
    has_evaluation: bool = False
    """Whether the server that has the records evaluates predicates, see `EvaluatingStore`."""
    has_metrics: bool = False
    """Whether the store has its own metrics, see `MeasuredStore`."""
    has_schemas: bool = False
    """Whether it keeps the versions of schemas for callers that not every topic is open to, see
    `SchemaStore`."""
    has_segments: bool = False
    """Whether records are kept in segments that can be sealed, see `SegmentedStore`."""
    has_selection: bool = False
    """Whether the store can skip records that are not wanted, see `SelectingStore`."""
    has_sources: bool = False
    """Whether topics that other programs write can be read, see `SourceStore`."""
    has_transactions: bool = False
    """Whether appends and the caller's own rows can be committed together, see
    `TransactionalStore`."""
    moves: bool = False
    """Whether logs can be copied to and from it record by record, see `MovableStore`."""
    tenant: Tenant | None = None
    """The tenant meant by calls that name none: that of a remote caller's token."""
    stores_columns: bool = False
    """Whether large appends are stored as Arrow columns, and drafts are best made as such."""
    trims_at_once: bool = False
    """Whether retention is applied after each append, because it is nearly free."""


class StoredTopic(Protocol):
    """A topic as a store knows it. The log passes back the same object that it was given."""

    @property
    def topic(self) -> Topic:
        """Its identity."""

    @property
    def settings(self) -> TopicSettings:
        """Its settings; retention as of the lookup."""

    @property
    def created_at_us(self) -> int:
        """When it was created."""


class PartitionState(NamedTuple):
    """A partition at one moment."""

    marks: Marks
    #: The oldest offset that is stored here: above `marks.low` if records were evicted.
    oldest: Offset
    #: Oldest first; there is always one.
    epochs: Sequence[Epoch]


class Trimmed(NamedTuple):
    """The result of a trim."""

    marks: Marks
    #: Whether all storage below the low-water mark was released.
    is_released: bool


class AppendRequest(NamedTuple):
    """What one call appends to one partition. A plain value."""

    drafts: Sequence[Draft]
    tenant: Tenant | None = None
    producer: str | None = None
    #: The producer's sequences, one for each draft, rising.
    sequences: Sequence[int] = ()
    idempotency_key: str | None = None
    expected_offset: int | None = None
    #: For copies: the append time in the original log; None for now.
    timestamp_us: int | None = None

    @property
    def has_identity(self) -> bool:
        """Whether a repeat would be recognised."""
        return self.producer is not None or self.idempotency_key is not None


class Placement(NamedTuple):
    """Where the values of a request are: first those stored before, then the new ones."""

    offset: int
    timestamp_us: int
    originals: Sequence[Original] = ()


class Outcome(Protocol):
    """The outcome of one append. `WriteReceipt` is one."""

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is known."""

    @property
    def level(self) -> Durability | None:
        """The highest level reached so far; None while the outcome is open."""

    def result(self) -> Placement:
        """Return the placement, or raise the error of the append; UnavailableError while open."""

    def wait(self, level: Durability = ..., timeout_s: float | None = ...) -> Placement:
        """Return the placement once `level` is reached, or raise the error of the append."""

    async def wait_on_loop(
        self, level: Durability = ..., timeout_s: float | None = ...
    ) -> Placement:
        """Do what `wait` does on the running event loop."""


class Shortcut(Protocol):
    """Appends plain events to one partition: no terms, no tenant, no key except their own."""

    def append_event(self, event: Event, bytes_max: int) -> Outcome | NotImplementedType:
        """Append one event and return its outcome, already written.

        NotImplemented, with nothing done, if this path cannot. Raises what `Store.append` raises.
        """

    def append_events(self, events: list[Event], bytes_max: int) -> Outcome | NotImplementedType:
        """Append several events as one request. As `append_event`."""

    def route(
        self, events: list[Event], partitions: int, bytes_max: int
    ) -> dict[int, tuple[list[int], list[Event]]] | NotImplementedType:
        """Return the events of each partition by key, with their indices.

        NotImplemented if one has no key, or is larger than `bytes_max`.
        """

    def size_of(self, values: Event | list[Event]) -> int:
        """Return the size of what was appended, as counted against limits."""

    def appender(
        self,
        receipts: "tuple[type, Callable[[Any, int], object]]",
        clock: Clock | None,
        partition: int,
        levels: tuple[Durability, Durability],
        bytes_max: int,
        /,
    ) -> "Appender | EventAppender | None":
        """Return an appender of events, usable until its `fresh_until` or a take-over.

        `fresh_until` is read by the clock; None is the system's. The appender returns a receipt
        of the given type; for a list, it calls the function with the first receipt and the
        count. The levels are that of each append and the highest of the store. None if the store
        has no appender.
        """


T = TypeVar("T", bound=StoredTopic)
"""A store's own object for a topic."""

T_contra = TypeVar("T_contra", bound=StoredTopic, contravariant=True)
"""The same, as a parameter only."""


class StoreTopics(Protocol[T]):
    """Which topics there are."""

    def topics(self) -> Sequence[T]:
        """Return every topic of every tenant, in no order."""

    def find_topic(self, tenant: Tenant | None, name: str, *, fresh: bool = False) -> T | None:
        """Return the topic, with its current settings if `fresh`; None if there is none."""

    def find_topic_id(self, topic_id: UUID) -> T | None:
        """Return the topic of this id; None if there is none."""

    def create_topic(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> T:
        """Return the existing topic, or create it; durable when this returns.

        Calls `check_new_topic` under the lock with which the topic is created.
        """

    def change_settings(
        self, topic: T, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        """Replace the settings with the result of `change`; durable when this returns.

        If they have more partitions, the new ones exist, empty, at the same time.
        """

    def drop_topic(self, topic: T) -> None:
        """Remove the topic with its records and keys."""


class StoreRecords(Protocol[T_contra]):
    """The records of a partition."""

    def append(
        self,
        topic: T_contra,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> Outcome:
        """Append the whole request or nothing, as `decide` requires, and return its outcome.

        Returns once `level` is reached, or raises the error. UnavailableError, with the
        request in `.write`, if the store cannot take it within `timeout_s`. Without
        `may_wait` it does not block, and the outcome may still be open. Such calls come
        from the thread of an event loop, or from one that works for it; those of one
        partition are stored in the order of the calls.
        """

    def marks(self, topic: T_contra, partition: int) -> Marks:
        """Return where the partition begins and ends now. Does not block."""

    def state(self, topic: T_contra, partition: int) -> PartitionState:
        """Return the partition as it is now. Does not block."""

    def read(self, topic: T_contra, partition: int, wanted: ReadRange) -> Iterator[Record]:
        """Yield the records that `check_range` allows, each once, in order. Does not block."""

    def read_batches(self, topic: T_contra, partition: int, wanted: ReadRange) -> Batches:
        """Return the same records as Arrow record batches."""

    def history(self, topic: T_contra, partition: int, start: int, end: int | None) -> History:
        """Return what is stored of [start, end), including damage. See `LogReader.history`.

        In a topic with a proof, the history of [n, n) has the chain's value before n.
        """

    def segments(self, topic: T_contra, partition: int) -> Sequence[Segment]:
        """Return the segments stored here, in order, without gaps, none empty."""

    def trim(self, topic: T_contra, partition: int, low: int) -> Trimmed:
        """Raise the low-water mark to `low`, durably; never lowers it. Storage is freed later."""

    def evict(self, topic: T_contra, partition: int, before: int) -> Offset:
        """Release storage before `before`; return the oldest offset still stored here."""


class StoreKeys(Protocol[T_contra]):
    """A small keyed area of each topic: cursors, leases, settings. Each change is durable."""

    def keys(self, topic: T_contra) -> Mapping[str, bytes]:
        """Return every key with its value."""

    def get_key(self, topic: T_contra, key: str) -> bytes | None:
        """Return the value; None if there is none."""

    def put_key(self, topic: T_contra, key: str, value: bytes, expected: bytes | None) -> bool:
        """Set the value if it is `expected` now (None: no value); return whether it was set."""

    def remove_key(self, topic: T_contra, key: str) -> bool:
        """Remove a key, also one whose value is damaged or missing; False if there was none."""


class Store(StoreTopics[T], StoreRecords[T], StoreKeys[T], Protocol[T]):
    """All of a log's storage, open."""

    @property
    def id(self) -> UUID:
        """The log's identity."""

    @property
    def mode(self) -> Mode:
        """The mode that it was opened in."""

    @property
    def url(self) -> str:
        """Its URL for people, without secrets."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def check_open(self) -> None:
        """Raise ClosedError once it is closed, or in the child of a fork."""

    def claim(self, place: ConsumerPlace) -> Claim:
        """Return the claim of a consumer's partition: at most one reader holds it.

        UnavailableError, with the holder's pid and host, while another claim holds it. A
        claim ends when the store is closed, with its last reference, or with its process.
        """

    def watch(self, find: Callable[[TopicName], T], *, durable_only: bool) -> Watch:
        """Return a watch of no partitions yet, which looks topics up with `find`."""

    def beside(self, name: str) -> str | None:
        """Return a path for a file that a room above can rebuild; None if there is no place."""

    def size_bytes(self) -> int:
        """Return how many bytes of storage are used."""

    def close(self) -> None:
        """Finish what was accepted, end watches, release locks and files. May be repeated."""


class DurableStore(Protocol[T_contra]):
    """What a store that reaches durable offers besides."""

    def sync(self, topic: T_contra, partition: int) -> None:
        """Make durable what any process has appended so far."""

    def flush(self) -> None:
        """Make everything durable, and do maintenance."""


class MeasuredStore(Protocol):
    """What a store with `has_metrics` offers besides."""

    def metrics(self) -> StoreMetrics:
        """Return what the store has done since it was opened. Does not block."""


class SchemaStore(Protocol):
    """What a store with `has_schemas` offers besides."""

    def schemas(self) -> Mapping[UUID, Sequence[bytes]]:
        """Return the later versions of the schemas of all topics that are open to the caller.

        By the id of the topic, oldest first, each as Arrow serializes a schema.
        """

    def add_schema(self, topic: Topic, schema: bytes, expected: int) -> bool:
        """Add a version, durably, while `schemas` has this many in all; return whether it was."""


class SegmentedStore(Protocol[T_contra]):
    """What a store with `has_segments` offers besides."""

    def seal(self, topic: T_contra, partition: int) -> int:
        """Finish the last segment; return how many segments were rewritten."""


class Erased(NamedTuple):
    """The result of an erasure in one partition."""

    #: How many records were, or would be, erased.
    records: int
    #: Whether the store's files hold no copy of the erased content any more.
    is_released: bool = True


class ErasingStore(Protocol[T_contra]):
    """What a store with `has_erasure` offers besides. See design 0123."""

    def erase(self, topic: T_contra, partition: int, key: str, *, dry_run: bool) -> Erased:
        """Replace each record of a key with a tombstone, and count them.

        Offsets, timestamps and the chain's values stay. A repeated call completes an
        interrupted one, also for records that were trimmed since.
        With `dry_run` it only counts.
        """


class TransactionalStore(Protocol):
    """What a store with `has_transactions` offers besides."""

    def transaction(self, connection: Any) -> AbstractContextManager[Any]:
        """See LogTransactions."""


class MovableStore(Protocol[T_contra]):
    """What a store with `moves` offers besides. See design 0099."""

    def identities(self, topic: T_contra, partition: int) -> IdentityState:
        """Return the identities that are still recognised, oldest first."""

    def begin_at(
        self,
        topic: T_contra,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        """Make a partition without records begin at `start`, as a trimmed one does.

        `anchor` is the chain's value before `start`; `identities` are those of the trimmed
        records.
        """


class StoreTier(Protocol):
    """Sits between a log and its store, and holds the records that the store evicted."""

    def over(self, store: Store[StoredTopic], clock: Clock) -> Store[StoredTopic]:
        """Return the store that reads from both."""
