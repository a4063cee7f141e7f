"""Dead letters, and redriving them to the consumers and triggers that dead-lettered them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa

from strandline.log import Log, TopicName, check_blocking, is_erased, parts_of
from strandline.subscriptions.dead_letters import (
    REDRIVEN_HEADER,
    dead_letter_topic_name,
    erase_copy,
    found_topic,
    is_erased_at,
    redrive_topic_name,
    redriven_letters,
)
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
)
from strandline.values.arguments import check_flag, check_items, check_whole
from strandline.values.batches import decode_batch
from strandline.values.delivery_time import DELIVER_AT
from strandline.values.instants import datetime_from_us
from strandline.values.json_forms import moment
from strandline.values.names import check_text

_OURS: Final = "strandline."
_TENANT: Final = "strandline.consumer_tenant"
_CONSUMER: Final = "strandline.consumer"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record in a dead-letter topic."""

    offset: Offset
    """Its offset in the dead-letter topic."""
    consumer: str
    """The consumer or trigger that could not handle it."""
    deliveries: int
    """How often it was delivered before it was dead-lettered, counted from the last redrive."""
    reason: str
    """The reason that the consumer or trigger gave."""
    partition: Partition
    """With `record_offset`, its place in the original topic."""
    record_offset: Offset
    event: Event
    """The stored form: an event with our headers, or bytes or a batch in base64."""
    is_redriven: bool
    """Whether it was redriven to its consumer or to a topic, or discarded."""
    consumer_tenant: str | None = None
    """The consumer's tenant, in a topic that several tenants share."""
    timestamp_us: int = 0
    """When it was dead-lettered."""

    @property
    def timestamp(self) -> datetime:
        """When it was dead-lettered, in UTC."""
        return datetime_from_us(self.timestamp_us)

    @property
    def key(self) -> str | None:
        """The record's key."""
        return self.event.key


def dead_letter_json(letter: DeadLetter) -> dict[str, object]:
    """Return what programs get of a dead letter; its payload is JSON already."""
    event = letter.event
    headers = {name: text for name, text in event.headers.items() if not name.startswith(_OURS)}
    return {
        "offset": letter.offset,
        "consumer": letter.consumer,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "partition": letter.partition,
        "record_offset": letter.record_offset,
        "kind": event.kind,
        "key": event.key,
        "payload": msgspec.Raw(event.payload_json),
        "headers": headers,
        "is_redriven": letter.is_redriven,
        "dead_lettered_at": moment(letter.timestamp_us),
    }


Chosen: TypeAlias = "Callable[[DeadLetter], bool] | str | None"
"""Which dead letters to choose: a function, or a predicate on their records; None for all."""


def dead_letters(
    log: Log, topic: TopicName, *, consumer: str | None = None, where: Chosen = None
) -> Iterator[DeadLetter]:
    """Yield the dead letters of a topic, oldest first; of one consumer, if given.

    Erased records are left out.

    `where` chooses among them: a function of a DeadLetter, or a predicate as for `subscribe`,
    which must match the original record; for a batch, one of its rows.
    PredicateEvalError at a record on which it fails.
    """
    check_blocking(log)
    consumer = None if consumer is None else check_consumer_name(consumer)
    found = log.topic(topic)
    is_chosen = _choice(log, found, where)
    letters = dead_letter_topic(log, found)
    return iter(()) if letters is None else _letters(log, found, letters, consumer, is_chosen)


def _letters(
    log: Log,
    topic: Topic,
    letters: Topic,
    consumer: str | None,
    is_chosen: Callable[[Record, DeadLetter], bool],
) -> Iterator[DeadLetter]:
    redriven = redriven_letters(log, topic)
    for record in log.read(letters, 0, log.marks(letters, 0).low):
        if is_erased(record):
            continue
        letter = letter_of(record, is_redriven=record.offset in redriven)
        if (consumer is None or letter.consumer == consumer) and is_chosen(record, letter):
            yield letter


def attempts(log: Log, topic: TopicName, offset: int) -> list[DeadLetter]:
    """Return every dead letter that one consumer has written for a record, oldest first.

    `offset` is that of one of them in the dead-letter topic; InvalidError if there is none.
    """
    wanted = check_whole("offset", offset)
    every = list(dead_letters(log, topic))
    named = [letter for letter in every if letter.offset == wanted]
    if not named:
        name = topic.name if isinstance(topic, Topic) else topic
        raise InvalidError(
            "there is no dead letter at this offset, list them first", topic=name, offset=offset
        )
    return [letter for letter in every if _record_of(letter) == _record_of(named[0])]


def redrive(
    log: Log,
    topic: TopicName,
    *,
    consumer: str | None = None,
    offsets: Iterable[int] | None = None,
    where: Chosen = None,
    to: TopicName | None = None,
    dry_run: bool = False,
) -> list[DeadLetter]:
    """Redrive the dead letters of a topic to their consumers; return those redriven.

    Limited, where given, to one consumer or trigger, to these offsets in the dead-letter
    topic, and to those that `where` chooses, see `dead_letters`. With `to` the record is
    appended to that topic instead, with its value, key and tenant, for that topic's
    readers. Each is redriven once, however often this is called, also concurrently or after a
    crash: redriven letters are left out. A record that fails again is dead-lettered again, and
    can be redriven again. Other readers of the topic do not see it.
    With `dry_run` nothing is redriven; returns what would be.

    A consumer or trigger that is not running gets them when it is. InvalidError, with
    nothing redriven, if one of them no longer exists in the log because it was deleted. What
    is returned is durable, if the log can be.
    """
    check_blocking(log)
    consumer = None if consumer is None else check_consumer_name(consumer)
    check_flag("dry_run", dry_run)
    found = log.topic(topic)
    target = None if to is None else _target(log, found, to)
    chosen = _open_letters(log, found, consumer, offsets, where)
    if target is None:
        _check_takers(log, found, chosen)
    if dry_run or not chosen:
        return chosen
    return _Redrive(log, found, target).redriven(chosen)


def discard(
    log: Log,
    topic: TopicName,
    *,
    consumer: str | None = None,
    offsets: Iterable[int] | None = None,
    where: Chosen = None,
    dry_run: bool = False,
) -> list[DeadLetter]:
    """Discard the dead letters of a topic; return those discarded.

    Chosen as by `redrive`, which leaves out discarded ones from then on. They stay listed,
    with `is_redriven`. With `on_dead_letter="block-key"`, records waiting for them are
    delivered.
    """
    check_blocking(log)
    check_flag("dry_run", dry_run)
    found = log.topic(topic)
    chosen = _open_letters(log, found, consumer, offsets, where)
    if dry_run or not chosen:
        return chosen
    return _Redrive(log, found, None, is_discarding=True).redriven(chosen)


def _open_letters(
    log: Log,
    topic: Topic,
    consumer: str | None,
    offsets: Iterable[int] | None,
    where: Chosen,
) -> list[DeadLetter]:
    wanted = None
    if offsets is not None:
        wanted = frozenset(check_whole("offset", each) for each in check_items("offsets", offsets))
    return [
        letter
        for letter in dead_letters(log, topic, consumer=consumer, where=where)
        if not letter.is_redriven and (wanted is None or letter.offset in wanted)
    ]


class _Redrive:
    """Redrives or discards dead letters of one topic."""

    def __init__(
        self, log: Log, topic: Topic, target: Topic | None, *, is_discarding: bool = False
    ) -> None:
        self._log = log
        self._topic = topic
        self._target = target
        self._is_discarding = is_discarding
        letters = dead_letter_topic(log, topic)
        assert letters is not None
        self._letters = letters
        self._redriven = redrive_topic(log, topic)
        self._count = log.describe_topic(self._redriven).settings.partitions

    def redriven(self, chosen: Iterable[DeadLetter]) -> list[DeadLetter]:
        """Redrive these letters, and return those that this call has redriven."""
        return [replace(letter, is_redriven=True) for letter in chosen if self._redrive_one(letter)]

    def _redrive_one(self, letter: DeadLetter) -> bool:
        (record,) = self._log.read(self._letters, 0, letter.offset, letter.offset + 1)
        if is_erased(record):
            # Since it was listed.
            return False
        event = _with_header(letter.event, REDRIVEN_HEADER, str(letter.offset))
        if self._target is not None:
            self._append_to(self._target, letter, record)
        if self._target is not None or self._is_discarding:
            # A note that this letter is done; no consumer processes it.
            event = _with_header(event, _CONSUMER, "")
        receipt = self._log.append(
            self._redriven,
            event,
            partition=_redrive_partition(letter.partition, self._count),
            tenant=record.tenant,
            durability=self._log.durability_max,
            idempotency_key=self._identity(letter),
        )
        if letter.key is not None and is_erased_at(self._log, self._letters, record):
            erase_copy(self._log, self._redriven, receipt.partition, receipt.offset)
        return not receipt.is_repeat

    def _append_to(self, target: Topic, letter: DeadLetter, record: Record) -> None:
        kind = self._log.describe_topic(self._topic).settings.value_kind
        value = _value(letter.event, kind)
        self._log.append(
            target,
            value,
            key=None if isinstance(value, Event) else record.key,
            tenant=record.tenant,
            durability=self._log.durability_max,
            idempotency_key=self._identity(letter),
        )

    def _identity(self, letter: DeadLetter) -> str:
        return f"{self._letters.id}/{letter.offset}"


def _target(log: Log, topic: Topic, to: TopicName) -> Topic:
    found = log.topic(to, tenant=topic.tenant) if isinstance(to, str) else log.topic(to)
    kinds = [log.describe_topic(each).settings.value_kind for each in (topic, found)]
    if kinds[0] is not kinds[1]:
        raise InvalidError(
            "dead letters are redriven to a topic of the same kind",
            kind=str(kinds[0]),
            to=found.name,
            to_kind=str(kinds[1]),
        )
    return found


def _choice(log: Log, topic: Topic, where: Chosen) -> Callable[[Record, DeadLetter], bool]:
    if callable(where):
        return lambda _, letter: bool(where(letter))
    is_wanted = _wanted(log, topic, "" if where is None else where)
    return lambda record, _: is_wanted(record)


def _record_of(letter: DeadLetter) -> tuple[object, ...]:
    return letter.consumer, letter.consumer_tenant, letter.partition, letter.record_offset


def found_redrive_topic(log: Log, topic: Topic) -> Topic | None:
    """Return the redrive topic of a topic, if there is one."""
    return found_topic(log, topic, redrive_topic_name(topic))


def redrive_topic(log: Log, topic: Topic) -> Topic:
    """Return the internal redrive topic of a topic; create it if it is missing."""
    found = found_redrive_topic(log, topic)
    if found is not None:
        return found
    return log.create_topic(
        redrive_topic_name(topic),
        partitions=log.describe_topic(topic).settings.partitions,
        tenant=topic.tenant,
        internal=True,
    )


def redrive_partitions(log: Log, topic: Topic, partitions: Iterable[int]) -> list[int]:
    """Return the partitions of the redrive topic that belong to these partitions."""
    count = log.describe_topic(redrive_topic(log, topic)).settings.partitions
    return sorted(number for number in partitions if number < count)


def may_be_redriven(log: Log, topic: Topic) -> bool:
    """Whether any record of the topic was ever dead-lettered."""
    return dead_letter_topic(log, topic) is not None


def original(log: Log, topic: Topic, redrive: Record) -> Record:
    """Return the original record of a record in the redrive topic."""
    letter = letter_of(redrive, is_redriven=True)
    value = _value(letter.event, log.describe_topic(topic).settings.value_kind)
    try:
        here = list(log.read(topic, letter.partition, letter.record_offset, records_max=1))
    except StrandlineError:
        # Trimmed, or from a dropped topic of this name.
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
    """Whether a record is for the consumer of this name, and of this tenant in a shared topic."""
    whose = None if tenant == topic.tenant else tenant
    headers = redrive.headers
    return (headers.get(_CONSUMER), headers.get(_TENANT)) == (consumer, whose)


def _wanted(log: Log, topic: Topic, where: str) -> Callable[[Record], bool]:
    """Return a function that tests a dead letter's original record."""
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


def _redrive_partition(partition: int, count: int) -> int:
    # Redrive topics of earlier versions have one partition.
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
            "no consumer of this name exists to take its dead letters: open it once, or redrive "
            "those of others with consumer=",
            topic=topic.name,
            consumers=sorted(gone),
        )


def dead_letter_topic(log: Log, topic: Topic) -> Topic | None:
    """Return the dead-letter topic of a topic; None if nothing was dead-lettered yet."""
    return found_topic(log, topic, dead_letter_topic_name(topic))


def letter_offset_of(redrive: Record) -> int:
    """Return the offset of the dead letter that a record of the redrive topic redrives."""
    return int(redrive.headers[REDRIVEN_HEADER])


def is_note(redrive: Record) -> bool:
    """Whether it only records that the letter is done: discarded, or appended to a topic."""
    return not redrive.headers.get(_CONSUMER)


def letter_of(record: Record, *, is_redriven: bool = False) -> DeadLetter:
    """Decode a record of the dead-letter topic."""
    headers = record.headers
    return DeadLetter(
        offset=record.offset,
        consumer=headers[_CONSUMER],
        deliveries=int(headers["strandline.deliveries"]),
        reason=headers["strandline.reason"],
        partition=Partition(int(headers["strandline.partition"])),
        record_offset=Offset(int(headers["strandline.offset"])),
        event=record.event,
        is_redriven=is_redriven,
        consumer_tenant=headers.get(_TENANT),
        timestamp_us=record.timestamp_us,
    )


def _with_header(event: Event, name: str, text: str) -> Event:
    return Event(
        event.kind,
        event.payload,
        key=event.key,
        headers={**event.headers, name: text},
        occurred_at=event.occurred_at,
    )


def _value(event: Event, kind: ValueKind) -> Event | bytes | pa.RecordBatch:
    if kind is ValueKind.EVENT:
        own = {
            name: text
            for name, text in event.headers.items()
            if name == DELIVER_AT or not name.startswith(_OURS)
        }
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
