"""Dead letters, and redriving them to the consumers and triggers that dead-lettered them."""

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from strandline.log import Log, TopicName, parts_of
from strandline.subscriptions.dead_letters import dead_letter_topic_name
from strandline.subscriptions.screening import screen_for
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
from strandline.values.internal_topics import REDRIVEN_PREFIX
from strandline.values.names import check_text

_OURS: Final = "strandline."
_DEAD_LETTER: Final = "strandline.dead_letter"
_TENANT: Final = "strandline.consumer_tenant"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record in a dead-letter topic."""

    offset: Offset
    """Its place in the dead-letter topic."""
    consumer: str
    """The consumer or trigger that could not handle it."""
    deliveries: int
    reason: str
    partition: Partition
    """With `record_offset`, its place in its own topic."""
    record_offset: Offset
    event: Event
    """As it is stored: an event with our headers, or bytes or a batch in base64."""
    is_redriven: bool
    """Whether it was handed to its consumer once more."""
    consumer_tenant: str | None = None
    """Whose consumer that is, in a topic that several tenants share."""


def dead_letters(
    log: Log, topic: TopicName, *, consumer: str | None = None, where: str = ""
) -> Iterator[DeadLetter]:
    """Yield what is dead-lettered of a topic, oldest first; of one consumer, if given.

    With `where`, a predicate as for `subscribe`, those whose own record matches; of a batch,
    if one of its rows does. PredicateEvalError at a record on which it fails.
    """
    consumer = None if consumer is None else check_consumer_name(consumer)
    found = log.topic(topic)
    is_wanted = _wanted(log, found, where)
    letters = _dead_letter_topic(log, found)
    if letters is None:
        return
    redriven = _redriven(log, found)
    for record in log.read(letters, 0, log.marks(letters, 0).low):
        letter = _dead_letter(record, is_redriven=record.offset in redriven)
        if (consumer is None or letter.consumer == consumer) and is_wanted(record):
            yield letter


def redrive(
    log: Log,
    topic: TopicName,
    *,
    consumer: str | None = None,
    offsets: Iterable[int] | None = None,
    where: str = "",
) -> list[DeadLetter]:
    """Redrive the dead letters of a topic to their consumers; return those redriven.

    Of one consumer or trigger, if given; only what has these offsets in the dead-letter
    topic, if given; only records that match `where`, as `dead_letters` has it. Each goes
    once, however often this is called, also by several at a time or after a crash: what was
    redriven is left out. One that fails again is dead-lettered again, and can be redriven
    again. No other reader of the topic sees anything of it.

    A consumer or trigger that does not run gets them when it does. InvalidError if one
    of them no longer exists in the log (it was deleted); nothing is redriven then. What
    is returned is durable, where the log reaches that.
    """
    consumer = None if consumer is None else check_consumer_name(consumer)
    found = log.topic(topic)
    wanted = None
    if offsets is not None:
        wanted = frozenset(check_whole("offset", each) for each in check_items("offsets", offsets))
    letters = _dead_letter_topic(log, found)
    done: list[DeadLetter] = []
    if letters is None:
        return done
    chosen = [
        letter
        for letter in dead_letters(log, found, consumer=consumer, where=where)
        if not letter.is_redriven and (wanted is None or letter.offset in wanted)
    ]
    _check_takers(log, found, chosen)
    redriven = redrive_topic(log, found)
    count = log.describe_topic(redriven).settings.partitions
    for letter in chosen:
        (record,) = log.read(letters, 0, letter.offset, letter.offset + 1)
        receipt = log.append(
            redriven,
            _with_header(letter.event, _DEAD_LETTER, str(letter.offset)),
            partition=_redrive_partition(letter.partition, count),
            tenant=record.tenant,
            durability=log.durability_max,
            idempotency_key=f"{letters.id}/{letter.offset}",
        )
        if not receipt.is_repeat:
            done.append(letter)
    return done


def redrive_topic(log: Log, topic: Topic) -> Topic:
    """Return the internal topic by which the consumers of a topic get dead letters."""
    found = _find(log, topic, _redrive_topic_name(topic))
    if found is not None:
        return found
    return log.create_topic(
        _redrive_topic_name(topic),
        partitions=log.describe_topic(topic).settings.partitions,
        tenant=topic.tenant,
        internal=True,
    )


def redrive_partitions(log: Log, topic: Topic, partitions: Iterable[int]) -> list[int]:
    """Return the partitions of the redrive topic that a reader of these partitions reads."""
    count = log.describe_topic(redrive_topic(log, topic)).settings.partitions
    return sorted(number for number in partitions if number < count)


def may_be_redriven(log: Log, topic: Topic) -> bool:
    """Whether anything was ever dead-lettered of the topic."""
    return _dead_letter_topic(log, topic) is not None


def original(log: Log, topic: Topic, redrive: Record) -> Record:
    """Return the record that was dead-lettered and is redriven by this one."""
    letter = _dead_letter(redrive, is_redriven=True)
    value = _value(letter.event, log.describe_topic(topic).settings.value_kind)
    try:
        here = list(log.read(topic, letter.partition, letter.record_offset, records_max=1))
    except StrandlineError:
        # Trimmed, or of a topic of this name that was dropped.
        here = []
    if here and _is_equal(here[0].value, value):
        return here[0]
    return Record(
        topic=topic.name,
        partition=letter.partition,
        offset=letter.record_offset,
        timestamp_us=redrive.timestamp_us,
        key=redrive.key,
        tenant=redrive.tenant,
        value=value,
    )


def is_for(redrive: Record, topic: Topic, consumer: str, tenant: str | None = None) -> bool:
    """Whether a consumer of this name, of this tenant in a shared topic, is to have it."""
    whose = None if tenant == topic.tenant else tenant
    headers = redrive.headers
    return (headers.get("strandline.consumer"), headers.get(_TENANT)) == (consumer, whose)


def _wanted(log: Log, topic: Topic, where: str) -> Callable[[Record], bool]:
    """Return whether the record that a dead letter stands for matches."""
    where = check_text(where, "predicate")
    if not where.strip():
        return lambda _: True
    now_us = parts_of(log).clock.now_us()
    screen = screen_for(where, log.describe_topic(topic).settings, now_us)

    def is_wanted(letter: Record) -> bool:
        (outcome,) = screen.sift([original(log, topic, letter)])
        if isinstance(outcome, InvalidError):
            raise outcome
        return outcome is not None

    return is_wanted


def _redrive_topic_name(topic: Topic) -> str:
    return check_topic_name(f"{REDRIVEN_PREFIX}{topic.name}", internal=True)


def _redrive_partition(partition: int, count: int) -> int:
    # A redrive topic of before has one partition, whatever its topic has.
    return partition if partition < count else 0


def _check_takers(log: Log, topic: Topic, chosen: Iterable[DeadLetter]) -> None:
    places = {(each.consumer, each.consumer_tenant, each.partition) for each in chosen}
    gone = {
        consumer
        for consumer, tenant, partition in places
        if log.cursor(topic, consumer, partition, tenant=tenant) is None
    }
    if gone:
        raise InvalidError(
            "no consumer of this name can take what it dead-lettered: open it once, or redrive "
            "those of others with consumer=",
            topic=topic.name,
            consumers=sorted(gone),
        )


def _find(log: Log, topic: Topic, name: str) -> Topic | None:
    try:
        return log.topic(name, tenant=topic.tenant)
    except InvalidError:
        return None


def _dead_letter_topic(log: Log, topic: Topic) -> Topic | None:
    return _find(log, topic, dead_letter_topic_name(topic))


def _redriven(log: Log, topic: Topic) -> set[int]:
    redriven = _find(log, topic, _redrive_topic_name(topic))
    if redriven is None:
        return set()
    return {
        int(record.headers[_DEAD_LETTER])
        for partition in range(log.describe_topic(redriven).settings.partitions)
        for record in log.read(redriven, partition, log.marks(redriven, partition).low)
    }


def _dead_letter(record: Record, *, is_redriven: bool) -> DeadLetter:
    headers = record.headers
    return DeadLetter(
        offset=record.offset,
        consumer=headers["strandline.consumer"],
        deliveries=int(headers["strandline.deliveries"]),
        reason=headers["strandline.reason"],
        partition=Partition(int(headers["strandline.partition"])),
        record_offset=Offset(int(headers["strandline.offset"])),
        event=record.event,
        is_redriven=is_redriven,
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
