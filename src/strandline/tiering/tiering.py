"""Copies a topic to an object store."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from strandline.clock import Clock, SystemClock
from strandline.log import Log, TopicName
from strandline.log.parts import check_dense
from strandline.tiering.catalogue import SegmentCatalogue, saved_catalogue
from strandline.tiering.compacting import COMPACT_BYTES, GRACE_S
from strandline.tiering.copying import PIECE_RECORDS
from strandline.tiering.object_store import ObjectStore, store_of
from strandline.tiering.removal import topic_places
from strandline.tiering.segment import UserPartition
from strandline.tiering.tables import NO_TABLES, Tables
from strandline.tiering.tier_report import TierReport, TierStep
from strandline.tiering.tiering_run import TieringRun
from strandline.values import check_may_shorten
from strandline.values.arguments import check_flag, check_limit, check_whole


def tier(
    log: Log,
    topic: TopicName,
    store: str | ObjectStore,
    *,
    local_age_s: int | None = None,
    local_bytes: int | None = None,
    piece_records: int = PIECE_RECORDS,
    include_open: bool = False,
    delta: bool = False,
    iceberg: str | None = None,
    compact_bytes: int | None = None,
    grace_s: int = GRACE_S,
    catalogue: SegmentCatalogue | None = None,
    progress: Callable[[TierStep], None] | None = None,
    clock: Clock | None = None,
) -> TierReport:
    """Copy sealed segments to `store`, and evict records that the log need not keep itself.

    Continues with whatever an earlier run left unfinished, and may run in several processes
    concurrently. A sealed segment becomes one object, or several of `piece_records`; so does
    each full piece of a run that still grows, and with `include_open` the rest of it.
    Records are evicted only after their copy was read back and verified: those older than
    `local_age_s`, and the oldest ones until each partition has at most `local_bytes`; None
    keeps them. Copies of trimmed records are deleted.
    With `delta` the topic's objects are a Delta table from now on, with `iceberg`, such as
    `lake.events.orders`, an Iceberg table in that catalogue of pyiceberg's configuration: every
    run, also without the option, updates the table to the tier's content. See designs 0103, 0136.
    With `compact_bytes` neighbouring objects are merged into ones of up to that size; merged
    objects are deleted after `grace_s`. See design 0119.
    `progress` is called with each step. Several runs may share an open `catalogue` of this log.

    UnavailableError if the store fails: everything done so far counts, call again.
    CorruptError, with nothing done, if the catalogue has lost steps. InvalidError for an
    internal topic that must not be trimmed; and, after all else is done, if a table cannot
    hold the columns of a copy: in each partition it ends before the first one of those.
    """
    piece_records = check_whole("piece_records", piece_records, 1)
    local_age_s = check_limit("local_age_s", local_age_s)
    local_bytes = check_limit("local_bytes", local_bytes)
    compact_bytes = check_limit("compact_bytes", compact_bytes)
    grace_s = check_whole("grace_s", grace_s)
    check_flag("include_open", include_open)
    tables = Tables.of(delta, iceberg)
    tables.check_place(store_of(store), log.topic(topic))
    with _begun(log, topic, store, catalogue, progress=progress, clock=clock) as (run, places):
        for place in places:
            run.copy(place, piece_records, include_open=include_open)
            if compact_bytes is not None:
                run.compact(place, compact_bytes)
        # Before eviction: other programs do not delete as unused what they find in a table.
        if run.publish(places, tables):
            for place in places:
                run.copy(place, piece_records, include_open=include_open)
            run.publish(places, tables)
        for place in places:
            run.evict(place, local_age_s, local_bytes)
        run.remove_merged(places, grace_s)
        run.check_tables()
        return run.report


def compact(
    log: Log,
    topic: TopicName,
    store: str | ObjectStore,
    *,
    compact_bytes: int = COMPACT_BYTES,
    grace_s: int = GRACE_S,
    catalogue: SegmentCatalogue | None = None,
    progress: Callable[[TierStep], None] | None = None,
    clock: Clock | None = None,
) -> TierReport:
    """Merge neighbouring objects of a topic into ones of up to `compact_bytes`.

    As `tier` does with this option, but without copying and evicting. Offsets, records and
    the order within an object stay; a table changes in one commit. Merged objects
    are deleted by the first run after `grace_s`. Errors are those of `tier`; InvalidError,
    too, for a log that was opened without a tier.
    """
    compact_bytes = check_whole("compact_bytes", compact_bytes, 1)
    grace_s = check_whole("grace_s", grace_s)
    with _begun(log, topic, store, catalogue, progress=progress, clock=clock) as (run, places):
        for place in places:
            run.compact(place, compact_bytes)
        run.publish(places, NO_TABLES)
        run.remove_merged(places, grace_s)
        run.check_tables()
        return run.report


@contextlib.contextmanager
def _begun(
    log: Log,
    topic: TopicName,
    store: str | ObjectStore,
    catalogue: SegmentCatalogue | None,
    *,
    progress: Callable[[TierStep], None] | None,
    clock: Clock | None,
) -> Iterator[tuple["TieringRun", Sequence[UserPartition]]]:
    """Give a run over a topic's partitions, after finishing what earlier runs left."""
    objects = store_of(store)
    found = log.topic(topic)
    check_may_shorten(found)
    with contextlib.ExitStack() as stack:
        if catalogue is None:
            catalogue = stack.enter_context(saved_catalogue(log, clock))
        catalogue.check_is_of(log)
        run = TieringRun(log, objects, catalogue, progress, clock or SystemClock())
        check_dense(log, found, "a tier")
        places = topic_places(log, catalogue, found)
        catalogue.check_whole()
        run.settle(places)
        yield run, places
