"""Each option of a stream, one by one; that micro-batches tile the log; restarts."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.spark.options import BATCH_ONLY, READ_OPTIONS
from strandline.spark.source.places import SourcePartition
from strandline.spark.source.splits import Extent, plan
from strandline.spark.source.stream import StreamReader
from strandline.testing import FakeClock
from tests.logs import file_log
from tests.spark.as_spark import Query, fill, numbers, source


def test_a_stream_starts_at_the_end_by_default(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 10)

    query = Query(url, subscribe="t")
    fill(log, 5, first=10)

    assert numbers(query.next()) == [*range(10, 15)]
    assert query.next() == []


def test_a_stream_reads_partitions_that_are_added(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 3)
    query = Query(url, subscribe="t")
    chosen = Query(url, assign='{"t": [0]}')
    fill(log, 2, first=3)
    assert numbers(query.next()) == [3, 4]

    log.add_partitions("t", 4)
    fill(log, 2, first=5, partition=3)
    # A checkpoint of before the change is continued, too.
    restarted = Query(url, offset=query.offset, subscribe="t")

    assert numbers(query.next()) == numbers(restarted.next()) == [5, 6]
    assert numbers(chosen.next()) == [3, 4]
    assert [*query.offset["t"]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({"startingOffsets": "earliest"}, 0),
        ({"startingOffsets": "latest"}, 10),
        ({"startingOffsets": '{"t": {"0": 4}}'}, 4),
        ({"startingOffsets": '{"t": {"0": -1}}'}, 10),
        ({"startingOffsets": '{"t": {"0": -2}}'}, 0),
        ({"startingTimestamp": "1000"}, 0),
        ({"startingTimestamp": "1000", "startingOffsets": "latest"}, 0),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 1000}}'}, 0),
        (
            {
                "startingTimestamp": "99999999999999",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            10,
        ),
    ],
)
def test_where_a_stream_starts(log: sl.Log, url: str, given: dict[str, Any], first: int) -> None:
    log.create_topic("t")
    fill(log, 10)

    query = Query(url, subscribe="t", **given)
    fill(log, 2, first=10)

    assert numbers(query.next()) == [*range(first, 12)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingTimestamp": "99999999999999"}, "startingOffsetsByTimestampStrategy"),
        ({"startingOffsets": '{"t": {"0": 11}}'}, "beyond the end"),
        ({"startingOffsets": '{"t": {"7": 1}}'}, "unknown"),
        ({"maxOffsetsPerTrigger": "0"}, "from 1 on"),
        ({"maxBytesPerTrigger": "1k"}, "from 1 on"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "not be larger than"),
        ({"maxTriggerDelay": "1m"}, "needs minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "soon", "minOffsetsPerTrigger": "9"}, "a number and a unit"),
        ({"groupId": " "}, "blank"),
    ],
)
def test_what_means_nothing_is_refused(
    log: sl.Log, url: str, given: dict[str, Any], says: str
) -> None:
    log.create_topic("t")
    fill(log, 10)

    with pytest.raises(sl.InvalidError, match=re.escape(says)):
        Query(url, subscribe="t", **given)


@pytest.mark.parametrize("name", BATCH_ONLY)
def test_what_only_a_batch_knows_is_refused(log: sl.Log, url: str, name: str) -> None:
    log.create_topic("t")
    values = {"endingOffsets": "latest", "endingTimestamp": "1", "pushdown": "true"}
    values["timestampAsOf"] = "2026-11-16T23:00:00Z"

    given: dict[str, Any] = {name: values.get(name, '{"t": {"0": 1}}')}
    with pytest.raises(sl.InvalidError, match="batches only"):
        Query(url, subscribe="t", **given)


def test_a_misspelt_option_names_the_nearest(log: sl.Log, url: str) -> None:
    log.create_topic("t")

    with pytest.raises(sl.InvalidError, match=r"did you mean maxOffsetsPerTrigger\?"):
        Query(url, subscribe="t", maxOffsetPerTriger="10")


def test_max_offsets_are_shared_in_proportion(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=3)
    fill(log, 80)
    fill(log, 15, first=80, partition=1)
    fill(log, 1, first=95, partition=2)

    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=12)
    first = query.next()

    assert len(first) == 12
    ends = query.offset["t"]
    assert ends["2"] == 1, "a small partition does not starve"
    assert ends["0"] > 4 * ends["1"]
    rest = query.rest()
    assert [len(batch) for batch in rest] == [12] * 7
    assert numbers([*first, *(row for batch in rest for row in batch)]) == [*range(96)]


def test_a_limit_below_the_number_of_partitions_is_kept(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=4)
    for partition in range(4):
        fill(log, 3, first=10 * partition, partition=partition)

    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=1)

    assert [len(batch) for batch in query.rest()] == [1] * 12


@pytest.mark.slow
def test_max_bytes_are_about_kept_and_always_move_on(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    for number in range(40):
        log.append("t", sl.Event("k", {"n": number, "pad": "x" * 1000}))

    query = Query(url, subscribe="t", startingOffsets="earliest", maxBytesPerTrigger=10_000)
    batches = query.rest()
    assert len(batches) in (4, 5, 6)
    assert numbers(row for batch in batches for row in batch) == [*range(40)]

    small = Query(url, subscribe="t", startingOffsets="earliest", maxBytesPerTrigger=1)
    assert [len(batch) for batch in small.rest()] == [1] * 40
    both = Query(
        url,
        subscribe="t",
        startingOffsets="earliest",
        maxBytesPerTrigger=10_000,
        maxOffsetsPerTrigger=3,
    )
    assert len(both.next()) == 3


def test_a_trigger_for_all_takes_all(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 50)

    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=3)

    assert len(query.next(unlimited=True)) == 50


def test_min_offsets_wait_and_give_up_after_the_delay(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    clock = FakeClock()
    options: dict[str, Any] = {
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": 10,
        "maxTriggerDelay": "30s",
    }
    query = Query(url, subscribe="t", **options)
    query.reader = StreamReader(query.reader.reading, clock)
    fill(log, 10)
    assert len(query.next()) == 10

    fill(log, 9, first=10)
    assert query.next() == []
    clock.advance(29.9)
    assert query.next() == []
    clock.advance(0.2)
    assert numbers(query.next()) == [*range(10, 19)]
    fill(log, 10, first=19)
    assert numbers(query.next()) == [*range(19, 29)]
    fill(log, 1, first=29)
    assert query.next() == []
    assert numbers(row for batch in query.rest() for row in batch) == [29], "AvailableNow ends"


def test_available_now_freezes_the_end(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 20)
    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=8)

    query.reader.prepareForTriggerAvailableNow()
    fill(log, 20, first=20)
    seen = [query.next() for _ in range(4)]

    assert [len(batch) for batch in seen] == [8, 8, 4, 0]
    assert numbers(row for batch in seen for row in batch) == [*range(20)]


def test_a_batch_that_is_run_again_has_the_same_rows(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 20)
    fill(log, 20, first=20, partition=1)
    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=15)
    start = query.offset
    first = query.next()
    end = query.offset
    query.stop()
    fill(log, 20, first=40)

    again = Query(url, offset=start, subscribe="t", startingOffsets="latest")

    assert numbers(again.between(start, end)) == numbers(first)
    again.offset = end
    assert numbers([*first, *again.next()]) == [*range(60)], "a start counts only once"


def test_what_a_checkpoint_names_is_durable(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    query = Query(url, subscribe="t", startingOffsets="earliest")
    log.append("t", sl.Event("k", {"n": 1}), durability=sl.Durability.WRITTEN)

    query.next()

    assert query.offset["t"]["0"] == 1
    assert log.marks("t", 0).durable == 1


def test_a_pattern_finds_new_topics_from_their_beginning(log: sl.Log, url: str) -> None:
    log.create_topic("a-1")
    fill(log, 3, "a-1")
    query = Query(url, subscribePattern="a-.*")
    assert query.next() == []

    log.create_topic("a-2", partitions=2)
    log.create_topic("b")
    fill(log, 2, "a-2", first=10, partition=1)
    fill(log, 2, "b", first=20)

    assert numbers(query.next()) == [10, 11]
    fill(log, 1, "a-1", first=3)
    assert numbers(query.next()) == [3]


def test_assign_and_tenant_and_columns(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    query = Query(
        url,
        assign='{"t": [1]}',
        tenant="acme",
        columns="_offset,kind",
        startingOffsets="earliest",
    )
    for partition, tenant in ((0, "acme"), (1, "acme"), (1, "other"), (1, None)):
        log.append("t", sl.Event(f"of-{tenant}", 1), partition=partition, tenant=tenant)

    assert query.next() == [{"_offset": 0, "kind": "of-acme"}, {"_offset": 2, "kind": "of-None"}]


def test_kafka_rows_and_metadata(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    kafka = Query(url, subscribe="t", valueFormat="kafka", includeHeaders=True)
    whole = Query(url, subscribe="t", includeMetadata=True)
    log.append("t", sl.Event("paid", {"n": 1}, key="c"))

    (row,) = kafka.next()
    assert (row["key"], row["value"], row["topic"]) == (b"c", b'{"n":1}', "t")
    assert row["headers"] == [{"key": "kind", "value": b"paid"}]
    (row,) = whole.next()
    assert (row["_topic"], row["_partition"], row["_offset"]) == ("t", 0, 0)


def test_tasks_are_bounded(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 30)
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"minPartitions": 4}, [7, 8, 7, 8]),
        ({"maxRecordsPerPartition": 12}, [10, 10, 10]),
    ]
    for given, sizes in cases:
        query = Query(url, subscribe="t", startingOffsets="earliest", **given)
        start = query.offset
        query.next()
        parts = query.reader.partitions(start, query.offset)
        assert [part.end - part.start for part in parts] == sizes  # type: ignore[attr-defined] # Ours.


# --- losses ---


def test_a_trim_below_the_checkpoint_is_a_loss(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 30)
    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=10)
    query.next()
    log.trim("t", 0, 20)

    with pytest.raises(sl.TrimmedError):
        query.next()
    resumed = Query(url, offset=query.offset, subscribe="t")
    with pytest.raises(sl.TrimmedError):
        resumed.next()
    lenient = Query(url, offset=query.offset, subscribe="t", failOnDataLoss=False)
    assert numbers(lenient.next()) == [*range(20, 30)]


def test_a_trim_up_to_the_checkpoint_is_none(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 30)
    query = Query(url, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=10)
    query.next()
    log.trim("t", 0, 10)

    assert numbers(query.next()) == [*range(10, 20)]
    assert numbers(Query(url, offset=query.offset, subscribe="t").next()) == [*range(20, 30)]


def test_a_topic_made_again_is_not_the_one_of_the_checkpoint(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 10)
    query = Query(url, subscribe="t", startingOffsets="earliest")
    query.next()
    log.drop_topic("t")
    log.create_topic("t")
    fill(log, 20, first=100)

    with pytest.raises(sl.InvalidError, match="made again"):
        Query(url, offset=query.offset, subscribe="t").next()
    lenient = Query(url, offset=query.offset, subscribe="t", failOnDataLoss=False)
    assert numbers(lenient.next()) == [*range(100, 120)]


def test_another_log_is_not_the_one_of_the_checkpoint(log: sl.Log, url: str, tmp_path: Any) -> None:
    log.create_topic("t")
    fill(log, 10)
    query = Query(url, subscribe="t", startingOffsets="earliest")
    query.next()
    other = f"file:{tmp_path / 'other'}"
    with sl.open(other) as opened:
        opened.create_topic("t")
        fill(opened, 20)

        with pytest.raises(sl.InvalidError, match="another log"):
            Query(other, offset=query.offset, subscribe="t").next()


def test_a_topic_that_is_gone_is_a_loss(log: sl.Log, url: str) -> None:
    log.create_topic("a")
    log.create_topic("b")
    fill(log, 3, "a")
    query = Query(url, subscribePattern="[ab]", startingOffsets="earliest")
    log.drop_topic("b")

    with pytest.raises(sl.InvalidError, match="no longer there"):
        query.next()
    lenient = Query(url, offset=query.offset, subscribePattern="[ab]", failOnDataLoss=False)
    assert numbers(lenient.next()) == [0, 1, 2]


def test_history_that_was_lost_is_reported(url: str, tmp_path: Any) -> None:
    """A log restored from an older copy has other records at the same offsets."""
    path, copy = tmp_path / "log", tmp_path / "copy"
    with sl.open(url) as log:
        log.create_topic("t")
        fill(log, 10)
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copy(path, copy)
    with sl.open(url) as log:
        fill(log, 10, first=10)
        query = Query(url, subscribe="t", startingOffsets="earliest")
        query.next()
        query.stop()
    for left in tmp_path.glob("log-*"):
        left.unlink()
    if path.is_dir():
        shutil.rmtree(path)
        shutil.copytree(copy, path)
    else:
        shutil.copy(copy, path)

    with pytest.raises(sl.StrandlineError):
        Query(url, offset=query.offset, subscribe="t").next()


def test_an_offset_is_json_by_topic_and_partition(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 3, partition=1)

    query = Query(url, subscribe="t", startingOffsets="earliest")
    query.next()

    assert query.offset["t"] == {"0": 0, "1": 3}
    assert json.dumps(query.reader.reportLatestOffset()) == json.dumps(query.offset)
    assert (
        query.reader.latestOffset(query.offset, query.reader.getDefaultReadLimit()) is query.offset
    )


def test_every_option_is_tried_somewhere_here() -> None:
    told = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))

    assert [name for name in READ_OPTIONS if name not in told and name != "path"] == []


def test_the_source_is_the_same_in_any_process(log: sl.Log, url: str) -> None:
    log.create_topic("t")

    assert source(url, subscribe="t").schema() == source(url, subscribe="t").schema()


def test_an_offset_is_of_the_epoch_of_the_record_before_it(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with (
        file_log(path, exclusive=True) as holder,
        file_log(path, lock_timeout_s=0.001, take_over=True) as log,
    ):
        holder.create_topic("t")
        holder.append_many("t", [sl.Event("k", {"n": n}) for n in range(10)])
        log.append("t", sl.Event("k", {"n": 10}))
        assert [int(epoch.start) for epoch in log.epochs("t", 0)] == [0, 10]

        for offset in (0, 10, 11):
            start = json.dumps({"t": {"0": offset}})
            query = Query(f"file:{path}", subscribe="t", startingOffsets=start)
            position = log.position("t", 0, offset)
            told = query.offset["__strandline"]["epochs"]["t"]["0"]
            assert told == f"{position.epoch}/{position.epoch_id}"


def test_a_plan_reaches_its_end_whatever_the_segments_say(log: sl.Log, url: str) -> None:
    """They are asked after the ends were taken, and may tell of less or more."""
    topic = log.create_topic("t")
    fill(log, 10)

    (split,) = plan(log, [Extent(SourcePartition(topic, 0), 3, 15)])

    assert (split.start, split.end) == (3, 15)
