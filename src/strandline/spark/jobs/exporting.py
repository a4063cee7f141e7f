"""Topics as folders of files: all their records, or the latest of each key."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from strandline.spark.jobs.cut import Cut, cut_of
from strandline.spark.jobs.expressions import condition
from strandline.spark.jobs.progress import Progress, Stopwatch, per_second, reporting, rows_read
from strandline.spark.jobs.published_folder import FileFormat, PublishedFolder, covered_by
from strandline.spark.jobs.tasks import context_of
from strandline.spark.log_urls import spark_url
from strandline.values import InvalidError, UnavailableError
from strandline.values.arguments import check_path, check_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LATEST = (
    "rank() OVER (PARTITION BY `_key` "
    "ORDER BY `_timestamp` DESC, `_partition` DESC, `_offset` DESC) AS `__rank`"
)


@dataclass(frozen=True, slots=True)
class FolderReport:
    """The result of a job that writes a folder."""

    folder: str
    offsets: Mapping[int, tuple[int, int]]
    """[start, end) of each partition: the records that it covers."""
    records: int
    """The number of records that were read."""
    rows: int
    """The number of rows in the folder."""
    is_repeat: bool
    """Whether an earlier run has written the folder already."""
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Records read per second; 0 if an earlier run has written the folder."""
        return 0.0 if self.is_repeat else per_second(self.records, self.seconds)


def export(
    spark: "SparkSession",
    url: str | None,
    topic: str,
    folder: str | os.PathLike[str],
    *,
    where: str = "",
    tenant: str | None = None,
    file_format: FileFormat = "parquet",
    below: Mapping[int, int] | int | None = None,
    progress: Progress | None = None,
) -> FolderReport:
    """Write the records of a topic, with their metadata, as Parquet or JSON lines.

    `where` is a condition in Spark SQL over the columns of `table(…, include_metadata=True)`.
    `below` is an exclusive end offset, for all partitions or for some. The folder must not
    exist, unless it is the complete output of the same call, which is then left unchanged.
    The file `_strandline` in it lists the records that it covers.
    """
    where, chosen = check_text("where", where), check_text("file_format", file_format)
    if chosen not in ("parquet", "json"):
        raise InvalidError("a format is parquet or json", file_format=file_format)
    terms = {"where": where, "format": file_format}
    job = _Job(cut_of(spark_url(url), topic, tenant, below), "export", terms, folder)
    return job.run(spark, lambda rows: _matching(rows, where), file_format, progress)


def snapshot(
    spark: "SparkSession",
    url: str | None,
    topic: str,
    folder: str | os.PathLike[str],
    *,
    below: Mapping[int, int] | int | None = None,
    tombstone: str = "",
    tenant: str | None = None,
    progress: Progress | None = None,
) -> FolderReport:
    """Write the latest record of each key as Parquet; the topic stays as it is.

    Records without a key are left out. The latest record is the one with the greatest append
    time, then partition. A latest record that matches `tombstone`, a condition in Spark SQL, is
    left out; without `tombstone` no record deletes a key. For the rest see `export`.
    """
    tombstone = check_text("tombstone", tombstone)
    terms = {"tombstone": tombstone}
    job = _Job(cut_of(spark_url(url), topic, tenant, below), "snapshot", terms, folder)
    return job.run(spark, lambda rows: _latest(rows, tombstone), "parquet", progress)


def _matching(rows: "DataFrame", where: str) -> "DataFrame":
    return rows.where(condition(rows, where, "where")) if where.strip() else rows


def _latest(rows: "DataFrame", tombstone: str) -> "DataFrame":
    keyed = rows.where("`_key` IS NOT NULL")
    latest = keyed.selectExpr("*", _LATEST).where("`__rank` = 1").drop("__rank")
    if tombstone.strip():
        latest = latest.where(~condition(latest, tombstone, "tombstone"))
    return latest


@contextlib.contextmanager
def _reporting(spark: "SparkSession", records: int, progress: Progress | None) -> Iterator[None]:
    """Report an estimate of the records read so far, and all records at the end."""
    if progress is None:
        yield
        return
    context = context_of(spark)
    if context is None:
        yield
        progress(records)
        return
    is_done = False
    with (
        rows_read(context, records) as share,
        reporting(lambda: records if is_done else share(), progress),
    ):
        yield
        is_done = True


class _Job:
    def __init__(
        self, cut: Cut, name: str, terms: Mapping[str, str | None], folder: str | os.PathLike[str]
    ) -> None:
        self._watch = Stopwatch()
        self._cut = cut
        self._target = PublishedFolder(check_path("folder", folder))
        self._covered = covered_by(cut, name, dict(terms))

    def run(
        self, spark: "SparkSession", made: Any, file_format: FileFormat, progress: Progress | None
    ) -> FolderReport:
        found = self._target.finished(self._covered)
        if found is not None:
            return self._report(found.rows, is_repeat=True)
        from pyspark.sql import Observation  # noqa: PLC0415 # An extra.
        from pyspark.sql import functions as sql  # noqa: PLC0415

        read, written = Observation(), Observation()
        rows = self._cut.frame(spark)
        rows = rows.observe(read, sql.count_if(sql.col("_row") == 0).alias("records"))
        made = made(rows).observe(written, sql.count(sql.lit(1)).alias("rows"))
        with _reporting(spark, self._cut.records, progress):
            self._target.write(made, file_format)
        if not self._cut.is_filtered:
            self._check(read.get["records"])
        count = written.get["rows"]
        self._target.publish(msgspec.structs.replace(self._covered, rows=count))
        return self._report(count, is_repeat=False)

    def _check(self, records: int) -> None:
        """Raise unless every record was read."""
        if records == self._cut.records:
            return
        self._cut.check_kept()
        raise UnavailableError(
            "not every record was read, run it again, and audit the topic if that does not help",
            read=records,
            wanted=self._cut.records,
        )

    def _report(self, rows: int, *, is_repeat: bool) -> FolderReport:
        return FolderReport(
            folder=self._target.path,
            offsets=dict(self._cut.offsets),
            records=self._cut.records,
            rows=rows,
            is_repeat=is_repeat,
            seconds=self._watch.seconds(),
        )
