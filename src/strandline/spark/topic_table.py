"""A topic as one DataFrame: Spark's Parquet reader reads its tier, the source the rest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strandline.values.extras import needing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table(
    spark: "SparkSession",
    url: str,
    topic: str,
    *,
    tenant: str | None = None,
    columns: Sequence[str] | None = None,
    include_metadata: bool = False,
) -> "DataFrame":
    """Return the current records of the topic, with the columns of `format("strandline")`.

    `tenant`, `columns` and `include_metadata` mean the same as the options of these names.
    If Spark can read the object store of the tier, it reads the tier's objects as any Parquet,
    with its pruning and push-down. For an S3-compatible store Spark needs the jar hadoop-aws
    and its own `fs.s3a` settings; without them the source reads the tier as well, which is
    slower, and logs a warning. InvalidError as for the source.
    """
    with needing("PySpark", "spark"):
        from strandline.spark.two_halves import united  # noqa: PLC0415 # An extra.
    options = {"path": url, "subscribe": topic}
    if tenant is not None:
        options["tenant"] = tenant
    if columns is not None:
        options["columns"] = ",".join(columns)
    if include_metadata:
        options["includeMetadata"] = "true"
    return united(spark, options)
