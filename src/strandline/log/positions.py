"""Positions: offsets that can be checked after a log was restored or replaced. See LogReader."""

from strandline.log.access import Access
from strandline.log.ranges import check_kept
from strandline.log.store import Store, StoredTopic
from strandline.log.terms import check_partition
from strandline.values import (
    InvalidError,
    Offset,
    Partition,
    Position,
    check_position,
    checked_position,
    epoch_before,
)


def position_at(
    store: Store[StoredTopic],
    access: Access,
    topic: StoredTopic,
    partition: Partition,
    offset: int,
) -> Position:
    """Return the position of an offset, once all before it is durable."""
    state = access.durable_before(topic, partition, offset)
    kept = check_kept(state.marks, offset, topic.topic, partition)
    epoch = epoch_before(kept, state.epochs)
    return Position(store.id, topic.topic.id, partition, kept, epoch.number, epoch.id)


def resolve(store: Store[StoredTopic], position: Position) -> Offset:
    """Return the offset of a position; DivergedError if the log has lost records before it."""
    store.check_open()
    position = checked_position(position)
    if position.log_id != store.id:
        raise InvalidError("this is a position in another log", log_id=position.log_id)
    found = store.find_topic_id(position.topic_id)
    if found is None:
        raise InvalidError("the topic of this position was dropped", topic_id=position.topic_id)
    if position.partition >= found.settings.partitions:
        # Another process may have added the partition.
        found = store.find_topic(found.topic.tenant, found.topic.name, fresh=True) or found
    number = check_partition(position.partition, found.settings.partitions)
    state = store.state(found, number)
    return check_position(position, state.epochs, state.marks)
