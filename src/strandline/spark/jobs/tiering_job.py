"""Moves a topic to an object store, many objects in parallel."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from strandline.clock import SystemClock
from strandline.log import TopicName
from strandline.opening import open_log
from strandline.spark.jobs.progress import Progress, Stopwatch, per_second
from strandline.spark.jobs.tasks import run_each
from strandline.spark.log_urls import spark_url
from strandline.tiering import CopiedSegment, SegmentCatalogue, TierReport, open_store
from strandline.tiering.compacting import GRACE_S
from strandline.tiering.copying import PIECE_RECORDS
from strandline.tiering.object_store import store_of
from strandline.tiering.removal import topic_places
from strandline.tiering.segment import UserPartition
from strandline.tiering.tables import Tables
from strandline.tiering.tiering_run import CopyRun, TieringRun
from strandline.values import Mode
from strandline.values.arguments import check_flag, check_limit, check_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TierJobReport:
    """The result of a run over a topic."""

    done: TierReport
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Records copied per second."""
        return per_second(self.done.copied_records, self.seconds)


def tier(
    spark: "SparkSession",
    url: str | None,
    topic: TopicName,
    store: str,
    *,
    tenant: str | None = None,
    local_age_s: int | None = None,
    local_bytes: int | None = None,
    piece_records: int = PIECE_RECORDS,
    include_open: bool = False,
    delta: bool = False,
    iceberg: str | None = None,
    compact_bytes: int | None = None,
    grace_s: int = GRACE_S,
    progress: Progress | None = None,
) -> TierJobReport:
    """Do the same as `strandline.tiering.tier`; each task copies or merges one object.

    Every step is recorded in the segment catalogue, so workers, other runs of this job and
    readers may run concurrently, and the next run continues one that was killed.
    """
    piece_records = check_whole("piece_records", piece_records, 1)
    include_open, tables = check_flag("include_open", include_open), Tables.of(delta, iceberg)
    local_age_s = check_limit("local_age_s", local_age_s)
    local_bytes = check_limit("local_bytes", local_bytes)
    compact_bytes = check_limit("compact_bytes", compact_bytes)
    grace_s = check_whole("grace_s", grace_s)
    watch, located = Stopwatch(), spark_url(url)
    objects = store_of(store)
    with contextlib.ExitStack() as opened:
        log = opened.enter_context(open_log(located, mode=Mode.WRITE))
        # Before the tasks: opening the catalogue creates its topic.
        found = log.topic(topic, tenant=tenant)
        tables.check_place(objects, found)
        catalogue = opened.enter_context(SegmentCatalogue(log))
        places = topic_places(log, catalogue, found)
        first = TieringRun(log, objects, catalogue, None, SystemClock())
        first.settle(places)
        runs = [
            (place, run)
            for place in places
            for run in first.runs(place, piece_records, include_open=include_open)
        ]
    total = first.report
    work = partial(_copied, located, store)
    done = run_each(spark, runs, work, size=lambda each: each.copied_records, progress=progress)
    if compact_bytes is not None:
        done += _compacted(spark, located, store, places, compact_bytes)
    with _begun(located, store, places) as publishing:
        publishing.publish(places, tables)
    if local_age_s is not None or local_bytes is not None:
        letting_go = partial(_evicted, located, store, local_age_s, local_bytes)
        done += run_each(spark, places, letting_go, size=lambda _: 0)
    with _begun(located, store, places) as run:
        run.remove_merged(places, grace_s)
    for each in (*done, run.report):
        total = total.with_added(each)
    publishing.check_tables()
    return TierJobReport(total, watch.seconds())


def _copied(url: str, store: str, item: tuple[UserPartition, CopyRun]) -> TierReport:
    place, wanted = item
    with _begun(url, store, [place]) as run:
        run.copy_run(place, wanted)
        return run.report


def _compacted(
    spark: "SparkSession",
    url: str,
    store: str,
    places: Sequence[UserPartition],
    compact_bytes: int,
) -> list[TierReport]:
    with _begun(url, store, places) as run:
        merges = [(each, part) for each in places for part in run.merges(each, compact_bytes)]
    return run_each(spark, merges, partial(_merged, url, store), size=lambda _: 0)


def _merged(
    url: str, store: str, item: tuple[UserPartition, Sequence[CopiedSegment]]
) -> TierReport:
    place, members = item
    with _begun(url, store, [place]) as run:
        run.merge(place, members)
        return run.report


def _evicted(
    url: str, store: str, age_s: int | None, bytes_max: int | None, place: UserPartition
) -> TierReport:
    with _begun(url, store, [place]) as run:
        run.evict(place, age_s, bytes_max)
        return run.report


@contextlib.contextmanager
def _begun(url: str, store: str, places: Sequence[UserPartition]) -> Iterator[TieringRun]:
    """Open the log and the catalogue for one task."""
    with open_log(url, mode=Mode.WRITE) as log, SegmentCatalogue(log) as catalogue:
        catalogue.follow(places)
        catalogue.refresh()
        yield TieringRun(log, open_store(store), catalogue, None, SystemClock())
