"""`spark.kafka.*`: a `file:` log beside Kafka with Spark's own connector, on this machine.

Ours writes exactly once and durably; the connector at least once, into a broker with its own
defaults, which syncs nothing.
"""

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.sizes import Sizes
from benchmarks.spark import session
from benchmarks.spark_sink import made_rows
from benchmarks.stores.kafka import server
from tools.kafka_jars import are_there, connector_is_there

PARTITIONS = 2

_numbers = itertools.count()


def reading(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a batch read of key, value and all else that a row of Kafka has."""
    spark = session(scratch.parent)
    rows = made_rows(spark, events)
    url, topic = _new_log(scratch), _new_topic()
    _to_ours(rows, url)
    _to_kafka(rows, topic)
    ours = spark.read.format("strandline").option("subscribe", "events")
    ours = ours.option("valueFormat", "kafka")
    kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", server().address)
    kafka = kafka.option("subscribe", topic)
    return {
        "ours": partial(_read, partial(ours.load, url), events),
        "kafka": partial(_read, kafka.load, events),
    }


def _read(frame: Any, events: int) -> float:
    started = now()
    rows: DataFrame = frame()
    assert rows.where("length(key) > 0 and length(value) > 0").count() == events
    return events / (now() - started)


def writing(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a batch write of rows that Spark holds in memory, each time into a new topic."""
    rows = made_rows(session(scratch.parent), events)
    return {
        "ours": partial(_written, rows, events, partial(_ours_anew, scratch)),
        "kafka": partial(_written, rows, events, _kafka_anew),
    }


def _written(rows: DataFrame, events: int, prepare: Any) -> float:
    write = prepare()
    started = now()
    write(rows)
    return events / (now() - started)


def _ours_anew(scratch: Path) -> Any:
    url = _new_log(scratch)
    return lambda rows: _to_ours(rows, url)


def _kafka_anew() -> Any:
    topic = _new_topic()
    return lambda rows: _to_kafka(rows, topic)


def _to_ours(rows: DataFrame, url: str) -> None:
    rows.write.format("strandline").option("topic", "events").mode("append").save(url)


def _to_kafka(rows: DataFrame, topic: str) -> None:
    named = rows.selectExpr("key", "payload AS value").write.format("kafka")
    named.option("kafka.bootstrap.servers", server().address).option("topic", topic).save()


def _new_log(scratch: Path) -> str:
    url = f"file:{scratch / f'log-{next(_numbers)}'}"
    with sl.open(url) as log:
        log.create_topic("events", partitions=PARTITIONS)
    return url


def _new_topic() -> str:
    name = f"spark-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": server().address})
    for each in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        each.result(30)
    return name


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries, which need the jars of Kafka and of the connector."""
    jars = "no jars, run python -m tools.kafka_jars, also with connector"
    missing = None if are_there() and connector_is_there() else jars
    return (
        Entry(
            name="spark.kafka.read",
            unit="rows/s",
            contenders=partial(reading, events=sizes.spark_events),
            bars={"kafka": 2.0},
            missing=missing,
        ),
        Entry(
            name="spark.kafka.write",
            unit="rows/s",
            contenders=partial(writing, events=sizes.spark_events),
            bars={"kafka": 2.0},
            missing=missing,
        ),
    )
