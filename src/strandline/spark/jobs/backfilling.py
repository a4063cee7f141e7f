"""Files made into records of a topic."""

import os
from typing import TYPE_CHECKING, Any, Final, Literal

from strandline.io import SystemIo
from strandline.spark.jobs.expressions import query
from strandline.spark.jobs.flowing import FlowReport, flow
from strandline.spark.jobs.tasks import Progress
from strandline.spark.log_url import absolute_url
from strandline.values import InvalidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

InputFormat = Literal["parquet", "csv", "json"]

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "parquet": {},
    "csv": {"header": "true", "inferSchema": "true"},
    "json": {},
}
_BATCH_FILES: Final = 16


def backfill(
    spark: "SparkSession",
    files: str | os.PathLike[str],
    url: str | None,
    topic: str,
    *,
    checkpoint: str | os.PathLike[str],
    file_format: InputFormat = "parquet",
    select: str = "",
    tenant: str | None = None,
    batch_files: int = _BATCH_FILES,
    progress: Progress | None = None,
) -> FlowReport:
    """Append the rows of files to a topic, each row once: a folder, one file, or a pattern.

    CSV has a header, JSON a document on each line. `select` is a list of columns in Spark
    SQL that makes the topic's columns of those in the files; without it they are written as
    they are. The checkpoint, a folder, belongs to this backfill alone, and knows which
    files were taken: a run that was stopped or killed goes on, and files that came since
    are added. A file that was taken must not change.
    """
    if file_format not in _OPTIONS:
        raise InvalidError("a format is parquet, csv or json", file_format=file_format)
    path, options = _located(files), dict(_OPTIONS[file_format])
    if SystemIo().exists(path) and not SystemIo().stat(path).is_directory:
        # A stream reads folders.
        options["pathGlobFilter"] = os.path.basename(path)
        path = os.path.dirname(path)
    schema = _schema(spark, path, file_format, options)
    reader = spark.readStream.format(file_format).schema(schema).options(**options)
    rows = reader.option("maxFilesPerTrigger", str(batch_files)).load(path)
    if select.strip():
        rows = query(rows, select, "select")
    target = {"path": absolute_url(url), "topic": topic}
    if tenant is not None:
        target["tenant"] = tenant
    return flow(rows, target, checkpoint, progress)


def _located(files: str | os.PathLike[str]) -> str:
    path = os.fspath(files)
    return path if "://" in path else os.path.abspath(path)


def _schema(spark: "SparkSession", path: str, file_format: str, options: dict[str, Any]) -> Any:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 # An extra.

    try:
        return spark.read.format(file_format).options(**options).load(path).schema
    except AnalysisException as error:
        reason = str(error).splitlines()[0]
        raise InvalidError("there are no such files", files=path, reason=reason) from error
