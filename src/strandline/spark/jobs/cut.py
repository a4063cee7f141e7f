"""A topic up to certain offsets, which are fixed while a job reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from strandline.log import Log
from strandline.opening import open_log
from strandline.spark.options import Selection
from strandline.spark.source.places import chosen_topics
from strandline.spark.topic_table import table
from strandline.values import InvalidError, Mode, Topic, TrimmedError
from strandline.values.arguments import check_text, check_whole
from strandline.values.partitioning import unknown_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Cut:
    """The records of a topic that a job reads."""

    url: str
    log_id: UUID
    topic: Topic
    tenant: str | None
    #: [start, end) of each partition.
    offsets: Mapping[int, tuple[int, int]]

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(end - start for start, end in self.offsets.values())

    @property
    def is_filtered(self) -> bool:
        """Whether a tenant reads a topic that also has records of other tenants."""
        return self.tenant is not None and self.topic.tenant is None

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the rows, with their metadata."""
        rows = table(spark, self.url, self.topic.name, tenant=self.tenant, include_metadata=True)
        parts = [
            f"(`_partition` = {partition} AND `_offset` >= {start} AND `_offset` < {end})"
            for partition, (start, end) in self.offsets.items()
            if start < end
        ]
        return rows.where(" OR ".join(parts) or "false")

    def check_kept(self) -> None:
        """Raise TrimmedError if some of the records were trimmed meanwhile."""
        with open_log(self.url, mode=Mode.READ) as log:
            for partition, (start, end) in self.offsets.items():
                low = log.marks(self.topic, partition).low
                if start < min(low, end):
                    raise TrimmedError(
                        low, topic=self.topic.name, partition=partition, offset=start
                    )


def cut_of(
    url: str, topic: str, tenant: str | None, below: Mapping[int, int] | int | None = None
) -> Cut:
    """Return the current records of a topic, or those of them below these offsets."""
    tenant = None if tenant is None else check_text("tenant", tenant)
    with open_log(url, mode=Mode.READ) as log:
        (found,) = chosen_topics(log, Selection(names=(topic,), tenant=tenant))
        count = log.describe_topic(found).settings.partitions
        ends = _ends(below, count)
        offsets = {number: _run(log, found, number, ends.get(number)) for number in range(count)}
        return Cut(url, log.id, found, tenant, offsets)


def _ends(below: Mapping[int, int] | int | None, count: int) -> Mapping[int, int]:
    if below is None:
        return {}
    if not isinstance(below, Mapping):
        return dict.fromkeys(range(count), check_whole("below", below))
    ends = {check_whole("below", each): check_whole("below", below[each]) for each in below}
    strange = sorted(number for number in ends if number >= count)
    if strange:
        raise unknown_partition(strange, count)
    return ends


def _run(log: Log, topic: Topic, partition: int, end: int | None) -> tuple[int, int]:
    """Return [start, end) of a partition; InvalidError for an end beyond the partition's end."""
    marks = log.marks(topic, partition)
    low, high = int(marks.low), int(marks.high)
    if end is None:
        return low, high
    if end > high:
        raise InvalidError(
            "the partition does not reach so far yet", partition=partition, below=end, end=high
        )
    return low, max(low, end)
