"""How many tasks read a topic: few large ones, but enough for a cluster."""

from typing import Any

import pytest

from strandline.clock import SystemClock
from strandline.spark.source.places import SourcePartition
from strandline.spark.source.splits import Extent, Split, plan
from strandline.values import Offset, Segment, Topic

MB = 1024 * 1024
RUN_BYTES = 61 * MB
TOPIC = Topic(name="t", id=SystemClock().new_id())


class Runs:
    """As much of a log as planning asks: runs of a hundred records and RUN_BYTES."""

    def __init__(self, count: int) -> None:
        self.count = count

    def segments(self, topic: Topic, partition: int) -> list[Segment]:  # noqa: ARG002 # All are alike.
        return [
            Segment(
                Offset(100 * n),
                Offset(100 * n + 100),
                RUN_BYTES,
                n,
                n,
                is_sealed=True,
                location=None,
            )
            for n in range(self.count)
        ]


def planned(runs: int, partitions: int = 1) -> list[Split]:
    log: Any = Runs(runs)
    places = [SourcePartition(TOPIC, number) for number in range(partitions)]
    return plan(log, [Extent(place, 0, 100 * runs) for place in places])


@pytest.mark.parametrize(("runs", "tasks"), [(1, 1), (9, 9), (16, 16), (45, 15), (400, 100)])
def test_tasks_become_larger_before_they_become_many(runs: int, tasks: int) -> None:
    splits = planned(runs)

    assert len(splits) == tasks
    assert splits[0].start == 0
    assert [each.start for each in splits[1:]] == [each.end for each in splits[:-1]]
    assert splits[-1].end == 100 * runs


def test_the_size_of_a_task_follows_from_all_partitions_together() -> None:
    splits = planned(8, partitions=32)

    assert len(splits) == 32 * 2
    assert {each.end - each.start for each in splits} == {400}
