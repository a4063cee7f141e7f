"""Spark runs the batch."""

import contextlib
import gc
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import strandline as sl
from strandline.spark.source import StrandlineSource
from strandline.tiering import open_store, tier
from tests.spark.as_spark import fill

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["file"], indirect=True)]


def test_the_format_is_there_without_being_registered(
    spark: SparkSession, log: sl.Log, url: str
) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 30)
    fill(log, 10, first=30, partition=1)
    log.append("t", sl.Event("paid", {"n": 40}, key="c", headers={"a": "b"}))

    read = spark.read.format("strandline").option("subscribe", "t").load(url)
    assert read.count() == 41
    paid = read.where("kind = 'paid'").select("key", "payload", "headers", "occurred_at").collect()
    assert paid == [("c", '{"n":40}', {"a": "b"}, None)]

    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW topic USING strandline "
        f"OPTIONS (path '{url}', subscribe 't', columns '_timestamp,kind,_partition')"
    )
    counted = spark.sql("SELECT _partition, count(*) FROM topic GROUP BY 1 ORDER BY 1").collect()
    assert sum(row[1] for row in counted) == 41
    first = spark.sql("SELECT min(_timestamp) FROM topic").collect()[0][0]
    assert isinstance(first, datetime)


def test_a_mistake_is_reported_when_the_frame_is_made(
    spark: SparkSession, log: sl.Log, url: str
) -> None:
    log.create_topic("t")

    with pytest.raises(AnalysisException, match="did you mean includeMetadata"):
        spark.read.format("strandline").option("subscribe", "t").option(
            "includeMetaData_", "true"
        ).load(url)


def test_filters_skip_what_they_leave_out(spark: SparkSession, log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 50)
    fill(log, 50, first=50, partition=1)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        read = (
            spark.read.format("strandline")
            .option("subscribe", "t")
            .option("includeMetadata", "true")
            .option("pushdown", "true")
            .load(url)
        )
        found = read.where((col("_partition") == 1) & (col("_offset") >= 45)).select("payload")
        assert found.rdd.getNumPartitions() == 1
        assert found.count() == 5
        (row,) = read.where("_partition = 0 and _offset = 20").collect()
        stamp = row["_timestamp"]
        assert (
            read.where(col("_timestamp") < stamp).count()
            == read.where(f"_timestamp < timestamp '{stamp}'").count()
        )
        assert read.where("_timestamp >= '2200-01-01'").count() == 0
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_hot_and_cold_read_as_one(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    log.create_topic("t")
    fill(log, 40)
    store = open_store(f"file://{tmp_path / 'cold'}")
    tier(log, "t", store, include_open=True, local_bytes=0, piece_records=15)
    fill(log, 10, first=40)

    read = spark.read.format("strandline").option("subscribe", "t").load(url)

    assert sorted(row.payload for row in read.select("payload").collect()) == sorted(
        f'{{"n":{n}}}' for n in range(50)
    )


def test_a_worker_that_has_read_leaves_its_imports_out_of_later_collections(
    spark: SparkSession, log: sl.Log, url: str
) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"objects": [gc.get_freeze_count()]})

    log.create_topic("t")
    fill(log, 30)
    before = gc.get_freeze_count()
    assert spark.read.format("strandline").option("subscribe", "t").load(url).count() == 30

    rows = spark.range(4, numPartitions=4).mapInArrow(frozen, "objects long").collect()

    assert max(row.objects for row in rows) > 10_000
    assert gc.get_freeze_count() <= before, "of the driver's process nothing is"


def acknowledging(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield whether this process acknowledges at once what it receives over TCP."""
    option = socket.TCP_QUICKACK
    found = []
    for number in range(32):
        with contextlib.suppress(OSError):
            connection = socket.socket(fileno=number)
            try:
                found.append(bool(connection.getsockopt(socket.IPPROTO_TCP, option)))
            finally:
                connection.detach()
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"at_once": [all(found)]})


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has the option")
@pytest.mark.parametrize("side", ["reader", "stream_reader", "writer", "stream_writer"])
def test_a_worker_that_is_used_again_acknowledges_its_task_without_delay(
    spark: SparkSession, log: sl.Log, url: str, side: str
) -> None:
    log.create_topic("t")
    source = StrandlineSource({"path": url, "subscribe" if "reader" in side else "topic": "t"})
    rows = StrandlineSource({"path": url, "subscribe": "t"}).schema()
    makers: dict[str, Callable[[], object]] = {
        "reader": lambda: source.reader(rows),
        "stream_reader": lambda: source.streamReader(rows),
        "writer": lambda: source.writer(rows, overwrite=False),
        "stream_writer": lambda: source.streamWriter(rows, overwrite=False),
    }
    made = makers[side]()

    def with_source(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert made is not None  # Each task gets a copy.
        return acknowledging(batches)

    for _ in range(6):
        spark.range(1, numPartitions=1).mapInArrow(acknowledging, "at_once boolean").collect()
    seen = spark.range(1, numPartitions=1).mapInArrow(with_source, "at_once boolean").collect()

    assert [row.at_once for row in seen] == [True]
