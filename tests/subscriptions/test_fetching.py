"""Records in lists, acks of several at once, and acks that are stored later."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log.draft import size_of
from strandline.testing import FakeClock
from strandline.testing.pytest_plugin import FaultyLog
from strandline.values import UnavailableError
from tests.logs import SCHEMES
from tests.subscriptions.doubles import PATIENCE_S, fill


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=SCHEMES)
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[sl.Log]:
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url, clock=clock) as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


def offsets(deliveries: list[sl.Delivery]) -> list[int]:
    return [int(each.record.offset) for each in deliveries]


def cursor(log: sl.Log, partition: int = 0) -> int | None:
    return log.cursor("orders", "billing", partition)


def test_a_fetch_after_failed_ones_keeps_the_order_and_its_limit(faulty_log: FaultyLog) -> None:
    log = faulty_log.log
    log.create_topic("orders")
    fill(log, "orders", 0, 6)
    with log.consumer("orders", "billing") as billing:
        # The counts of deliveries cannot be stored.
        faulty_log.io.fail(1, errno.EACCES, kinds={"pwrite"}, forever=True)
        for fail in (lambda: billing.fetch(4), billing.next):
            with pytest.raises(UnavailableError):
                fail()
        faulty_log.io.clear_faults()

        assert offsets(billing.fetch(2)) == [0, 1]
        assert offsets(billing.fetch(4)) == [2, 3, 4, 5]


def test_a_fetch_returns_what_there_is_up_to_its_limits(log: sl.Log) -> None:
    fill(log, "orders", 0, 10)
    with log.consumer("orders", "billing") as billing:
        first = billing.fetch(4, timeout_s=0.0)
        size = size_of(first[0].record)
        second = billing.fetch(max_bytes=size * 2, timeout_s=0.0)
        third = billing.fetch(max_bytes=1, timeout_s=0.0)
        rest = billing.fetch(timeout_s=0.0)

        assert [offsets(each) for each in (first, second, third, rest)] == [
            *([0, 1, 2, 3], [4, 5], [6], [7, 8, 9])
        ]
        assert {each.count for each in (*first, *second, *third, *rest)} == {1}
        assert billing.fetch(timeout_s=0.0) == []


@pytest.mark.parametrize(
    "limits", [{"max_records": 0}, {"max_records": -1}, {"max_bytes": 0}, {"max_records": 1.5}]
)
def test_limits_that_allow_nothing_are_refused(limits: dict[str, int]) -> None:
    log = sl.open("memory:")
    log.create_topic("orders")
    with log.consumer("orders", "billing") as billing, pytest.raises(sl.InvalidError):
        billing.fetch(**limits, timeout_s=0.0)


def test_an_ack_takes_one_a_list_or_everything_up_to_one(log: sl.Log) -> None:
    fill(log, "orders", 0, 6)
    fill(log, "orders", 1, 3)
    with log.consumer("orders", "billing") as billing:
        every = billing.fetch(timeout_s=0.0) + billing.fetch(timeout_s=0.0)
        first = [each for each in every if each.record.partition == 0]
        second = [each for each in every if each.record.partition == 1]

        assert billing.ack(first[0]) == 1
        assert billing.ack([first[1], first[3], *second]) == {0: 2, 1: 3}
        assert (cursor(log, 0), cursor(log, 1)) == (2, 3)
        assert billing.ack(first[4], up_to=True) == 5
        assert billing.ack([]) == {}

        assert (cursor(log, 0), cursor(log, 1)) == (5, 3)
        with pytest.raises(sl.InvalidError):
            billing.ack(["no record"])  # type: ignore[list-item]


def test_what_was_fetched_and_not_acked_comes_again_with_its_count(log: sl.Log) -> None:
    fill(log, "orders", 0, 5)
    with log.consumer("orders", "billing") as billing:
        fetched = billing.fetch(3, timeout_s=0.0)
        billing.ack(fetched[0])
        billing.nack(fetched[1])

        assert offsets(billing.fetch(timeout_s=0.0)) == [1]
        assert offsets(billing.fetch(timeout_s=0.0)) == [3, 4]

    with log.consumer("orders", "billing") as again:
        found = [each for _ in range(6) for each in again.fetch(timeout_s=0.0)]
        assert offsets(found) == [1, 2, 3, 4]
        assert all(each.count >= 2 for each in found)


def test_a_fetch_stops_where_too_much_is_outstanding() -> None:
    with sl.open("memory:") as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("counted", n) for n in range(3000)])
        with log.consumer("orders", "billing", read_ahead=4000) as billing:
            fetched = billing.fetch(3000, timeout_s=0.0)

            assert len(fetched) == 1024
            with pytest.raises(sl.UnavailableError, match="outstanding"):
                billing.fetch(timeout_s=0.0)
            billing.ack(fetched[-1], up_to=True)
            assert offsets(billing.fetch(2, timeout_s=0.0)) == [1024, 1025]


def test_acks_are_stored_after_so_many(log: sl.Log) -> None:
    fill(log, "orders", 0, 10)
    with log.consumer("orders", "billing", commit_every=4) as billing:
        fetched = billing.fetch(timeout_s=0.0)

        for each in fetched[:3]:
            billing.ack(each)
        assert cursor(log) == 0
        billing.ack(fetched[3])
        assert cursor(log) == 4
        billing.ack(fetched[6], up_to=True)
        assert cursor(log) == 4
        assert billing.commit() == {0: 7}
        assert cursor(log) == 7
        assert billing.commit() == {}
        billing.ack(fetched[7])

    assert cursor(log) == 8


def test_acks_are_stored_after_so_long(log: sl.Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 10)
    with log.consumer("orders", "billing", commit_every_s=2.0, clock=clock) as billing:
        fetched = billing.fetch(timeout_s=0.0)
        billing.ack(fetched[:3])

        clock.advance(1.9)
        assert cursor(log) == 0
        clock.advance(0.1)
        assert cursor(log) == 3
        billing.ack(fetched[3])
        clock.advance(2.0)
        assert cursor(log) == 4


def test_what_was_acked_and_not_stored_comes_again_after_a_crash(log: sl.Log) -> None:
    fill(log, "orders", 0, 3)
    crashed = log.consumer("orders", "billing", commit_every=100)
    crashed.ack(crashed.fetch(timeout_s=0.0))
    del crashed

    with log.consumer("orders", "billing") as billing:
        assert offsets(billing.fetch(timeout_s=0.0))[:1] == [0]


def test_the_same_calls_are_awaited_on_a_loop(log: sl.Log) -> None:
    fill(log, "orders", 0, 5)

    async def consume() -> None:
        opening = sl.AsyncLog(log).consumer("orders", "billing", commit_every=100)
        async with opening as billing:
            fetched = await billing.fetch(3, timeout_s=PATIENCE_S)
            assert offsets(fetched) == [0, 1, 2]
            assert await billing.ack(fetched[1], up_to=True) == 2
            assert await billing.commit() == {0: 2}
            waiting = asyncio.create_task(billing.fetch(1, timeout_s=PATIENCE_S))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            rest = [each for _ in range(2) for each in await billing.fetch(timeout_s=0.0)]
            assert offsets(rest) == [3, 4]

    asyncio.run(consume())


def test_a_revoked_partition_takes_its_acks_with_it(log: sl.Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    fill(log, "orders", 1, 3)
    first = log.consumer("orders", "billing", commit_every=1000, clock=clock)
    for _ in range(2):
        first.ack(first.fetch(timeout_s=0.0))
    second = log.consumer("orders", "billing", clock=clock)
    clock.advance(3.0)

    assert (first.assigned(), second.assigned()) == ([0], [1])
    assert (cursor(log, 0), cursor(log, 1)) == (0, 3)
    first.close()
    second.close()
    assert cursor(log, 0) == 3


@pytest.mark.parametrize("options", [{"commit_every": 0}, {"commit_every_s": -1.0}])
def test_acks_that_would_never_be_stored_are_refused(options: dict[str, int]) -> None:
    log = sl.open("memory:")
    log.create_topic("orders")
    with pytest.raises(sl.InvalidError, match="commit_every"):
        log.consumer("orders", "billing", **options)  # type: ignore[call-overload]
