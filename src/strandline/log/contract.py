"""The whole promise of a log. `Log` keeps it, over any store.

Words: an offset is a place in a partition, from 0, dense; a start is inclusive, an
end exclusive; a level is applied, written or durable. See design 0010.

Everywhere:

- Any call may be made from any thread, at any time, without a lock of the caller's.
- A topic is named by a str, which is a topic without a tenant, or by a `Topic`, which may
  belong to a tenant and is one certain incarnation. InvalidError if there is none;
  the error names topics with similar names in `.fields["near"]`.
- A partition that the topic does not have, a number that is negative or no whole
  number, and a name that breaks the rules of `values` are InvalidError; nothing has
  happened then. So is a call that the log's mode does not allow.
- `read` allows what changes nothing. `consume` allows also all of LogConsumers, `sync`
  and `flush`, and to create, append to and trim internal topics, where consumers keep
  delivery counts and dead letters. `write` allows everything.
- After `close`, ClosedError. After a fork, the child's calls work or raise ClosedError.
- Damaged storage is CorruptError; whatever verifies stays readable.
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
        with others, which names each: `.fields` has `partitions` as it is in the log, and
        `partitions_asked`. A limit that is None or not given is no limit. InvalidError
        if the tenant has a name that differs only by case.
        `internal` allows, and requires, the prefix `__strandline.`. With `proof` the
        topic's records are chained, and `verify` reports whether any was changed. `schema`,
        of a topic of batches, is an Arrow schema as Arrow serializes it, InvalidError if it
        is not; it and `metadata` are kept with the settings for the rooms above the log.
        `payload_schema`, of a topic of events, declares names and types of what payloads
        have: predicates are checked against it when they are parsed, and read fields in
        these types. Appends are not checked; a value of another type is NULL to a
        predicate. InvalidError for a type that JSON has not.
        """

    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        """Return the topic of this tenant and name, or that same `Topic` if it still exists."""

    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        """Return the tenant's topics sorted by name, emptied ones included.

        A remote log with a token of a tenant lists that tenant's where none is named.
        Those with the prefix `__strandline.` only if `internal`, and then only those.
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

        A limit that is not named stays as it is.
        """

    def add_partitions(self, topic: TopicName, partitions: int) -> TopicDescription:
        """Have the topic have so many partitions in all; the new ones are empty.

        They may be appended to by number at once. From ROUTE_DELAY_S later on, where
        several processes may share the log, every process routes by the new count: most
        keys move to another partition then, and what was appended of a key before is not
        before what follows unless a reader takes the old partitions first. Repeats of a
        write are recognised where it went. An expected offset is of the partition to which
        the key belongs now. Nothing happens if the topic has so many; InvalidError if it has
        more, or beyond 4096. `create_topic` takes the earlier count as equal.
        """

    def declare_payload(self, topic: TopicName, payload_schema: Any) -> TopicDescription:
        """Declare, as `create_topic` does, what payloads have; None removes it. For new readers."""

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

        *Timestamp.* The clock's; the partition's last one where the clock went back.

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
        the partition would follow from whose turn it is.

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
        """Append each value as a record of its own, in order, whole per partition.

        The values of one partition get adjacent offsets, and all or none of them are
        stored, also if the process crashes. Partitions are filled in the order in which
        the values first name them, and an error that belongs to one (a conflict, or
        another process that holds it) leaves the earlier ones stored, and `.write` of
        UnavailableError has the values of the others; every other error leaves nothing
        stored.

        As `append`, for each value, with these differences. `keys` has one for each
        value. All values without a key go to one partition. The n-th value has
        `sequence` + n; more of them than a partition could recognise again
        (PRODUCER_SEQUENCES_KEPT) are InvalidError. An idempotency key stands for the
        whole call in each partition: a repeat must bring as many values there, or
        ConflictError. `expected_offset` is that of the first value, and InvalidError
        if they go to several partitions.
        The maximum holds for each record. No values: no receipts.
        """

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        """Remove the records before `before`; offsets and identities stay taken.

        The low-water mark moves at once and exactly, and never back; storage follows.
        It stops at the cursor of the slowest live consumer of any tenant, unless
        `force`. `before` at or below the mark removes nothing; InvalidError beyond the
        high-water mark.
        """

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        """Free the storage of records before `before`, which are kept elsewhere.

        No mark, cursor or position changes, and offsets and identities stay taken; but
        reading what was evicted raises TrimmedError, with the oldest offset that is
        stored here in `.oldest`, also where a read is overtaken. Returns that offset:
        `before`, or less where a backend frees whole runs only. InvalidError beyond
        what is durable, where a log reaches durable, else beyond the high-water mark.
        In a topic with `proof` the chain goes on from what was evicted. Retention then counts,
        and `verify` reads, what is stored here alone, unless the log knows the copies.
        """

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        """Trim each partition to the topic's retention, as `trim` without `force`.

        Age: records whose timestamp lies further back than `retention_age_s`. Bytes:
        the oldest, until each partition keeps at most `retention_bytes`, but always
        the newest record. Beyond `limit_bytes` the oldest go though a consumer has not
        acked them. A backend may also do so by itself, after an append.
        """

    def seal(self, topic: TopicName) -> int:
        """End the last segment of each partition, durable, and rewrite runs of rows as columns.

        Returns how many segments were rewritten: 0 where a store keeps no segments.
        Nothing that a reader sees changes.
        """

    def sync(self, topic: TopicName, partition: int) -> Marks:
        """Make durable what any process has appended to the partition so far.

        Returns the marks; `durable` covers it where a log reaches durable, and
        nothing happens where it does not.
        """

    def flush(self) -> None:
        """Do what `sync` does for every partition, and let the store tidy up."""


class LogReader(Protocol):
    """Reads by offset. No read waits: not for a record, not for a writer, not for a lock
    of another process."""

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        **limits: Unpack[ReadLimits],
    ) -> Iterator[Record]:
        """Yield each record in [start, end) once, in offset order.

        Stops at `end` (None: no end), and at the high-water mark, or the durable one
        if `durable_only`, as it was at the call. What `append` returned for, a read
        that begins later sees.

        A limit of 0 gives nothing, None no limit. With `bytes_max` of at least 1, the
        first record comes whatever its size, and no other that would exceed it.

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
        """Return the same records as `read`, as Arrow record batches. Raises alike."""

    def marks(self, topic: TopicName, partition: int) -> Marks:
        """Return where the partition begins and ends at this moment."""

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        """Return the first offset kept with this timestamp or a later one.

        The high-water mark if there is none.
        """

    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        """Return the partition's epochs, oldest first; there is always one."""

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        """Return the runs that tile [low, high) exactly, in order, none of them empty.

        Where records were evicted, from the oldest that is stored here.
        """

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        """Return `offset` in the form in which it may be stored elsewhere.

        What lies before it is durable then, where a log reaches durable. TrimmedError
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

        What lies before it is durable then, where a log reaches durable. InvalidError
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
        In a topic with `proof` also that each record is the one that was written in
        its place. A process that can write to the storage can forge that, up to the end, but
        not so that it agrees with a head that was kept elsewhere.
        An `expected` head that the log cannot confirm is a finding, for whatever
        reason, also if what it is of was trimmed; InvalidError for one of a
        partition that is not verified. Damage is a finding, and raises nothing.
        """

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        """Return the records of [start, end) as they are stored, to be checked or copied.

        From the oldest that is stored here, and to the high-water mark at the call.
        Damage is named among them, and raises nothing; reading them raises TrimmedError
        if a trim has overtaken it, ClosedError.
        """

    def watch(self, *, durable_only: bool = False) -> Watch:
        """Return a watch of no partitions yet. It holds until it is closed.

        Its partitions end at the high-water mark, or at the durable one if
        `durable_only`; InvalidError for that where nothing ever is durable.
        """


class LogConsumers(Protocol):
    """Named cursors, kept in the log: per topic, tenant, name and partition.

    In a topic of a tenant the consumers are that tenant's, and another is
    InvalidError. No tenant sees, moves or lists another's consumers. A cursor is the
    next offset to handle. It is durable when a call returns, and so is what lies
    before it, where a log reaches durable.

    A consumer exists in a partition from its first register, ack or seek there. After
    CONSUMER_IDLE_S without one it no longer holds trimming back, but keeps its
    cursors: it finds them, or TrimmedError, and never starts again unnoticed.
    Cursors that are damaged or missing are CorruptError in every call that needs them.
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
        """Have the consumer exist in these partitions, and return its cursors there.

        A cursor that exists stays, and counts as active now. A partition without
        one gets it at its offset in `starts`, or at the low-water mark if that is
        higher. All of them or none. InvalidError beyond the high-water mark.
        DivergedError as for `cursor`.

        With `generation`, these partitions are its holder's from now on: every `ack`,
        `seek` and `register` of an earlier generation is LeaseLostError. So is this one if
        a later generation was there first.
        """

    def claim(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Claim:
        """Be the only one that reads this partition for the consumer, until released.

        UnavailableError, with the holder's `pid` and `host` in `.fields`, while another
        claim holds it: of any process, this one included. A claim ends with the log
        that it was made on, with its last reference, and with its process however that
        ends. It does not prevent other processes from moving the cursor.
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

        The cursor never goes back: a lower `end` changes nothing but the time at which the
        consumer was last active. InvalidError beyond the high-water mark. DivergedError if the log has
        lost records that the cursor had passed. LeaseLostError if `generation` is given and
        is not the present one; the cursor does not move then.
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
        """Put the cursor to `offset`, forwards or back. Open members of a group do not follow.

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
        """Return a connection to the log's own database, for rows beside the log's.

        What this thread appends inside the block, and what it writes with the connection,
        is committed together when the block is left, and rolled back together when it
        raises. Nothing of it is seen before, also not by the thread's own reads of the log.
        A receipt's offset is final when the block is left. In SQLite it is known at once,
        and other writers block meanwhile, so keep it short; in PostgreSQL it is assigned
        when the block is left, so that no other writer waits, and raises UnavailableError
        before. Of what was rolled back, be it to a savepoint, a receipt raises InvalidError.

        The transaction is the log's: InvalidError for one inside another, and for calls of
        the same thread that change anything but append; nothing is committed if it is ended
        by any other way than leaving the block. A `connection` that was opened elsewhere is
        to the same database and in no transaction: a `sqlite3` connection, where SQLite is
        3.51.3 or newer; a psycopg connection or pool, a SQLAlchemy session or connection,
        or Django's connection, and the block gives what it was given, or a connection of
        the pool. What is given to a SQLite connection's `before_append` is called before
        each append, for a library that begins its savepoints late. InvalidError where the
        store has no transactions to share: use `sqlite:` or `postgresql:`.
        """
