"""The port: what a log needs of the store that keeps its bytes. See design 0080.

A store keeps bytes, locks and recovery. Every rule that does not depend on where bytes
lie stands once, above it: names, modes, routing, retention, consumers, receipts, errors.
Where a rule must be applied under the store's own exclusion, it is a pure function that
the store calls with the state that it has just read: `decide` for an append,
`check_range` for a read, `check_new_topic` for a new topic.

Everywhere:

- Any call may be made from any thread. Calls may block, except where the docstring says
  that they do not; a store whose client is asyncio-only runs a loop on a thread of its own.
- Arguments were checked: partitions exist, numbers are whole, the mode allows the call.
- A topic that is gone is DroppedError: the log looks it up again by its name.
- Foreign exceptions become errors of `values` here; damage is CorruptError.
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
    """Yield what is found of each topic of a list, but for those that are dropped meanwhile."""
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
    """What a store can promise. Checked here, and never by a scheme's name."""

    durability_max: Durability
    durability_reason: str
    """How the store knows that it reaches this level, for people."""
    reach: Reach
    core: str = CORE
    """How this process uses the compiled core, for people."""
    has_own_quotas: bool = False
    """Whether quotas hold where the records are, on the server, and are not checked here."""
    has_erasure: bool = False
    """Whether records of a key can be erased, see `ErasingStore`."""
    has_evaluation: bool = False
    """Whether predicates are evaluated where the records are, see `EvaluatingStore`."""
    has_metrics: bool = False
    """Whether the store measures itself, see `MeasuredStore`."""
    has_segments: bool = False
    """Whether records are kept in segments that can be sealed, see `SegmentedStore`."""
    has_selection: bool = False
    """Whether the store can tell which records are not wanted, see `SelectingStore`."""
    has_sources: bool = False
    """Whether topics that other programs write can be read, see `SourceStore`."""
    has_transactions: bool = False
    """Whether appends and rows of the caller's own can be committed together, see
    `TransactionalStore`."""
    moves: bool = False
    """Whether logs can be copied record by record from and to it, see `MovableStore`."""
    tenant: Tenant | None = None
    """Whose topics are meant where a call names no tenant: those that a remote caller has."""
    stores_columns: bool = False
    """Whether large appends are kept as Arrow columns: their drafts are made as such then."""
    trims_at_once: bool = False
    """Whether retention is applied after each append, because that costs next to nothing."""


class StoredTopic(Protocol):
    """A topic as a store knows it. The log hands back the very object that it was given."""

    @property
    def topic(self) -> Topic:
        """Its identity."""

    @property
    def settings(self) -> TopicSettings:
        """Its settings; retention as it was when the topic was looked up."""

    @property
    def created_at_us(self) -> int:
        """When it was created."""


class PartitionState(NamedTuple):
    """A partition at one moment."""

    marks: Marks
    #: The oldest offset that is stored here: above `marks.low` where records were evicted.
    oldest: Offset
    #: Oldest first; there is always one.
    epochs: Sequence[Epoch]


class Trimmed(NamedTuple):
    """The result of a trim."""

    marks: Marks
    #: Whether all storage of what lies below the low-water mark was released.
    is_released: bool


class AppendRequest(NamedTuple):
    """What one call appends to one partition. A plain value."""

    drafts: Sequence[Draft]
    tenant: Tenant | None = None
    producer: str | None = None
    #: The producer's, one for each draft, rising.
    sequences: Sequence[int] = ()
    idempotency_key: str | None = None
    expected_offset: int | None = None
    #: When it was appended to the log that it is copied from; None for now.
    timestamp_us: int | None = None

    @property
    def has_identity(self) -> bool:
        """Whether a repeat would be recognised."""
        return self.producer is not None or self.idempotency_key is not None


class Placement(NamedTuple):
    """Where the values of a request went: first those that were stored before, then the others."""

    offset: int
    timestamp_us: int
    originals: Sequence[Original] = ()


class Outcome(Protocol):
    """The outcome of one append. `WriteReceipt` is one."""

    @property
    def is_settled(self) -> bool:
        """Whether it is known."""

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
    """Appends plain events to one partition: no terms, no key but their own, no tenant."""

    def append_event(self, event: Event, bytes_max: int) -> Outcome | NotImplementedType:
        """Append one event; the outcome is written. NotImplemented, with nothing done, if not.

        Raises what `Store.append` raises.
        """

    def append_events(self, events: list[Event], bytes_max: int) -> Outcome | NotImplementedType:
        """Append several, as one request."""

    def route(
        self, events: list[Event], partitions: int, bytes_max: int
    ) -> dict[int, tuple[list[int], list[Event]]] | NotImplementedType:
        """Return the events of each partition by key, with their indices.

        NotImplemented if one has no key, or counts more than `bytes_max`.
        """

    def size_of(self, values: Event | list[Event]) -> int:
        """Return how large what was appended counts."""

    def appender(
        self,
        receipts: "tuple[type, Callable[[Any, int], object]]",
        clock: Clock | None,
        partition: int,
        levels: tuple[Durability, Durability],
        bytes_max: int,
        /,
    ) -> "Appender | EventAppender | None":
        """Return what appends events as long as the partition is not taken over, and until its
        `fresh_until` by the clock, None for that of the system.

        It returns a receipt of the type, or of a list what the function makes of the first
        receipt and their count. The levels are that of each append and the highest that there
        is. None if there is no such thing.
        """


T = TypeVar("T", bound=StoredTopic)
"""What a store knows a topic by."""

T_contra = TypeVar("T_contra", bound=StoredTopic, contravariant=True)
"""The same, where it is only passed in."""


class StoreTopics(Protocol[T]):
    """Which topics there are."""

    def topics(self) -> Sequence[T]:
        """Return every topic of every tenant, in no order."""

    def find_topic(self, tenant: Tenant | None, name: str, *, fresh: bool = False) -> T | None:
        """Return the topic, with its present retention if `fresh`; None if there is none."""

    def find_topic_id(self, topic_id: UUID) -> T | None:
        """Return the topic of this id; None if there is none."""

    def create_topic(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> T:
        """Return the topic that is there, or a new one; durable then.

        Calls `check_new_topic` under the exclusion in which the topic is created.
        """

    def change_settings(
        self, topic: T, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        """Replace the settings by what `change` makes of the present ones; durable then.

        If these have more partitions, the new ones are there, and empty, with them.
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
        """Append all of the request or none, as `decide` says, and return its outcome.

        Returns once `level` is reached, and raises what went wrong. UnavailableError, with
        the request in `.write`, if the store cannot take it within `timeout_s`. Without
        `may_wait` it does not block, and the outcome may still be open: such calls come
        from the thread of an event loop, or from one that works for it, and those of one
        partition are taken in order.
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
        """Return what is stored of [start, end), with damage named, as `LogReader.history`.

        Where the topic has a proof, the history of [n, n) has the chain's value before n.
        """

    def segments(self, topic: T_contra, partition: int) -> Sequence[Segment]:
        """Return the runs that tile what is stored here, in order, none of them empty."""

    def trim(self, topic: T_contra, partition: int, low: int) -> Trimmed:
        """Raise the low-water mark to `low`, never lower it; storage follows. Durable."""

    def evict(self, topic: T_contra, partition: int, before: int) -> Offset:
        """Release storage before `before`; return the oldest offset stored here then."""


class StoreKeys(Protocol[T_contra]):
    """A small keyed area of each topic: cursors, leases, settings. Each change is durable."""

    def keys(self, topic: T_contra) -> Mapping[str, bytes]:
        """Return every key with its value."""

    def get_key(self, topic: T_contra, key: str) -> bytes | None:
        """Return the value; None if there is none."""

    def put_key(self, topic: T_contra, key: str, value: bytes, expected: bytes | None) -> bool:
        """Replace the value if it is `expected` now, None standing for no value; say whether."""

    def remove_key(self, topic: T_contra, key: str) -> bool:
        """Remove a key, also one whose value is damaged or missing; False if there was none."""


class Store(StoreTopics[T], StoreRecords[T], StoreKeys[T], Protocol[T]):
    """All of a log's storage, open."""

    @property
    def id(self) -> UUID:
        """The log's identity."""

    @property
    def mode(self) -> Mode:
        """What it was opened for."""

    @property
    def url(self) -> str:
        """Where it is, for people; without secrets."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can promise."""

    def check_open(self) -> None:
        """Raise ClosedError once it is closed, or in the child of a fork."""

    def claim(self, place: ConsumerPlace) -> Claim:
        """Return the claim to be the one reader of a consumer's partition.

        UnavailableError, with the holder's pid and host, while another claim holds it. A
        claim ends with the store, with its last reference, and with its process.
        """

    def watch(self, find: Callable[[TopicName], T], *, durable_only: bool) -> Watch:
        """Return a watch of no partitions yet, which looks topics up with `find`."""

    def beside(self, name: str) -> str | None:
        """Return where a room above may keep a file that can be made again; None for nowhere."""

    def size_bytes(self) -> int:
        """Return what everything occupies."""

    def close(self) -> None:
        """Finish what was accepted, end watches, release locks and files. May be repeated."""


class DurableStore(Protocol[T_contra]):
    """What a store has besides whose `durability_max` is durable."""

    def sync(self, topic: T_contra, partition: int) -> None:
        """Make durable what any process has appended so far."""

    def flush(self) -> None:
        """Make everything durable, and tidy up."""


class MeasuredStore(Protocol):
    """What a store with `has_metrics` has besides."""

    def metrics(self) -> StoreMetrics:
        """Return what the store has done since it was opened. Does not block."""


class SegmentedStore(Protocol[T_contra]):
    """What a store with `has_segments` has besides."""

    def seal(self, topic: T_contra, partition: int) -> int:
        """End the last segment; return how many segments were rewritten."""


class Erased(NamedTuple):
    """The result of an erasure in one partition."""

    #: How many records were, or would be, erased.
    records: int
    #: Whether no copy of what was erased is left in the store's files.
    is_released: bool = True


class ErasingStore(Protocol[T_contra]):
    """What a store with `has_erasure` has besides. See design 0123."""

    def erase(self, topic: T_contra, partition: int, key: str, *, dry_run: bool) -> Erased:
        """Put a tombstone in the place of each record of a key, and count them.

        Offsets, timestamps and the values of the chain stay. Completes what was interrupted:
        a call that is repeated leaves nothing of it, in records that were trimmed neither.
        With `dry_run` it only counts.
        """


class TransactionalStore(Protocol):
    """What a store with `has_transactions` has besides."""

    def transaction(self, connection: Any) -> AbstractContextManager[Any]:
        """See LogTransactions."""


class MovableStore(Protocol[T_contra]):
    """What a store with `moves` has besides. See design 0099."""

    def identities(self, topic: T_contra, partition: int) -> IdentityState:
        """Return the writes that can be recognised, oldest first."""

    def begin_at(
        self,
        topic: T_contra,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        """Have a partition without records begin at `start`, where another one was trimmed.

        `anchor` is the chain's value before it; `identities` are of what was trimmed.
        """


class StoreTier(Protocol):
    """What sits between a log and its store, and has what the store evicted."""

    def over(self, store: Store[StoredTopic], clock: Clock) -> Store[StoredTopic]:
        """Return the store that reads from both."""
