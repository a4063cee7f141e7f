"""`spark.sink`: rows into a topic, exactly once, beside Spark writing them as Parquet."""

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.sizes import Sizes
from benchmarks.spark import session

_numbers = itertools.count()


def sinks(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a batch write of rows that Spark holds in memory, each time into a new place."""
    rows = made_rows(session(scratch.parent), events)
    return {
        "ours": partial(_append, rows, scratch, events),
        "parquet": partial(_write, rows, scratch, events),
    }


def made_rows(spark: SparkSession, events: int) -> DataFrame:
    """Return so many rows of events, in Spark's memory."""
    made = spark.range(events, numPartitions=2).selectExpr(
        "'order.created' AS kind",
        "concat('customer-', id % 1000) AS key",
        "to_json(named_struct('id', id, 'amount', id * 0.25D, 'note', repeat('n', 40))) AS payload",
    )
    cached = made.cache()
    cached.count()
    return cached


def _append(rows: DataFrame, scratch: Path, events: int) -> float:
    url = f"file:{scratch / f'log-{next(_numbers)}'}"
    with sl.open(url) as log:
        log.create_topic("events")
        started = now()
        rows.write.format("strandline").option("topic", "events").mode("append").save(url)
        elapsed_s = now() - started
        assert log.marks("events", 0).durable == events
    return events / elapsed_s


def _write(rows: DataFrame, scratch: Path, events: int) -> float:
    path = str(scratch / f"parquet-{next(_numbers)}")
    started = now()
    rows.write.option("compression", "zstd").parquet(path)
    return events / (now() - started)


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entry, with rounds of these sizes."""
    return (
        Entry(
            name="spark.sink",
            unit="rows/s",
            contenders=partial(sinks, events=sizes.spark_events),
            bars={"parquet": 0.7},
            rounds=5,
        ),
    )
