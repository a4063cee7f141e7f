"""Every topic of a log as a temporary view of a Spark session."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from strandline.log import Log, parts_of
from strandline.opening import absolute_url, open_log
from strandline.values import InvalidError, Mode, Topic, TopicDescription, ValueKind
from strandline.values.extras import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(
    spark: "SparkSession", log: "Log | str", *, tenant: str | None = None, **options: str
) -> Sequence[str]:
    """Make a temporary view of each topic, under its name, and return the names.

    A view has the columns of `format("strandline")` and the log's own, and shows what the
    topic holds now, at each query; to see more, call this again. With `tenant` it is what
    that tenant sees. `options` are those of a batch read: with `endingTimestamp` or
    `endingOffsets`, say, the views show topics as they were. Names with other characters
    than letters, digits and `_` are quoted in SQL with backticks. A topic of batches that has
    no columns yet gets no view. InvalidError for a log that belongs to one process.
    """
    try:
        from strandline.spark.source import StrandlineSource  # noqa: PLC0415 # An extra.
    except ImportError as error:
        raise InvalidError(missing("PySpark", "spark")) from error
    spark.dataSource.register(StrandlineSource)
    url = absolute_url(parts_of(log).store.url if isinstance(log, Log) else log)
    with open_log(url, mode=Mode.READ) as opened:
        found = [opened.describe_topic(topic) for topic in _seen(opened, tenant)]
    chosen = {"path": url, "includeMetadata": "true", **options}
    if tenant is not None:
        chosen["tenant"] = tenant
    is_ended = any(name.lower().startswith("ending") for name in options)
    known = [each for each in found if _has_columns(each)]
    for each in known:
        ends = {} if is_ended else {"endingOffsets": _ends(each)}
        reader = spark.read.format("strandline").options(**chosen, subscribe=each.topic.name)
        reader.options(**ends).load().createOrReplaceTempView(f"`{each.topic.name}`")
    return [each.topic.name for each in known]


def _ends(found: TopicDescription) -> str:
    """Return where the partitions end now, as an option.

    Without it Spark would plan a view at its first query, and keep that for later ones.
    """
    ends = {str(number): int(marks.high) for number, marks in enumerate(found.marks)}
    return msgspec.json.encode({found.topic.name: ends}).decode()


def _seen(log: Log, tenant: str | None) -> Sequence[Topic]:
    found = {topic.name: topic for topic in log.topics()}
    if tenant is not None:
        found |= {topic.name: topic for topic in log.topics(tenant=tenant)}
    return [found[name] for name in sorted(found)]


def _has_columns(found: TopicDescription) -> bool:
    if found.settings.value_kind is not ValueKind.BATCH or found.settings.schema is not None:
        return True
    return any(each.low < each.high for each in found.marks)
