"""The Spark driver, a process of its own that may die: `-m examples.demo.pipeline <folder>`.

Two streams: orders joined with their payments become the topic `paid`, exactly once;
`paid` summed by hour and country becomes a table of Parquet. When everything has been
offered, both are run to their end, and all of the topic is counted as a table.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.demo.pipeline_files import ALL_OFFERED, COUNTED, JOINING, READY, REVENUE, SUMMING
from examples.demo.plan import MICRO_BATCHES, PAID, SHOP, Plan
from strandline.spark import local_session, table
from strandline.spark.listener import ConsumerListener

EVERY = {JOINING: "500 milliseconds", SUMMING: "5 seconds"}

_ORDER = "id string, order long, country string, cents long"
_PAYMENT = "id string, order long, cents long"
# A whole day lies between two readers of whom one was held up: nothing of it is too late.
_PATIENCE = "2 days"


def main(folder: str) -> None:
    """Run both streams until all was offered, then to their end."""
    plan = Plan.load(folder)
    os.makedirs(plan.path("spark"), exist_ok=True)
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = local_session(plan.path("spark"), name="shop", java_options=quick)
    spark.sparkContext.setLogLevel("ERROR")
    spark.streams.addListener(ConsumerListener())
    streams = {JOINING: joining(spark, plan), SUMMING: summing(spark, plan)}
    if not os.path.exists(plan.path(ALL_OFFERED)):
        run_live(streams, plan)
    for name, stream in streams.items():
        started(stream, plan, name, every=None).awaitTermination()
    counts = {row["kind"]: row["count"] for row in counted(spark, plan).collect()}
    Path(plan.path(COUNTED)).write_text(json.dumps(counts), encoding="utf-8")
    spark.stop()


def run_live(streams: Mapping[str, DataStreamWriter], plan: Plan) -> None:
    """Run the streams as long as events are offered and the demo runs."""
    parent = os.getppid()
    running = [started(stream, plan, name, every=EVERY[name]) for name, stream in streams.items()]
    Path(plan.path(READY)).touch()
    while not os.path.exists(plan.path(ALL_OFFERED)):
        time.sleep(0.2)
        if os.getppid() != parent:
            raise SystemExit("the demo no longer waits for this")
        for query in running:
            failure = query.exception()
            if failure is not None:
                raise failure
    for query in running:
        query.stop()


def started(
    stream: DataStreamWriter, plan: Plan, name: str, *, every: str | None
) -> StreamingQuery:
    """Start a stream where its checkpoint says; for ever, or to the end of what there is."""
    stream = stream.option("checkpointLocation", plan.path("checkpoints", name))
    if every is None:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=every).start()


def events(spark: SparkSession, plan: Plan, topic: str, group: str, **options: str) -> DataFrame:
    """Return a topic as a stream from its first record on."""
    reader = spark.readStream.format("strandline").option("startingOffsets", "earliest")
    reader = reader.options(subscribe=topic, groupId=group, **options)
    return reader.load(plan.url)


def of_kind(spark: SparkSession, plan: Plan, kind: str, schema: str) -> DataFrame:
    """Return one kind of the shop's events, with the fields of the payload."""
    limit = str(max(1, plan.events // MICRO_BATCHES))
    group = f"spark {kind}"
    found = events(
        *(spark, plan, SHOP, group), predicate=f"kind = '{kind}'", maxOffsetsPerTrigger=limit
    )
    return found.select(
        f.from_json("payload", schema).alias("it"), f.col("key").alias("customer"), "occurred_at"
    ).where("it.cents IS NOT NULL")


def joining(spark: SparkSession, plan: Plan) -> DataStreamWriter:
    """Orders with their payments, within an hour of each other, as events of `paid`."""
    orders = (
        of_kind(spark, plan, "order.placed", _ORDER)
        .select("it.order", "it.country", f.col("occurred_at").alias("placed_at"))
        .withWatermark("placed_at", _PATIENCE)
    )
    payments = (
        of_kind(spark, plan, "payment.captured", _PAYMENT)
        .select(
            f.col("it.order").alias("paid_order"),
            "it.cents",
            "customer",
            f.col("occurred_at").alias("paid_at"),
        )
        .withWatermark("paid_at", _PATIENCE)
    )
    joined = orders.join(
        payments,
        f.expr(
            "order = paid_order AND paid_at >= placed_at AND paid_at < placed_at + INTERVAL 1 HOUR"
        ),
    )
    rows = joined.select(
        f.lit("order.paid").alias("kind"),
        f.col("customer").alias("key"),
        f.to_json(f.struct("order", "country", "cents")).alias("payload"),
        f.col("paid_at").alias("occurred_at"),
    )
    writer = rows.writeStream.format("strandline").option("path", plan.url)
    return writer.options(topic=PAID, **plan.staging)


def summing(spark: SparkSession, plan: Plan) -> DataStreamWriter:
    """What was paid, by hour and country: a table that is written again with each micro-batch."""
    paid = events(spark, plan, PAID, "spark sums").select(
        f.from_json("payload", "country string, cents long").alias("it"), "occurred_at"
    )
    sums = (
        paid.groupBy(f.window("occurred_at", "1 hour"), "it.country")
        .agg(f.sum("it.cents").alias("cents"), f.count("*").alias("orders"))
        .select(f.col("window.start").alias("hour"), "country", "cents", "orders")
    )

    def write(rows: DataFrame, number: int) -> None:
        del number
        rows.coalesce(1).write.mode("overwrite").parquet(plan.path(REVENUE))

    return sums.writeStream.outputMode("complete").foreachBatch(write)


def counted(spark: SparkSession, plan: Plan) -> DataFrame:
    """Count the topic as a table: the tier's Parquet, and what is still in the log."""
    return table(spark, plan.url, SHOP).groupBy("kind").count()


if __name__ == "__main__":
    main(sys.argv[1])
