"""The options of an append: its partition, its durability, and its identity."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypedDict

from strandline.values import (
    PRODUCER_SEQUENCES_KEPT,
    Durability,
    DurabilityName,
    InvalidError,
    Offset,
    Partition,
    Tenant,
    Topic,
    check_idempotency_key,
    check_producer_name,
    check_topic_name,
    parse_tenant,
    partition_for_key,
)
from strandline.values.arguments import (
    INT64_MAX,
    check_limit,
    check_options,
    check_timeout,
    check_whole,
)
from strandline.values.names import RESERVED_PREFIX
from strandline.values.partitioning import unknown_partition

# Looking up an enumeration's members is slow.
_APPLIED: Final = Durability.APPLIED
_WRITTEN: Final = Durability.WRITTEN
_FIRST = Partition(0)


class WriteTerms(TypedDict, total=False):
    """Where an append goes, how durable it must be, and how a repeat is recognised."""

    partition: int | None
    durability: Durability | DurabilityName | None
    producer: str | None
    sequence: int | None
    idempotency_key: str | None
    expected_offset: int | None


class AppendTerms(WriteTerms, total=False):
    """The options of an append besides the topic, the values and their keys.

    See LogWriter.append.
    """

    tenant: str | None
    timeout_s: float | None
    deliver_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """AppendTerms, checked except for what depends on the topic."""

    partition: int | None = None
    tenant: str | None = None
    durability: Durability | DurabilityName | None = None
    producer: str | None = None
    sequence: int | None = None
    idempotency_key: str | None = None
    expected_offset: int | None = None
    timeout_s: float | None = None
    deliver_at: datetime | None = None
    #: Whether they hold at most a level; set by `terms_of`.
    is_plain: bool = False

    def __post_init__(self) -> None:
        keep = partial(object.__setattr__, self)
        keep("timeout_s", check_timeout(self.timeout_s))
        keep("expected_offset", check_limit("expected_offset", self.expected_offset))
        if (self.producer is None) != (self.sequence is None):
            raise InvalidError("a producer and a sequence go together, give both or neither")
        if self.producer is not None:
            keep("producer", check_producer_name(self.producer))
            keep("sequence", check_whole("sequence", self.sequence))
        if self.idempotency_key is not None:
            keep("idempotency_key", check_idempotency_key(self.idempotency_key))
            if self.producer is not None:
                raise InvalidError("pass a producer and sequence, or an idempotency key, not both")

    @property
    def has_identity(self) -> bool:
        """Whether a repeat of the append would be recognised."""
        return self.producer is not None or self.idempotency_key is not None

    def check_count(self, count: int) -> None:
        """Raise InvalidError if this many values have no sequences, or no repeat recognised."""
        if self.producer is not None and count > PRODUCER_SEQUENCES_KEPT:
            raise InvalidError(
                "a repeat of so many sequences could not be recognised, append fewer at a time",
                values=count,
                values_max=PRODUCER_SEQUENCES_KEPT,
            )
        if self.sequence is not None and self.sequence + count - 1 > INT64_MAX:
            raise InvalidError(
                "the last of these values would have a sequence beyond 64 bits, begin lower",
                sequence=self.sequence,
                values=count,
            )

    def level(self, durability_max: Durability) -> Durability:
        """Return the level to reach, in a log that reaches `durability_max`."""
        if self.durability is None:
            return _APPLIED if durability_max is _APPLIED else _WRITTEN
        if self.durability is durability_max:
            return durability_max
        return check_level(self.durability, durability_max)

    def route(
        self, keys: Sequence[str | None], partitions: int, turn: Callable[[], int]
    ) -> dict[Partition, Sequence[int]]:
        """Return the partitions in the order of their first value, with their values' indices.

        `turn` is called at most once, and only if nothing else determines a partition.
        """
        if not keys:
            return {}
        if self.partition is not None or partitions == 1:
            return {self.route_one(None, partitions, turn): range(len(keys))}
        routed: dict[Partition, list[int]] = {}
        keyless: Partition | None = None
        for index, key in enumerate(keys):
            if key is not None:
                partition = partition_for_key(key, partitions)
            else:
                if keyless is None:
                    keyless = self._keyless(partitions, turn)
                partition = keyless
            routed.setdefault(partition, []).append(index)
        if self.expected_offset is not None and len(routed) > 1:
            raise InvalidError(
                "an expected offset holds for one partition, append to each separately",
                partitions=list(routed),
            )
        return dict(routed)

    def route_one(self, key: str | None, partitions: int, turn: Callable[[], int]) -> Partition:
        """Return one value's partition; `turn` is called only if nothing else determines it."""
        if self.partition is not None:
            return check_partition(self.partition, partitions)
        if partitions == 1:
            return _FIRST
        return (
            self._keyless(partitions, turn) if key is None else partition_for_key(key, partitions)
        )

    def _keyless(self, partitions: int, turn: Callable[[], int]) -> Partition:
        name = self.producer or self.idempotency_key
        if name is not None:
            return partition_for_key(name, partitions)
        if self.expected_offset is not None:
            raise InvalidError("an expected offset needs a partition or a key")
        return Partition(turn() % partitions)


_PLAIN = Terms(is_plain=True)
_AT_LEVELS: Mapping[object, Terms] = {
    name: Terms(durability=level, is_plain=True)
    for level in Durability
    for name in (level, str(level))
}


def terms_of(given: AppendTerms) -> Terms:
    """Return the terms of a call; cheap if it gives at most a level."""
    if not given:
        return _PLAIN
    is_plain = given.keys() == {"durability"}
    if is_plain and type(level := given["durability"]) in {str, Durability}:
        known = _AT_LEVELS.get(level)
        if known is not None:
            return known
    try:
        return Terms(**given, is_plain=is_plain)
    except TypeError:
        check_options("append", given, AppendTerms.__optional_keys__)
        raise


def check_level(level: object, durability_max: Durability) -> Durability:
    """Return `level` as a Durability that the log reaches, else raise InvalidError."""
    parsed = Durability.parse(level)
    if parsed > durability_max:
        raise InvalidError(
            "this log does not reach that durability, request less or open a file: log",
            durability=str(parsed),
            durability_max=str(durability_max),
        )
    return parsed


def check_partition(partition: object, partitions: int) -> Partition:
    """Return `partition` if a topic with this many has it, else raise InvalidError."""
    number = check_whole("partition", partition)
    if number >= partitions:
        raise unknown_partition(number, partitions)
    return Partition(number)


def check_new_name(name: str, *, internal: bool) -> str:
    """Return the name; InvalidError unless a topic may be created with it."""
    checked = check_topic_name(name, internal=internal)
    if internal and not checked.startswith(RESERVED_PREFIX):
        raise InvalidError(f"an internal topic begins with {RESERVED_PREFIX}", topic=checked)
    return checked


def owner(topic: Topic, tenant: str | None) -> Tenant | None:
    """Return the tenant of a record or consumer in `topic`; InvalidError if it is not allowed."""
    if tenant is None:
        return topic.tenant
    parsed = parse_tenant(tenant)
    if topic.tenant is None or parsed == topic.tenant:
        return parsed
    raise InvalidError("this topic belongs to another tenant", topic=topic.name, tenant=tenant)


def latest_before(high: int) -> Offset | None:
    """Return the last offset used in a partition that ends at `high`."""
    return Offset(high - 1) if high else None


def check_durable(before: int, durable: int) -> None:
    """Raise InvalidError unless all before `before` is durable."""
    if before > durable:
        raise InvalidError(
            "only durable records may be evicted, sync first", before=before, durable=durable
        )
