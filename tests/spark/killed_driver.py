"""A driver of a streaming query that is killed, with its Java, at a point of the sink.

Run as a program: `python -m tests.spark.killed_driver <folder> <point> <batch>`. The point is
reached in a process that Spark starts; that kills the driver, then itself.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from strandline.spark import local_session
from strandline.spark.sink import rolling
from strandline.spark.sink.batch_identity import streaming_identity
from strandline.spark.sink.intents import Intent, Intents, Progress
from strandline.spark.sink.settings import stream_settings
from strandline.spark.sink.writers import Messages, StagedMessage, StreamWriter

FOLDER, POINT, BATCH = "STRANDLINE_TEST_FOLDER", "STRANDLINE_TEST_POINT", "STRANDLINE_TEST_BATCH"
POINTS = (
    *("before staging", "after staging", "after recording", "before noting progress"),
    *("between partitions", "before finishing", "before sweeping", "before Spark's commit"),
)
#: Of a worker alone, whose task is run again.
WORKER = "within staging"


def reached(point: str, version: int) -> None:
    """Die here, if it is the point."""
    if os.environ[POINT] != point or os.environ[BATCH] != str(version):
        return
    pids: list[int] = json.loads(Path(os.environ[FOLDER], "pids").read_text())
    for pid in pids if point != WORKER else []:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class KilledWriter(StreamWriter):
    """The sink's writer, with points at which it dies."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        version = streaming_identity(None).version
        reached("before staging", version)
        staged = super().write(_dying(iterator, version))
        reached("after staging", version)
        return staged

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        record, add, finish = Intents.record, Progress.add, Intents.finish

        def recording(intents: Intents, intent: Intent) -> Intent:
            recorded = record(intents, intent)
            reached("after recording", batchId)
            return recorded

        def noting(progress: Progress, ends: Sequence[int]) -> None:
            reached("before noting progress", batchId)
            add(progress, ends)
            reached("between partitions", batchId)

        def finishing(intents: Intents, intent: Intent) -> None:
            reached("before finishing", batchId)
            finish(intents, intent)
            reached("before sweeping", batchId)

        changed: Any = Intents
        changed.record, changed.finish = recording, finishing
        changed = Progress
        changed.add = noting
        changed = rolling
        # Each partition is noted by itself.
        changed.GROUP_BYTES = 1
        super().commit(messages, batchId)
        reached("before Spark's commit", batchId)


def _dying(batches: Iterator[pa.RecordBatch], version: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            reached(WORKER, version)
        yield batch


class KilledSource(DataSource):
    """`format("killed")`."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        return KilledWriter(stream_settings(self.options))


def main(folder: str, point: str, batch: str) -> None:
    """Run the query in the folder to its end, or die."""
    os.environ |= {FOLDER: folder, POINT: point, BATCH: batch}
    scratch = Path(folder, "spark")
    scratch.mkdir(exist_ok=True)
    spark = local_session(str(scratch), master="local[2,3]")
    spark.sparkContext.setLogLevel("OFF")
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    Path(folder, "pids").write_text(json.dumps([gateway.proc.pid, os.getpid()]))
    spark.dataSource.register(KilledSource)
    url = f"file:{folder}/log"
    reader = spark.readStream.format("strandline").option("subscribe", "source")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20)
    writer = reader.load(url).writeStream.format("killed").option("topic", "target")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start(url).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
