"""Dead letters: records that a consumer could not handle, in a topic beside their own."""

import base64
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from strandline.log import Log, is_erased, parts_of
from strandline.log.erased import erased_event
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.outstanding import Outstanding
from strandline.values import (
    Event,
    InvalidError,
    Offset,
    Record,
    Topic,
    TrimmedError,
    check_topic_name,
)
from strandline.values.internal_topics import DEAD_LETTERS_PREFIX, REDRIVEN_PREFIX

if TYPE_CHECKING:
    from strandline.log.store import ErasingStore, StoredTopic

_logger = logging.getLogger("strandline")

REDRIVEN_HEADER: Final = "strandline.dead_letter"
"""The header of a redriven record with the offset of its dead letter."""


def dead_letter_topic_name(topic: Topic) -> str:
    """Return the name of the dead-letter topic; InvalidError if that would be no valid name.

    It is an internal topic, which a log in the mode `consume` may create, too.
    """
    return check_topic_name(f"{DEAD_LETTERS_PREFIX}{topic.name}", internal=True)


def append_dead_letter(
    log: Log,
    consumer: ConsumerName,
    record: Record,
    *,
    deliveries: int,
    reason: str,
    carrier: Record | None = None,
) -> Offset:
    """Append the record to the dead-letter topic, once, however often this is called.

    Once for each `carrier`, the record of the redrive topic that delivered it; and once
    more if its previous dead letter was redriven, and so is done with. A record that was
    erased since it was read becomes a tombstone, without its reason. See design 0123.

    When this returns, it is as durable as the log can make it, because the consumer's cursor
    passes the original next.

    An event keeps its kind, payload, key, headers and time. Bytes, and a batch as an
    Arrow stream, become the payload in base64, with the kind `dead_letter`. Headers that
    begin with `strandline.` record its origin and the reason.
    """
    topic, name, tenant = consumer
    letters = log.create_topic(dead_letter_topic_name(topic), tenant=topic.tenant, internal=True)
    identity = f"{topic.id}/{record.partition}/{record.offset}/{name}"
    if carrier is not None:
        identity = f"{identity}/{carrier.offset}"
    # In a shared topic, several tenants may have consumers of the same name.
    whose = None if tenant == topic.tenant else tenant
    if whose is not None:
        identity = f"{identity}/{whose}"
    origin = {
        "strandline.topic": topic.name,
        "strandline.partition": str(record.partition),
        "strandline.offset": str(record.offset),
        "strandline.consumer": name,
        "strandline.deliveries": str(deliveries),
        "strandline.reason": reason,
    }
    if whose is not None:
        origin["strandline.consumer_tenant"] = whose
    was_erased = _is_erased_now(log, topic, record, carrier)
    letter = erased_event() if was_erased else _dead_letter(record, origin)
    while True:
        receipt = log.append(
            letters,
            letter,
            tenant=record.tenant,
            durability=log.durability_max,
            idempotency_key=identity,
        )
        if was_erased <= receipt.is_repeat and _is_erased_now(log, topic, record, carrier):
            erase_copy(log, letters, 0, receipt.offset)
        if not receipt.is_repeat or receipt.offset not in redriven_letters(log, topic):
            return receipt.offset
        # It was handled since, and then its consumer was moved back before it.
        identity = f"{identity}/after/{receipt.offset}"


def redrive_topic_name(topic: Topic) -> str:
    """Return the name of the topic through which a topic's consumers get redriven letters."""
    return check_topic_name(f"{REDRIVEN_PREFIX}{topic.name}", internal=True)


def found_topic(log: Log, topic: Topic, name: str) -> Topic | None:
    """Return the topic of this name with the same tenant, if there is one."""
    try:
        return log.topic(name, tenant=topic.tenant)
    except InvalidError:
        return None


def redriven_letters(log: Log, topic: Topic) -> set[int]:
    """Return the offsets of the dead letters of a topic that were redriven."""
    redriven = found_topic(log, topic, redrive_topic_name(topic))
    if redriven is None:
        return set()
    return {
        int(record.headers[REDRIVEN_HEADER])
        for partition in range(log.describe_topic(redriven).settings.partitions)
        for record in log.read(redriven, partition, log.marks(redriven, partition).low)
        if not is_erased(record)
    }


def _is_erased_now(log: Log, topic: Topic, record: Record, carrier: Record | None) -> bool:
    """Whether the record was erased, where it is in the log or in the redrive topic."""
    if record.key is None:
        return is_erased(record)
    places = [(topic, record)]
    if carrier is not None:
        redriven = found_topic(log, topic, redrive_topic_name(topic))
        places += [] if redriven is None else [(redriven, carrier)]
    return any(is_erased_at(log, *place) for place in places)


def is_erased_at(log: Log, topic: Topic, record: Record) -> bool:
    """Whether the log has a tombstone where the record was."""
    try:
        found = list(log.read(topic, record.partition, record.offset, record.offset + 1))
    except (TrimmedError, InvalidError):
        # Trimmed, or from a dropped topic of this name.
        return False
    return any(is_erased(each) for each in found)


def erase_copy(log: Log, copies: Topic, partition: int, offset: int) -> None:
    """Erase a record of an internal topic whose original was erased while it was appended."""
    (copy,) = log.read(copies, partition, offset, offset + 1)
    if is_erased(copy):
        return
    assert copy.key is not None, "only a record with a key can be erased"
    store = parts_of(log).store
    stored = store.find_topic_id(copies.id)
    if stored is not None and store.capabilities.has_erasure:
        erasing = cast("ErasingStore[StoredTopic]", store)
        erasing.erase(stored, partition, copy.key, dry_run=False)
        return
    _logger.warning(
        "a record was erased while it was dead-lettered or redriven, erase its key again where "
        "the log is stored: topic=%s partition=%d offset=%d",
        *(copies.name, partition, offset),
    )


def _dead_letter(record: Record, origin: dict[str, str]) -> Event:
    value = record.value
    if isinstance(value, Event):
        return Event(
            value.kind,
            value.payload,
            key=value.key,
            headers={**value.headers, **origin},
            occurred_at=value.occurred_at,
        )
    encoded = value if isinstance(value, bytes) else _stream(value)
    payload = base64.b64encode(encoded).decode("ascii")
    return Event("dead_letter", payload, key=record.key, headers=origin)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


class DeadLettering:
    """Dead-letters the records of one consumer. Thread-safe."""

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        counting: Counting,
        acks: Acks,
        expect: Callable[[], None],
    ) -> None:
        self._log = log
        self._whose = whose
        self._counting = counting
        self._acks = acks
        self._expect = expect
        """Called once there is a dead letter that may be redriven."""
        self.on_letter: Callable[[], None] = _ignore_letter
        """Called when a dead letter is written, before its record is settled."""

    def dead_letter(self, waiting: Outstanding, record: Record, count: int, reason: str) -> None:
        """Dead-letter and ack a record, with its number of deliveries."""
        append_dead_letter(self._log, self._whose, record, deliveries=count, reason=reason)
        # Before records that wait for this one are examined again.
        self.on_letter()
        with self._counting.lock:
            waiting.adopt(record.offset)
        self._acks.settle(record.partition, waiting, [record.offset])
        # If the cursor is moved back later, it is delivered again with a new count.
        self._counting.note(record.partition)
        self._expect()


def _ignore_letter() -> None:
    """Nothing waits for dead letters."""
