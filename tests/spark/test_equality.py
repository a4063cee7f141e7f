"""Spark reads the same rows as DuckDB, polars and delta-rs during tiering, with kills."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.tiering.delta import equality

pytestmark = pytest.mark.heavy


def test_spark_has_the_rows_of_the_others(tmp_path: Path, spark: SparkSession) -> None:
    def by_spark(folder: Path, version: int) -> list[Any]:
        """Read the files of a version: Delta's own reader needs its jar."""
        (root,) = (folder / "cold" / "-global").glob("t-*")
        files = DeltaTable(root, version=version).file_uris()
        # The schema of the widest file is that of all.
        rows = spark.read.option("mergeSchema", "true").parquet(*files).toArrow().to_pylist()
        return sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))

    assert equality.run(tmp_path, 2, {"Spark": by_spark}) > 100
