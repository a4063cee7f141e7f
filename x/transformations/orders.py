"""Orders from a topic, what each customer has spent, and large orders back in a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """A streaming table: each run adds what the topic has got since the last."""
    events = (
        spark.readStream.format("strandline")
        .options(subscribe="orders", startingOffsets="earliest")
        .load()
    )
    amount = f.get_json_object("payload", "$.amount").cast("double")
    return events.select("key", amount.alias("amount"), "occurred_at")


@dp.materialized_view
def spent() -> DataFrame:
    """A view that each run makes anew."""
    totals = (f.sum("amount").alias("amount"), f.count("*").alias("orders"))
    return spark.read.table("orders").groupBy("key").agg(*totals)


dp.create_sink("large_orders", "strandline", {"topic": "large_orders"})


@dp.append_flow(target="large_orders")
def find_large_orders() -> DataFrame:
    """Rows become events of the topic, each once."""
    large = spark.readStream.table("orders").where("amount >= 100")
    payload = f.to_json(f.struct("amount")).alias("payload")
    return large.select(f.lit("order.large").alias("kind"), "key", payload)
