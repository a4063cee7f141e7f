"""Derives a topic from another one; repeated runs of the job add new records."""

import os
from typing import TYPE_CHECKING, Final

from strandline.opening import open_log
from strandline.spark.jobs.expressions import query
from strandline.spark.jobs.flowing import FlowReport, flow, log_id, sink_options
from strandline.spark.jobs.kept_terms import KeptTerms
from strandline.spark.jobs.progress import Progress
from strandline.spark.log_urls import spark_url
from strandline.spark.options import Selection
from strandline.spark.source.places import chosen_topics
from strandline.values import InvalidError, Mode, ValueKind
from strandline.values.arguments import check_path, check_text, check_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_RECORDS: Final = 1_000_000
"""The maximum number of records that are read for a batch, by default."""


def derive(
    spark: "SparkSession",
    url: str | None,
    topic: str,
    target: str,
    *,
    checkpoint: str | os.PathLike[str],
    where: str = "",
    select: str = "",
    tenant: str | None = None,
    target_url: str | None = None,
    batch_records: int = BATCH_RECORDS,
    staging: str | None = None,
    progress: Progress | None = None,
) -> FlowReport:
    """Append the matching rows of the topic to another topic, each row once.

    `where` is a predicate as for `log.subscribe`; `select` is a list of columns in Spark SQL,
    over those of the source with its metadata. Without it the columns and keys are unchanged.
    The target must exist, in the same log or in that of `target_url`. The checkpoint, a
    folder, belongs to this derivation only: each run continues where the last one ended, also
    if that one was killed; with a new checkpoint all rows are appended again. InvalidError if
    a checkpoint on this machine was begun with another topic, target, `where` or `select`.
    `staging` is the option `stagingLocation` of the sink.
    """
    located = spark_url(url)
    topic, target = check_text("topic", topic), check_text("target", target)
    where, select = check_text("where", where), check_text("select", select)
    checkpoint = check_path("checkpoint", checkpoint)
    batch_records = check_whole("batch_records", batch_records, 1)
    with open_log(located, mode=Mode.READ) as log:
        (found,) = chosen_topics(log, Selection(names=(topic,), tenant=tenant))
        kind = log.describe_topic(found).settings.value_kind
        source_log = str(log.id)
    options = sink_options(target_url or located, target, tenant, staging)
    target_log = log_id(options)
    if target == topic and target_log == source_log:
        raise InvalidError("a topic is derived from another one", topic=topic)
    reader = spark.readStream.format("strandline").option("path", located)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    reader = reader.option("maxOffsetsPerTrigger", str(batch_records))
    reader = reader.option("includeMetadata", "true")
    if tenant is not None:
        reader = reader.option("tenant", tenant)
    if where.strip():
        reader = reader.option("predicate", where)
    rows = reader.load()
    if select.strip():
        rows = query(rows, select)
    else:
        kept = {"_key"} if kind is ValueKind.BATCH else set()
        rows = rows.drop(*(name for name in _METADATA if name not in kept))
    terms = {"log": target_log, "topic": topic, "target": target, "tenant": tenant}
    KeptTerms(checkpoint, "derive", **terms, where=where, select=select).keep()
    return flow(rows, options, checkpoint, progress)


_METADATA: Final = ("_topic", "_partition", "_offset", "_row", "_timestamp", "_key", "_tenant")
