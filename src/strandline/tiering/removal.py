"""Removes from the tier what was trimmed or dropped, and objects that no catalogue lists."""

import contextlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.tiering.catalogue import SegmentCatalogue, saved_catalogue
from strandline.tiering.object_store import ObjectStore, open_store, store_of
from strandline.tiering.parquet import CopiedRows
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import (
    GIVEN_UP,
    CopiedSegment,
    DeletionState,
    SegmentState,
    UserPartition,
    partition_of,
)
from strandline.tiering.table_files import TableFiles
from strandline.tiering.tables import NO_TABLES, Tables, drop_tables, publish_tables
from strandline.values import CorruptError, InvalidError, Topic, UnavailableError
from strandline.views import RefusedError

_logger = logging.getLogger("strandline")

OpenStore = Callable[[str], ObjectStore]
#: The end of an object's name, after the folder of its topic.
_OBJECT = re.compile(r"/\d+/\d{20}-\d{20}-[0-9a-f-]+\.parquet$")


def retire(
    log: Log,
    catalogue: SegmentCatalogue,
    segments: Sequence[CopiedSegment],
    lows: Mapping[UserPartition, int],
    opened: OpenStore,
) -> list[CopiedSegment]:
    """Delete copies of one topic in two steps; return those neither needed nor deleted.

    Between the two they are removed from the topic's tables, so that its readers meet no
    gap. Older copies go first: a merged copy is deleted before the one it was merged into.
    """
    marked = [
        segment
        for segment in sorted(segments, key=lambda each: each.id)
        if _changed(catalogue, segment, SegmentState.DELETE_STARTED, lows[segment.place])
    ]
    if marked:
        _unlist(log, catalogue, marked, opened)
    deleted = []
    for segment in marked:
        opened(segment.store).delete(segment.name)
        if _changed(catalogue, segment, SegmentState.DELETE_FINISHED):
            deleted.append(segment)
    return deleted


def give_up(
    catalogue: SegmentCatalogue, segments: Sequence[CopiedSegment], error: Exception
) -> None:
    """Abandon started copies in a store that does not answer, for copies elsewhere.

    They are deleted once the store answers, because an upload may have succeeded. The log has
    the records: only records in finished copies are evicted.
    """
    now = [
        known for place in {each.place for each in segments} for known in catalogue.segments(place)
    ]
    for segment in now:
        if segment.store == segments[0].store and segment.state is SegmentState.COPY_STARTED:
            with contextlib.suppress(RefusedError):
                catalogue.change(segment, SegmentState.DELETE_STARTED, note=GIVEN_UP)
    _logger.warning(
        "the store %s has copies to finish or delete, the next run tries again: %s",
        segments[0].store,
        error,
    )


def _changed(
    catalogue: SegmentCatalogue, segment: CopiedSegment, state: SegmentState, low: int = 0
) -> bool:
    try:
        catalogue.change(segment, state, low=low)
    except RefusedError:
        return False
    return True


def _unlist(
    log: Log, catalogue: SegmentCatalogue, segments: Sequence[CopiedSegment], opened: OpenStore
) -> None:
    """Remove from the topic's tables what is marked as deleted."""
    topic = segments[0].place.named()
    for store in {segment.store: opened(segment.store) for segment in segments}.values():
        existing = Tables.existing(store, topic)
        if existing != NO_TABLES:
            places = topic_places(log, catalogue, topic)
            files = TableFiles(catalogue, places, store)
            publish_tables(log, files, parts_of(log).clock, existing)


def topic_places(log: Log, catalogue: SegmentCatalogue, topic: Topic) -> Sequence[UserPartition]:
    """Return all partitions of a topic, after making the catalogue follow them."""
    try:
        count = log.describe_topic(topic).settings.partitions
    except InvalidError:  # It was dropped.
        catalogue.follow_all()
        return [place for place in catalogue.places() if place.topic_id == topic.id]
    places = [partition_of(topic, number) for number in range(count)]
    catalogue.follow(places)
    return places


def remove_trimmed(log: Log, topic: Topic, opened: OpenStore) -> int:
    """Delete the copies of trimmed records; return how many there were."""
    with saved_catalogue(log) as catalogue:
        marks = log.describe_topic(topic).marks
        lows = {partition_of(topic, number): int(each.low) for number, each in enumerate(marks)}
        catalogue.follow(list(lows))
        catalogue.check_whole()
        old = [
            segment
            for place, low in lows.items()
            for segment in catalogue.segments(place)
            if segment.end <= low
        ]
        return len(retire(log, catalogue, old, lows, opened))


def remove_dropped(log: Log, topic: Topic, opened: OpenStore) -> int:
    """Delete all copies of a dropped topic; return how many there were."""
    with saved_catalogue(log) as catalogue:
        catalogue.follow_all()
        catalogue.check_whole()
        places = [place for place in catalogue.places() if place.topic_id == topic.id]
        return _remove_topic(log, catalogue, places, opened)


def sweep(log: Log, store: str | ObjectStore, *, clock: Clock | None = None) -> int:
    """Delete unneeded objects of the tier; return how many there were.

    Those of dropped topics, and those that no step of the catalogue names, left by a crash. Of
    the latter, an object with records that are nowhere else is kept, with a warning. May run
    concurrently with anything else. CorruptError, with nothing deleted, if the catalogue has
    lost steps. UnavailableError or InvalidError, after all else is deleted, if the objects or a
    table of a dropped topic cannot be removed.
    """
    objects = store_of(store)

    def opened(url: str) -> ObjectStore:
        return objects if url == objects.url else open_store(url)

    with saved_catalogue(log, clock) as catalogue:
        catalogue.follow_all()
        catalogue.refresh()
        # List first: an object in the list was recorded before its upload, and so before the
        # catalogue is refreshed.
        names = _listed(log, catalogue, objects)
        catalogue.refresh()
        catalogue.check_whole()
        removed = 0
        failed: UnavailableError | InvalidError | None = None
        for places in _by_topic(catalogue.places()).values():
            if _is_dropped(log, places[0]):
                try:
                    removed += _remove_topic(log, catalogue, places, opened)
                    drop_tables(objects, places[0].named())
                except (UnavailableError, InvalidError) as error:
                    segments = [each for place in places for each in catalogue.segments(place)]
                    if all(each.store == objects.url for each in segments):
                        failed = failed or error
                    _logger.warning("%s is left to the next sweep: %s", places[0].topic, error)
        # Of any store: one may have several URLs, with a slash at its end for instance. The
        # names have ids, so that no two copies share one.
        known = {
            segment.name for place in catalogue.places() for segment in catalogue.segments(place)
        }
        orphans = [name for name in names if name not in known]
        topics = _topics_by_id(log) if orphans else {}
        for name in orphans:
            if _is_only_copy(log, catalogue, topics, objects.get(name)):
                _logger.warning("%s holds records that are nowhere else, it is not deleted", name)
            else:
                objects.delete(name)
                removed += 1
    if failed is not None:
        raise failed
    return removed


def _listed(log: Log, catalogue: SegmentCatalogue, objects: ObjectStore) -> Sequence[str]:
    """Return the names of the log's objects, in its topics' folders and the old folder."""
    topics = [*_topics_by_id(log).values(), *(place.named() for place in catalogue.places())]
    folders = {topic_folder(topic) for topic in topics}
    found = [name for each in sorted(folders) for name in objects.list(each)]
    # Other files in the folder of a table are not ours.
    return [*objects.list(f"{log.id}"), *(name for name in found if _OBJECT.search(name))]


def _by_topic(places: Sequence[UserPartition]) -> Mapping[UUID, Sequence[UserPartition]]:
    found: dict[UUID, list[UserPartition]] = {}
    for place in places:
        found.setdefault(place.topic_id, []).append(place)
    return found


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
    """Whether an object unknown to the catalogue may hold records that are nowhere else."""
    if content is None:
        return False
    try:
        about = CopiedRows(content, "an object of the tier").about
    except CorruptError:
        return False  # Torn, or not ours: no record can be read from it.
    topic = topics.get(about.topic_id)
    place = UserPartition(about.topic_id, about.partition, about.topic)
    if topic is None:
        # The catalogue knows the partitions of a dropped topic for ever.
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


def _remove_topic(
    log: Log, catalogue: SegmentCatalogue, places: Sequence[UserPartition], opened: OpenStore
) -> int:
    """Do the three steps for each partition, continuing where another process stopped."""
    left = [each for each in places if catalogue.deletion(each) is not DeletionState.FINISHED]
    for place in left:
        for state in (DeletionState.MARKED, DeletionState.STARTED):
            with contextlib.suppress(RefusedError):
                catalogue.delete_partition(place, state)
    segments = [segment for place in left for segment in catalogue.segments(place)]
    if segments:
        _unlist(log, catalogue, segments, opened)
    for segment in segments:
        opened(segment.store).delete(segment.name)
    for place in left:
        with contextlib.suppress(RefusedError):
            catalogue.delete_partition(place, DeletionState.FINISHED)
    for url in {segment.store for segment in segments}:
        drop_tables(opened(url), places[0].named())
    return len(segments)
