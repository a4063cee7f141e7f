"""Topics whose beginning was trimmed: a stream fails only for records that it lacks."""

from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.spark.source.stream import StreamReader
from tests.spark.as_spark import Query, fill, numbers, rows

LIMITS: list[dict[str, Any]] = [{}, {"maxOffsetsPerTrigger": 7}, {"maxBytesPerTrigger": 500}]


@pytest.fixture
def trimmed(log: sl.Log) -> sl.Log:
    """A log whose topic keeps the records 20 to 29 of partition 0, and none of partition 1."""
    log.create_topic("t", partitions=2)
    fill(log, 30)
    fill(log, 10, first=30, partition=1)
    log.trim("t", 0, 20)
    log.trim("t", 1, 10)
    return log


def available(query: Query) -> list[int]:
    return numbers(row for batch in query.rest() for row in batch)


def check_a_new_query_reads_what_is_kept(url: str, **given: Any) -> None:
    options = {"subscribe": "t", "startingOffsets": "earliest", **given}
    assert available(Query(url, **options)) == [*range(20, 30)]
    assert numbers(Query(url, **options).next(unlimited=True)) == [*range(20, 30)], "once"
    continuous = Query(url, **options)
    found = [continuous.next() for _ in range(12)]
    assert numbers(row for batch in found for row in batch) == [*range(20, 30)]


@pytest.mark.slow
@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("given", [{}, {"groupId": "g"}, {"failOnDataLoss": False}], ids=str)
def test_a_new_query_starts_at_the_low_water_mark(
    trimmed: sl.Log, url: str, given: dict[str, Any], limit: dict[str, Any]
) -> None:
    check_a_new_query_reads_what_is_kept(url, **given, **limit)


def test_the_end_is_frozen_before_the_start_is_requested(trimmed: sl.Log, url: str) -> None:
    """The order in which Spark calls; a start at the end may then be behind the frozen one."""
    query = Query(url, subscribe="t", startingOffsets="earliest")
    query.reader.prepareForTriggerAvailableNow()
    fill(trimmed, 5, first=40)

    query.offset = query.reader.initialOffset()
    assert numbers(query.next()) == [*range(20, 30)]
    late = Query(url, subscribe="t")
    late.reader.prepareForTriggerAvailableNow()
    fill(trimmed, 5, first=45)
    late.offset = late.reader.initialOffset()
    assert late.next() == []
    assert late.offset["t"]["0"] == 40


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"groupId": "g"}, {"failOnDataLoss": False}], ids=str)
def test_a_query_that_has_caught_up_continues(
    trimmed: sl.Log, url: str, given: dict[str, Any]
) -> None:
    query = Query(url, subscribe="t", startingOffsets="earliest", **given)
    available(query)
    query.stop()
    trimmed.trim("t", 0, 30, force=True)

    again = Query(url, offset=query.offset, subscribe="t", **given)
    assert available(again) == []
    again.stop()
    fill(trimmed, 5, first=40)
    fill(trimmed, 5, first=45, partition=1)

    assert available(Query(url, offset=again.offset, subscribe="t", **given)) == [*range(40, 50)]
    continuous = Query(url, offset=again.offset, subscribe="t", **given)
    assert numbers(continuous.next()) == [*range(40, 50)]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_trim_beyond_what_was_read_while_the_query_was_down_is_a_loss(
    trimmed: sl.Log, url: str, limit: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(url, subscribe="t", startingOffsets="earliest")
    available(query)
    query.stop()
    fill(trimmed, 20, first=40)
    trimmed.trim("t", 0, 40)

    for run in (Query.rest, Query.next):
        with pytest.raises(sl.TrimmedError) as caught:
            run(Query(url, offset=query.offset, subscribe="t", **limit))
        assert caught.value.oldest == 40
    given = {"subscribe": "t", "failOnDataLoss": False, **limit}
    assert available(Query(url, offset=query.offset, **given)) == [*range(50, 60)]
    assert "the oldest record kept" in caplog.text


def test_everything_that_was_not_read_may_be_gone(trimmed: sl.Log, url: str) -> None:
    query = Query(url, subscribe="t", startingOffsets="earliest")
    available(query)
    fill(trimmed, 20, first=40)
    trimmed.trim("t", 0, 50)

    with pytest.raises(sl.TrimmedError):
        Query(url, offset=query.offset, subscribe="t").rest()
    lenient = Query(url, offset=query.offset, subscribe="t", failOnDataLoss=False)
    assert available(lenient) == []
    fill(trimmed, 3, first=60)
    assert available(lenient) == [60, 61, 62]


def test_a_trim_during_an_available_now_run_is_a_loss(
    trimmed: sl.Log, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for fails in (True, False):
        query = Query(
            url,
            subscribe="t",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=4,
            failOnDataLoss=fails,
        )
        query.reader.prepareForTriggerAvailableNow()
        low = int(trimmed.marks("t", 0).low)
        assert numbers(query.next()) == [*range(low, low + 4)]
        trimmed.trim("t", 0, low + 5)

        if fails:
            with pytest.raises(sl.TrimmedError):
                query.next()
        else:
            assert available(query) == [*range(low + 5, 30)]
            assert "the oldest record kept" in caplog.text


def test_a_running_query_logs_what_it_passes_over(
    trimmed: sl.Log, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(url, subscribe="t", startingOffsets="latest", failOnDataLoss=False)
    assert query.next() == []
    fill(trimmed, 20, first=40)
    trimmed.trim("t", 0, 35)

    assert numbers(query.next()) == [*range(45, 60)]
    assert "passes over trimmed records" in caplog.text


def test_a_topic_found_later_starts_at_its_low_water_mark(log: sl.Log, url: str) -> None:
    log.create_topic("t-1")
    fill(log, 3, "t-1")
    query = Query(url, subscribePattern="t-.*", startingOffsets="earliest")
    assert available(query) == [0, 1, 2]
    query.stop()
    log.create_topic("t-2")
    fill(log, 20, "t-2", first=10)
    log.trim("t-2", 0, 10)

    again = Query(url, offset=query.offset, subscribePattern="t-.*")

    assert available(again) == [*range(20, 30)]


@pytest.mark.slow
@pytest.mark.parametrize("start", ['{"t": {"0": 5, "1": -2}}', '{"t": {"0": 19, "1": 10}}'])
def test_a_start_that_names_trimmed_records_is_a_loss(
    trimmed: sl.Log, url: str, start: str
) -> None:
    options: dict[str, Any] = {"subscribe": "t", "startingOffsets": start}

    with pytest.raises(sl.TrimmedError, match="partition=0"):
        Query(url, **options)
    with pytest.raises(sl.TrimmedError):
        rows(url, **options)
    assert available(Query(url, failOnDataLoss=False, **options)) == [*range(20, 30)]
    assert numbers(rows(url, failOnDataLoss=False, **options)) == [*range(20, 30)]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"startingOffsets": "earliest"},
        {"startingOffsets": '{"t": {"0": -2, "1": -2}}'},
        {"startingOffsets": '{"t": {"0": 20, "1": 10}}'},
        {"startingTimestamp": "1000", "startingOffsetsByTimestampStrategy": "latest"},
        {"failOnDataLoss": False},
    ],
    ids=str,
)
def test_a_batch_reads_what_is_kept(trimmed: sl.Log, url: str, given: dict[str, Any]) -> None:
    assert numbers(rows(url, subscribe="t", **given)) == [*range(20, 30)]


def test_a_restored_log_fails_an_available_now_run(trimmed: sl.Log, url: str) -> None:
    """A checkpoint beyond the end of the partition is a loss at its other end."""
    query = Query(url, subscribe="t", startingOffsets="earliest")
    available(query)
    query.offset["t"]["0"] += 5

    with pytest.raises(sl.StrandlineError):
        Query(url, offset=query.offset, subscribe="t").rest()
    lenient = Query(url, offset=query.offset, subscribe="t", failOnDataLoss=False)
    assert available(lenient) == [*range(20, 30)]


def test_a_freeze_that_takes_the_log_from_offset_zero_is_caught(trimmed: sl.Log, url: str) -> None:
    def planted(reader: StreamReader) -> None:
        places = reader._current_places()  # noqa: SLF001 # The seam that is broken.
        reader._ends(dict.fromkeys(places, 0))  # noqa: SLF001

    with (
        mock.patch.object(StreamReader, "prepareForTriggerAvailableNow", planted),
        pytest.raises(sl.TrimmedError),
    ):
        check_a_new_query_reads_what_is_kept(url)
