"""How far Spark is with rows that it reads and writes by itself."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from strandline.clock import SystemClock

if TYPE_CHECKING:
    from pyspark import SparkContext

_GROUP: Final = "spark.jobGroup.id"


@contextlib.contextmanager
def reading(context: "SparkContext", rows: int) -> Iterator[Callable[[], int]]:
    """Yield a function that estimates how many rows the jobs of the body have read.

    Spark counts tasks, so it is their share, and those of the first job are the ones
    that read: what comes after sorts and writes.
    """
    group = str(SystemClock().new_id())
    before = context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    most = 0

    def estimate() -> int:
        nonlocal most
        most = max(most, int(rows * _share(context, group)))
        return most

    try:
        yield estimate
    finally:
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type] # None removes it.


def _share(context: "SparkContext", group: str) -> float:
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    job = tracker.getJobInfo(min(jobs)) if jobs else None
    stages = [tracker.getStageInfo(stage) for stage in job.stageIds] if job else []
    tasks = sum(stage.numTasks for stage in stages if stage)
    done = sum(stage.numCompletedTasks for stage in stages if stage)
    return done / tasks if tasks else 0.0
