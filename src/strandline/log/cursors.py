"""Named cursors, kept in the keyed area of their topic. See LogConsumers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

import msgspec

from strandline.clock import Clock
from strandline.log.changing_store import change_key
from strandline.log.cursor_moves import CursorMove
from strandline.log.gaps import NO_GAPS, Gaps
from strandline.log.lags import ConsumerCursor, consumer_lag, holds_retention, sampled
from strandline.log.ranges import check_kept, check_not_beyond
from strandline.log.registering import registered_at
from strandline.log.store import PartitionState, Store, StoredTopic
from strandline.log.stored_cursors import CURSORS_PREFIX, StoredConsumer, cursors_key
from strandline.log.stored_groups import group_among, group_key, queue_key
from strandline.values import (
    ConflictError,
    ConsumerLag,
    CorruptError,
    DivergedError,
    InvalidError,
    LeaseLostError,
    Offset,
    Partition,
    Position,
    Tenant,
    TrimmedError,
    check_position,
    epoch_before,
)


class ConsumerCursors:
    """Finds and moves cursors. Any thread may use it."""

    def __init__(self, store: Store[StoredTopic], clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def ack(
        self,
        topic: StoredTopic,
        tenant: Tenant | None,
        name: str,
        moves: Mapping[Partition, CursorMove],
    ) -> Mapping[Partition, Offset]:
        """Move these cursors in one write, never back: all of them, or none if it raises."""
        return self._move(topic, tenant, name, moves) if moves else {}

    def register(
        self,
        topic: StoredTopic,
        tenant: Tenant | None,
        name: str,
        starts: Mapping[Partition, int],
        generation: int | None = None,
    ) -> Mapping[Partition, Offset]:
        """Create a cursor at its start in each of these partitions that has none.

        With a generation, calls with an earlier one raise from now on.
        """
        key = cursors_key(tenant, name)
        while True:
            raw = self._store.get_key(topic, key)
            consumer = _loaded(raw, tenant, name)
            found = {}
            changed: dict[int, ConsumerCursor] = {}
            for partition, start in starts.items():
                state = self._store.state(topic, partition)
                known = consumer.cursor(partition)
                if generation is not None and known is not None and known.generation > generation:
                    raise _lost(topic, name, known, partition, generation)
                at = None if known is None else self._checked(topic, state, known)
                found[partition] = registered_at(at, start, state.marks, topic.topic)
                changed[partition] = self._cursor_at(
                    known, partition, found[partition], state, generation=generation
                )
            if self._store.put_key(topic, key, consumer.with_cursors(changed).encoded, raw):
                return found

    def damage(self, topic: StoredTopic) -> Sequence[CorruptError]:
        """Return the damage found in the cursors of a topic."""
        try:
            kept = self._store.keys(topic)
        except CorruptError as error:
            return [error]
        found = []
        for key, raw in kept.items():
            try:
                stored = _of_key(key, raw)
                if stored is not None:
                    _check_partitions(stored, key, topic)
            except CorruptError as error:
                found.append(error)
        return found

    def adopted(self, topic: StoredTopic, key: str, raw: bytes) -> bytes:
        """Return the value to store for a key in a copy of its topic: cursors get its epochs."""
        consumer = _of_key(key, raw)
        if consumer is None:
            return raw
        cursors = []
        for each in consumer.cursors:
            state = self._store.state(topic, each.partition)
            offset = min(each.offset, state.marks.high)
            epoch = epoch_before(offset, state.epochs)
            gaps = each.gaps.before(state.marks.high)
            cursors.append(
                msgspec.structs.replace(
                    each,
                    offset=offset,
                    epoch=epoch.number,
                    epoch_id=epoch.id,
                    settled=gaps.settled,
                    delays=gaps.delays,
                    settled_epoch_id=_settled_epoch_id(gaps, state),
                )
            )
        return consumer.with_cursors({each.partition: each for each in cursors}).encoded

    def seek(
        self,
        topic: StoredTopic,
        partition: Partition,
        tenant: Tenant | None,
        name: str,
        offset: int,
        *,
        generation: int | None,
    ) -> None:
        """Move the cursor to `offset`, forwards or back."""
        move = CursorMove(offset, generation, gaps=NO_GAPS, is_seek=True)
        self._move(topic, tenant, name, {partition: move})

    def cursor(
        self, topic: StoredTopic, partition: int, tenant: Tenant | None, name: str
    ) -> Offset | None:
        """Return the cursor; DivergedError if the log has lost records before it."""
        found = self.stored(topic, partition, tenant, name)
        return None if found is None else Offset(found.offset)

    def stored(
        self, topic: StoredTopic, partition: int, tenant: Tenant | None, name: str
    ) -> ConsumerCursor | None:
        """Return all that is stored with the cursor, and holds still. Raises as `cursor`."""
        return next(self.stored_in(topic, (partition,), tenant, name))

    def stored_in(
        self, topic: StoredTopic, partitions: Iterable[int], tenant: Tenant | None, name: str
    ) -> Iterator[ConsumerCursor | None]:
        """Yield the same for each of these partitions, read at one moment. Raises as `cursor`."""
        kept = _loaded(self._store.get_key(topic, cursors_key(tenant, name)), tenant, name)
        for partition in partitions:
            found = kept.cursor(partition)
            if found is not None:
                state = self._store.state(topic, partition)
                self._checked(topic, state, found)
                found = _with_known_gaps(found, state)
            yield found

    def lags(self, topic: StoredTopic, tenant: Tenant | None) -> Sequence[ConsumerLag]:
        """Return the tenant's consumers, sorted by name and partition."""
        kept, now_us = self._store.keys(topic), self._clock.now_us()
        found = [
            consumer_lag(self._store, topic, cursor, group, now_us)
            for consumer in _consumers(kept)
            if consumer.tenant == tenant
            for group in [group_among(kept, tenant, consumer.name)]
            for cursor in consumer.cursors
            # Leave out a partition that was added after the topic was looked up.
            if cursor.partition < topic.settings.partitions
        ]
        return sorted(found, key=lambda lag: (lag.consumer, lag.partition))

    def held_at(self, topic: StoredTopic, partition: int) -> Offset | None:
        """Return the cursor of the slowest live consumer of any tenant."""
        cursors = (consumer.cursor(partition) for consumer in self._all(topic))
        now_us = self._clock.now_us()
        live = (each for each in cursors if each is not None and holds_retention(each, now_us))
        return min((Offset(each.offset) for each in live), default=None)

    def names_at(self, topic: StoredTopic, partition: int, offset: int) -> tuple[str, ...]:
        """Return the live consumers, of any tenant, whose cursor is at this offset."""
        now_us = self._clock.now_us()
        found = {
            consumer.name
            for consumer in self._all(topic)
            if (each := consumer.cursor(partition)) is not None
            and each.offset == offset
            and holds_retention(each, now_us)
        }
        return tuple(sorted(found))

    def delete(self, topic: StoredTopic, tenant: Tenant | None, name: str) -> bool:
        """Remove a consumer with its group and its work queue; False if there was none."""
        # The cursor first: a leftover work queue is ignored by a later registration.
        was_known = self._store.remove_key(topic, cursors_key(tenant, name))
        self._store.remove_key(topic, group_key(tenant, name))
        for partition in range(topic.settings.partitions):
            self._store.remove_key(topic, queue_key(tenant, name, partition))
        return was_known

    # --- inside ---

    def _move(
        self,
        topic: StoredTopic,
        tenant: Tenant | None,
        name: str,
        moves: Mapping[Partition, CursorMove],
    ) -> Mapping[Partition, Offset]:
        states: dict[int, tuple[ConsumerCursor | None, PartitionState]] = {}

        def change(raw: bytes | None) -> tuple[bytes, Mapping[Partition, Offset]]:
            consumer = _loaded(raw, tenant, name)
            changed: dict[int, ConsumerCursor] = {}
            for partition, move in moves.items():
                known = consumer.cursor(partition)
                if move.generation is not None:
                    _check_generation(topic, name, known, partition, move.generation)
                before, state = states.get(partition, (None, None))
                if state is None or before != known:
                    # Read the state after the cursor, whose epoch may be newer than an old state.
                    # Read it again only for cursors that changed: over a network, reading all
                    # would give another member time to change the value again.
                    state = self._store.state(topic, partition)
                    states[partition] = known, state
                changed[partition] = self._moved(topic, partition, known, state, move)
            found = {number: Offset(changed[number].offset) for number in moves}
            return consumer.with_cursors(changed).encoded, found

        return change_key(self._store, topic, cursors_key(tenant, name), change)

    def _moved(
        self,
        topic: StoredTopic,
        partition: int,
        known: ConsumerCursor | None,
        state: PartitionState,
        move: CursorMove,
    ) -> ConsumerCursor:
        if move.seek_id is not None and (known is None or known.seek_id != move.seek_id):
            raise ConflictError("a seek has moved this cursor", topic=topic.topic.name)
        if move.is_seek:
            offset = check_kept(state.marks, move.end, topic.topic, partition)
        else:
            at = Offset(0) if known is None else self._checked(topic, state, known)
            end = check_not_beyond(state.marks, move.end, topic.topic, partition)
            offset = max(at, end)
        return self._cursor_at(
            known, partition, offset, state, gaps=move.gaps, is_seek=move.is_seek
        )

    def _cursor_at(
        self,
        known: ConsumerCursor | None,
        partition: int,
        offset: int,
        state: PartitionState,
        *,
        generation: int | None = None,
        gaps: Gaps | None = None,
        is_seek: bool = False,
    ) -> ConsumerCursor:
        epoch = epoch_before(offset, state.epochs)
        now_us = self._clock.now_us()
        if generation is None:
            generation = 0 if known is None else known.generation
        if gaps is not None:
            gaps = gaps.after(offset)
            settled_epoch_id = _settled_epoch_id(gaps, state)
        else:
            gaps = NO_GAPS if known is None else known.gaps.after(offset)
            settled_epoch_id = known.settled_epoch_id if known is not None and gaps.end else None
        cursor = ConsumerCursor(
            *(partition, offset, now_us, epoch.number, epoch.id, generation),
            settled=gaps.settled,
            delays=gaps.delays,
            settled_epoch_id=settled_epoch_id,
            seek_id=self._clock.new_id() if is_seek or known is None else known.seek_id,
        )
        samples = sampled(
            () if known is None else known.samples, now_us, cursor.lag(state.marks.high)
        )
        return msgspec.structs.replace(cursor, samples=samples)

    def _checked(self, topic: StoredTopic, state: PartitionState, cursor: ConsumerCursor) -> Offset:
        position = Position(
            *(self._store.id, topic.topic.id, Partition(cursor.partition)),
            *(Offset(cursor.offset), cursor.epoch, cursor.epoch_id),
        )
        try:
            check_position(position, state.epochs, state.marks)
        except TrimmedError:
            pass  # Reading from the cursor raises it.
        except InvalidError as error:
            raise DivergedError(state.marks.high, **error.fields) from error
        return Offset(cursor.offset)

    def _all(self, topic: StoredTopic) -> Iterator[StoredConsumer]:
        return _consumers(self._store.keys(topic))


def _settled_epoch_id(gaps: Gaps, state: PartitionState) -> UUID | None:
    return epoch_before(Offset(gaps.end), state.epochs).id if gaps.settled else None


def _with_known_gaps(cursor: ConsumerCursor, state: PartitionState) -> ConsumerCursor:
    gaps = cursor.gaps
    is_other = cursor.settled_epoch_id != _settled_epoch_id(gaps, state)
    if gaps.reach <= state.marks.high and not is_other:
        return cursor
    # The log lost records and has others at these offsets now: deliver them all.
    return msgspec.structs.replace(cursor, settled=(), delays=(), settled_epoch_id=None)


def _check_generation(
    topic: StoredTopic,
    name: str,
    known: ConsumerCursor | None,
    partition: int,
    generation: int,
) -> None:
    # A missing cursor was deleted, and its members' partitions with it.
    if known is None or known.generation != generation:
        raise _lost(topic, name, known, partition, generation)


def _lost(
    topic: StoredTopic, name: str, known: ConsumerCursor | None, partition: int, generation: int
) -> LeaseLostError:
    return LeaseLostError(
        partition,
        topic=topic.topic.name,
        consumer=name,
        generation=generation,
        current=None if known is None else known.generation,
    )


def _check_partitions(stored: StoredConsumer, key: str, topic: StoredTopic) -> None:
    if any(each.partition >= topic.settings.partitions for each in stored.cursors):
        raise CorruptError("these cursors name no partition", file=key, position=0)


def _of_key(key: str, raw: bytes) -> StoredConsumer | None:
    if not key.startswith(CURSORS_PREFIX):
        return None
    tenant, _, name = key.removeprefix(CURSORS_PREFIX).partition("/")
    return StoredConsumer.decoded(raw, Tenant(tenant) if tenant else None, name)


def _consumers(kept: Mapping[str, bytes]) -> Iterator[StoredConsumer]:
    for key, raw in kept.items():
        if (found := _of_key(key, raw)) is not None:
            yield found


def _loaded(raw: bytes | None, tenant: Tenant | None, name: str) -> StoredConsumer:
    if raw is None:
        return StoredConsumer(tenant, name)
    return StoredConsumer.decoded(raw, tenant, name)
