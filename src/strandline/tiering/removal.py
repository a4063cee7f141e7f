"""Removing from the tier: what was trimmed, what was dropped, and what nobody knows of."""

import contextlib
from collections.abc import Callable

from strandline.clock import Clock, SystemClock
from strandline.log import Log
from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.object_store import ObjectStore, open_store, store_of
from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    SegmentState,
    UserPartition,
    partition_of,
)
from strandline.values import InvalidError, Topic
from strandline.views import RefusedError

OpenStore = Callable[[str], ObjectStore]


def retire(
    catalogue: SegmentCatalogue, segment: CopiedSegment, store: ObjectStore, low: int
) -> bool:
    """Delete a copy in two steps; False if it is needed, or somebody else has done so."""
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
    with SegmentCatalogue(log) as catalogue:
        marks = log.describe_topic(topic).marks
        places = [partition_of(topic, number) for number in range(len(marks))]
        catalogue.follow(places)
        for place, ends in zip(places, marks, strict=True):
            for segment in catalogue.segments(place):
                if segment.end <= ends.low:
                    store = opened(segment.store)
                    removed += retire(catalogue, segment, store, ends.low)
    return removed


def remove_dropped(log: Log, topic: Topic, opened: OpenStore = open_store) -> int:
    """Delete all copies of a topic that was dropped; return how many there were."""
    with SegmentCatalogue(log) as catalogue:
        catalogue.follow_all()
        return sum(
            _remove_partition(catalogue, place, opened)
            for place in catalogue.places()
            if place.topic_id == topic.id
        )


def sweep(log: Log, store: str | ObjectStore, *, clock: Clock | None = None) -> int:
    """Delete what the tier holds and nobody needs; return how many objects that were.

    Those of topics that were dropped, and those that no step of the catalogue tells of:
    what is left when somebody died in the middle. May run beside anything else.
    """
    objects = store_of(store)

    def opened(url: str) -> ObjectStore:
        return objects if url == objects.url else open_store(url)

    # First the list: an object in it was told of before it was uploaded, and so before
    # the catalogue is looked at.
    names = objects.list(f"{log.id}")
    with SegmentCatalogue(log, clock=clock or SystemClock()) as catalogue:
        catalogue.follow_all()
        catalogue.refresh()
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
        for name in names:
            if name not in known:
                objects.delete(name)
                removed += 1
    return removed


def _is_dropped(log: Log, place: UserPartition) -> bool:
    try:
        log.topic(place.named())
    except InvalidError:
        return True
    return False


def _remove_partition(catalogue: SegmentCatalogue, place: UserPartition, opened: OpenStore) -> int:
    """Go through the three steps, wherever somebody else has left them."""
    for state in (DeletionState.MARKED, DeletionState.STARTED):
        with contextlib.suppress(RefusedError):
            catalogue.delete_partition(place, state)
    segments = catalogue.segments(place)
    for segment in segments:
        opened(segment.store).delete(segment.name)
    with contextlib.suppress(RefusedError):
        catalogue.delete_partition(place, DeletionState.FINISHED)
    return len(segments)
