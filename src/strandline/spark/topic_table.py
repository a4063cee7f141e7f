"""A topic as one DataFrame: its tier by Spark's own Parquet reader, the rest by ours."""

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
    """Return what the topic holds at this moment, with the columns of `format("strandline")`.

    `tenant`, `columns` and `include_metadata` mean what the options of the same names do.
    What the tier holds is read as any Parquet, with Spark's pruning and push-down, if this
    Spark reaches the store by itself. An S3-compatible one it reaches with the jar
    hadoop-aws and its own `fs.s3a` settings; without, the source reads that part as well,
    which is slower, and logs a warning. InvalidError as for the source.
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
