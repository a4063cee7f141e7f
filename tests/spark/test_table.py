"""`table`: the tier read by Spark itself, and the tail by us, as one frame."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

import strandline as sl
from strandline.spark import table
from strandline.tiering import open_store, tier
from tests.spark.as_spark import fill

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["file"], indirect=True)]


def move(log: Any, folder: Path, topic: str = "t", **options: Any) -> None:
    """Copy everything to the tier in small objects, and evict it."""
    store = open_store(f"file://{folder / 'cold%20store [1] {a,b}'}")
    tier(log, topic, store, include_open=True, piece_records=15, **{"local_bytes": 0, **options})


def shown(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=repr)


def by_source(spark: SparkSession, url: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("strandline").option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(url)


def test_both_halves_are_what_the_source_reads(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 40)
    for number in range(10):
        log.append(
            "t",
            sl.Event("k", {"é": number}, key=f"c{number}", headers={"a": "1", "q": '"'}),
            partition=1,
            tenant="acme" if number % 2 else None,
        )
    move(log, tmp_path)
    fill(log, 7, first=40)

    whole = table(spark, url, "t", include_metadata=True)
    by_us = by_source(spark, url, "t", includeMetadata="true")

    assert whole.schema == by_us.schema
    assert shown(whole) == shown(by_us)
    assert whole.count() == 57
    assert len(whole.inputFiles()) == 4
    narrow = table(spark, url, "t", columns=["_offset", "kind"], tenant="acme")
    assert shown(narrow) == shown(by_source(spark, url, "t", columns="_offset,kind", tenant="acme"))
    plan = whole.where("_offset > 30 and kind = 'odd'")._jdf.queryExecution().toString()  # noqa: SLF001
    assert "GreaterThan(_offset,30)" in plan
    assert "EqualTo(kind,odd)" in plan

    log.trim("t", 0, 20)
    trimmed = table(spark, url, "t", columns=["_partition", "_offset"])
    assert shown(trimmed) == shown(by_source(spark, url, "t", columns="_partition,_offset"))


def test_a_frame_stands_still(spark: SparkSession, log: sl.Log, url: str, tmp_path: Path) -> None:
    """The log grows, and the tail moves to the tier, after the frame was made."""
    log.create_topic("t")
    fill(log, 30)
    move(log, tmp_path)
    fill(log, 10, first=30)
    frame = table(spark, url, "t", columns=["_offset"])

    fill(log, 10, first=40)
    move(log, tmp_path)

    assert sorted(row[0] for row in frame.collect()) == [*range(40)]


def test_typed_topics_read_natively_over_versions(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    old = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("u", pa.uint64())])
    new = pa.schema([("id", pa.int64()), *list(old)[1:], ("note", pa.string())])
    scope = log.scope()
    scope.register("typed", old)
    scope.publish(
        "typed",
        pa.RecordBatch.from_pydict({"id": [1, 2], "at": [5, None], "u": [2**63, 0]}, schema=old),
    )
    move(log, tmp_path, "typed")
    scope.evolve("typed", new)
    rows = {"id": [2**40], "at": [6], "u": [1], "note": ["n"]}
    scope.publish("typed", pa.RecordBatch.from_pydict(rows, schema=new))
    move(log, tmp_path, "typed")
    scope.publish("typed", pa.RecordBatch.from_pydict({**rows, "id": [9]}, schema=new))

    whole = table(spark, url, "typed", include_metadata=True)
    by_us = by_source(spark, url, "typed", includeMetadata="true")

    assert len(whole.inputFiles()) == 2
    assert whole.schema == by_us.schema
    assert shown(whole) == shown(by_us)
    assert whole.count() == 4


def test_versions_in_turns_are_one_object_that_spark_reads_natively(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    old = pa.schema([("id", pa.int32()), ("l", pa.list_(pa.field("i", pa.int8(), nullable=False)))])
    new = pa.schema([("id", pa.int64()), old.field("l"), ("note", pa.string())])
    scope = log.scope()
    scope.register("turns", old)
    scope.evolve("turns", new)
    for number in range(3):
        low = {"id": [number], "l": [[number]]}
        scope.publish("turns", pa.RecordBatch.from_pydict(low, schema=old))
        high = {"id": [2**40 + number], "l": [None], "note": ["n"]}
        scope.publish("turns", pa.RecordBatch.from_pydict(high, schema=new))
    move(log, tmp_path, "turns")
    scope.publish("turns", pa.RecordBatch.from_pydict({"id": [9], "l": [[9]]}, schema=old))

    whole = table(spark, url, "turns", include_metadata=True)
    by_us = by_source(spark, url, "turns", includeMetadata="true")

    assert len(whole.inputFiles()) == 1
    assert whole.schema == by_us.schema
    assert shown(whole) == shown(by_us)
    assert sorted(row.id for row in whole.where("id < 100").collect()) == [0, 1, 2, 9]
    assert sorted(row.id for row in by_us.where("note IS NULL").collect()) == [0, 1, 2, 9]
    assert by_us.where("id > 1099511627776").count() == 2


def test_what_spark_cannot_read_goes_through_the_source(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    halves = pa.schema([("half", pa.float16())])
    log.scope().register("halves", halves)
    log.scope().publish(
        "halves", pa.RecordBatch.from_arrays([pa.array([0.5], pa.float16())], schema=halves)
    )
    log.create_topic("loose", value_kind=sl.ValueKind.BATCH)
    log.append("loose", pa.RecordBatch.from_pydict({"a": [1]}))
    for topic in ("halves", "loose"):
        move(log, tmp_path, topic)

    assert table(spark, url, "halves").collect() == [(0.5,)]
    assert table(spark, url, "loose").collect() == [(1,)]
    assert table(spark, url, "loose").inputFiles() == []


def test_a_flipped_bit_in_a_page_of_the_tier_is_an_error(
    spark: SparkSession, log: sl.Log, url: str, tmp_path: Path
) -> None:
    log.create_topic("t")
    fill(log, 15)
    move(log, tmp_path)
    (stored,) = tmp_path.rglob("*.parquet")
    content = stored.read_bytes()
    chunk = parquet.ParquetFile(stored).metadata.row_group(0).column(8)
    assert chunk.path_in_schema == "payload"
    at = chunk.data_page_offset + chunk.total_compressed_size - 3
    stored.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])

    assert table(spark, url, "t", columns=["_offset"]).count() == 15
    with pytest.raises(Py4JJavaError, match="CRC checksum verification failed"):
        table(spark, url, "t", columns=["payload"]).collect()


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_tier_in_s3_goes_through_the_source_where_spark_has_no_means(
    bucket: str, log: sl.Log, url: str, tmp_path: Path
) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 40)
    fill(log, 10, first=40, partition=1)
    tier(log, "t", open_store(bucket), include_open=True, piece_records=15, local_bytes=0)
    fill(log, 7, first=50)
    # A session of its own, in a separate process: where the store is, workers know from
    # the environment that Spark was started with.
    script = f"""
from strandline.spark import local_session, table
spark = local_session({str(tmp_path)!r})
whole = table(spark, {url!r}, "t", columns=["_partition", "_offset", "payload"])
assert whole.inputFiles() == []
print(sorted(map(tuple, whole.collect())))
assert table(spark, {url!r}, "t").where("kind = 'odd'").count() == 28
spark.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 0, done.stderr
    expected = [
        (number, record.offset, f'{{"n":{record.payload["n"]}}}')
        for number in range(2)
        for record in log.read("t", number, 0)
    ]
    assert done.stdout.splitlines()[-1] == repr(sorted(expected))
    assert "hadoop-aws" in done.stderr
