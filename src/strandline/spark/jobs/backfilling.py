"""Appends the rows of files to a topic."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from strandline.io import SystemIo
from strandline.spark.causes import root_cause
from strandline.spark.file_paths import (
    has_wildcard,
    literal_path,
    one_file_path,
    wildcard_path,
)
from strandline.spark.jobs.expressions import query
from strandline.spark.jobs.flowing import FlowReport, flow, log_id, sink_options
from strandline.spark.jobs.kept_terms import KeptTerms
from strandline.spark.jobs.progress import Progress
from strandline.values import InvalidError
from strandline.values.arguments import check_instance, check_path, check_text, check_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

InputFormat = Literal["parquet", "csv", "json"]

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "parquet": {},
    # Types are not guessed: 007 stays a text.
    # A quote in a text is doubled, and a line may end in a text, as other programs write them.
    "csv": {"header": "true", "enforceSchema": "false", "escape": '"', "multiLine": "true"},
    "json": {},
}
_BATCH_FILES: Final = 16
#: How many files an error names.
_NAMED_MAX: Final = 5

#: How a URL of local files begins.
_LOCAL_FILES = "file://"


def backfill(
    spark: "SparkSession",
    files: str | os.PathLike[str],
    url: str | None,
    topic: str,
    *,
    checkpoint: str | os.PathLike[str],
    file_format: InputFormat = "parquet",
    schema: "str | StructType" = "",
    select: str = "",
    tenant: str | None = None,
    batch_files: int = _BATCH_FILES,
    staging: str | None = None,
    progress: Progress | None = None,
) -> FlowReport:
    """Append the rows of files to a topic, each row once: a folder, one file, or a pattern.

    In a pattern `*` and `?` are wildcards, unless a file of exactly this name exists; no
    other character is special. In a folder, all files below it are read, except those that
    begin with `_` or `.`; folders such as `day=2026-01-02` become columns. InvalidError for a
    folder that has such folders and also files outside of them. CSV files must all have the same
    header, and their columns are strings; JSON has one document on each line. `schema` names
    the columns and their types, as in `id BIGINT, name STRING`; a value that does not fit fails
    the job. Without it, JSON and Parquet files determine the schema. `select` is a list of
    columns in Spark SQL that computes the topic's columns from those of the files; without it
    they are written unchanged. The checkpoint, a folder, belongs to this backfill only and
    records which files were read: the next run continues one that was stopped or killed, and
    adds new files. A file that was read must not change. InvalidError if a checkpoint on this
    machine was begun with another log, topic or `select`. `staging` is the option
    `stagingLocation` of the sink.
    """
    chosen, select = check_text("file_format", file_format), check_text("select", select)
    checkpoint, batch_files = (
        check_path("checkpoint", checkpoint),
        check_whole("batch_files", batch_files, 1),
    )
    if chosen not in _OPTIONS:
        raise InvalidError("a format is parquet, csv or json", file_format=file_format)
    path, options = _chosen(_located(files))
    options |= _OPTIONS[file_format]
    schema = _checked_schema(schema)
    if schema:
        options["mode"] = "FAILFAST"
    found = _schema(spark, path, file_format, options, schema)
    reader = spark.readStream.format(file_format).schema(found).options(**options)
    rows = reader.option("maxFilesPerTrigger", str(batch_files)).load(path)
    if select.strip():
        rows = query(rows, select)
    place = sink_options(url, topic, tenant, staging)
    terms: dict[str, str | None] = {
        "log": log_id(place),
        "target": topic,
        "tenant": tenant,
        "select": select,
    }
    KeptTerms(checkpoint, "backfill", **terms).keep()
    return flow(rows, place, checkpoint, progress)


def _checked_schema(given: object) -> "str | StructType":
    from pyspark.sql.types import StructType  # noqa: PLC0415 # An extra.

    if isinstance(given, str):
        return check_text("schema", given)
    return check_instance("schema", given, StructType)


def _located(files: str | os.PathLike[str]) -> str:
    path = check_path("files", files)
    # The rest of a URL of local files is a plain path: Spark does not decode it.
    path = path.removeprefix(_LOCAL_FILES)
    return path if "://" in path else os.path.abspath(path)


def _chosen(path: str) -> tuple[str, dict[str, Any]]:
    """Return the path for Spark to load, and the options for it."""
    io = SystemIo()
    if not io.exists(path):
        return (wildcard_path if has_wildcard(path) else literal_path)(path), {}
    if not io.stat(path).is_directory:
        return one_file_path(path), {}
    literal = literal_path(path)
    if not _has_columns(io, path):
        # Without it Spark looks into no folder below.
        return literal, {"recursiveFileLookup": "true"}
    # Below what Spark takes for a pattern it would not look for partitions.
    return literal, {} if literal == path else {"basePath": path}


def _has_columns(io: SystemIo, folder: str) -> bool:
    """Whether folders are columns; InvalidError for files outside of them, which Spark skips."""
    beside, within = [], False
    for found in _files(io, folder):
        if "=" in os.path.relpath(os.path.dirname(found), folder):
            within = True
        else:
            beside.append(os.path.relpath(found, folder))
    if within and beside:
        raise InvalidError(
            "Spark reads a folder's files or those in folders such as a=1, not both; move these"
            " to a folder of their own",
            folder=folder,
            files=beside[:_NAMED_MAX],
            count=len(beside),
        )
    return within


def _files(io: SystemIo, folder: str) -> Iterator[str]:
    """Yield the files that Spark would see."""
    for name in io.list(folder):
        path = os.path.join(folder, name)
        if name.startswith(".") or (name.startswith("_") and "=" not in name):
            continue
        if io.stat(path).is_directory:
            yield from _files(io, path)
        else:
            yield path


def _schema(
    spark: "SparkSession",
    path: str,
    file_format: str,
    options: dict[str, Any],
    given: "str | StructType",
) -> Any:
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 # An extra.

    # With multiLine Spark takes names for patterns here; a header is one line.
    reader = spark.read.format(file_format).options(**options | {"multiLine": "false"})
    try:
        return (reader.schema(given) if given else reader).load(path).schema
    except ParseException as error:
        reason = root_cause(str(error))
        raise InvalidError("this is no schema", schema=given, reason=reason) from error
    except AnalysisException as error:
        reason = root_cause(str(error))
        is_there = error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
        what = "Spark does not read these files" if is_there else "there are no such files"
        raise InvalidError(what, files=path, reason=reason) from error
