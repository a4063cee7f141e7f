"""A consumer exists once it is opened: it is listed, and retention keeps what it has not read."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.subscriptions.rebalancing import HEARTBEAT_S, Rebalancing
from strandline.testing import FakeClock
from strandline.triggers import Triggers
from strandline.values import CONSUMER_IDLE_S
from tests.logs import SCHEMES
from tests.subscriptions.doubles import PATIENCE_S, fill

Open = Callable[..., sl.Log]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=SCHEMES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"


@pytest.fixture
def log(url: str, clock: FakeClock) -> Iterator[sl.Log]:
    with sl.open(url, clock=clock, retention=False) as opened:
        opened.create_topic("orders", partitions=2, retention_age_s=60)
        for partition in range(2):
            fill(opened, "orders", partition, 5)
        yield opened


def kept_from(log: sl.Log, clock: FakeClock) -> list[int]:
    """Return from where on each partition is kept, once all of it is too old."""
    clock.advance(61)
    return [int(report.low) for report in log.apply_retention("orders")]


def test_retention_keeps_what_a_live_consumer_has_not_acked(log: sl.Log, clock: FakeClock) -> None:
    with log.consumer("orders", "worker", clock=clock) as worker:
        first = worker.next(0.0)
        assert first is not None

        assert kept_from(log, clock) == [0, 0]

        worker.ack(first.record)
        assert kept_from(log, clock) == [1, 0]
        delay = [worker.next(0.0) for _ in range(9)]
        assert None not in delay


def test_a_consumer_that_never_acked_is_listed_with_its_true_lag(
    log: sl.Log, clock: FakeClock
) -> None:
    log.consumer("orders", "stuck", clock=clock).close()
    log.consumer("orders", "new", start=sl.LATEST, clock=clock).close()
    fill(log, "orders", 1, 2)

    found = [(each.consumer, each.partition, each.lag) for each in log.consumers("orders")]

    assert found == [("new", 0, 0), ("new", 1, 2), ("stuck", 0, 5), ("stuck", 1, 7)]


def test_latest_is_the_end_at_the_registration_also_after_a_restart(
    log: sl.Log, clock: FakeClock
) -> None:
    log.consumer("orders", "new", start=sl.LATEST, clock=clock).close()
    fill(log, "orders", 0, 1)

    with log.consumer("orders", "new", start=sl.LATEST, clock=clock) as again:
        delivery = again.next(0.0)

    assert delivery is not None
    assert (delivery.record.partition, delivery.record.offset) == (0, 5)


def test_a_member_holds_its_own_partitions_and_those_added_later(
    log: sl.Log, clock: FakeClock
) -> None:
    with log.consumer("orders", "worker", partitions=[1], clock=clock) as worker:
        assert [each.partition for each in log.consumers("orders")] == [1]
        worker.assign([0, 1])

        assert kept_from(log, clock) == [0, 0]
        worker.assign([])
        assert [each.partition for each in log.consumers("orders")] == [0, 1]


def test_consumers_of_tenants_are_registered_apart(log: sl.Log, clock: FakeClock) -> None:
    with log.consumer("orders", "worker", tenant="acme", clock=clock):
        assert not log.consumers("orders")
        assert len(log.consumers("orders", tenant="acme")) == 2
        assert kept_from(log, clock) == [0, 0]


def test_triggers_hold_what_they_have_not_handled(log: sl.Log, clock: FakeClock) -> None:
    triggers = Triggers(log)
    triggers.on("orders", name="worker", start=sl.LATEST)(lambda _: None)
    with triggers:
        listed = [(each.consumer, each.cursor) for each in log.consumers("orders")]

    assert listed == [("worker", 5), ("worker", 5)]
    fill(log, "orders", 0, 1)
    assert kept_from(log, clock) == [5, 5]


def test_a_silent_consumer_expires_and_one_that_is_read_does_not(
    log: sl.Log, clock: FakeClock
) -> None:
    log.create_topic("quiet", partitions=2)
    with log.consumer("quiet", "read", clock=clock, lease_s=HEARTBEAT_S) as read:
        log.consumer("quiet", "closed", clock=clock).close()
        for _ in range(8):
            clock.advance(HEARTBEAT_S)
            assert read.next(0.0) is None

        live = {(each.consumer, each.holds_retention) for each in log.consumers("quiet")}

    assert live == {("closed", False), ("read", True)}


def test_a_heartbeat_is_sent_on_an_event_loop_too(log: sl.Log, clock: FakeClock) -> None:
    log.create_topic("quiet")
    with log.consumer("quiet", "read", clock=clock, lease_s=HEARTBEAT_S) as read:
        clock.advance(CONSUMER_IDLE_S + 1)
        assert asyncio.run(sl.AsyncConsumer(read).next(0.0)) is None

        assert [each.holds_retention for each in log.consumers("quiet")] == [True]


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_log_that_is_open_to_be_read_has_no_consumers(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("orders")

    with sl.open(url, mode="read") as reading, pytest.raises(sl.InvalidError, match="mode"):
        reading.consumer("orders", "worker")
    with sl.open(url, mode="consume") as consuming, consuming.consumer("orders", "worker"):
        assert len(consuming.consumers("orders")) == 1


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_consumer_is_made_on_an_event_loop(tmp_path: Path, scheme: str) -> None:
    with sl.open(f"{scheme}:{tmp_path / 'events'}") as log:
        log.create_topic("orders")
        fill(log, "orders", 0, 1)

        async def consume() -> sl.Delivery | None:
            opening = sl.AsyncLog(log).consumer("orders", "worker")
            assert not log.consumers("orders")
            async with opening as worker:
                return await worker.next(PATIENCE_S)

        assert asyncio.run(consume()) is not None


def test_a_consumer_that_registers_nothing_is_found_out(log: sl.Log, clock: FakeClock) -> None:
    def registers_nothing(
        self: Rebalancing, partitions: list[int], generation: int | None
    ) -> dict[int, int]:
        return {each: int(log.marks("orders", each).low) for each in partitions}

    with (
        mock.patch.object(Rebalancing, "_register", registers_nothing),
        pytest.raises((AssertionError, sl.LeaseLostError)),
    ):
        test_retention_keeps_what_a_live_consumer_has_not_acked(log, clock)


def test_a_consumer_without_heartbeats_is_found_out(log: sl.Log, clock: FakeClock) -> None:
    with (
        mock.patch.object(Rebalancing, "_send_heartbeat"),
        pytest.raises(AssertionError),
    ):
        test_a_silent_consumer_expires_and_one_that_is_read_does_not(log, clock)
