"""Spark writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import strandline as sl
from strandline.opening import staging_path
from tests.spark.as_sink import numbers_in
from tests.spark.as_spark import fill

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["file"], indirect=True)]

Save = Callable[..., None]


def frame(spark: SparkSession, start: int, end: int) -> DataFrame:
    payload = sql.to_json(sql.struct(sql.col("id").alias("n")))
    key = sql.concat(sql.lit("key "), (sql.col("id") % 5).cast("string"))
    rows = spark.range(start, end, numPartitions=2)
    return rows.select(sql.lit("n").alias("kind"), key.alias("key"), payload.alias("payload"))


def save(rows: DataFrame, url: str, mode: str = "append", **options: Any) -> None:
    writer = rows.write.format("strandline").mode(mode)
    for name, value in {"topic": "t", **options}.items():
        writer = writer.option(name, value)
    writer.save(url)


def test_a_frame_is_appended_and_named_writes_once(
    spark: SparkSession, log: sl.Log, url: str
) -> None:
    log.create_topic("t", partitions=2)
    save(frame(spark, 0, 30), url)
    for _ in range(2):
        save(frame(spark, 30, 50), url, txnAppId="job", txnVersion=1, durability="written")

    assert numbers_in(log) == [*range(50)]
    with pytest.raises(Exception, match="written before with other rows"):
        save(frame(spark, 30, 51), url, txnAppId="job", txnVersion=1)
    save(frame(spark, 50, 51), url, txnAppId="job", txnVersion=2)
    assert numbers_in(log) == [*range(51)]
    assert len([*Path(staging_path(url) or "").iterdir()]) == 1


def test_what_cannot_be_written_is_refused_before_anything_runs(
    spark: SparkSession, log: sl.Log, url: str
) -> None:
    log.create_topic("t")
    rows = frame(spark, 0, 3)
    with pytest.raises(Exception, match="did you mean txnAppId"):
        save(rows, url, txnAppIdd="job")
    with pytest.raises(Exception, match="give both or neither"):
        save(rows, url, txnAppId="job")
    with pytest.raises(Exception, match="only ever appended to"):
        save(rows, url, mode="overwrite")
    with pytest.raises(Exception, match="ErrorIfExists"):
        rows.write.format("strandline").option("topic", "t").save(url)
    with pytest.raises(Exception, match="select those that it has"):
        save(rows.withColumn("n", sql.lit(1)), url)

    assert numbers_in(log) == []


def test_typed_rows_go_round_through_spark(spark: SparkSession, log: sl.Log, url: str) -> None:
    schema = pa.schema(
        [
            ("n", pa.uint64()),
            ("at", pa.timestamp("ms", "Europe/Berlin")),
            ("l", pa.list_(pa.uint8())),
        ]
    )
    scope = log.scope()
    scope.register("a", schema)
    scope.register("t", schema)
    columns = [
        pa.array([2**64 - 1, None], pa.uint64()),
        pa.array([1_700_000_000_123, None]),
        pa.array([[1], []]),
    ]
    batch = pa.record_batch(
        [c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    scope.publish("a", batch)

    save(spark.read.format("strandline").option("subscribe", "a").load(url).coalesce(1), url)

    values: list[Any] = [record.value for record in log.read("t", 0, 0)]
    (found,) = values
    assert found.equals(batch)


class Query:
    """A stream from one topic into another."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self._spark = spark
        self._url = url
        self.checkpoint = folder / "checkpoint"

    def run(self, **options: Any) -> None:
        reader = self._spark.readStream.format("strandline").option("subscribe", "source")
        rows = reader.option("startingOffsets", "earliest").load(self._url)
        writer = rows.writeStream.format("strandline").option("topic", "t")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.trigger(availableNow=True).start(self._url).awaitTermination()

    def lose(self, *logs: str) -> None:
        """Lose the last entry of these logs of the checkpoint."""
        for name in logs:
            entries = [each for each in (self.checkpoint / name).iterdir() if each.name.isdigit()]
            last = max(entries, key=lambda each: int(each.name))
            for path in (last, last.with_name(f".{last.name}.crc")):
                path.unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, log: sl.Log, url: str, tmp_path: Path) -> Query:
    log.create_topic("source")
    log.create_topic("t", partitions=2)
    return Query(spark, url, tmp_path)


def test_a_batch_that_spark_runs_again_is_there_once(query: Query, log: sl.Log) -> None:
    fill(log, 20, "source")
    query.run()
    query.lose("commits")
    fill(log, 20, "source", first=20)
    query.run()

    assert numbers_in(log) == [*range(40)]


def test_a_batch_that_spark_plans_again_with_more_rows_raises_and_loses_nothing(
    query: Query, log: sl.Log
) -> None:
    fill(log, 20, "source")
    query.run()
    query.lose("commits", "offsets")
    fill(log, 20, "source", first=20)

    with pytest.raises(StreamingQueryException, match="written before with other rows"):
        query.run()
    assert numbers_in(log) == [*range(20)]

    query.run(txnAppId="rows may be there twice")
    assert sorted({*numbers_in(log)}) == [*range(40)]


def counts(spark: SparkSession, url: str) -> DataFrame:
    """Return how many records each key of a topic has: a result that changes."""
    reader = spark.readStream.format("strandline").option("subscribe", "source")
    rows = reader.option("startingOffsets", "earliest").load(url)
    made = rows.groupBy("kind").count()
    payload = sql.to_json(sql.struct(sql.col("count").alias("n"))).alias("payload")
    return made.select(sql.lit("count").alias("kind"), sql.col("kind").alias("key"), payload)


def latest(log: sl.Log, topic: str = "t") -> dict[str | None, int]:
    """Return the latest number of each key, as a snapshot or a view has it."""
    return {record.key: record.payload["n"] for record in log.read(topic, 0, 0)}


def test_a_whole_result_is_the_latest_value_of_each_key(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    log.create_topic("source")
    log.create_topic("t")
    for first in (0, 20):
        fill(log, 20 + first, "source", first=first)
        writer = counts(spark, url).writeStream.format("strandline").outputMode("complete")
        writer = writer.options(topic="t", checkpointLocation=str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(url).awaitTermination()

    assert latest(log) == {"even": 30, "odd": 30}
    assert log.marks("t", 0).high == 4


def test_changed_rows_are_written_by_each_batch_under_its_own_number(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    log.create_topic("source")
    log.create_topic("t")

    def upsert(rows: DataFrame, number: int) -> None:
        save(rows, url, txnAppId="counts", txnVersion=number)

    for first in (0, 20):
        fill(log, 20 + first, "source", first=first)
        writer = counts(spark, url).writeStream.outputMode("update").foreachBatch(upsert)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    assert latest(log) == {"even": 30, "odd": 30}
