"""The Spark that a command runs on."""

import contextlib
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory  # noqa: TID251 For what Spark puts aside, which is not ours.
from typing import Annotated, Any, TypeAlias

import typer

Master: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="URL", help="Where Spark runs: local[*] is this machine, spark://host:7077 others."
    ),
]
LOCAL = "local[*]"


@contextlib.contextmanager
def session(master: str) -> Iterator[Any]:
    """Start Spark, and end it; a session that this process has already is used and left."""
    from strandline.spark import local_session  # noqa: PLC0415 Takes long to import.

    with TemporaryDirectory(prefix="strandline-spark-") as folder:
        is_ours = not _has_session()
        spark = local_session(folder, master=master)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            if is_ours:
                spark.stop()


def _has_session() -> bool:
    loaded = sys.modules.get("pyspark.sql")
    return loaded is not None and loaded.SparkSession.getActiveSession() is not None
