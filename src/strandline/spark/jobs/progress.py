"""The progress and the speed of a job."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from strandline.clock import SystemClock
from strandline.locks import start_thread

if TYPE_CHECKING:
    from pyspark import SparkContext

Progress = Callable[[int], None]
"""Called on another thread with the number of rows done since the last call."""

_INTERVAL_S: Final = 0.2
_GROUP: Final = "spark.jobGroup.id"


@contextlib.contextmanager
def reporting(done: Callable[[], int], progress: Progress | None) -> Iterator[None]:
    """Call `progress` with each increase of `done`, while the body runs and at its end."""
    if progress is None:
        yield
        return
    reported, clock, is_over = 0, SystemClock(), threading.Event()

    def report() -> None:
        nonlocal reported
        now = done()
        progress(now - reported)
        reported = now

    def repeat() -> None:
        while not clock.wait(is_over, _INTERVAL_S):
            report()

    thread = threading.Thread(target=repeat, name="strandline-progress", daemon=True)
    start_thread(thread)
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        report()


@contextlib.contextmanager
def rows_read(context: "SparkContext", rows: int) -> Iterator[Callable[[], int]]:
    """Yield a function that estimates how many rows the jobs of the body have read.

    Spark counts tasks, so it is the share of finished tasks. Only the tasks of the first job
    count, because they read; those of later jobs sort and write.
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


class Stopwatch:
    """Measures the time since it was created."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._begun = self._clock.monotonic()

    def seconds(self) -> float:
        """Return the elapsed time."""
        return self._clock.monotonic() - self._begun


def per_second(count: int, seconds: float) -> float:
    """Return a speed; 0 if no time has passed."""
    return count / seconds if seconds > 0 else 0.0
