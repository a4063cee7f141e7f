"""Running a stream into a topic until its source has no more: once, resumable, exactly once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline.spark.jobs.speed import Stopwatch, per_second
from strandline.spark.jobs.tasks import Progress
from strandline.values import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

#: More often than Spark could forget a progress: it keeps the last hundred.
_ASKED_EVERY_S: Final = 1


@dataclass(frozen=True, slots=True)
class FlowReport:
    """What a job that fills a topic came to, in this run."""

    topic: str
    rows: int
    """Rows that were read."""
    batches: int
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Rows read per second."""
        return per_second(self.rows, self.seconds)


def flow(
    rows: "DataFrame",
    options: Mapping[str, str],
    checkpoint: str | os.PathLike[str],
    progress: Progress | None,
) -> FlowReport:
    """Write everything that the stream has now to the topic of these options.

    The checkpoint says what has been written. A run that was stopped or killed is gone on
    with by the next one of the same checkpoint, which is also how new rows are added.
    """
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 # An extra.

    watch = Stopwatch()
    writer = rows.writeStream.format("strandline").outputMode("append")
    writer = writer.options(**options).option("checkpointLocation", _located(checkpoint))
    query = writer.trigger(availableNow=True).start()
    seen = _Seen(query, progress)
    try:
        while not query.awaitTermination(_ASKED_EVERY_S):
            seen.look()
    except StreamingQueryException as error:
        raise UnavailableError(
            "the job has failed; what it has written counts: mend the cause and run it again",
            reason=_cause(str(error)),
        ) from error
    finally:
        # Also when whoever waits is interrupted.
        query.stop()
    seen.look()
    return FlowReport(options["topic"], seen.rows, len(seen.batches), watch.seconds())


def _located(checkpoint: str | os.PathLike[str]) -> str:
    path = os.fspath(checkpoint)
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _cause(text: str) -> str:
    """Return the line of a Python error that says what happened, if there is one."""
    named = [line for line in text.splitlines() if "strandline." in line and "Error: " in line]
    return (named or text.splitlines() or [""])[-1 if named else 0].strip()


class _Seen:
    """What the progress of a query tells, each batch once."""

    def __init__(self, query: "StreamingQuery", progress: Progress | None) -> None:
        self._query = query
        self._progress = progress
        self.batches: set[int] = set()
        self.rows = 0

    def look(self) -> None:
        for each in self._query.recentProgress:
            told: Any = each
            count = int(told.numInputRows)
            if told.batchId not in self.batches and count:
                self.batches.add(told.batchId)
                self.rows += count
                if self._progress is not None:
                    self._progress(count)
