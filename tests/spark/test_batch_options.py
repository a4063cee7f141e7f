"""Each option of a batch, one by one."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import strandline as sl
from strandline.spark.options import READ_OPTIONS, STREAM_ONLY
from tests.spark.as_spark import fill, numbers, rows, source, splits, table


def test_subscribe_names_topics(log: sl.Log, url: str) -> None:
    for number, name in enumerate("abc"):
        log.create_topic(name)
        fill(log, 5, name, first=10 * number)

    assert numbers(rows(url, subscribe="a")) == [*range(5)]
    assert numbers(rows(url, subscribe=" a , c")) == [*range(5), *range(20, 25)]
    with pytest.raises(sl.InvalidError, match="each once"):
        rows(url, subscribe="a,a")
    with pytest.raises(sl.InvalidError, match="topic"):
        rows(url, subscribe="missing")


def test_subscribe_pattern_matches_whole_names(log: sl.Log, url: str) -> None:
    for number, name in enumerate(["orders", "orders-eu", "reorders"]):
        log.create_topic(name)
        fill(log, 2, name, first=10 * number)

    assert numbers(rows(url, subscribePattern="orders.*")) == [0, 1, 10, 11]
    with pytest.raises(sl.InvalidError, match="no topic has such a name"):
        rows(url, subscribePattern="nothing")
    with pytest.raises(sl.InvalidError, match="not a valid regular expression"):
        rows(url, subscribePattern="(")


def test_assign_names_partitions(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=3)
    for partition in range(3):
        fill(log, 2, first=10 * partition, partition=partition)

    assert numbers(rows(url, assign='{"t": [0, 2]}')) == [0, 1, 20, 21]
    for wrong in ('{"t": [3]}', '{"t": []}', "{}", "t", '{"t": 0}'):
        with pytest.raises(sl.InvalidError, match="assign"):
            rows(url, assign=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"subscribe": "t", "assign": '{"t": [0]}'}])
def test_exactly_one_way_to_choose_topics(log: sl.Log, url: str, given: dict[str, str]) -> None:
    log.create_topic("t")

    with pytest.raises(sl.InvalidError, match="give"):
        rows(url, **given)


def test_a_batch_is_of_everything_by_default(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 30)
    fill(log, 12, first=30, partition=1)

    assert numbers(rows(url, subscribe="t")) == [*range(42)]


def test_offsets_start_inclusive_and_end_exclusive(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 30)
    fill(log, 30, first=30, partition=1)

    start, end = '{"t": {"0": 7, "1": -2}}', '{"t": {"0": 9, "1": 2}}'
    assert numbers(rows(url, subscribe="t", startingOffsets=start, endingOffsets=end)) == [
        *(7, 8, 30, 31)
    ]
    end = '{"t": {"0": -1, "1": 2}}'
    found = numbers(rows(url, subscribe="t", startingOffsets=start, endingOffsets=end))
    assert found == [*range(7, 30), 30, 31]
    assert len(rows(url, subscribe="t", startingOffsets="Earliest", endingOffsets="latest")) == 60


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": "latest"}, "empty"),
        ({"endingOffsets": "earliest"}, "empty"),
        ({"startingOffsets": "soon"}, "earliest, latest or"),
        ({"startingOffsets": '{"t": {"0": 1}}'}, "missing"),
        ({"startingOffsets": '{"t": {"0": 1, "1": 0, "2": 0}}'}, "unknown"),
        ({"startingOffsets": '{"t": {"0": -3, "1": 0}}'}, "-2 for earliest"),
        ({"endingOffsets": '{"t": {"0": -2, "1": 1}}'}, "-1 for latest"),
        ({"startingOffsets": '{"t": {"0": 99, "1": 0}}'}, "beyond the end"),
        ({"endingOffsets": '{"t": {"0": 99, "1": 0}}'}, "beyond the end"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -5, "1": 0}}'}, "milliseconds"),
    ],
)
def test_a_bound_that_means_nothing_is_refused(
    log: sl.Log, url: str, given: dict[str, str], says: str
) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 3)

    with pytest.raises(sl.InvalidError, match=re.escape(says)):
        rows(url, subscribe="t", **given)


def stamps_ms(url: str) -> list[int]:
    """Return when each record was appended, rounded up to what an option can say."""
    found = table(url, subscribe="t", includeMetadata=True)
    return [-(-us // 1000) for us in found.column("_timestamp").cast("int64").to_pylist()]


@pytest.fixture
def paused(log: sl.Log, url: str) -> int:
    """Ten records, then ten that are at least two milliseconds younger: the time between."""
    log.create_topic("t")
    fill(log, 10)
    border = stamps_ms(url)[-1] + 1
    first = 10
    while not any(ms > border for ms in stamps_ms(url)):
        log.append("t", sl.Event("k", {"n": first}))
        first += 1
    return border


def test_a_time_means_the_first_record_at_or_after_it(paused: int, url: str) -> None:
    stamps = stamps_ms(url)
    late = [n for n, ms in enumerate(stamps) if ms > paused]
    assert late[0] >= 10

    started = numbers(rows(url, subscribe="t", startingTimestamp=paused))
    ended = numbers(rows(url, subscribe="t", endingTimestamp=paused))
    by_partition = json.dumps({"t": {"0": paused}})

    assert started[-1] == len(stamps) - 1
    assert sorted([*ended, *started]) == [*range(len(stamps))]
    assert set(late) <= set(started)
    assert started == numbers(rows(url, subscribe="t", startingOffsetsByTimestamp=by_partition))
    assert ended == numbers(rows(url, subscribe="t", endingOffsetsByTimestamp=by_partition))


def test_the_first_way_to_say_a_start_counts(paused: int, url: str) -> None:
    by_time = numbers(rows(url, subscribe="t", startingTimestamp=paused))

    given = {
        "startingTimestamp": paused,
        "startingOffsetsByTimestamp": '{"t": {"0": 0}}',
        "startingOffsets": '{"t": {"0": 3}}',
    }
    assert numbers(rows(url, subscribe="t", **given)) == by_time
    del given["startingTimestamp"]
    assert len(rows(url, subscribe="t", **given)) > len(by_time)
    del given["startingOffsetsByTimestamp"]
    assert numbers(rows(url, subscribe="t", **given))[0] == 3


def test_a_time_after_the_last_record_is_an_error_or_latest(paused: int, url: str) -> None:
    late = stamps_ms(url)[-1] + 86_400_000

    with pytest.raises(sl.InvalidError, match="startingOffsetsByTimestampStrategy"):
        rows(url, subscribe="t", startingTimestamp=late)
    given = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert rows(url, subscribe="t", **given) == []
    assert len(rows(url, subscribe="t", endingTimestamp=late)) == len(stamps_ms(url))
    with pytest.raises(sl.InvalidError, match="one of error, latest"):
        rows(url, subscribe="t", **{**given, "startingOffsetsByTimestampStrategy": "first"})
    with pytest.raises(sl.InvalidError, match="needs a starting time"):
        rows(url, subscribe="t", startingOffsetsByTimestampStrategy="latest")


def test_fail_on_data_loss(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 30)
    log.trim("t", 0, 12)

    gone = '{"t": {"0": 5}}'
    with pytest.raises(sl.TrimmedError) as caught:
        rows(url, subscribe="t", startingOffsets=gone)
    assert caught.value.oldest == 12
    given = {"startingOffsets": gone, "endingOffsets": '{"t": {"0": 99}}'}
    found = numbers(rows(url, subscribe="t", failOnDataLoss=False, **given))
    assert found == [*range(12, 30)]
    with pytest.raises(sl.InvalidError, match="failOnDataLoss"):
        rows(url, subscribe="t", failOnDataLoss="perhaps")


def test_what_is_trimmed_after_planning_is_a_loss_too(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 30)
    readers = [
        source(url, subscribe="t", failOnDataLoss=fails).reader(source(url, subscribe="t").schema())
        for fails in (True, False)
    ]
    parts = [list(reader.partitions()) for reader in readers]
    log.trim("t", 0, 12)

    with pytest.raises(sl.TrimmedError):
        list(readers[0].read(parts[0][0]))
    left = pa.Table.from_batches(list(readers[1].read(parts[1][0])))
    assert left.num_rows == 18


def test_min_partitions_divides_the_largest(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 90)
    fill(log, 10, first=90, partition=1)

    assert len(splits(url, subscribe="t")) == 2
    found = splits(url, subscribe="t", minPartitions=5)
    assert len(found) == 5
    assert sum(1 for each in found if each.place.partition == 0) == 4
    assert numbers(rows(url, subscribe="t", minPartitions=5)) == [*range(100)]
    assert len(splits(url, subscribe="t", minPartitions=1000)) == 100
    for wrong in ("0", "-1", "many", ""):
        with pytest.raises(sl.InvalidError, match="minPartitions"):
            splits(url, subscribe="t", minPartitions=wrong)


def test_max_records_per_partition_bounds_each_task(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    fill(log, 90)
    fill(log, 10, first=90, partition=1)

    found = splits(url, subscribe="t", maxRecordsPerPartition=25)
    assert [each.end - each.start for each in found] == [22, 23, 22, 23, 10]
    assert numbers(rows(url, subscribe="t", maxRecordsPerPartition=25)) == [*range(100)]


def test_columns_choose_and_order(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    log.append("t", sl.Event("paid", {"n": 1}, key="c-1", headers={"a": "1", "b": "é"}))

    (whole,) = rows(url, subscribe="t")
    assert list(whole) == ["kind", "key", "payload", "headers", "occurred_at"]
    assert whole["headers"] == [("a", "1"), ("b", "é")]
    assert rows(url, subscribe="t", columns="_offset, kind") == [{"_offset": 0, "kind": "paid"}]
    with pytest.raises(sl.InvalidError, match="no such columns") as caught:
        rows(url, subscribe="t", columns="kind,price")
    assert caught.value.fields["columns"] == ["price"]


def test_include_metadata_adds_where_a_row_came_from(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=2)
    log.append("t", sl.Event("k", 1, key="x"), partition=1, tenant="acme")

    (row,) = rows(url, subscribe="t", includeMetadata="TRUE")
    assert row.pop("_timestamp") is not None
    names = ("_topic", "_partition", "_offset", "_row", "_key", "_tenant")
    assert {name: row[name] for name in names} == {
        "_topic": "t",
        "_partition": 1,
        "_offset": 0,
        "_row": 0,
        "_key": "x",
        "_tenant": "acme",
    }


def test_a_schema_of_the_caller_chooses_columns(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 3)

    narrow = StructType([StructField("_offset", LongType()), StructField("kind", StringType())])
    assert table(url, narrow, subscribe="t").to_pylist() == [
        {"_offset": n, "kind": "even" if n % 2 == 0 else "odd"} for n in range(3)
    ]
    with pytest.raises(sl.InvalidError, match="no such columns"):
        table(url, StructType([StructField("price", LongType())]), subscribe="t")
    with pytest.raises(sl.InvalidError, match="another type"):
        table(url, StructType([StructField("kind", LongType())]), subscribe="t")


def test_tenant_sees_its_own_and_the_global_ones(log: sl.Log, url: str) -> None:
    log.create_topic("shared")
    for number, tenant in enumerate(["acme", "other", None]):
        log.append("shared", sl.Event("k", {"n": number}), tenant=tenant)
    for number, tenant in enumerate(["acme", "other"]):
        own = log.create_topic("own", tenant=tenant)
        log.append(own, sl.Event("k", {"n": 10 + number}))

    assert numbers(rows(url, subscribe="shared")) == [0, 1, 2]
    assert numbers(rows(url, subscribe="shared", tenant="acme")) == [0, 2]
    assert numbers(rows(url, subscribe="shared,own", tenant="other")) == [1, 2, 11]
    assert numbers(rows(url, subscribePattern=".*", tenant="acme")) == [0, 2, 10]
    assert numbers(rows(url, subscribePattern=".*")) == [0, 1, 2]
    with pytest.raises(sl.InvalidError):
        rows(url, subscribe="own")


def test_value_format_kafka_is_the_row_of_the_kafka_source(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    log.append("t", sl.Event("paid", {"n": 1}, key="c", headers={"kind": "x", "h": "y"}))
    log.append("t", sl.Event("paid", None))

    first, second = rows(url, subscribe="t", valueFormat="kafka", includeHeaders="true")

    assert first.pop("timestamp") is not None
    assert first == {
        "key": b"c",
        "value": b'{"n":1}',
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestampType": 1,
        "headers": [
            {"key": "kind", "value": b"paid"},
            {"key": "h", "value": b"y"},
            {"key": "kind", "value": b"x"},
        ],
    }
    assert (second["key"], second["value"], second["offset"]) == (None, b"null", 1)
    plain = table(url, subscribe="t", valueFormat="KAFKA")
    assert "headers" not in plain.schema.names


def test_bytes_come_as_binary(log: sl.Log, url: str) -> None:
    log.create_topic("t", value_kind=sl.ValueKind.BYTES)
    log.append("t", b"\x00\xff", key="k")

    assert rows(url, subscribe="t") == [{"key": "k", "value": b"\x00\xff"}]
    (row,) = rows(url, subscribe="t", valueFormat="kafka", includeHeaders="true")
    assert (row["key"], row["value"], row["headers"]) == (b"k", b"\x00\xff", None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"valueFormat": "kafka", "columns": "key"}, "no others"),
        ({"valueFormat": "kafka", "includeMetadata": "true"}, "no others"),
        ({"valueFormat": "avro"}, "one of native, kafka"),
        ({"schemaMode": "loose"}, "one of strict, drop"),
        ({"includeMetadata": "yes"}, "includeMetadata"),
        ({"pushdown": "yes"}, "pushdown"),
        ({"columns": " "}, "blank"),
        ({"subscribe": ""}, "blank"),
    ],
)
def test_contradictions_and_nonsense_are_refused(
    log: sl.Log, url: str, given: dict[str, str], says: str
) -> None:
    log.create_topic("t")

    with pytest.raises(sl.InvalidError, match=re.escape(says)):
        rows(url, **{"subscribe": "t", **given})


@pytest.mark.parametrize("name", STREAM_ONLY)
def test_what_only_a_stream_knows_is_refused(log: sl.Log, url: str, name: str) -> None:
    log.create_topic("t")
    given: dict[str, Any] = {name: "5m" if name == "maxTriggerDelay" else "5"}
    if name == "maxTriggerDelay":
        given["minOffsetsPerTrigger"] = 1

    with pytest.raises(sl.InvalidError, match="readStream only") as caught:
        rows(url, subscribe="t", **given)
    assert name in caught.value.fields["options"]  # type: ignore[operator] # A list.


# Any option that begins with kafka. is accepted.
@pytest.mark.parametrize("name", [each for each in READ_OPTIONS if "." not in each])
def test_a_misspelt_option_names_the_nearest(log: sl.Log, url: str, name: str) -> None:
    log.create_topic("t")
    misspelt = name[:-2] + "zz" if len(name) > 5 else name + "z"

    with pytest.raises(sl.InvalidError, match=rf"did you mean {name}\?"):
        rows(url, subscribe="t", **{misspelt: "1"})


def test_the_option_topic_of_a_read_is_subscribe(log: sl.Log, url: str) -> None:
    log.create_topic("t")

    with pytest.raises(sl.InvalidError, match=r"did you mean subscribe\?"):
        rows(url, topic="t")


def test_a_strange_option_lists_what_there_is(log: sl.Log, url: str) -> None:
    log.create_topic("t")

    with pytest.raises(sl.InvalidError, match="no such option") as caught:
        rows(url, subscribe="t", qqqq="1")
    assert caught.value.fields["known"] == sorted(READ_OPTIONS)


def test_path_is_a_log_that_other_processes_reach() -> None:
    with pytest.raises(sl.InvalidError, match="one process"):
        rows("memory:", subscribe="t")
    with pytest.raises(sl.InvalidError, match="a log is named"):
        rows("somewhere", subscribe="t")


def test_without_a_path_the_environment_names_the_log(
    log: sl.Log, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("t")
    fill(log, 3)
    monkeypatch.setenv("STRANDLINE_URL", url)

    made = source(url, subscribe="t")
    del made.options["path"]

    assert len(made.schema().names) == 5


def test_timestamp_as_of_ends_before_what_was_appended_later(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    fill(log, 10)
    fill(log, 10, first=10)
    stamps = [record.timestamp_us for record in log.read("t", 0, 0)]
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=stamps[10])
    before = sum(stamp < stamps[10] for stamp in stamps)

    assert numbers(rows(url, subscribe="t", timestampAsOf=moment.isoformat())) == [*range(before)]
    assert rows(url, subscribe="t", timestampAsOf="1960-01-01T00:00:00Z") == []
    assert len(rows(url, subscribe="t", timestampAsOf="2999-01-01T00:00:00+01:00")) == 20
    with pytest.raises(sl.InvalidError, match="a time such as"):
        rows(url, subscribe="t", timestampAsOf="yesterday")
    with pytest.raises(sl.InvalidError, match="time zone"):
        rows(url, subscribe="t", timestampAsOf="2026-01-01T00:00:00")
    with pytest.raises(sl.InvalidError, match="contradict"):
        rows(url, subscribe="t", timestampAsOf="2026-01-01T00:00:00Z", endingOffsets="latest")
