"""Spark runs the stream."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import strandline as sl
from strandline.spark.listener import ConsumerListener
from tests.spark.as_spark import fill

# Spark's own ten seconds may be too few on a busy machine.
PATIENCE_MS = 600_000

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["sqlite"], indirect=True)]


class Run:
    """Starts a query over a topic again and again, and gathers what each micro-batch has."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self._spark = spark
        self._url = url
        self._checkpoint = str(folder / "checkpoint")
        self.batches: list[list[int]] = []

    def start(self, trigger: dict[str, Any], **options: Any) -> StreamingQuery:
        reader = self._spark.readStream.format("strandline").option("subscribe", "t")
        for name, value in options.items():
            reader = reader.option(name, value)
        writer = reader.load(self._url).writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", self._checkpoint).trigger(**trigger).start()

    def _take(self, batch: Any, _: int) -> None:
        self.batches.append(sorted(json.loads(row.payload)["n"] for row in batch.collect()))

    def available(self, **options: Any) -> StreamingQuery:
        query = self.start({"availableNow": True}, **options)
        query.awaitTermination()
        return query


@pytest.fixture
def run(spark: SparkSession, url: str, tmp_path: Path) -> Run:
    return Run(spark, url, tmp_path)


@pytest.fixture
def listening(spark: SparkSession) -> Iterator[ConsumerListener]:
    listener = ConsumerListener()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


def wait_for(spark: SparkSession, condition: Callable[[], bool]) -> None:
    """Wait until the listener has heard of everything; a test's time limit ends it otherwise."""
    bus = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
    bus.waitUntilEmpty(PATIENCE_MS)
    assert condition()


def test_a_query_reads_everything_once_over_restarts(
    run: Run, log: sl.Log, spark: SparkSession, listening: ConsumerListener
) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 30)
    fill(log, 30, first=30, partition=1)

    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 25, "groupId": "spark"}
    run.available(**options)
    assert [len(batch) for batch in run.batches] == [25, 25, 10]
    wait_for(spark, lambda: [each.lag for each in log.consumers("t")] == [0, 0])

    fill(log, 5, first=60)
    assert [each.lag for each in log.consumers("t")] == [5, 0]
    query = run.start({"processingTime": "0 seconds"}, **options)
    query.processAllAvailable()
    fill(log, 5, first=65, partition=1)
    query.processAllAvailable()
    while (behind := listening.behind(query.id)) is None:
        wait_for(spark, lambda: True)
    query.stop()

    assert sorted(n for batch in run.batches for n in batch) == [*range(70)]
    assert behind.most == 0
    wait_for(spark, lambda: [each.lag for each in log.consumers("t")] == [0, 0])
    assert log.trim("t", 0, 35).removed == 35


def test_the_last_batch_is_run_again_after_a_crash(run: Run, log: sl.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    fill(log, 20)
    run.available(startingOffsets="earliest")
    for left in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        left.unlink()
    fill(log, 20, first=20)

    run.available(startingOffsets="earliest")

    assert run.batches == [[*range(20)], [*range(20)], [*range(20, 40)]]


def test_a_loss_fails_the_query_with_what_was_lost(run: Run, log: sl.Log) -> None:
    log.create_topic("t")
    fill(log, 20)
    run.available(startingOffsets="earliest")
    fill(log, 20, first=20)
    log.trim("t", 0, 30, force=True)

    with pytest.raises(StreamingQueryException, match="trimmed"):
        run.available()
    run.available(failOnDataLoss="false")

    assert run.batches[-1] == [*range(30, 40)]


def test_a_topic_that_was_trimmed_is_read_from_its_oldest_record_by_every_trigger(
    spark: SparkSession, url: str, log: sl.Log, tmp_path: Path
) -> None:
    log.create_topic("t")
    fill(log, 30)
    log.trim("t", 0, 20)
    run = Run(spark, url, tmp_path)
    triggers: list[dict[str, Any]] = [
        {"availableNow": True},
        {"once": True},
        {"processingTime": "0 seconds"},
    ]

    for number, trigger in enumerate(triggers):
        run = Run(spark, url, tmp_path / str(number))
        query = run.start(trigger, startingOffsets="earliest")
        query.processAllAvailable()
        query.stop()
        assert run.batches == [[*range(20, 30)]], trigger

    log.trim("t", 0, 30)
    assert run.available().exception() is None, "it has caught up"
    fill(log, 5, first=30)
    run.available()
    assert run.batches == [[*range(20, 30)], [*range(30, 35)]]
