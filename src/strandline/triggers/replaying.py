"""Parked records, and handing them once more to the triggers that could not deal with them."""

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

_OURS: Final = "strandline."
_PARKED: Final = "strandline.parked"


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
    """Whether it was handed to its trigger once more."""


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
    """Hand what is parked of a topic to its triggers once more, and return what that was.

    Of one consumer, if given; only what has these offsets in the parking topic, if
    given. Each goes once, however often this is called, also by several at a time or
    after a crash: what was replayed is left out. One that fails again is parked anew,
    and can be replayed anew. No other reader of the topic sees anything of it.

    A trigger that does not run gets them when it does. What is returned is durable,
    where the log reaches that.
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
    replays = replay_topic(log, found)
    for parked in parked_records(log, found, consumer=consumer):
        if parked.is_replayed or not (wanted is None or parked.offset in wanted):
            continue
        (record,) = log.read(parking, 0, parked.offset, parked.offset + 1)
        receipt = log.append(
            replays,
            _with_header(parked.event, _PARKED, str(parked.offset)),
            partition=0,
            tenant=record.tenant,
            durability=log.durability_max,
            idempotency_key=f"{parking.id}/{parked.offset}",
        )
        if not receipt.is_repeat:
            done.append(parked)
    return done


def replay_topic(log: Log, topic: Topic) -> Topic:
    """Return the internal topic by which the triggers of a topic get parked records."""
    return log.create_topic(_replay_name(topic), tenant=topic.tenant, internal=True)


def original(log: Log, topic: Topic, kind: ValueKind, replay: Record) -> Record:
    """Return the record that was parked and is replayed by this one."""
    parked = _parked(replay, is_replayed=True)
    value = _value(parked.event, kind)
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


def consumer_of(replay: Record) -> str:
    """Return who is to have it."""
    return replay.headers.get("strandline.consumer", "")


def _replay_name(topic: Topic) -> str:
    return check_topic_name(f"__strandline.replayed.{topic.name}", internal=True)


def _parking_of(log: Log, topic: Topic) -> Topic | None:
    try:
        return log.topic(parking_name(topic), tenant=topic.tenant)
    except InvalidError:
        return None


def _replayed(log: Log, topic: Topic) -> set[int]:
    try:
        replays = log.topic(_replay_name(topic), tenant=topic.tenant)
    except InvalidError:
        return set()
    low = log.marks(replays, 0).low
    return {int(record.headers[_PARKED]) for record in log.read(replays, 0, low)}


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
