"""Running pieces of work as Spark tasks, and reporting their progress."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from strandline.clock import SystemClock
from strandline.values import StrandlineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int], None]
"""Called with how many more rows are done, on another thread."""

_PROGRESS_INTERVAL_S: Final = 0.2
#: How many Spark tasks there are at most for each one that can run at a time.
_SLICES: Final = 4

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a task came to that raised."""

    error: StrandlineError


def run_each(
    spark: "SparkSession",
    items: Sequence[ItemT],
    work: Callable[[ItemT], DoneT],
    *,
    size: Callable[[DoneT], int],
    progress: Progress | None = None,
) -> list[DoneT]:
    """Return what `work` makes of each item, in Spark tasks, in the order of the items.

    `work` and the items are sent to other processes. `size` says how many rows a task
    came to. The first StrandlineError of a task is raised here, as itself.
    """
    if not items:
        return []
    context = spark.sparkContext
    done = context.accumulator(0)

    def attempt(item: ItemT) -> DoneT | _Failed:
        try:
            result = work(item)
        except StrandlineError as error:
            return _Failed(error)
        done.add(size(result))
        return result

    with reporting(lambda: done.value, progress):
        slices = min(len(items), _SLICES * context.defaultParallelism)
        results = context.parallelize(items, slices).map(attempt).collect()
    finished: list[DoneT] = []
    for result in results:
        if isinstance(result, _Failed):
            raise result.error
        finished.append(result)
    return finished


@contextlib.contextmanager
def reporting(done: Callable[[], int], progress: Progress | None) -> Iterator[None]:
    """Call `progress` with what `done` rises by, while the body runs and at its end."""
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
        while not clock.wait(is_over, _PROGRESS_INTERVAL_S):
            report()

    thread = threading.Thread(target=repeat, name="strandline-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        report()
