"""The shared state of a work queue, kept in the keyed area of its topic."""

import contextlib
import threading
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from strandline.log import Log, parts_of
from strandline.log.store import StoredTopic
from strandline.subscriptions.queue_state import QueueState, cut_to, moved_to
from strandline.values import (
    ConflictError,
    CorruptError,
    InvalidError,
    Offset,
    Topic,
    UnavailableError,
    epoch_before,
)

T = TypeVar("T")

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(QueueState).decode


_PREFIX: Final = "queues/"


def copied_queue(key: str, raw: bytes) -> bytes:
    """Return the value of a key as it is in a copy of its topic, which has other epochs."""
    if not key.startswith(_PREFIX):
        return raw
    try:
        return _encode(msgspec.structs.replace(_decode(raw), epoch=""))
    except msgspec.MsgspecError as error:
        raise CorruptError("this queue cannot be read", file=key, position=0) from error


def lost_record(topic: Topic, partition: int, offset: int) -> ConflictError:
    """Return the error for a record that another member has."""
    return ConflictError(
        "the lease of this record has run out and another member has it, or had: drop your"
        " work on it, and extend leases in time",
        topic=topic.name,
        partition=partition,
        offset=Offset(offset),
    )


class QueueStore:
    """The partitions of one work queue. Any thread may use it; each change is durable."""

    def __init__(self, log: Log, topic: Topic, consumer: str, tenant: str | None) -> None:
        self._log = log
        self._topic = topic
        self._consumer = consumer
        self._tenant = tenant
        self._store = parts_of(log).store
        whose = tenant or topic.tenant or ""
        self._prefix = f"{_PREFIX}{whose}/{consumer}/"
        #: One change at a time: two threads of a member would only overtake each other.
        self._turn = threading.Lock()
        #: Where this process has put the cursors.
        self._acked: dict[int, int] = {}

    def change(
        self, partition: int, change: Callable[[QueueState], tuple[QueueState, T]]
    ) -> tuple[QueueState, T]:
        """Replace the state of a partition by what `change` makes of it; durable then.

        `change` may be called several times, with what other members have stored. The
        cursor in the log follows the floor.
        """
        key = f"{self._prefix}{partition}"
        with self._turn:
            while True:
                topic = self._found()
                raw = self._store.get_key(topic, key)
                before = self._loaded(raw, key, partition)
                after, answer = change(self._with_cursor(before, partition))
                after = self._with_epoch(after, topic, partition)
                is_same = raw is not None and after == before
                if is_same or self._store.put_key(topic, key, _encode(after), raw):
                    break
        if after.floor > after.cursor:
            self._ack(partition, after)
        return after, answer

    def look(self, partition: int) -> QueueState:
        """Return the state of a partition."""
        key = f"{self._prefix}{partition}"
        return self._loaded(self._store.get_key(self._found(), key), key, partition)

    def restart(self, partition: int, offset: int) -> None:
        """Begin again at an offset, with nothing settled from there on."""
        self._log.seek(self._topic, self._consumer, partition, offset, tenant=self._tenant)
        begun = QueueState(offset, offset, cursor=offset)
        self._acked.pop(partition, None)
        self.change(partition, lambda _: (begun, None))

    def follow_cursor(self, partition: int) -> None:
        """Go where the consumer's cursor was put by another call, forwards or back."""
        # Before the cursor is read, which follows: acks never take it back.
        acked = self._acked.get(partition, 0)

        def follow(state: QueueState) -> tuple[QueueState, None]:
            cursor = self._cursor(partition)
            if cursor < max(state.cursor, acked):
                self._acked.pop(partition, None)
                return QueueState(cursor, cursor, cursor=cursor), None
            moved = moved_to(state, cursor)
            return msgspec.structs.replace(moved, cursor=cursor), None

        self.change(partition, follow)

    def _ack(self, partition: int, state: QueueState) -> None:
        # After the state: the cursor never passes what is not settled there. One that cannot
        # be stored now follows with the next change.
        with contextlib.suppress(UnavailableError):
            self._log.ack(self._topic, self._consumer, partition, state.floor, tenant=self._tenant)
            self._acked[partition] = state.floor

    def _with_cursor(self, state: QueueState, partition: int) -> QueueState:
        known = min(self._acked.get(partition, 0), state.floor)
        return msgspec.structs.replace(state, cursor=max(state.cursor, known))

    def _cursor(self, partition: int) -> Offset:
        found = self._log.cursor(self._topic, self._consumer, partition, tenant=self._tenant)
        if found is None:
            raise InvalidError(
                "this consumer was deleted while it was read, open it again",
                topic=self._topic.name,
                consumer=self._consumer,
            )
        return found

    def _found(self) -> StoredTopic:
        found: StoredTopic | None = self._store.find_topic(self._topic.tenant, self._topic.name)
        if found is None or found.topic.id != self._topic.id:
            raise InvalidError("this topic was dropped", topic=self._topic.name)
        return found

    def _loaded(self, raw: bytes | None, key: str, partition: int) -> QueueState:
        if raw is None:
            cursor = self._cursor(partition)
            return QueueState(cursor, cursor, cursor=cursor)
        try:
            stored = _decode(raw)
        except msgspec.MsgspecError as error:
            raise CorruptError("this queue cannot be read", file=key, position=0) from error
        marks = self._log.marks(self._topic, partition)
        if stored.epoch and stored.next <= marks.high:
            now = self._with_epoch(stored, self._found(), partition)
            if now.epoch != stored.epoch:
                # The log was taken back, and has other records there now: they all come.
                return moved_to(
                    QueueState(stored.floor, stored.floor, cursor=stored.cursor), marks.low
                )
        return moved_to(cut_to(stored, marks.high), marks.low)

    def _with_epoch(self, state: QueueState, topic: StoredTopic, partition: int) -> QueueState:
        epochs = self._store.state(topic, partition).epochs
        epoch = str(epoch_before(Offset(state.next), epochs).id)
        return state if epoch == state.epoch else msgspec.structs.replace(state, epoch=epoch)
