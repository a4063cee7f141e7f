"""The pipeline that `strandline pipeline init` writes."""

import os
from typing import Final

import msgspec

from strandline.io import SystemIo, real_path
from strandline.spark.pipelines.specification import NAMES, check_place
from strandline.values import InvalidError, UnavailableError
from strandline.values.arguments import check_path

_SPEC: Final = """\
name: {name}
# Checkpoints. Deleting them reads all topics again, and writes all rows once more.
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""

_TRANSFORMATIONS: Final = '''\
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
    """A view that each run makes again."""
    totals = (f.sum("amount").alias("amount"), f.count("*").alias("orders"))
    return spark.read.table("orders").groupBy("key").agg(*totals)


dp.create_sink("large_orders", "strandline", {"topic": "large_orders"})


@dp.append_flow(target="large_orders")
def find_large_orders() -> DataFrame:
    """Rows become events of the topic, each once."""
    large = spark.readStream.table("orders").where("amount >= 100")
    payload = f.to_json(f.struct("amount")).alias("payload")
    return large.select(f.lit("order.large").alias("kind"), "key", payload)
'''


def init(folder: str | os.PathLike[str]) -> str:
    """Write a pipeline into a new or empty folder, and return the path of its specification.

    It makes a table of the topic `orders`, a view of that, and writes to the topic
    `large_orders`. InvalidError if something is there already.
    """
    io, found = SystemIo(), real_path(check_path("folder", folder))
    check_place(found)
    try:
        return _written(io, found)
    except OSError as error:
        raise UnavailableError(
            "the folder cannot be written, fix what the reason names and try again",
            folder=found,
            reason=error.strerror or str(error),
        ) from error


def _written(io: SystemIo, found: str) -> str:
    if io.exists(found) and io.list(found):
        raise InvalidError("this folder is not empty, choose another", folder=found)
    for path in (found, os.path.join(found, "transformations")):
        if not io.exists(path):
            io.mkdir(path)
    spec = os.path.join(found, NAMES[0])
    values = {"name": os.path.basename(found), "storage": f"file://{found}/storage"}
    # A text in JSON is one in YAML, whatever characters the folder's name has.
    quoted = {name: msgspec.json.encode(text).decode() for name, text in values.items()}
    _write(io, spec, _SPEC.format(**quoted))
    _write(io, os.path.join(found, "transformations", "orders.py"), _TRANSFORMATIONS)
    return spec


def _write(io: SystemIo, path: str, text: str) -> None:
    fd = io.open(path, "create_new")
    try:
        io.pwrite(fd, text.encode(), 0)
    finally:
        io.close(fd)
