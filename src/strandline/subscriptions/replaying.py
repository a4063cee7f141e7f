"""Parked records, and redriving them to the consumers and triggers that parked them."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from strandline.log import Log, TopicName
from strandline.subscriptions.parking import parking_name
from strandline.values import (
    Event,
    InvalidError,
    Offset,
    Partition,
    Record,
    StrandlineError,
    Topic,
    ValueKind,
    check_consumer_name,
    check_topic_name,
)
from strandline.values.arguments import check_items, check_whole
from strandline.values.batches import decode_batch
from strandline.values.internal_topics import REPLAYED_PREFIX

_OURS: Final = "strandline."
_PARKED: Final = "strandline.parked"
_TENANT: Final = "strandline.consumer_tenant"


@dataclass(frozen=True, slots=True)
class Parked:
    """A record in a parking topic."""

    offset: Offset
    """Its place in the parking topic."""
    consumer: str
    """Who could not deal with it: the name of a trigger, or of another consumer."""
    deliveries: int
    reason: str
    partition: Partition
    """With `record_offset`, its place in its own topic."""
    record_offset: Offset
    event: Event
    """As it is stored: an event with our headers, or bytes or a batch in base64."""
    is_replayed: bool
    """Whether it was handed to its consumer once more."""
    consumer_tenant: str | None = None
    """Whose consumer that is, in a topic that several tenants share."""


def parked_records(log: Log, topic: TopicName, *, consumer: str | None = None) -> Iterator[Parked]:
    """Yield what is parked of a topic, oldest first; of one consumer, if given."""
    consumer = None if consumer is None else check_consumer_name(consumer)
    found = log.topic(topic)
    parking = _parking_of(log, found)
    if parking is None:
        return
    replayed = _replayed(log, found)
    for record in log.read(parking, 0, log.marks(parking, 0).low):
        parked = _parked(record, is_replayed=record.offset in replayed)
        if consumer is None or parked.consumer == consumer:
            yield parked


def replay_parked(
    log: Log,
    topic: TopicName,
    *,
    consumer: str | None = None,
    offsets: Iterable[int] | None = None,
) -> list[Parked]:
    """Redrive what is parked of a topic to the consumers that parked it; return what that was.

    Of one consumer or trigger, if given; only what has these offsets in the parking
    topic, if given. Each goes once, however often this is called, also by several at a
    time or after a crash: what was replayed is left out. One that fails again is parked
    anew, and can be replayed anew. No other reader of the topic sees anything of it.

    A consumer or trigger that does not run gets them when it does. InvalidError if one
    of them no longer exists in the log (it was forgotten); all stays parked then. What
    is returned is durable, where the log reaches that.
    """
    consumer = None if consumer is None else check_consumer_name(consumer)
    found = log.topic(topic)
    wanted = None
    if offsets is not None:
        wanted = frozenset(check_whole("offset", each) for each in check_items("offsets", offsets))
    parking = _parking_of(log, found)
    done: list[Parked] = []
    if parking is None:
        return done
    chosen = [
        parked
        for parked in parked_records(log, found, consumer=consumer)
        if not parked.is_replayed and (wanted is None or parked.offset in wanted)
    ]
    _check_takers(log, found, chosen)
    replays = replay_topic(log, found)
    count = log.describe_topic(replays).settings.partitions
    for parked in chosen:
        (record,) = log.read(parking, 0, parked.offset, parked.offset + 1)
        receipt = log.append(
            replays,
            _with_header(parked.event, _PARKED, str(parked.offset)),
            partition=_replay_partition(parked.partition, count),
            tenant=record.tenant,
            durability=log.durability_max,
            idempotency_key=f"{parking.id}/{parked.offset}",
        )
        if not receipt.is_repeat:
            done.append(parked)
    return done


def replay_topic(log: Log, topic: Topic) -> Topic:
    """Return the internal topic by which the consumers of a topic get parked records."""
    found = _find(log, topic, _replay_name(topic))
    if found is not None:
        return found
    return log.create_topic(
        _replay_name(topic),
        partitions=log.describe_topic(topic).settings.partitions,
        tenant=topic.tenant,
        internal=True,
    )


def replay_partitions(log: Log, topic: Topic, partitions: Iterable[int]) -> list[int]:
    """Return the partitions of the replay topic that a reader of these partitions reads."""
    count = log.describe_topic(replay_topic(log, topic)).settings.partitions
    return sorted(number for number in partitions if number < count)


def may_be_redriven(log: Log, topic: Topic) -> bool:
    """Whether anything was ever parked of the topic."""
    return _parking_of(log, topic) is not None


def original(log: Log, topic: Topic, replay: Record) -> Record:
    """Return the record that was parked and is replayed by this one."""
    parked = _parked(replay, is_replayed=True)
    value = _value(parked.event, log.describe_topic(topic).settings.value_kind)
    try:
        here = list(log.read(topic, parked.partition, parked.record_offset, records_max=1))
    except StrandlineError:
        # Trimmed, or of a topic of this name that was dropped.
        here = []
    if here and _is_equal(here[0].value, value):
        return here[0]
    return Record(
        topic=topic.name,
        partition=parked.partition,
        offset=parked.record_offset,
        timestamp_us=replay.timestamp_us,
        key=replay.key,
        tenant=replay.tenant,
        value=value,
    )


def is_for(replay: Record, topic: Topic, consumer: str, tenant: str | None = None) -> bool:
    """Whether a consumer of this name, of this tenant in a shared topic, is to have it."""
    whose = None if tenant == topic.tenant else tenant
    headers = replay.headers
    return (headers.get("strandline.consumer"), headers.get(_TENANT)) == (consumer, whose)


def _replay_name(topic: Topic) -> str:
    return check_topic_name(f"{REPLAYED_PREFIX}{topic.name}", internal=True)


def _replay_partition(partition: int, count: int) -> int:
    # A replay topic of before has one partition, whatever its topic has.
    return partition if partition < count else 0


def _check_takers(log: Log, topic: Topic, chosen: Iterable[Parked]) -> None:
    places = {(each.consumer, each.consumer_tenant, each.partition) for each in chosen}
    gone = {
        consumer
        for consumer, tenant, partition in places
        if log.cursor(topic, consumer, partition, tenant=tenant) is None
    }
    if gone:
        raise InvalidError(
            "no consumer of this name can take what it parked: open it once, or redrive "
            "those of others with consumer=",
            topic=topic.name,
            consumers=sorted(gone),
        )


def _find(log: Log, topic: Topic, name: str) -> Topic | None:
    try:
        return log.topic(name, tenant=topic.tenant)
    except InvalidError:
        return None


def _parking_of(log: Log, topic: Topic) -> Topic | None:
    return _find(log, topic, parking_name(topic))


def _replayed(log: Log, topic: Topic) -> set[int]:
    replays = _find(log, topic, _replay_name(topic))
    if replays is None:
        return set()
    return {
        int(record.headers[_PARKED])
        for partition in range(log.describe_topic(replays).settings.partitions)
        for record in log.read(replays, partition, log.marks(replays, partition).low)
    }


def _parked(record: Record, *, is_replayed: bool) -> Parked:
    headers = record.headers
    return Parked(
        offset=record.offset,
        consumer=headers["strandline.consumer"],
        deliveries=int(headers["strandline.deliveries"]),
        reason=headers["strandline.reason"],
        partition=Partition(int(headers["strandline.partition"])),
        record_offset=Offset(int(headers["strandline.offset"])),
        event=record.event,
        is_replayed=is_replayed,
        consumer_tenant=headers.get(_TENANT),
    )


def _with_header(event: Event, name: str, text: str) -> Event:
    return Event(
        event.kind,
        event.payload,
        key=event.key,
        headers={**event.headers, name: text},
        occurred_at=event.occurred_at,
    )


def _value(event: Event, kind: ValueKind) -> "Event | bytes | pa.RecordBatch":
    if kind is ValueKind.EVENT:
        own = {name: text for name, text in event.headers.items() if not name.startswith(_OURS)}
        return Event(
            event.kind, event.payload, key=event.key, headers=own, occurred_at=event.occurred_at
        )
    encoded = base64.b64decode(event.payload)
    if kind is ValueKind.BYTES:
        return encoded
    return decode_batch(encoded)


def _is_equal(left: object, right: object) -> bool:
    if isinstance(left, pa.RecordBatch) and isinstance(right, pa.RecordBatch):
        return bool(left.equals(right))
    return type(left) is type(right) and left == right
