"""Metrics: plain counters that can be read at any time."""

from dataclasses import replace

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, UnavailableError
from strandline.writes import SAMPLED_EVERY, FlushReason, Settings
from strandline.writes.metrics import Distribution, WriteMetrics
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put

APPLIED, WRITTEN, DURABLE = Durability
SUM = Distribution(3, 30, 2, (3, 6))


def test_a_new_coordinator_counts_from_nothing(open_store: OpenStore) -> None:
    metrics = open_store("one", "two").coordinator.metrics()

    assert metrics.queue_depth == {"one": 0, "two": 0}
    assert metrics.applied == metrics.rejected == metrics.backpressure == metrics.syncs == 0
    assert metrics.flushes == dict.fromkeys(FlushReason, 0)
    assert metrics.flush_s == metrics.sync_s == 0


def test_queue_depth_and_back_pressure_are_counted_per_write(open_store: OpenStore) -> None:
    store = open_store("one", "two", settings=Settings(queue_capacity=2), started=False)
    one = store.coordinator.channel("one")
    for value in (1, 2):
        one.try_write(Put("a", value))
    one.flush()

    for _ in range(3):
        with pytest.raises(UnavailableError):
            one.try_write(Put("a", 3))

    metrics = store.coordinator.metrics()
    assert metrics.queue_depth == {"one": 2, "two": 0}
    assert metrics.backpressure == 3
    store.coordinator.start()
    assert store.coordinator.metrics().queue_depth == {"one": 0, "two": 0}


def test_applied_and_refused_writes_are_counted_apart(open_store: OpenStore) -> None:
    store = open_store()

    for value in (1, -1, 2, -2, 3):
        store.channel.write(Put("a", value))

    metrics = store.coordinator.metrics()
    assert (metrics.applied, metrics.rejected) == (3, 2)


def test_flushes_are_counted_by_reason(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock, settings=Settings(flush_bytes=100, flush_interval_s=1))
    store.channel.write(Put("a", 1), WRITTEN)
    store.channel.write(Put("a", 2))
    clock.advance(1)
    store.channel.write(Put("a", 3))
    Call(lambda: store.channel.flush().wait(WRITTEN)).result()
    large = store.channel.write(Put("a", 4, size=100))
    Call(lambda: large.wait(WRITTEN)).result()
    store.channel.write(Put("a", 5))
    store.coordinator.stop()

    flushes = store.coordinator.metrics().flushes

    assert flushes == {reason: int(reason is not FlushReason.BRACKET) for reason in FlushReason}


def test_time_in_flush_and_sync_adds_up(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    for seconds in (1.0, 2.0):
        store.steps.flush.hold()
        store.steps.sync.hold()
        call = Call(lambda: store.channel.write(Put("a", 1), DURABLE))
        store.steps.flush.wait_held()
        clock.advance(seconds)
        store.steps.flush.release()
        store.steps.sync.wait_held()
        clock.advance(2 * seconds)
        store.steps.sync.release()
        call.result()

    metrics = store.coordinator.metrics()

    assert metrics.flush_s == pytest.approx(3)
    assert metrics.sync_s == pytest.approx(6)
    assert metrics.syncs == 2


def test_metrics_can_be_read_while_everything_is_blocked(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.apply.hold()
    call = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()
    store.channel.try_write(Put("b", 2))

    reading = Call(store.coordinator.metrics)

    assert reading.result().queue_depth == {"main": 1}
    store.steps.apply.release()
    call.result().wait(APPLIED, PATIENCE_S)


def test_one_write_in_so_many_is_measured_the_first_among_them(open_store: OpenStore) -> None:
    """D30."""
    store = open_store()

    for value in range(2 * SAMPLED_EVERY + 1):
        store.channel.write(Put("a", value), WRITTEN)

    metrics = store.coordinator.metrics()
    measured = metrics.send, metrics.apply, metrics.freeze, metrics.flush, metrics.delta_bytes
    assert [each.count for each in measured] == [3] * 5
    assert all(sum(each.buckets) == each.count for each in measured)
    assert metrics.delta_bytes.mean == metrics.delta_bytes.largest > 0


def test_what_a_measured_write_waits_for_is_in_its_latency(open_store: OpenStore) -> None:
    """D30."""
    clock = FakeClock()
    store = open_store(clock=clock)
    store.steps.apply.hold()
    store.steps.flush.hold()
    call = Call(lambda: store.channel.write(Put("a", 1), WRITTEN))
    for step, seconds in ((store.steps.apply, 1.0), (store.steps.flush, 2.0)):
        step.wait_held()
        clock.advance(seconds)
        step.release()
    call.result()

    metrics = store.coordinator.metrics()

    assert (metrics.apply.total, metrics.flush.total) == (1_000_000, 2_000_000)
    assert (metrics.send.total, metrics.send.largest) == (3_000_000, 3_000_000)
    assert metrics.send.buckets[(3_000_000).bit_length()] == 1


def test_metrics_of_two_coordinators_add_up() -> None:
    def metrics(number: int) -> WriteMetrics:
        flushes = dict.fromkeys(FlushReason, number)
        each = Distribution(number, 10 * number, number, (number, 2 * number))
        counts = ({"main": number}, number, number, number, flushes, number, number, number)
        return WriteMetrics(*counts, each, each, each, each, each)

    both = metrics(1) + metrics(2)

    assert both == replace(metrics(3), send=SUM, apply=SUM, freeze=SUM, flush=SUM, delta_bytes=SUM)
    assert SUM.mean == 10.0
