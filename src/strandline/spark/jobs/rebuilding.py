"""Folds a topic into the snapshot of a view, all partitions in parallel."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from strandline.clock import SystemClock
from strandline.io import SystemIo
from strandline.opening import open_log
from strandline.spark.jobs.progress import Progress, Stopwatch, per_second
from strandline.spark.jobs.tasks import run_each
from strandline.spark.log_urls import spark_url
from strandline.values import InvalidError, Mode, Topic, UnavailableError
from strandline.values.arguments import check_items, check_path, check_whole
from strandline.values.partitioning import unknown_partition
from strandline.views import View
from strandline.views.folding import Folded, folded
from strandline.views.snapshot import SnapshotFile, binding_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Poison = Literal["stop", "quarantine"]


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The result of a rebuild."""

    snapshot: str
    committed: dict[int, int]
    """The last offset in the snapshot for each partition; -1 where there is no record."""
    records: int
    quarantined: int
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Records per second."""
        return per_second(self.records, self.seconds)


def rebuild(
    spark: "SparkSession",
    url: str | None,
    topic: str,
    view: View[Any],
    snapshot: str | os.PathLike[str],
    *,
    tenant: str | None = None,
    partitions: Iterable[int] | None = None,
    poison: Poison = "stop",
    progress: Progress | None = None,
) -> RebuildReport:
    """Fold the topic from its oldest record, and write the snapshot file that a view resumes from.

    The file is byte for byte the one that `LiveView(…, snapshot=…)` would write after
    `rebuild`, and is replaced as a whole; other partitions in it are unchanged. No live view
    may use the file meanwhile, because it would overwrite it. StoppedError at a record for which
    `apply` fails, unless the view quarantines such records.
    """
    watch, located = Stopwatch(), spark_url(url)
    path = os.path.abspath(check_path("snapshot", snapshot))
    wanted = None if partitions is None else check_items("partitions", partitions)
    if not view.has_snapshots:
        raise InvalidError("a view with snapshots has encode and decode", view=view.name)
    with open_log(located, mode=Mode.READ) as log:
        found = log.topic(topic, tenant=tenant)
        count = log.describe_topic(found).settings.partitions
        binding = binding_of(log, found, view)
        numbers = [check_whole("partitions", each) for each in wanted or ()]
        chosen = sorted(set(range(count) if wanted is None else numbers))
        if chosen and chosen[-1] >= count:
            raise unknown_partition(chosen[-1], count)
    snapshots = SnapshotFile(SystemIo(), path, binding, SystemClock())
    work = partial(_fold, located, found, view, poison)
    done = run_each(spark, chosen, work, size=lambda each: each.records, progress=progress)
    fresh = {each.partition: each.stored for each in done if each.stored is not None}
    stale = {each.partition for each in done if each.stored is None} & snapshots.committed.keys()
    snapshots.disown(stale)
    try:
        if fresh or stale:
            snapshots.write(fresh)
    except OSError as error:
        raise UnavailableError("the snapshot could not be written", file=path) from error
    return RebuildReport(
        snapshot=path,
        committed={each.partition: each.end - 1 for each in done},
        records=sum(each.records for each in done),
        quarantined=sum(each.quarantined for each in done),
        seconds=watch.seconds(),
    )


def _fold(url: str, topic: Topic, view: View[Any], poison: Poison, partition: int) -> Folded:
    # Before the records count as durable a sync may be needed, which reading does not allow.
    with open_log(url, mode=Mode.CONSUME) as log:
        return folded(log, topic, view, partition, quarantines=poison == "quarantine")


def send_along(module: ModuleType) -> None:
    """Make Spark send this module's definitions to processes that cannot import it."""
    from pyspark import cloudpickle  # noqa: PLC0415 # An extra.

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call] # It has no types.
