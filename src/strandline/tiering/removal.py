"""Removing from the tier: what was trimmed, what was dropped, and what no catalogue lists."""

import contextlib
import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from strandline.clock import Clock
from strandline.log import Log
from strandline.tiering.catalogue import SegmentCatalogue, saved_catalogue
from strandline.tiering.object_store import ObjectStore, open_store, store_of
from strandline.tiering.parquet import CopiedRows
from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    SegmentState,
    UserPartition,
    partition_of,
)
from strandline.values import CorruptError, InvalidError, Topic
from strandline.views import RefusedError

_logger = logging.getLogger("strandline")

OpenStore = Callable[[str], ObjectStore]


def retire(
    catalogue: SegmentCatalogue, segment: CopiedSegment, store: ObjectStore, low: int
) -> bool:
    """Delete a copy in two steps; False if it is needed, or another process has done so."""
    try:
        catalogue.change(segment, SegmentState.DELETE_STARTED, low=low)
    except RefusedError:
        return False
    store.delete(segment.name)
    try:
        catalogue.change(segment, SegmentState.DELETE_FINISHED)
    except RefusedError:
        return False
    return True


def remove_trimmed(log: Log, topic: Topic, opened: OpenStore = open_store) -> int:
    """Delete the copies of what was trimmed; return how many there were."""
    removed = 0
    with saved_catalogue(log) as catalogue:
        marks = log.describe_topic(topic).marks
        places = [partition_of(topic, number) for number in range(len(marks))]
        catalogue.follow(places)
        catalogue.check_whole()
        for place, ends in zip(places, marks, strict=True):
            for segment in catalogue.segments(place):
                if segment.end <= ends.low:
                    store = opened(segment.store)
                    removed += retire(catalogue, segment, store, ends.low)
    return removed


def remove_dropped(log: Log, topic: Topic, opened: OpenStore = open_store) -> int:
    """Delete all copies of a topic that was dropped; return how many there were."""
    with saved_catalogue(log) as catalogue:
        catalogue.follow_all()
        catalogue.check_whole()
        return sum(
            _remove_partition(catalogue, place, opened)
            for place in catalogue.places()
            if place.topic_id == topic.id
        )


def sweep(log: Log, store: str | ObjectStore, *, clock: Clock | None = None) -> int:
    """Delete what the tier holds and is not needed; return how many objects that were.

    Those of topics that were dropped, and those that no step of the catalogue names:
    what a crash in the middle has left. One of the latter that holds records
    which are nowhere else is left alone, with a warning. May run beside anything else.

    CorruptError, with nothing deleted, if the catalogue has lost steps.
    """
    objects = store_of(store)

    def opened(url: str) -> ObjectStore:
        return objects if url == objects.url else open_store(url)

    # First the list: an object in it was recorded before it was uploaded, and so before
    # the catalogue is looked at.
    names = objects.list(f"{log.id}")
    with saved_catalogue(log, clock) as catalogue:
        catalogue.follow_all()
        catalogue.refresh()
        catalogue.check_whole()
        removed = 0
        for place in catalogue.places():
            if _is_dropped(log, place) and catalogue.deletion(place) is not DeletionState.FINISHED:
                removed += _remove_partition(catalogue, place, opened)
        known = {
            segment.name
            for place in catalogue.places()
            for segment in catalogue.segments(place)
            if segment.store == objects.url
        }
        orphans = [name for name in names if name not in known]
        topics = _topics_by_id(log) if orphans else {}
        for name in orphans:
            if _is_only_copy(log, catalogue, topics, objects.get(name)):
                _logger.warning("%s holds records that are nowhere else, it is not deleted", name)
            else:
                objects.delete(name)
                removed += 1
    return removed


def _topics_by_id(log: Log) -> Mapping[UUID, Topic]:
    whose = (None, *log.tenants())
    return {
        topic.id: topic
        for tenant in whose
        for internal in (False, True)
        for topic in log.topics(tenant=tenant, internal=internal)
    }


def _is_only_copy(
    log: Log, catalogue: SegmentCatalogue, topics: Mapping[UUID, Topic], content: bytes | None
) -> bool:
    """Whether an object that the catalogue does not know may hold what is nowhere else."""
    if content is None:
        return False
    try:
        about = CopiedRows(content, "an object of the tier").about
    except CorruptError:
        return False  # Torn, or none of ours: no record can be read from it.
    topic = topics.get(about.topic_id)
    place = UserPartition(about.topic_id, about.partition, about.topic)
    if topic is None:
        # Of a topic that was dropped the catalogue knows the partition for ever.
        return place not in catalogue.places()
    marks = log.marks(topic, about.partition)
    if about.end > marks.high:
        return True
    start, end = max(about.start, marks.low), min(about.end, log.evict(topic, about.partition, 0))
    for segment in catalogue.segments(place):
        if segment.state is SegmentState.COPY_FINISHED and segment.start <= start:
            start = max(start, segment.end)
    return start < end


def _is_dropped(log: Log, place: UserPartition) -> bool:
    try:
        log.topic(place.named())
    except InvalidError:
        return True
    return False


def _remove_partition(catalogue: SegmentCatalogue, place: UserPartition, opened: OpenStore) -> int:
    """Go through the three steps, from where another process has left them."""
    for state in (DeletionState.MARKED, DeletionState.STARTED):
        with contextlib.suppress(RefusedError):
            catalogue.delete_partition(place, state)
    segments = catalogue.segments(place)
    for segment in segments:
        opened(segment.store).delete(segment.name)
    with contextlib.suppress(RefusedError):
        catalogue.delete_partition(place, DeletionState.FINISHED)
    return len(segments)
