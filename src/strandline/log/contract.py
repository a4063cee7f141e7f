"""The whole promise of a log. `Log` keeps it, over any store.

Words: an offset is a place in a partition, from 0, dense; a start is inclusive, an
end exclusive; a level is applied, written or durable. See design 0010.

Everywhere:

- Any thread may make any call at any time; callers need no lock.
- A topic is named by a str, which is a topic without a tenant, or by a `Topic`, which may
  belong to a tenant and is one certain incarnation. InvalidError if there is none;
  the error names topics with similar names in `.fields["near"]`.
- A partition that the topic does not have, a number that is negative or not a whole
  number, a name that breaks the rules of `values`, and a call that the log's mode does
  not allow raise InvalidError, and nothing has happened then.
- `read` allows what changes nothing. `consume` allows also all of LogConsumers, `sync`
  and `flush`, and to create, append to and trim internal topics, where consumers keep
  delivery counts and dead letters. `write` allows everything.
- After `close`, ClosedError. After a fork, the child's calls work or raise ClosedError.
- Damaged storage raises CorruptError; whatever verifies stays readable.
- What is passed in is never changed and what is handed out is never changed later:
  no two readers share anything that one of them could change.
- Calls block, also on a thread that runs an event loop: what a call returns does not
  depend on that. `AsyncLog` has the same calls for event loops. See design 0081.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Unpack

from strandline.log.history import History
from strandline.log.ranges import ReadLimits
from strandline.log.receipts import Receipt, Receipts
from strandline.log.results import Batches, Claim, TopicName, Value, Watch
from strandline.log.terms import AppendTerms
from strandline.values import (
    UNCHANGED,
    ConsumerLag,
    Epoch,
    Limit,
    Marks,
    Offset,
    Partition,
    Position,
    ProofHead,
    ProofReport,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicDescription,
    TopicOptions,
    TrimReport,
)


class LogTopics(Protocol):
    """Which topics there are."""

    def create_topic(
        self,
        name: str,
        *,
        tenant: str | None = None,
        internal: bool = False,
        metadata: Mapping[str, str] | None = None,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        """Create a topic, and return it; it and its settings are durable then.

        If it exists with equal settings, return that one. ConflictError if it exists
        with others: the error names each, and `.fields` has `partitions` as stored, and
        `partitions_asked`. A limit that is None or not given is no limit. InvalidError
        if the tenant has a name that differs only by case.
        `internal` allows, and requires, the prefix `__strandline.`. With `proof` the
        topic's records are chained, and `verify` reports whether any was changed. `schema`,
        of a topic of batches, is an Arrow schema as Arrow serializes it, InvalidError if it
        is not; it and `metadata` are kept with the settings for the rooms above the log.
        `payload_schema`, of a topic of events, declares the names and types of payload fields:
        predicates are checked against it when they are parsed, and read fields in these
        types. Appends are not checked; a value of another type is NULL to a predicate.
        InvalidError for a type that JSON does not have.
        """

    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        """Return the topic of this tenant and name, or that same `Topic` if it still exists."""

    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        """Return the tenant's topics sorted by name, also those without records.

        A remote log whose token belongs to a tenant uses that tenant by default.
        With `internal`, returns only the topics with the prefix `__strandline.`; without,
        only the others.
        """

    def tenants(self) -> Sequence[Tenant]:
        """Return the tenants that have a topic, sorted; for the log's administrator."""

    def describe_topic(self, topic: TopicName) -> TopicDescription:
        """Return what the topic is and holds."""

    def change_retention(
        self,
        topic: TopicName,
        *,
        retention_age_s: Limit = UNCHANGED,
        retention_bytes: Limit = UNCHANGED,
        limit_bytes: Limit = UNCHANGED,
    ) -> TopicDescription:
        """Change the limits that are named; None removes one. Removes no record yet.

        Limits that are not given stay unchanged.
        """

    def add_partitions(self, topic: TopicName, partitions: int) -> TopicDescription:
        """Raise the number of partitions to `partitions`; the new ones are empty.

        Appends that name a new partition may use it at once. If several processes may share
        the log, all of them route by the new count from ROUTE_DELAY_S later on. Most keys
        then move to another partition, and a reader sees a key's records in order only if it
        reads the old partitions first. Repeats of a write are recognised in the partition
        that has it. An expected offset is that of the key's current partition. Nothing
        happens if the topic has this count already; InvalidError if it has more, or above
        4096. `create_topic` accepts the earlier count as equal.
        """

    def declare_payload(self, topic: TopicName, payload_schema: Any) -> TopicDescription:
        """Declare payload fields as `create_topic` does; None removes it. Affects new readers."""

    def drop_topic(self, topic: TopicName) -> None:
        """Remove the topic, its records and its consumers. Its id is never used again."""


class LogWriter(Protocol):
    """Adds records, and removes the oldest."""

    def append(
        self,
        topic: TopicName,
        value: Value,
        *,
        key: str | None = None,
        **terms: Unpack[AppendTerms],
    ) -> Receipt:
        """Append one record, and return once it has reached `durability`.

        None stands for written, or applied where a log reaches no more; InvalidError
        for more than it reaches. To an unknown topic: InvalidError, unless the log
        was opened with `auto_create`, which then creates one with one partition.

        *Key.* An event's own, or `key`; InvalidError if the two differ.

        *Partition.* `partition` if given; else `partition_for_key` of the first of
        key, producer and idempotency key that there is; else the topic's partitions
        in turn, as this log object counts.

        *Tenant.* Whose record it is. In a tenant's topic any other is InvalidError.

        *Timestamp.* The clock's; if the clock went back, that of the partition's last record.

        *The same write, once.* Two ways; InvalidError for both at a time.
        `(producer, sequence)`: sequences of one tenant and producer rise within a
        partition; one of the last PRODUCER_SEQUENCES_KEPT returns the receipt of the
        original, with `is_repeat`; one that was passed over or is older raises
        ConflictError. `idempotency_key`: any text, per tenant and partition; the same
        again returns the receipt of the original. Both hold across restarts and
        trimming for IDENTITY_AGE_S of append time, counted for a key from its use
        and for a producer from its latest; of the keys, the latest
        IDEMPOTENCY_KEYS_KEPT count. The values are not compared.

        *Expected offset.* ConflictError, with `.fields["end"]`, unless the record
        would get exactly this offset. A repeat is recognised first. InvalidError if
        the partition would be chosen in turn.

        *Delivery.* Groups and work queues get an event with `deliver_at`, a datetime with a
        time zone, at that time of the wall clock or later; other readers see it at once.

        *Value.* InvalidError before anything is stored if the record is larger than
        the log's maximum, is not of the topic's kind, or is a batch without rows,
        with two columns of one name, or with a column named as one of `Batches`.

        *Errors.* UnavailableError if the log cannot take it within `timeout_s`;
        nothing is stored then, and `.write` is the value. FailedError: not stored.
        UnknownError: stored once or never.
        """

    def append_many(
        self,
        topic: TopicName,
        values: Iterable[Value],
        *,
        keys: Sequence[str | None] | None = None,
        **terms: Unpack[AppendTerms],
    ) -> Receipts:
        """Append each value as a separate record, in order, atomically per partition.

        The values of one partition get adjacent offsets, and all or none of them are
        stored, also if the process crashes. Partitions are filled in the order in which
        the values first name them, and an error that belongs to one (a conflict, or
        another process that holds it) leaves the earlier ones stored; `.write` of an
        UnavailableError has the values of the others. Every other error leaves nothing
        stored.

        As `append`, for each value, with these differences. `keys` has one for each
        value. All values without a key go to one partition. The n-th value has
        `sequence` + n; InvalidError for more values than a partition could recognise again
        (PRODUCER_SEQUENCES_KEPT). An idempotency key covers the whole call in each
        partition: ConflictError if a repeat has another number of values there.
        `expected_offset` is that of the first value; InvalidError if the values go to
        several partitions.
        The maximum holds for each record. No values: no receipts.
        """

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        """Remove the records before `before`; their identities are still recognised.

        The low-water mark moves at once and exactly, and never back; storage follows.
        It stops at the cursor of the slowest live consumer of any tenant, unless
        `force`. `before` at or below the mark removes nothing; InvalidError beyond the
        high-water mark.
        """

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        """Free the storage of records before `before`, which are kept elsewhere.

        No mark, cursor or position changes, and identities are still recognised.
        Reading evicted records raises TrimmedError, with the oldest offset that is stored
        here in `.oldest`; so does a read that an eviction overtakes. Returns that offset:
        `before`, or less where a store frees whole segments only. InvalidError beyond the
        durable mark, or beyond the high-water mark where the log is never durable. In a
        topic with `proof` the chain continues after the evicted records. Retention and
        `verify` then cover only what is stored here, unless the log knows the copies.
        """

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        """Trim each partition to the topic's retention, as `trim` without `force`.

        Age: records older than `retention_age_s` by this process's clock; one that runs ahead
        removes too early, and active consumers may seem idle. Bytes: the oldest, until each
        partition keeps at most `retention_bytes`; the newest record always stays. Beyond
        `limit_bytes` also what a consumer has not acked. A store may apply it after an append.
        """

    def seal(self, topic: TopicName) -> int:
        """Finish the last segment of each partition, durably; rewrite row segments as columns.

        Returns how many segments were rewritten: 0 if the store keeps no segments.
        Readers see no difference.
        """

    def sync(self, topic: TopicName, partition: int) -> Marks:
        """Make durable what any process has appended to the partition so far.

        Returns the marks, in which `durable` covers it. Does nothing in a log that is never
        durable.
        """

    def flush(self) -> None:
        """Do what `sync` does for every partition, and let the store do its maintenance."""


class LogReader(Protocol):
    """Reads by offset. No read waits for a record, a writer, or a lock of another process."""

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        **limits: Unpack[ReadLimits],
    ) -> Iterator[Record]:
        """Yield each record in [start, end) once, in offset order.

        Stops at `end` (None: no end), or at the high-water mark as it was at the call (the
        durable mark if `durable_only`). A read that begins after `append` returned sees
        that record.

        A limit of 0 yields nothing, None is no limit. With `bytes_max` of at least 1, the
        first record is yielded whatever its size, and further ones only while they fit.

        Raises at the call: TrimmedError if `start` lies below the low-water mark;
        InvalidError if it lies beyond the high-water mark or after `end`, or for
        `durable_only` where nothing ever is durable. May raise between records:
        TrimmedError if a trim has overtaken it, ClosedError.
        """

    def read_batches(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        **limits: Unpack[ReadLimits],
    ) -> Batches:
        """Return the same records as `read`, as Arrow record batches. Raises the same errors."""

    def marks(self, topic: TopicName, partition: int) -> Marks:
        """Return where the partition begins and ends at this moment."""

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        """Return the oldest offset whose timestamp is `timestamp_us` or later.

        Returns the high-water mark if there is none.
        """

    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        """Return the partition's epochs, oldest first; there is always one."""

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        """Return the segments that cover [low, high) without gaps, in order, none empty.

        If records were evicted, starts at the oldest that is stored here.
        """

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        """Return `offset` in the form in which it may be stored elsewhere.

        Records before it are durable when this returns, if the log can be. TrimmedError
        below the low-water mark, InvalidError beyond the high-water mark.
        """

    def resolve(self, position: Position) -> Offset:
        """Return the offset from which the holder of `position` can read on.

        DivergedError if the log has lost records before it, from `.diverged_at` on;
        TrimmedError, InvalidError as `position`; InvalidError for a position in
        another log, or in a topic that was dropped.
        """

    def proof_head(self, topic: TopicName, partition: int) -> ProofHead:
        """Return a digest of everything up to the end, to be kept outside the log.

        Records before it are durable when this returns, if the log can be. InvalidError
        if the topic was created without `proof`.
        """

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        """Read each partition, or the one given, and report what is not as it was written.

        Always checked: offsets without a gap, checksums, timestamps that never fall, and
        that the identities of writes are there.
        In a topic with `proof` also that each record is the one that was written at its
        offset. A process that can write to the storage can forge that, up to the end, but
        then the chain disagrees with a head that was kept elsewhere.
        An `expected` head that the log cannot confirm is a finding, whatever the reason,
        also if its records were trimmed; InvalidError for one of a partition that is not
        verified. Damage is reported as a finding, not raised.
        """

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        """Return the records of [start, end) as they are stored, to be checked or copied.

        From the oldest that is stored here, to the high-water mark at the call. Damage is
        listed among them, not raised; reading them raises TrimmedError if a trim has
        overtaken it, and ClosedError. InvalidError for a start beyond the end, as `read`.
        """

    def watch(self, *, durable_only: bool = False) -> Watch:
        """Return a watch of no partitions yet. It lasts until it is closed.

        It watches the high-water mark, or the durable mark if `durable_only`; InvalidError
        for `durable_only` in a log that is never durable.
        """


class LogConsumers(Protocol):
    """Named cursors, kept in the log: per topic, tenant, name and partition.

    In a topic of a tenant the consumers are that tenant's; InvalidError for another
    tenant. No tenant sees, moves or lists another's consumers. A cursor is the next
    offset to handle. When a call returns, the cursor and the records before it are
    durable, if the log can be.

    A consumer exists in a partition from its first register, ack or seek there. After
    CONSUMER_IDLE_S without one of these it no longer holds back trimming, but its
    cursors are kept: a later use finds them or raises TrimmedError, and never silently
    starts over. A call that needs damaged or missing cursors raises CorruptError.
    """

    def register(
        self,
        topic: TopicName,
        consumer: str,
        starts: Mapping[int, int],
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> Mapping[Partition, Offset]:
        """Create the consumer's cursors in these partitions, and return all its cursors there.

        An existing cursor stays, and counts as active now. A partition without one gets
        one at its offset in `starts`, or at the low-water mark if that is higher. All
        partitions or none. InvalidError beyond the high-water mark.
        DivergedError as for `cursor`.

        With `generation`, the partitions belong to its holder from now on: every `ack`,
        `seek` and `register` with an earlier generation raises LeaseLostError, and so does
        this call if a later generation came first.
        """

    def claim(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Claim:
        """Become the only reader of this partition for the consumer, until released.

        UnavailableError, with the holder's `pid` and `host` in `.fields`, while another
        claim holds it, in this process or another. A claim ends when its log is closed,
        when its last reference is gone, or when its process ends in any way. Other
        processes can still move the cursor.
        """

    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> Offset:
        """Acknowledge everything before `end`, and return the cursor.

        The cursor never goes back: a lower `end` does not move it, but counts as activity.
        InvalidError beyond the high-water mark. DivergedError if the log has lost records
        that the cursor had passed. LeaseLostError if `generation` is given and is not the
        current one; the cursor does not move then.
        """

    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Move the cursor to `offset`, forwards or back. Open group members do not follow.

        TrimmedError below the low-water mark, InvalidError beyond the high-water mark.
        LeaseLostError as for `ack`.
        """

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        """Return the cursor; None until the consumer exists here.

        DivergedError if the log has lost records that the cursor had passed.
        """

    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        """Return the tenant's consumers, one entry for each partition with a cursor.

        Sorted by name, then partition.
        """

    def delete_consumer(
        self, topic: TopicName, consumer: str, *, tenant: str | None = None
    ) -> bool:
        """Remove the consumer's cursors, group and work queue; False if it has no cursor."""


class LogTransactions(Protocol):
    """Adds records together with rows of the caller's own."""

    def transaction(self, connection: Any = None) -> AbstractContextManager[Any]:
        """Return a block that gives a connection to the log's own database.

        What this thread appends inside the block, and what it writes with the connection,
        is committed together when the block is left, and rolled back together when it
        raises. No reader sees any of it before the commit, nor does the thread's own read.
        A receipt's offset is final when the block is left. In SQLite it is known at once,
        and other writers are blocked meanwhile, so keep the block short. In PostgreSQL it
        is assigned when the block is left, so that no other writer waits; before that it
        raises UnavailableError. The receipt of an append that was rolled back, to a
        savepoint or completely, raises InvalidError.

        The transaction belongs to the log: InvalidError for one inside another, and for
        calls of the same thread that change anything except by appending. If it is ended
        other than by leaving the block, nothing is committed. A `connection` that you
        opened yourself must be to the same database and in no transaction: a `sqlite3`
        connection, where SQLite is 3.51.3 or newer; a psycopg connection or pool, a
        SQLAlchemy session or connection, or Django's connection. The block gives that same
        object, or a connection of the pool. A function given to a SQLite connection's
        `before_append` is called before each append, for libraries that begin savepoints
        late. InvalidError if the store shares no transactions: use `sqlite:` or `postgresql:`.
        """
