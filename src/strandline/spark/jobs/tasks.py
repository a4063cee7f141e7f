"""Running pieces of work as Spark tasks."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from strandline.spark.jobs.progress import Progress, reporting
from strandline.values import StrandlineError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: The maximum number of Spark tasks for each one that can run concurrently.
_SLICES: Final = 4
_ANSWER: Final = ["number", "result"]

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")


@dataclass(frozen=True, slots=True)
class _Failed:
    """The result of a task that raised."""

    error: StrandlineError


def run_each(
    spark: "SparkSession",
    items: Sequence[ItemT],
    work: Callable[[ItemT], DoneT],
    *,
    size: Callable[[DoneT], int],
    progress: Progress | None = None,
) -> list[DoneT]:
    """Run `work` for each item in Spark tasks, and return the results in the order of the items.

    `work` and the items are sent to other processes. `size` returns the number of rows of a
    result. The first StrandlineError of a task is raised here, unwrapped.
    """
    if not items:
        return []
    context = context_of(spark)
    if context is None:
        results = _by_frame(spark, items, work)
        if progress is not None:
            progress(sum(size(each) for each in results if not isinstance(each, _Failed)))
        return _finished(results)
    done = context.accumulator(0)

    def attempt(item: ItemT) -> DoneT | _Failed:
        result = _attempted(work, item)
        if not isinstance(result, _Failed):
            done.add(size(result))
        return result

    with reporting(lambda: done.value, progress):
        slices = min(len(items), _SLICES * context.defaultParallelism)
        results = context.parallelize(items, slices).map(attempt).collect()
    return _finished(results)


def context_of(spark: "SparkSession") -> "SparkContext | None":
    """Return the SparkContext; None for a session of Spark Connect, which has none."""
    return getattr(spark, "sparkContext", None)


def _by_frame(
    spark: "SparkSession", items: Sequence[ItemT], work: Callable[[ItemT], DoneT]
) -> list[DoneT | _Failed]:
    """Return the result of each item, for a session that runs tasks only for a DataFrame."""
    from pyspark.cloudpickle import dumps  # noqa: PLC0415 # An extra.

    pickled: Callable[[object], bytes] = dumps
    rows = [(number, pickled(item)) for number, item in enumerate(items)]
    frame = spark.createDataFrame(rows, "number long, item binary").repartition(len(rows), "number")

    def attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = [pickle.loads(each) for each in batch.column("item").to_pylist()]  # noqa: S301
            made = [pickled(_attempted(work, each)) for each in given]
            yield pa.record_batch([batch.column("number"), pa.array(made, pa.binary())], _ANSWER)

    found = frame.mapInArrow(attempt, "number long, result binary").collect()
    by_number = {row["number"]: row["result"] for row in found}
    # The bytes come from tasks that this process has started.
    return [pickle.loads(by_number[number]) for number in range(len(items))]  # noqa: S301


def _attempted(work: Callable[[ItemT], DoneT], item: ItemT) -> DoneT | _Failed:
    try:
        return work(item)
    except StrandlineError as error:
        return _Failed(error)


def _finished(results: Sequence[DoneT | _Failed]) -> list[DoneT]:
    finished: list[DoneT] = []
    for result in results:
        if isinstance(result, _Failed):
            raise result.error
        finished.append(result)
    return finished
