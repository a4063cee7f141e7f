"""Every topic of a log as a temporary view of a Spark session."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from strandline.log import Log, parts_of
from strandline.opening import open_log
from strandline.spark.log_urls import spark_url
from strandline.values import (
    InvalidError,
    Mode,
    Topic,
    TopicDescription,
    ValueKind,
    us_from_datetime,
)
from strandline.values.extras import needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(
    spark: "SparkSession",
    log: "Log | str",
    *,
    tenant: str | None = None,
    at: datetime | None = None,
    **options: str,
) -> Sequence[str]:
    """Make a temporary view of each topic, under its name, and return the names.

    A view has the columns of `format("strandline")` and the log's metadata columns. It shows the
    records that the topic has now, also in later queries; call this again for newer records. With
    `tenant`, it shows the records that the tenant sees. With `at`, a datetime with a time zone,
    it shows records that were appended before that time. `options` are those of a batch read,
    such as `predicate`. In SQL, names with characters other than letters, digits and `_` are
    quoted with backticks. A topic of batches that has no columns yet gets no view. InvalidError
    for a log that only this process can open.
    """
    with needing("PySpark", "spark"):
        from strandline.spark.source import StrandlineSource  # noqa: PLC0415 # An extra.
    spark.dataSource.register(StrandlineSource)
    url = spark_url(parts_of(log).store.url if isinstance(log, Log) else log)
    with open_log(url, mode=Mode.READ) as opened:
        found = [opened.describe_topic(topic) for topic in _seen(opened, tenant)]
        if at is not None:
            at_us = max(0, us_from_datetime(at))
            ends = {each.topic: _ends_at(opened, each, at_us) for each in found}
        else:
            ends = {each.topic: [int(marks.high) for marks in each.marks] for each in found}
    chosen = {"path": url, "includeMetadata": "true", **options}
    if tenant is not None:
        chosen["tenant"] = tenant
    is_ended = any(name.lower().startswith(("ending", "timestamp")) for name in options)
    if is_ended and at is not None:
        raise InvalidError("at and an option both end the views, give one", options=sorted(options))
    known = [each for each in found if _has_columns(each)]
    for each in known:
        ending = {} if is_ended else {"endingOffsets": _json(each.topic, ends[each.topic])}
        reader = spark.read.format("strandline").options(**chosen, subscribe=each.topic.name)
        reader.options(**ending).load().createOrReplaceTempView(f"`{each.topic.name}`")
    return [each.topic.name for each in known]


def _ends_at(log: Log, found: TopicDescription, at_us: int) -> list[int]:
    highs = [int(marks.high) for marks in found.marks]
    return [min(int(log.offset_at(found.topic, n, at_us)), high) for n, high in enumerate(highs)]


def _json(topic: Topic, ends: Sequence[int]) -> str:
    """Return the ends of the partitions, as an option.

    Without it Spark would fix the end of a view at its first query, for all later ones.
    """
    by_partition = {str(number): end for number, end in enumerate(ends)}
    return msgspec.json.encode({topic.name: by_partition}).decode()


def _seen(log: Log, tenant: str | None) -> Sequence[Topic]:
    found = {topic.name: topic for topic in log.topics()}
    if tenant is not None:
        found |= {topic.name: topic for topic in log.topics(tenant=tenant)}
    return [found[name] for name in sorted(found)]


def _has_columns(found: TopicDescription) -> bool:
    if found.settings.value_kind is not ValueKind.BATCH or found.settings.schema is not None:
        return True
    return any(each.low < each.high for each in found.marks)
