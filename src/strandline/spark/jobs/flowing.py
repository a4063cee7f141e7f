"""Runs a stream into a topic until its source has no more rows: resumable and exactly once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline.opening import open_log
from strandline.spark.causes import job_failed, text_of
from strandline.spark.jobs.progress import Progress, Stopwatch, per_second
from strandline.spark.log_urls import spark_url
from strandline.spark.sink.staging_place import StagingPlace
from strandline.values import Mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

#: Short enough that no progress is missed: Spark keeps the last hundred.
_POLL_INTERVAL_S: Final = 1
#: Spark gives a Python process of a stream ten seconds to start, which a busy machine may
#: not keep. The query is then started again with its checkpoint.
_BUSY: Final = "Python worker failed to connect back"
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class FlowReport:
    """The result of a run of a job that fills a topic."""

    topic: str
    rows: int
    """Rows that were read."""
    batches: int
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Rows read per second."""
        return per_second(self.rows, self.seconds)


def sink_options(
    url: str | None, topic: str, tenant: str | None, staging: str | None
) -> dict[str, str]:
    """Return the options of the sink for these; InvalidError if nothing can be staged."""
    place = StagingPlace(spark_url(url), staging)
    place.check()
    given = {"topic": topic, "tenant": tenant, "stagingLocation": staging}
    return {
        "path": place.url,
        **{name: value for name, value in given.items() if value is not None},
    }


def log_id(options: Mapping[str, str]) -> str:
    """Return the id of the log that these options of the sink name."""
    with open_log(options["path"], mode=Mode.READ) as log:
        return str(log.id)


def flow(
    rows: "DataFrame",
    options: Mapping[str, str],
    checkpoint: str | os.PathLike[str],
    progress: Progress | None,
) -> FlowReport:
    """Write all current rows of the stream to the topic of these options.

    The checkpoint records which rows were written. The next run with the same checkpoint
    continues a run that was stopped or killed, and adds new rows.
    """
    watch, seen = Stopwatch(), _CountedBatches(progress)
    attempts = 0
    while (reason := _run(rows, options, checkpoint, seen)) is not None:
        attempts += 1
        if _BUSY not in reason or attempts == _ATTEMPTS:
            raise job_failed(reason)
    return FlowReport(options["topic"], seen.rows, seen.batches, watch.seconds())


def _run(
    rows: "DataFrame",
    options: Mapping[str, str],
    checkpoint: str | os.PathLike[str],
    seen: "_CountedBatches",
) -> str | None:
    """Run the query to its end, and return Spark's message if it failed."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 # An extra.

    writer = rows.writeStream.format("strandline").outputMode("append")
    writer = writer.options(**options).option("checkpointLocation", _located(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        while not query.awaitTermination(_POLL_INTERVAL_S):
            seen.look(query)
    except StreamingQueryException as error:
        return text_of(error)
    finally:
        # Also when the wait is interrupted.
        query.stop()
        seen.look(query)
    return None


def _located(checkpoint: str | os.PathLike[str]) -> str:
    path = os.fspath(checkpoint)
    return path if "://" in path else f"file://{os.path.abspath(path)}"


class _CountedBatches:
    """Counts the progress of queries, each batch once."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._known: set[tuple[str, int]] = set()
        self.batches = 0
        self.rows = 0

    def look(self, query: "StreamingQuery") -> None:
        for each in query.recentProgress:
            progress: Any = each
            batch, count = (str(progress.runId), int(progress.batchId)), int(progress.numInputRows)
            if count and batch not in self._known:
                self._known.add(batch)
                self.batches += 1
                self.rows += count
                if self._progress is not None:
                    self._progress(count)
