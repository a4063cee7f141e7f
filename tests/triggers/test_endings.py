"""How a runner of triggers ends: by a stop, by a signal, with its log."""

import asyncio
import gc
import signal
import threading

import pytest

import strandline as sl
from strandline.testing import FakeClock
from strandline.triggers import Counters, Triggers
from tests.logs import OpenAgain
from tests.triggers.calls import CONSUMERS, Calls, cursors, publish, wait_until


def test_a_stop_lets_functions_end(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    calls, gate = Calls(), threading.Event()
    triggers = Triggers(log, clock=clock)

    @triggers.on("orders", name="billing")
    def bill(record: sl.Record) -> None:
        calls.note("begin")
        assert gate.wait(20)
        calls.note("end")

    publish(log, [1, 2])
    triggers.start()
    calls.wait_for(1)
    triggers.request_stop()
    # From here on it waits for the function, for as long as its clock says.
    wait_until(lambda: clock.pending_timers == CONSUMERS + 1)
    gate.set()
    triggers.stop()

    assert calls.seen == ["begin", "end"]
    assert cursors(log, "billing")[0] == 1
    assert not triggers.is_running


def test_what_was_handled_beyond_an_unhandled_record_is_not_handled_again(log: sl.Log) -> None:
    calls, gate = Calls(), threading.Event()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", concurrency=2)
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note((record.offset, delivery.count))
        if record.offset == 0:
            assert gate.wait(20)

    publish(log, [1, 2], key="slow")
    publish(log, [3, 4, 5], key="quick")
    triggers.start()
    # The second record of the slow key waits for the first one, and is never begun.
    calls.wait_for(4)
    triggers.request_stop()
    gate.set()
    triggers.stop()
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 5)

    assert sorted(calls.seen) == [(offset, 1) for offset in range(5)]


@pytest.mark.slow
def test_a_partition_is_handed_over_in_the_order_of_its_keys(log: sl.Log) -> None:
    for partition in range(2):
        publish(log, [1, 2], key="failing", partition=partition)
        publish(log, [3], key="sound", partition=partition)
    first, second = Calls(), Calls()
    ours, others = Triggers(log), Triggers(log)

    @ours.on("orders", name="billing", retry=[60])
    def fail(record: sl.Record) -> None:
        first.note((record.partition, record.offset))
        if record.offset == 0:
            raise LookupError

    @others.on("orders", name="billing")
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        second.note((record.offset, delivery.count))

    with ours:
        first.wait_for(4)
        with others:
            second.wait_for(2)
            wait_until(lambda: 3 in cursors(log, "billing"))

    # The second record of the key did not overtake the first, which waits for its retry, and
    # the third was not handled twice.
    assert sorted(first.seen) == [(0, 0), (0, 2), (1, 0), (1, 2)]
    assert second.seen == [(0, 2), (1, 1)]


@pytest.mark.slow
def test_what_does_not_end_in_time_is_handed_back(log: sl.Log, open_again: OpenAgain) -> None:
    """WC14: acknowledged when the function has returned, and not when it is called."""
    calls, gate = Calls(), threading.Event()
    triggers = Triggers(log, stop_timeout_s=0)

    @triggers.on("orders", name="sync")
    def bill(record: sl.Record) -> None:
        calls.note("begin")
        assert gate.wait(20)
        calls.note("too late")

    @triggers.on("orders", name="async")
    async def ship(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note(delivery.count)
        if delivery.count == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                calls.note("cancelled")
                raise

    publish(log, [1])
    triggers.start()
    calls.wait_for(2)
    triggers.stop()

    assert calls.counted() == {"begin": 1, 1: 1, "cancelled": 1}
    assert (cursors(log, "sync")[0] or 0, cursors(log, "async")[0] or 0) == (0, 0)
    assert triggers.metrics() == {"sync": Counters(), "async": Counters()}
    gate.set()
    calls.wait_until(lambda seen: "too late" in seen)
    with triggers:
        calls.wait_until(lambda seen: 2 in seen and seen.count("begin") == 2)
        wait_until(lambda: (cursors(log, "sync")[0], cursors(log, "async")[0]) == (1, 1))


@pytest.mark.slow
def test_a_function_may_ask_for_the_stop(log: sl.Log) -> None:
    triggers = Triggers(log)

    @triggers.on("orders", name="billing")
    async def bill(record: sl.Record) -> None:
        with pytest.raises(sl.InvalidError, match="wait for its own event loop"):
            triggers.stop()
        triggers.request_stop()

    publish(log, [1, 2])
    triggers.run()

    assert cursors(log, "billing")[0] == 1


def test_a_run_leaves_the_signal_handlers_of_the_program_as_they_were(log: sl.Log) -> None:
    publish(log, [1])
    triggers = Triggers(log)
    triggers.on("orders", name="billing")(lambda record: triggers.request_stop())
    previous = signal.signal(signal.SIGTERM, handler := lambda *_: None)
    try:
        triggers.run()

        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_a_log_that_fails_ends_the_runner_and_says_why() -> None:
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing")
    def bill(record: sl.Record) -> None:
        calls.note(1)

    publish(log, [1])
    triggers.start()
    calls.wait_for(1)
    log.close()
    wait_until(lambda: not triggers.is_running)

    with pytest.raises(sl.ClosedError):
        triggers.stop()


def test_a_log_that_is_closed_during_a_call_leaves_no_error_unlooked_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    calls = Calls()
    has_closed = threading.Event()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing")
    def bill(record: sl.Record) -> None:
        calls.note(1)
        has_closed.wait()

    publish(log, [1, 2, 3])
    publish(log, [1, 2, 3], partition=1)
    triggers.start()
    calls.wait_for(1)
    log.close()
    has_closed.set()
    with pytest.raises(sl.ClosedError):
        triggers.stop()
    del triggers, bill
    gc.collect()

    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
