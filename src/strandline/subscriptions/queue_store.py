"""The shared state of a work queue, stored in the keyed area of its topic."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from strandline.log import Log, parts_of
from strandline.log.cursor_moves import CursorMove, ack_each
from strandline.log.lags import ConsumerCursor
from strandline.log.store import StoredTopic
from strandline.log.stored_cursors import stored_cursor, stored_cursors
from strandline.log.stored_groups import QUEUES_PREFIX, queue_key
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.queue_state import QueueState, cut_to, following, moved_to
from strandline.values import (
    ConflictError,
    CorruptError,
    InvalidError,
    Offset,
    UnavailableError,
    epoch_before,
)

T = TypeVar("T")

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(QueueState).decode


def copied_queue(key: str, raw: bytes) -> bytes:
    """Return the value to store for a key in a copy of its topic, which has other epochs."""
    if not key.startswith(QUEUES_PREFIX):
        return raw
    return _encode(msgspec.structs.replace(_load(raw, key), epoch=""))


class QueueStore:
    """The partitions of one work queue. Any thread may use it; each change is durable."""

    def __init__(self, log: Log, whose: ConsumerName) -> None:
        self._log = log
        self._topic, self._consumer, self._tenant = whose
        self._owner = whose.owner
        self._store = parts_of(log).store
        #: One change at a time: two threads of a member would only conflict with each other.
        self._turn = threading.Lock()

    def change(
        self, partition: int, change: Callable[[QueueState], tuple[QueueState, T]]
    ) -> tuple[QueueState, T]:
        """Replace the state of a partition with the result of `change`, durably.

        `change` may be called several times, if other members store changes meanwhile. The
        cursor in the log follows the floor.
        """
        key = self._key(partition)
        with self._turn:
            while True:
                topic = self._found()
                raw = self._store.get_key(topic, key)
                stored = None if raw is None else _load(raw, key)
                after, answer = change(self._current(stored, partition))
                after = self._with_epoch(after, topic, partition)
                if _is_same(stored, after):
                    break
                if self._store.put_key(topic, key, _encode(after), raw):
                    break
        if after.floor > after.cursor:
            self._ack(partition, after)
        return after, answer

    def look(self, partition: int) -> QueueState:
        """Return the state of a partition."""
        return self._current(self._stored(self._found(), partition), partition)

    def look_at_each(self, count: int) -> Iterator[QueueState]:
        """Yield the states of the first partitions, with one read of the store for each."""
        return (state for _, state in self._each(count))

    def follow_cursors(self, count: int) -> None:
        """Do what `follow_cursor` does in each of the first partitions, with one read for each."""
        topic = self._found()
        for partition, (stored, state) in enumerate(self._each(count)):
            after = self._with_epoch(state, topic, partition)
            if after.floor > after.cursor or not _is_same(stored, after):
                self.follow_cursor(partition)

    def _each(self, count: int) -> Iterator[tuple[QueueState | None, QueueState]]:
        topic = self._found()
        # Cursors are read once, and after the states, as in `_current`.
        stored = [self._stored(topic, partition) for partition in range(count)]
        cursors = stored_cursors(self._log, self._topic, self._consumer, range(count), self._tenant)
        for partition, cursor in enumerate(cursors):
            yield stored[partition], self._state(stored[partition], partition, cursor)

    def _stored(self, topic: StoredTopic, partition: int) -> QueueState | None:
        key = self._key(partition)
        raw = self._store.get_key(topic, key)
        return None if raw is None else _load(raw, key)

    def restart(self, partition: int, offset: int) -> None:
        """Start again at an offset, with nothing settled from there on."""
        self._log.seek(self._topic, self._consumer, partition, offset, tenant=self._tenant)
        self.follow_cursor(partition)

    def follow_cursor(self, partition: int) -> None:
        """Adopt the consumer's cursor if another call has moved it, forwards or back."""
        self.change(partition, lambda state: (state, None))

    def _key(self, partition: int) -> str:
        return queue_key(self._owner, self._consumer, partition)

    def _ack(self, partition: int, state: QueueState) -> None:
        # After the state, so that the cursor never passes an unsettled record. If it cannot be
        # stored now, the next change stores it; after a seek the state adopts the cursor.
        with contextlib.suppress(UnavailableError, ConflictError):
            move = CursorMove(state.floor, seek_id=state.seek_id)
            moves = {partition: move}
            ack_each(self._log, self._topic, self._consumer, moves, tenant=self._tenant)

    def _current(self, stored: QueueState | None, partition: int) -> QueueState:
        """Return the state adjusted to the cursor and the current marks."""
        # Read after the state: an earlier read might return the cursor of an earlier seek.
        cursor = stored_cursor(self._log, self._topic, self._consumer, partition, self._tenant)
        return self._state(stored, partition, cursor)

    def _state(
        self, stored: QueueState | None, partition: int, cursor: ConsumerCursor | None
    ) -> QueueState:
        if cursor is None:
            raise InvalidError(
                "this consumer was deleted while it was being read, open it again",
                topic=self._topic.name,
                consumer=self._consumer,
            )
        if stored is None:
            at = cursor.offset
            return QueueState(at, at, cursor=at, seek_id=cursor.seek_id)
        return following(self._kept(stored, partition), cursor.offset, cursor.seek_id)

    def _found(self) -> StoredTopic:
        found: StoredTopic | None = self._store.find_topic(self._topic.tenant, self._topic.name)
        if found is None or found.topic.id != self._topic.id:
            raise InvalidError("this topic was dropped", topic=self._topic.name)
        return found

    def _kept(self, stored: QueueState, partition: int) -> QueueState:
        """Return the part of a state that is valid for the current records."""
        marks = self._log.marks(self._topic, partition)
        if stored.epoch and stored.next <= marks.high:
            now = self._with_epoch(stored, self._found(), partition)
            if now.epoch != stored.epoch:
                # The log lost records and has others at these offsets now: deliver them all.
                begun = QueueState(
                    stored.floor, stored.floor, cursor=stored.cursor, seek_id=stored.seek_id
                )
                return moved_to(begun, marks.low)
        return moved_to(cut_to(stored, marks.high), marks.low)

    def _with_epoch(self, state: QueueState, topic: StoredTopic, partition: int) -> QueueState:
        epochs = self._store.state(topic, partition).epochs
        epoch = str(epoch_before(Offset(state.next), epochs).id)
        return state if epoch == state.epoch else msgspec.structs.replace(state, epoch=epoch)


def _load(raw: bytes, key: str) -> QueueState:
    try:
        return _decode(raw)
    except msgspec.MsgspecError as error:
        raise CorruptError("this queue cannot be read", file=key, position=0) from error


def _is_same(stored: QueueState | None, after: QueueState) -> bool:
    """Whether nothing needs to be stored; a changed cursor alone does not."""
    return stored is not None and after == msgspec.structs.replace(stored, cursor=after.cursor)
